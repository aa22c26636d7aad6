"""Ensembles: many policies for one seat, each in its own worlds, act as each acts alone."""

import pytest
import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from league.game import Game
from league.rollout.seat_policies import SeatPolicies
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.agent_group import agent_rows_of, make_agent_group
from trainers.base.learner_spec import LearnerSpec
from trainers.evaluation.scripted_policies import ScriptedPolicy
from trainers.models.policy import fit_inputs

WORLDS = 60


class Counter:
    """Plays how often it was asked in this episode, which it remembers, modulo the choices."""

    def __init__(self, start: int = 0) -> None:
        self.start, self.rows = start, 0

    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, hidden_state: Tensor | None = None
    ) -> Tensor:
        assert hidden_state is not None
        action = (hidden_state[..., 0].long() + self.start) % 2
        hidden_state += 1
        self.rows += len(obs)
        if mask is None:
            return action
        return torch.where(mask.gather(-1, action[..., None])[..., 0], action, mask.int().argmax(-1))

    def initial_hidden_state(self, *shape: int) -> Tensor:
        return torch.zeros((*shape, 1))

    def seed(self, seed: int) -> None:
        pass


class First:
    """Plays the first legal action, and notes how many worlds it was asked about."""

    def __init__(self) -> None:
        self.rows = 0

    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, hidden_state: Tensor | None = None
    ) -> Tensor:
        self.rows += len(obs)
        return torch.zeros(obs.shape[:-1], dtype=torch.int64) if mask is None else mask.int().argmax(-1)

    def initial_hidden_state(self, *shape: int) -> None:
        return None

    def seed(self, seed: int) -> None:
        pass


def network(core, seat, seed: int, **settings):
    """Return a policy with random weights for a seat."""
    agents = make_agent_group(core, seat.members)
    count = len(agent_rows_of(core, seat.members))
    learner = PPO(
        PPOConfig(hidden_sizes=(8, 6), **settings),
        LearnerSpec(agents.obs_width, agents.space, 5, count, 100, seed=seed),
    )
    generator = torch.Generator().manual_seed(seed)
    for parameter in learner.net.parameters():
        parameter.data += 0.5 * torch.randn(parameter.shape, generator=generator)
    learner.net.normalizer.update(torch.randn((50, agents.obs_width), generator=generator) + 0.1 * seed)
    return learner.policy()


GAMES = [
    ("KuhnPoker-v0", {}),
    ("SimpleTag-v0", {"max_cycles": 5, "continuous_actions": True}),
    ("TagContinuous-v0", {"num_taggers": 2, "num_runners": 3, "grid_length": 2.0, "episode_length": 5}),
    ("LeducPoker-v0", {}),
    ("SimpleTag-v0", {"max_cycles": 5}),
]


@pytest.mark.variations(quick=3)
@pytest.mark.parametrize("way", ["read", "unread", "paged"])
@pytest.mark.parametrize(("env_id", "settings"), GAMES)
def test_many_policies_act_as_each_alone(env_id, settings, way):
    game = Game.of(env_id, settings)
    core = game.core(WORLDS, seed=3)
    ensembles, seated, alone = [], [], []
    for index, seat in enumerate(game.seats):
        policies = [network(core, seat, seed) for seed in range(4)]
        policies += [network(core, seat, seed, network="gru") for seed in range(3)]
        policies.append(network(core, seat, 7, activation="relu"))
        if core.action_buffer.dim() == 2:
            policies += [Counter(), First()]
        if "Tag" in env_id:
            policies.append(ScriptedPolicy(core, seat.members[0]))
        ensembles.append(SeatPolicies(policies, core, seat, budget=3000 if way == "paged" else 2**30))
        seated.append(torch.randint(-1, len(policies), (WORLDS,), generator=torch.Generator().manual_seed(index)))
        rows = make_agent_group(core, seat.members).rows
        alone.append(
            (policies, rows, [policy.initial_hidden_state(WORLDS, core.obs[:, rows].shape[1]) for policy in policies])
        )
    obs, info = core.reset()
    for ensemble, assigned in zip(ensembles, seated, strict=True):
        if way == "unread":
            ensemble.on_cpu = False
            ensemble.assign_on_device(assigned)
        else:
            ensemble.assign(assigned)
        assert ensemble.paged == (way == "paged")
    episodes = 0
    for _ in range(12):
        random = core.sample_actions().clone()
        action = random.clone()
        for ensemble, assigned, (policies, rows, hidden_states) in zip(ensembles, seated, alone, strict=True):
            ensemble.act(obs, info, greedy=True, into=action)
            acting = info["to_move"][:, rows] if "to_move" in info else torch.ones_like(info["alive"][:, rows])
            mask = info.get("action_mask")
            for index, (policy, hidden_state) in enumerate(zip(policies, hidden_states, strict=True)):
                if hidden_state is not None:
                    hidden_state.masked_fill_((core.elapsed_steps == 0)[:, None, None], 0.0)
                mine = acting & (assigned == index)[:, None]
                inputs = fit_inputs(policy, obs[:, rows], None if mask is None else mask[:, rows])
                expected = policy.act(*inputs, True, hidden_state)
                torch.testing.assert_close(action[:, rows][mine], expected[mine])
            unassigned = assigned == -1
            assert torch.equal(action[:, rows][unassigned], random[:, rows][unassigned])
        obs, _, _, _, info = core.step(action)
        episodes += int((core.elapsed_steps == 0).sum())
    assert episodes > WORLDS


