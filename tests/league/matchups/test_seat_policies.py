"""Many policies in one seat, each in its own worlds, act as each acts alone; their weights are copied when they act."""

import pytest
import torch
from always import Stateless
from random_networks import network
from torch import Tensor

from gpu_envs.errors import CheckpointError, ConfigError
from league.game import Game
from league.matchups.best_response import BestResponseTraining
from league.matchups.matchup_distribution import LEARNER, MatchupDistribution
from league.policies.mixture import MixturePolicy
from league.policies.random import RandomPolicy
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.base.agent_group import make_agent_group
from trainers.config.train_config import TrainConfig
from trainers.evaluation.scripted_policies import ScriptedPolicy
from trainers.models.policy import fit_inputs
from trainers.models.policy_set import PolicySet

WORLDS = 60


class Counter(Stateless):
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


class First(Stateless):
    """Plays the first legal action, and notes how many worlds it was asked about."""

    def __init__(self) -> None:
        self.rows = 0

    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, hidden_state: Tensor | None = None
    ) -> Tensor:
        self.rows += len(obs)
        return torch.zeros(obs.shape[:-1], dtype=torch.int64) if mask is None else mask.int().argmax(-1)


def normalized(game: Game, seat: int, seed: int, **settings):
    """Return a policy with random weights and normalization."""
    policy = network(game, seat, seed, 0.5, **{"hidden_sizes": (8, 6), **settings})
    generator = torch.Generator().manual_seed(seed)
    policy.normalizer.update(torch.randn((50, policy.obs_width), generator=generator) + 0.1 * seed)
    return policy


GAMES = [
    ("KuhnPoker-v0", {}),
    ("SimpleTag-v0", {"max_cycles": 5, "continuous_actions": True}),
    ("TagContinuous-v0", {"num_taggers": 2, "num_runners": 3, "grid_length": 2.0, "episode_length": 5}),
    ("LeducPoker-v0", {}),
    ("SimpleTag-v0", {"max_cycles": 5}),
]


@pytest.mark.variations(quick=3)
@pytest.mark.parametrize("way", ["on the host", "on the device"])
@pytest.mark.parametrize(("env_id", "settings"), GAMES)
def test_many_policies_act_as_each_alone(env_id, settings, way):
    game = Game.of(env_id, settings)
    core = game.core(WORLDS, seed=3)
    policy_sets, seated, alone = [], [], []
    for index, seat in enumerate(game.seats):
        policies = [normalized(game, index, seed) for seed in range(4)]
        policies += [normalized(game, index, seed, network="gru") for seed in range(3)]
        policies.append(normalized(game, index, 7, activation="relu"))
        if core.action_buffer.dim() == 2:
            policies += [Counter(), First()]
        if "Tag" in env_id:
            policies.append(ScriptedPolicy(core, seat.members[0]))
        policy_sets.append(PolicySet(policies, core, [seat.members], 0))
        seated.append(torch.randint(-1, len(policies), (WORLDS,), generator=torch.Generator().manual_seed(index)))
        rows = make_agent_group(core, seat.members).rows
        alone.append(
            (policies, rows, [policy.initial_hidden_state(WORLDS, core.obs[:, rows].shape[1]) for policy in policies])
        )
    obs, info = core.reset()
    for policy_set, assigned in zip(policy_sets, seated, strict=True):
        policy_set.assign(assigned)
        if way == "on the device":
            policy_set.skips = False
            policy_set.assign_on_device(assigned)
    episodes = 0
    for _ in range(12):
        random = core.sample_actions().clone()
        action = random.clone()
        for policy_set, assigned, (policies, rows, hidden_states) in zip(policy_sets, seated, alone, strict=True):
            policy_set.act(obs, info, action, greedy=True)
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
    policy_set = PolicySet(policies, core, [game.seats[1].members], 0)
    policy_set.assign(torch.tensor([0] * 7 + [1] * 3))
    obs, info = core.reset()
    action = torch.ones((10, 2), dtype=torch.int64)
    policy_set.act(obs, info, action)
    assert policies[0].rows == 0  # player_0 moves first
    assert policies[1].rows == 3  # what remembers sees every step
    obs, _, _, _, info = core.step(action)
    policy_set.act(obs, info, action)
    assert policies[0].rows == 7


