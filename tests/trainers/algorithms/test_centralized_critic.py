"""Centralized critics: inputs from all agents, and next actions of other learners."""

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from toy_core import Identity

from trainers.algorithms import algorithm_specs
from trainers.algorithms.off_policy.centralized_critic import JointObservation
from trainers.base.learner_spec import AgentSpec, LearnerSpec
from trainers.base.transition import Transition
from trainers.config.train_config import TrainConfig
from trainers.models.networks import Network
from trainers.runner.agent_assignment import assign_policies

BOX, SMALL, LARGE = spaces.Box(-2.0, 2.0, (2,), np.float32), spaces.Discrete(3), spaces.Discrete(5)


def world(algorithm: str, pair: spaces.Space, single: spaces.Space, masked: bool = False, **more) -> dict:
    """Return learners: policy "pair" for agents 0 and 2 with 3 numbers, "single" for agent 1 with 4; padded to 4."""
    players = (AgentSpec(0, "pair", 3, pair), AgentSpec(1, "single", 4, single), AgentSpec(2, "pair", 3, pair))
    entry, learners = algorithm_specs.find(algorithm), {}
    settings = {"hidden_sizes": (8,), "replay_size": 64, "batch_size": 16, "rollout_length": 2, "learning_starts": 0}
    settings |= more
    for index, (name, space, width, count) in enumerate((("pair", pair, 3, 2), ("single", single, 4, 1))):
        problem = LearnerSpec(
            width, space, 2, count, 80, seed=index, state_width=12, agents=players, policy=name, has_action_mask=masked
        )
        learners[name] = entry.learner_type(entry.settings(**settings), problem)
    for learner in learners.values():
        learner.set_co_learners(learners)
    return learners


def drawn(discrete: bool) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    action = torch.randint(3, (6, 3), generator=g) if discrete else torch.rand((6, 3, 2), generator=g) * 4 - 2
    state = torch.rand((2, 6, 12), generator=g)
    never = torch.zeros(6, 2, dtype=torch.bool)
    return {
        "state": state[0], "next_state": state[1], "joint_action": action, "reward": torch.zeros(6, 2),
        "terminated": never, "valid": ~never,
    }  # fmt: skip


