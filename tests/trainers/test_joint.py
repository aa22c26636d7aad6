"""What centralised critics see: everybody's observations and actions, and what the others would do next."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn
from toy_core import Identity

from trainers import algorithms
from trainers.config import TrainConfig
from trainers.problem import Player, Problem
from trainers.seats import make_seats

BOX, SMALL, LARGE = spaces.Box(-2.0, 2.0, (2,), np.float32), spaces.Discrete(3), spaces.Discrete(5)


def world(algorithm: str, pair: spaces.Space, single: spaces.Space) -> dict:
    """Policy "pair" plays agents 0 and 2, which see 3 numbers, "single" agent 1, which sees 4; padded to 4."""
    players = (Player(0, "pair", 3, pair), Player(1, "single", 4, single), Player(2, "pair", 3, pair))
    found, learners = algorithms.find(algorithm), {}
    settings = {"hidden": (8,), "replay_size": 64, "batch_size": 16, "rollout_length": 2, "learning_starts": 0}
    for index, (name, space, width, count) in enumerate((("pair", pair, 3, 2), ("single", single, 4, 1))):
        problem = Problem(width, space, 2, count, 80, seed=index, state_width=12, players=players, policy=name)
        learners[name] = found.learner_type(found.settings(**settings), problem)
    for learner in learners.values():
        learner.meet(learners)
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


def look(learner, what: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    learner.generator.manual_seed(3)
    return learner._look(what)


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("algorithm", ["maddpg", "masac"])
def test_the_critic_sees_what_all_others_do(algorithm, discrete):
    learner = world(algorithm, *((SMALL, LARGE) if discrete else (BOX, BOX)))["pair"]
    what = drawn(discrete)
    before = look(learner, what)
    for agent in range(3):
        other = {**what, "joint_action": what["joint_action"].clone()}
        other["joint_action"][:, agent] = (other["joint_action"][:, agent] + 1) % 3 if discrete else 1.99
        after = look(learner, other)
        changed = [not torch.equal(before["situation"][:, i], after["situation"][:, i]) for i in range(2)]
        # agents 0 and 2 are the policy's own two: each is not shown its own action
        assert changed == {0: [False, True], 1: [True, True], 2: [True, False]}[agent]
        own = [not torch.equal(before["code"][:, i], after["code"][:, i]) for i in range(2)]
        assert own == {0: [True, False], 1: [False, False], 2: [False, True]}[agent]
        assert torch.equal(before["next_situation"], after["next_situation"])


def test_situations_by_hand():
    learner = world("maddpg", SMALL, LARGE)["pair"]
    what = drawn(True)
    what["joint_action"][0] = torch.tensor([2, 4, 1])
    found = look(learner, what)
    row = found["situation"][0]
    assert row.shape == (2, 12 + 3 * 5 + 2)
    assert torch.equal(row[:, :12], what["state"][0].expand(2, 12))
    nobody, four, two, one = [0] * 5, [0, 0, 0, 0, 1], [0, 0, 1, 0, 0], [0, 1, 0, 0, 0]
    assert row[:, 12:27].tolist() == [[*nobody, *four, *one], [*two, *four, *nobody]]
    assert row[:, 27:].tolist() == [[1, 0], [0, 1]]
    assert found["code"][0].tolist() == [[0, 0, 1], [0, 1, 0]]
    assert torch.equal(found["obs"][0], torch.stack([what["state"][0, :3], what["state"][0, 8:11]]))


@pytest.mark.parametrize(("algorithm", "asked"), [("maddpg", "target_actor"), ("masac", "actor")])
def test_targets_ask_the_others_what_they_do_next(algorithm, asked):
    learners = world(algorithm, BOX, BOX)
    learner, other, what = learners["pair"], learners["single"], drawn(False)
    if algorithm == "maddpg":
        before = look(learner, what)
        nn.init.constant_(other.actor.body[-1].bias, 1.0)  # it is the target policy that counts
        assert torch.equal(look(learner, what)["next_situation"], before["next_situation"])
    stream = other.generator.get_state()
    before = look(learner, what)
    nn.init.constant_(getattr(other, asked).body[-1].bias, 1.0)
    after = look(learner, what)
    moved = (before["next_situation"] != after["next_situation"]).any(0)
    assert moved[0].nonzero().flatten().tolist() == [14, 15]  # agent 1's action alone
    assert torch.equal(before["next_code"], after["next_code"])
    assert torch.equal(before["situation"], after["situation"])
    assert torch.equal(other.generator.get_state(), stream)  # learners do not draw from each other's streams


def test_the_policy_follows_its_own_action_through_the_critic():
    """The critic pays agent 0 for choice 2 and agent 2 for choice 0, by telling them apart."""
    learner = world("maddpg", SMALL, LARGE)["pair"]
    batch = look(learner, drawn(True))

    class Pays(nn.Module):
        def forward(self, seen: torch.Tensor) -> torch.Tensor:
            which, code = seen[..., 27:29], seen[..., 29:]
            return (which[..., :1] * code[..., 2:] + which[..., 1:] * code[..., :1]) * 5

    learner.critics = nn.ModuleList([Pays()])
    batch["obs"] = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]).expand(6, 2, 3)
    learner.optimizers["actor"].param_groups[0]["lr"] = 0.02
    for _ in range(60):
        learner._actor_step(batch)
    choice = learner.policy().act(batch["obs"][0], greedy=True)
    assert choice.tolist() == [2, 0]


def test_agents_stand_in_the_order_in_which_their_learner_sees_them():
    """A policy for both groups of the toy, whose rows interleave, sees the even agents first."""
    learner = algorithms.find("maddpg").settings(hidden=(8,), replay_size=64)
    config = TrainConfig("Toy", algorithm="maddpg", sharing="all", num_envs=2, learner=learner)
    seat = make_seats(config, Identity(2, "continuous"))["shared"]
    assert seat.agents.rows.tolist() == seat.learner.view.rows["shared"].tolist() == [0, 2, 1]