def test_samples_follow_each_policys_probabilities_and_the_seed():
    game = Game.of("RockPaperScissors-v0")
    core, seat = game.core(20_000), game.seats[0]
    policies = [normalized(game, 0, seed) for seed in range(3)]
    policy_set = PolicySet(policies, core, [seat.members], 0)
    assigned = torch.arange(20_000) % 3
    policy_set.assign(assigned)
    obs, info = core.reset(seed=1)
    policy_set.seed(5)
    action, repeated = torch.zeros_like(core.action_buffer), torch.zeros_like(core.action_buffer)
    policy_set.act(obs, info, action)
    for index, policy in enumerate(policies):
        expected = policy.actor(policy.inputs(obs[0, 0])).softmax(-1)
        actual = torch.bincount(action[assigned == index, 0], minlength=3) / (assigned == index).sum()
        torch.testing.assert_close(actual, expected, atol=0.02, rtol=0.0)
    policy_set.seed(5)
    policy_set.act(obs, info, repeated)
    assert torch.equal(repeated, action)


def test_reassigned_worlds_keep_their_hidden_states():
    game = Game.of("RockPaperScissors-v0")
    core, seat = game.core(3), game.seats[0]
    policy_set = PolicySet([Counter(), Counter(1)], core, [seat.members], 0)
    policy_set.assign(torch.tensor([0, 0, 1]))
    obs, info = core.reset(seed=1)
    action = torch.zeros_like(core.action_buffer)
    policy_set.act(obs, info, action)
    assert action[:, 0].tolist() == [0, 0, 1]
    core.step(core.sample_actions())
    assert policy_set.parts[0].hidden_state is not None
    core.elapsed_steps.fill_(1)
    policy_set.assign(torch.tensor([0, 1, 1]))
    policy_set.act(obs, info, action)
    assert action[:, 0].tolist() == [1, 1, 0]


KUHN = Game.of("KuhnPoker-v0")
SEAT = KUHN.seats[0]


def pool_of(*more):
    return [RandomPolicy.of(KUHN, SEAT.role), network(KUHN, 0, 0), network(KUHN, 0, 1), *more]


def make_training(engine, pool, seed=5):
    ppo = PPOConfig(rollout_length=8, num_epochs=1, num_minibatches=1, hidden_sizes=(8,))
    settings = {"num_envs": 32, "total_steps": 100_000, "learner": ppo, "engine": engine, "device": "cpu"}
    draw = MatchupDistribution(torch.tensor([[index, LEARNER] for index in range(3)]))
    pools = {"player_0": pool, "player_1": []}
    return BestResponseTraining(KUHN, draw, pools, TrainConfig(env_id=KUHN.env_id, seed=seed, **settings))


@pytest.fixture
def copies(monkeypatch):
    """Pools whose weights were copied."""
    pools, prepare = [], PolicySet.prepare

    def counted(self):
        if was_copied := prepare(self):
            pools.append(self.policies)
        return was_copied

    monkeypatch.setattr(PolicySet, "prepare", counted)
    return pools


@pytest.mark.parametrize(("engine", "count"), [("kernel", 0), ("torch", 2)])
def test_weights_are_copied_only_for_policies_that_act_between_steps(engine, count, copies):
    pool = pool_of()
    run = make_training(engine, pool)
    assert not copies
    for _ in range(2):
        run.iterate()
    run.opponents.replace(MatchupDistribution(torch.tensor([[3, LEARNER]])), {"player_0": [*pool, network(KUHN, 0, 2)]})
    run.iterate()
    run.load_state_dict(run.state_dict())
    run.iterate()
    assert len(copies) == count


def test_policies_act_between_steps_as_soon_as_a_pool_needs_it(copies):
    pool = pool_of()
    run = make_training("kernel", pool)
    run.iterate()
    mixed = [*pool, MixturePolicy(pool[1:])]
    run.opponents.replace(MatchupDistribution(torch.tensor([[3, LEARNER]])), {"player_0": mixed})
    version = run.opponents.version
    run.iterate()
    assert copies == [mixed]
    assert run.opponents.version > version, "a captured rollout is invalid"


def actions(policies, steps=3):
    """Return the actions of a seat's policies over some resets of the same environments."""
    core, outputs = policies.core, []
    _, info = core.reset(seed=3)
    policies.assign(torch.arange(core.num_envs) % len(policies.policies))
    for _ in range(steps):
        outputs.append(torch.zeros_like(core.action_buffer))
        policies.act(core.obs, info, outputs[-1])
    return torch.stack(outputs)