def test_policies_act_only_in_worlds_where_their_seat_is_to_move():
    game = Game.of("KuhnPoker-v0")
    core = game.core(10, seed=0)
    policies = [First(), Counter()]
    ensemble = SeatPolicies(policies, core, game.seats[1])
    ensemble.assign(torch.tensor([0] * 7 + [1] * 3))
    obs, info = core.reset()
    action = torch.ones((10, 2), dtype=torch.int64)
    ensemble.act(obs, info, into=action)
    assert policies[0].rows == 0  # player_0 moves first
    assert policies[1].rows == 3  # what remembers sees every step
    obs, _, _, _, info = core.step(action)
    ensemble.act(obs, info, into=action)
    assert policies[0].rows == 7


def test_samples_follow_each_policys_probabilities_and_the_seed():
    game = Game.of("RockPaperScissors-v0")
    core, seat = game.core(20_000), game.seats[0]
    policies = [network(core, seat, seed) for seed in range(3)]
    ensemble = SeatPolicies(policies, core, seat)
    assigned = torch.arange(20_000) % 3
    ensemble.assign(assigned)
    obs, info = core.reset(seed=1)
    ensemble.seed(5)
    action = ensemble.act(obs, info).clone()
    for index, policy in enumerate(policies):
        expected = policy.actor(policy.inputs(obs[0, 0])).softmax(-1)
        actual = torch.bincount(action[assigned == index, 0], minlength=3) / (assigned == index).sum()
        torch.testing.assert_close(actual, expected, atol=0.02, rtol=0.0)
    ensemble.seed(5)
    assert torch.equal(ensemble.act(obs, info)[:, 0], action[:, 0])


def test_reassigned_worlds_keep_their_hidden_states():
    game = Game.of("RockPaperScissors-v0")
    core, seat = game.core(3), game.seats[0]
    ensemble = SeatPolicies([Counter(), Counter(1)], core, seat)
    ensemble.assign(torch.tensor([0, 0, 1]))
    obs, info = core.reset(seed=1)
    assert ensemble.act(obs, info)[:, 0].tolist() == [0, 0, 1]
    core.step(core.sample_actions())
    assert ensemble.parts[0].hidden_state is not None
    core.elapsed_steps.fill_(1)
    ensemble.assign(torch.tensor([0, 1, 1]))
    assert ensemble.act(obs, info)[:, 0].tolist() == [1, 1, 0]


def test_policy_that_does_not_fit_the_seat_raises_config_error():
    game, other = Game.of("KuhnPoker-v0"), Game.of("LeducPoker-v0")
    core, wide = game.core(4), other.core(4)
    policies = [network(core, game.seats[0], 0), network(wide, other.seats[0], 0)]
    with pytest.raises(ConfigError, match=r"KuhnPoker-v0: seat player_0: policy 1: obs_width: expected \d+ "):
        SeatPolicies(policies, core, game.seats[0])


@pytest.mark.gpu
def test_gpu_actions_equal_the_host_without_host_sync():
    game = Game.of("LeducPoker-v0")
    seat, host, core = game.seats[0], game.core(WORLDS), game.core(WORLDS, "cuda")
    policies = [network(host, seat, seed) for seed in range(4)] + [
        network(host, seat, seed, network="gru") for seed in range(3)
    ]
    assigned = torch.randint(-1, len(policies), (WORLDS,), generator=torch.Generator().manual_seed(0))
    ensemble, reference = SeatPolicies(policies, core, seat), SeatPolicies(policies, host, seat)
    obs, info = core.reset(seed=1)
    host_obs, host_info = host.reset(seed=1)
    reference.assign(assigned)
    expected = reference.act(host_obs, host_info, True, torch.full_like(host.action_buffer, -1))
    for seated in (assigned.to("cuda"), assigned):
        into = torch.full_like(core.action_buffer, -1)
        ensemble.assign(seated)
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            if seated.is_cuda:
                ensemble.assign(seated)
            ensemble.act(obs, info, True, into)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert torch.equal(into.cpu(), expected)