def look(learner, steps: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    learner.generator.manual_seed(3)
    return learner._prepare_batch(steps)


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("algorithm", ["maddpg", "masac"])
def test_critic_input_contains_actions_of_other_agents(algorithm, discrete):
    learners = world(algorithm, *((SMALL, LARGE) if discrete else (BOX, BOX)))
    learner = learners["pair"]
    steps = drawn(discrete)
    original = look(learner, steps)
    all_choices = algorithm == "masac" and discrete  # the critic values all own choices at once

    def values(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return learner._values(learner.critics, batch["situation"], None if all_choices else original["code"])

    for agent in range(3):
        other = {**steps, "joint_action": steps["joint_action"].clone()}
        other["joint_action"][:, agent] = (other["joint_action"][:, agent] + 1) % 3 if discrete else 1.99
        after = look(learner, other)
        shift = (values(after) - values(original)).abs()
        changed = [shift[:, :, i].max().item() > 1e-4 for i in range(2)]
        assert all(shift[:, :, i].max().item() < 1e-6 for i in range(2) if not changed[i])
        # agents 0 and 2 belong to the policy: each input lacks the agent's own action
        assert changed == {0: [False, True], 1: [True, True], 2: [True, False]}[agent]
        differences = [not torch.equal(original["code"][:, i], after["code"][:, i]) for i in range(2)]
        assert differences == {0: [True, False], 1: [False, False], 2: [False, True]}[agent]
        assert torch.equal(original["next_situation"], after["next_situation"])


def test_situations_match_hand_computation():
    learners = world("maddpg", SMALL, LARGE)
    learner = learners["pair"]
    steps = drawn(True)
    steps["joint_action"][0] = torch.tensor([2, 4, 1])
    batch = look(learner, steps)
    row = batch["situation"][0]
    assert row.shape == (12 + 3 * 5,)
    assert torch.equal(row[:12], steps["state"][0])
    assert row[12:].view(3, 5).tolist() == [[0, 0, 1, 0, 0], [0, 0, 0, 0, 1], [0, 1, 0, 0, 0]]
    assert batch["code"][0].tolist() == [[0, 0, 1], [0, 1, 0]]
    assert torch.equal(batch["obs"][0], torch.stack([steps["state"][0, :3], steps["state"][0, 8:11]]))


@pytest.mark.parametrize(("algorithm", "network"), [("maddpg", "target_actor"), ("masac", "actor")])
def test_targets_query_other_learners_next_actions(algorithm, network):
    learners = world(algorithm, BOX, BOX)
    learner, other, steps = learners["pair"], learners["single"], drawn(False)
    if algorithm == "maddpg":
        original = look(learner, steps)
        nn.init.constant_(other.actor.module.body[-1].bias, 1.0)  # the target policy decides
        assert torch.equal(look(learner, steps)["next_situation"], original["next_situation"])
    stream = other.generator.get_state()
    original = look(learner, steps)
    nn.init.constant_(getattr(other, network).module.body[-1].bias, 1.0)
    after = look(learner, steps)
    moved = (original["next_situation"] != after["next_situation"]).any(0)
    assert moved.nonzero().flatten().tolist() == [14, 15]  # action of agent 1 alone
    assert torch.equal(original["next_code"], after["next_code"])
    assert torch.equal(original["situation"], after["situation"])
    assert torch.equal(other.generator.get_state(), stream)  # learners do not use each other's streams


def test_policy_gradient_passes_through_own_action_only():
    """The critic rewards agent 0 for choice 2 and agent 2 for choice 0, by their indices."""
    learners = world("maddpg", SMALL, LARGE)
    learner = learners["pair"]
    batch = look(learner, drawn(True))

    class Pays(nn.Module):
        def forward(self, situation: torch.Tensor, code: torch.Tensor) -> torch.Tensor:
            return torch.stack([code[:, 0, 2], code[:, 1, 0]], -1).unsqueeze(-1) * 5

    learner.critics = nn.ModuleList([Pays()])
    batch["obs"] = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]).expand(6, 2, 3)
    learner.optimizers["actor"].param_groups[0]["lr"] = 0.02
    for _ in range(60):
        learner._actor_step(batch)
    choice = learner.policy().act(batch["obs"][0], greedy=True)
    assert choice.tolist() == [2, 0]


def test_agents_are_in_the_order_of_their_learner():
    """With one policy for both groups of the toy, whose rows interleave, the even agents come first."""
    learner = algorithm_specs.find("maddpg").settings(hidden_sizes=(8,), replay_size=64)
    config = TrainConfig("Toy", algorithm="maddpg", sharing="all", num_envs=2, learner=learner)
    seat = assign_policies(config, Identity(2, "continuous"))["shared"]
    assert seat.agents.rows.tolist() == seat.learner.view.rows["shared"].tolist() == [0, 2, 1]


def expanded(view: JointObservation, situation: torch.Tensor, code: torch.Tensor | None) -> torch.Tensor:
    """Return the full critic input of each agent, which `JointCritic` never builds."""
    rows = view.rows[view.policy]
    n, codes = len(rows), situation[:, view.state_width :].unflatten(-1, (view.agents, -1))
    other_codes = codes.unsqueeze(1).repeat(1, n, 1, 1)
    other_codes[:, torch.arange(n), rows] = 0.0
    state = situation[:, : view.state_width].unsqueeze(1).expand(-1, n, -1)
    parts = [
        state,
        other_codes.flatten(2),
        torch.eye(n).expand(len(situation), n, n),
        *([] if code is None else [code]),
    ]
    return torch.cat(parts, -1)


@pytest.mark.parametrize(
    "body", [{}, {"hidden_sizes": ()}, {"network": "cnn", "image": (1, 1, 3), "conv_filters": (4,)}]
)
@pytest.mark.parametrize(("algorithm", "discrete"), [("maddpg", True), ("masac", True), ("masac", False)])
def test_joint_critic_equals_a_network_on_the_expanded_input(algorithm, discrete, body):
    learners = world(algorithm, *((SMALL, LARGE) if discrete else (BOX, BOX)), **body)
    learner = learners["pair"]
    batch, critic = look(learner, drawn(discrete)), learner.critics[0]
    code = None if algorithm == "masac" and discrete else batch["code"]
    output = critic(batch["situation"], code)
    expected = Network.forward(critic, expanded(learner.view, batch["situation"], code))
    assert output.shape == expected.shape
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-5)
    slopes = [torch.autograd.grad(x.square().sum(), list(critic.parameters())) for x in (output, expected)]
    for slope, other in zip(*slopes, strict=True):
        torch.testing.assert_close(slope, other, rtol=1e-4, atol=1e-4)