@pytest.mark.parametrize("has_acted", [True, False], ids=["copied", "not copied"])
@pytest.mark.parametrize("into_copies", [True, False], ids=["into copies", "before copies"])
def test_state_restores_random_streams(has_acted, into_copies):
    core, pool = KUHN.core(64), pool_of()
    policies = PolicySet(pool, core, [SEAT.members], 7)
    if has_acted:
        actions(policies)  # moves the streams
    else:
        policies.seed(8)
    state = policies.state_dict()
    expected = actions(policies)
    other = PolicySet(pool, core, [SEAT.members], 99)
    if into_copies:
        other.prepare()
    other.load_state_dict(state)
    assert {*other.state_dict()} - {"seed"} == {*state} - {"seed"} or into_copies
    assert torch.equal(actions(other), expected)


def test_new_seed_replaces_restored_streams():
    core, pool = KUHN.core(64), pool_of()
    first = PolicySet(pool, core, [SEAT.members], 7)
    unseeded = actions(first)
    late = PolicySet(pool, core, [SEAT.members], 1)
    late.load_state_dict(first.state_dict())
    late.seed(8)
    expected = actions(PolicySet(pool, core, [SEAT.members], 8))
    assert torch.equal(actions(late), expected)
    assert not torch.equal(unseeded, expected)


def test_streams_go_on_when_a_pool_grows():
    core, pool = KUHN.core(64), [network(KUHN, 0, 0), network(KUHN, 0, 1)]
    reference, late = PolicySet(pool, core, [SEAT.members], 7), PolicySet(pool, core, [SEAT.members], 7)
    assert torch.equal(actions(late), actions(reference))
    late.replace([*pool, network(KUHN, 0, 2)])
    late.prepare()
    assert sum(part.size for part in late.parts) == 3
    late.policies = pool  # the same policies play
    assert torch.equal(actions(late), actions(reference))


def test_state_of_a_training_with_copies_is_kept_by_one_in_kernels():
    """Training states from before weights were copied late hold the streams of all seats."""
    pool = pool_of()
    state = make_training("torch", pool)
    state.iterate()
    state = state.state_dict()
    streams = {name for name in state if name.startswith("opponents.ensemble.0.stream.")}
    assert streams
    run = make_training("kernel", pool, seed=6)
    run.load_state_dict(state)
    run.iterate()
    saved = run.state_dict()
    assert all(torch.equal(saved[name], state[name]) for name in streams)
    restored = make_training("torch", pool, seed=7)
    restored.load_state_dict(saved)
    restored.iterate()


def test_bad_policies_and_seeds_are_errors():
    pool = pool_of()
    run, late = make_training("torch", pool), PolicySet(pool, KUHN.core(4), [SEAT.members], 7)
    mixed = [*pool, network(Game.of("LeducPoker-v0"), 0, 0)]
    with pytest.raises(ConfigError, match="seat player_0: policy 3: obs_width: expected"):
        run.opponents.replace(MatchupDistribution(torch.tensor([[3, LEARNER]])), {"player_0": mixed})
    assert run.opponents.seat_policies[0].policies == pool
    for seed in (-1, True, 0.5, torch.tensor(1)):
        with pytest.raises(CheckpointError, match="policies of player_0: seed: expected an int from 0"):
            late.load_state_dict({"seed": seed})


@pytest.mark.gpu
def test_gpu_actions_equal_the_host_without_host_sync():
    game = Game.of("LeducPoker-v0")
    seat, host, core = game.seats[0], game.core(WORLDS), game.core(WORLDS, "cuda")
    policies = [normalized(game, 0, seed) for seed in range(4)]
    policies += [normalized(game, 0, seed, network="gru") for seed in range(3)]
    assigned = torch.randint(-1, len(policies), (WORLDS,), generator=torch.Generator().manual_seed(0))
    policy_set, reference = PolicySet(policies, core, [seat.members], 0), PolicySet(policies, host, [seat.members], 0)
    obs, info = core.reset(seed=1)
    host_obs, host_info = host.reset(seed=1)
    reference.assign(assigned)
    expected = torch.full_like(host.action_buffer, -1)
    reference.act(host_obs, host_info, expected, True)
    for seated in (assigned.to("cuda"), assigned):
        into = torch.full_like(core.action_buffer, -1)
        policy_set.assign(seated)
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            if seated.is_cuda:
                policy_set.assign(seated)
            policy_set.act(obs, info, into, True)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert torch.equal(into.cpu(), expected)