class Largest(TorchDispatchMode):
    """Number of elements of the largest tensor created."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, torch.Tensor) and not tensor._is_view():
                self.size = max(self.size, tensor.untyped_storage().nbytes() // tensor.element_size())
        return result


def test_joint_critic_does_not_expand_inputs_per_agent():
    """With 40 agents that share a policy, the largest tensor is the hidden layer's or the weights'."""
    agents, width, hidden, batch = 40, 10, 16, 8
    players = tuple(AgentSpec(row, "all", width, LARGE, row) for row in range(agents))
    problem = LearnerSpec(width, LARGE, 2, agents, 80, state_width=agents * width, agents=players, policy="all")
    entry = algorithm_specs.find("masac")
    few = {"replay_size": 16, "batch_size": batch, "rollout_length": 2, "updates": 1, "learning_starts": 0}
    learner = entry.learner_type(entry.settings(hidden_sizes=(hidden,), **few), problem)
    learner.set_co_learners({"all": learner})
    play({"all": learner}, agents * width)
    with Largest() as largest:
        learner.update()
    row = agents * width + agents * 5
    assert largest.size < batch * agents * row / 10
    assert largest.size >= batch * agents * hidden


def play(learners: dict, state_width: int, mask: dict | None = None, seed: int = 0) -> dict[str, torch.Tensor]:
    """Fill the rollouts of all learners at random; return the rewards (T, E, A)."""
    g = torch.Generator().manual_seed(seed)
    view = next(iter(learners.values())).view
    rewards = []
    for _ in range(2):
        state, never = torch.rand((2, 2, state_width), generator=g), torch.zeros(2, view.agents, dtype=torch.bool)
        rewards.append(torch.rand((2, view.agents), generator=g))
        joint, actions = torch.zeros(2, view.agents, dtype=torch.int64), {}
        for name, learner in learners.items():
            action_mask = None if mask is None else mask[name]
            actions[name] = learner.act(view.obs(state[0], name), action_mask, state=state[0])
            joint[:, view.rows[name]] = actions[name]
        for name, learner in learners.items():
            rows, obs = view.rows[name], view.obs(state[1], name)
            learner.observe(
                Transition(
                    rewards[-1][:, rows], never[:, rows], never[:, rows], ~never[:, rows], obs, obs,
                    next_mask=None if mask is None else mask[name], next_state=state[1], final_state=state[1],
                    joint_action=joint,
                )
            )  # fmt: skip
    return {"reward": torch.stack(rewards), "joint_action": joint}


@pytest.mark.parametrize("order", [("pair", "single"), ("single", "pair")])
@pytest.mark.parametrize("algorithm", ["maddpg", "masac"])
def test_all_policies_share_one_replay(algorithm, order):
    learners = world(algorithm, SMALL, LARGE)
    ring = learners["pair"].replay
    assert learners["single"].replay is ring
    for turn in range(2):
        played = play(learners, 12, seed=turn)
        for name in order:  # the first learner moves the steps of all
            learners[name].update()
        assert ring.filled == 2 * (turn + 1)
        assert torch.equal(ring.buffers["reward"][2 * turn : 2 * turn + 2], played["reward"])
    for name, rows in (("pair", [0, 2]), ("single", [1])):
        learner = learners[name]
        learner.generator.manual_seed(1)
        sample = learner.draw()
        time, env = ring.draw(16, torch.Generator().manual_seed(1))
        assert torch.equal(sample["reward"], ring.buffers["reward"][time, env][:, rows])
    pair, single = (sum(key.startswith("replay") for key in learners[name].state_dict()) for name in ("pair", "single"))
    assert (pair, single) == (len(ring.buffers) + 2, 0)


def masks(pair: list[int], single: list[int]) -> dict[str, torch.Tensor]:
    """Return legal choices, the same for all agents of a policy."""
    legal = {"pair": (2, 2, 3), "single": (2, 1, 5)}
    return {
        name: torch.isin(torch.arange(shape[-1]), torch.tensor(choices)).expand(shape)
        for (name, shape), choices in zip(legal.items(), (pair, single), strict=True)
    }


@pytest.mark.parametrize("algorithm", ["maddpg", "matd3", "masac"])
def test_illegal_actions_are_never_expected(algorithm):
    """Policies strongly prefer choice 1, which is illegal at times: neither policies nor targets take it."""
    learners = world(algorithm, SMALL, LARGE, masked=True, learning_rate=1e-9)
    for learner in learners.values():
        for actor in {learner.actor, getattr(learner, "target_actor", learner.actor)}:
            nn.init.zeros_(actor.module.body[-1].weight)
            actor.module.body[-1].bias.data = torch.eye(learner.head.code_width)[1] * 50
    play(learners, 12, masks([0, 2], [3, 4]))
    for learner in learners.values():
        learner.update()
    done = learners["pair"].replay.buffers["joint_action"][:2]
    assert not (done == 1).any()
    assert bool((done[..., 1] >= 3).all())
    for name, learner in learners.items():
        batch = learner._prepare_batch(learner.draw())
        next_codes = batch["next_situation"][:, 12:].unflatten(-1, (3, 5)).round()
        assert next_codes[..., 1].sum() == 0, "the targets ask what others do that is legal"
        assert next_codes[:, 1, 3:].sum(-1).eq(1).all()
        legal = masks([0, 2], [3, 4])[name][0]
        assert torch.equal(batch["mask"], legal.expand_as(batch["mask"]))
        if algorithm == "masac":
            assert torch.equal(batch["next_table"].exp() > 0, legal.expand_as(batch["next_table"]))


@pytest.mark.parametrize("algorithm", ["maddpg", "matd3", "masac"])
def test_policy_learns_the_best_legal_action(algorithm):
    """The critics rate the illegal choice 1 far above 2: a policy that includes it learns nothing."""
    settings = {"temperature": 0.01, "learn_temperature": False} if algorithm == "masac" else {"policy_delay": 1}
    learners = world(algorithm, SMALL, LARGE, masked=True, learning_rate=0.05, **settings)
    learner = learners["pair"]
    payoffs = torch.tensor([0.0, 1e4, 1.0])

    class Says(nn.Module):
        def forward(self, situation: torch.Tensor, code: torch.Tensor | None = None) -> torch.Tensor:
            values = payoffs.expand(len(situation), 2, 3)
            return values if code is None else (values * code).sum(-1, keepdim=True)

    learner.critics = nn.ModuleList([Says(), Says()])
    batch = look(learner, {**drawn(True), **dict.fromkeys(("mask", "next_mask"), equal_masks([True, False, True]))})
    nn.init.zeros_(learner.actor.module.body[-1].weight)
    metrics = {}
    for _ in range(40):
        metrics = learner._actor_step(batch)
    assert abs(metrics["actor_loss"].item() + 1) < 0.2, "the illegal choice is worth nothing"
    probs = learner.head.log_probs(learner.actor(batch["obs"]), batch["mask"]).exp()[..., 0, :]
    assert probs[..., 2].min() > 0.8
    if algorithm == "masac":
        assert metrics["entropy"].item() < math.log(2)


def equal_masks(legal: list[bool]) -> torch.Tensor:
    """Return masks (6, A, widest), equal for all agents."""
    return torch.tensor([*legal, False, False]).expand(6, 3, 5)


def test_truncation_makes_next_actions_of_other_agents_unknown():
    learners = world("maddpg", SMALL, LARGE, masked=True)
    pair = learners["pair"]
    play(learners, 12, masks([0, 1], [2]))
    for name, learner in learners.items():
        r = learner.rollout
        r.truncated[0, 0] = name == "single"  # agent 1 is truncated in world 0, where agent 2 has terminated
        r.terminated[0, 0] = torch.tensor([False, True]) if name == "pair" else torch.tensor([False])
    pair._store_rollout()
    valid = pair.replay.buffers["valid"][:2]
    assert valid[0, 0].tolist() == [False, False, True]
    assert bool(valid[0, 1].all())
    assert bool(valid[1].all())
