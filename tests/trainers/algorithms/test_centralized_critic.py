"""What centralised critics see: everybody's observations and actions, and what the others would do next."""

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from toy_core import Identity

from trainers import algorithms
from trainers.bodies import Network
from trainers.config import TrainConfig
from trainers.joint import JointView
from trainers.problem import Player, Problem
from trainers.rollout import Transition
from trainers.seats import make_seats

BOX, SMALL, LARGE = spaces.Box(-2.0, 2.0, (2,), np.float32), spaces.Discrete(3), spaces.Discrete(5)


def world(algorithm: str, pair: spaces.Space, single: spaces.Space, masked: bool = False, **more) -> dict:
    """Policy "pair" plays agents 0 and 2, which see 3 numbers, "single" agent 1, which sees 4; padded to 4."""
    players = (Player(0, "pair", 3, pair), Player(1, "single", 4, single), Player(2, "pair", 3, pair))
    found, learners = algorithms.find(algorithm), {}
    settings = {"hidden": (8,), "replay_size": 64, "batch_size": 16, "rollout_length": 2, "learning_starts": 0}
    settings |= more
    for index, (name, space, width, count) in enumerate((("pair", pair, 3, 2), ("single", single, 4, 1))):
        problem = Problem(
            width, space, 2, count, 80, seed=index, state_width=12, players=players, policy=name, masked=masked
        )
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
    every = algorithm == "masac" and discrete  # it values every own action at once

    def values(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return learner._values(learner.critics, batch["situation"], None if every else before["code"])

    for agent in range(3):
        other = {**what, "joint_action": what["joint_action"].clone()}
        other["joint_action"][:, agent] = (other["joint_action"][:, agent] + 1) % 3 if discrete else 1.99
        after = look(learner, other)
        shift = (values(after) - values(before)).abs()
        changed = [shift[:, :, i].max().item() > 1e-4 for i in range(2)]
        assert all(shift[:, :, i].max().item() < 1e-6 for i in range(2) if not changed[i])
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
    assert row.shape == (12 + 3 * 5,)
    assert torch.equal(row[:12], what["state"][0])
    assert row[12:].view(3, 5).tolist() == [[0, 0, 1, 0, 0], [0, 0, 0, 0, 1], [0, 1, 0, 0, 0]]
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
    assert moved.nonzero().flatten().tolist() == [14, 15]  # agent 1's action alone
    assert torch.equal(before["next_code"], after["next_code"])
    assert torch.equal(before["situation"], after["situation"])
    assert torch.equal(other.generator.get_state(), stream)  # learners do not draw from each other's streams


def test_the_policy_follows_its_own_action_through_the_critic():
    """The critic pays agent 0 for choice 2 and agent 2 for choice 0, by telling them apart."""
    learner = world("maddpg", SMALL, LARGE)["pair"]
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


def test_agents_stand_in_the_order_in_which_their_learner_sees_them():
    """A policy for both groups of the toy, whose rows interleave, sees the even agents first."""
    learner = algorithms.find("maddpg").settings(hidden=(8,), replay_size=64)
    config = TrainConfig("Toy", algorithm="maddpg", sharing="all", num_envs=2, learner=learner)
    seat = make_seats(config, Identity(2, "continuous"))["shared"]
    assert seat.agents.rows.tolist() == seat.learner.view.rows["shared"].tolist() == [0, 2, 1]


def expanded(view: JointView, situation: torch.Tensor, code: torch.Tensor | None) -> torch.Tensor:
    """What a network would be given of each agent by itself: all that `JointCritic` does not make."""
    rows = view.rows[view.policy]
    n, codes = len(rows), situation[:, view.state_width :].unflatten(-1, (view.agents, -1))
    others = codes.unsqueeze(1).repeat(1, n, 1, 1)
    others[:, torch.arange(n), rows] = 0.0
    state = situation[:, : view.state_width].unsqueeze(1).expand(-1, n, -1)
    parts = [state, others.flatten(2), torch.eye(n).expand(len(situation), n, n), *([] if code is None else [code])]
    return torch.cat(parts, -1)


@pytest.mark.parametrize("body", [{}, {"hidden": ()}, {"body": "cnn", "image": (1, 1, 3), "filters": (4,)}])
@pytest.mark.parametrize(("algorithm", "discrete"), [("maddpg", True), ("masac", True), ("masac", False)])
def test_the_critic_is_a_network_on_what_it_does_not_expand(algorithm, discrete, body):
    learner = world(algorithm, *((SMALL, LARGE) if discrete else (BOX, BOX)), **body)["pair"]
    batch, critic = look(learner, drawn(discrete)), learner.critics[0]
    code = None if algorithm == "masac" and discrete else batch["code"]
    found = critic(batch["situation"], code)
    wanted = Network.forward(critic, expanded(learner.view, batch["situation"], code))
    assert found.shape == wanted.shape
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    slopes = [torch.autograd.grad(each.square().sum(), list(critic.parameters())) for each in (found, wanted)]
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


class Largest(TorchDispatchMode):
    """Elements of the largest tensor that is made."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for each in made if isinstance(made, (tuple, list)) else (made,):
            if isinstance(each, torch.Tensor) and not each._is_view():
                self.size = max(self.size, each.untyped_storage().nbytes() // each.element_size())
        return made


def test_nothing_is_made_for_every_agent_of_all_that_there_is():
    """40 agents that share a policy: the largest tensor is the hidden layer's, or the weights'."""
    agents, width, hidden, batch = 40, 10, 16, 8
    players = tuple(Player(row, "all", width, LARGE, row) for row in range(agents))
    problem = Problem(width, LARGE, 2, agents, 80, state_width=agents * width, players=players, policy="all")
    found = algorithms.find("masac")
    few = {"replay_size": 16, "batch_size": batch, "rollout_length": 2, "updates": 1, "learning_starts": 0}
    learner = found.learner_type(found.settings(hidden=(hidden,), **few), problem)
    learner.meet({"all": learner})
    play({"all": learner}, agents * width)
    with Largest() as made:
        learner.update()
    row = agents * width + agents * 5
    assert made.size < batch * agents * row / 10
    assert made.size >= batch * agents * hidden


def play(learners: dict, state_width: int, mask: dict | None = None, seed: int = 0) -> dict[str, torch.Tensor]:
    """Fills everybody's rollout at random; returns the rewards (T, E, A)."""
    g = torch.Generator().manual_seed(seed)
    view = next(iter(learners.values())).view
    rewards = []
    for _ in range(2):
        state, never = torch.rand((2, 2, state_width), generator=g), torch.zeros(2, view.agents, dtype=torch.bool)
        rewards.append(torch.rand((2, view.agents), generator=g))
        joint, own = torch.zeros(2, view.agents, dtype=torch.int64), {}
        for name, learner in learners.items():
            given = None if mask is None else mask[name]
            own[name] = learner.act(view.obs(state[0], name), given, state=state[0])
            joint[:, view.rows[name]] = own[name]
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
def test_all_policies_learn_from_one_replay(algorithm, order):
    learners = world(algorithm, SMALL, LARGE)
    ring = learners["pair"].experience.replay
    assert learners["single"].experience.replay is ring
    for turn in range(2):
        played = play(learners, 12, seed=turn)
        for name in order:  # whoever comes first moves the steps of all
            learners[name].update()
        assert ring.filled == 2 * (turn + 1)
        assert torch.equal(ring.buffers["reward"][2 * turn : 2 * turn + 2], played["reward"])
    for name, rows in (("pair", [0, 2]), ("single", [1])):
        learner = learners[name]
        got = learner.experience.draw(torch.Generator().manual_seed(1))
        time, env = ring.draw(16, torch.Generator().manual_seed(1))
        assert torch.equal(got["reward"], ring.buffers["reward"][time, env][:, rows])
    pair, single = (sum(key.startswith("replay") for key in learners[name].state_dict()) for name in ("pair", "single"))
    assert (pair, single) == (len(ring.buffers) + 2, 0)


def masks(pair: list[int], single: list[int]) -> dict[str, torch.Tensor]:
    """Legal choices, the same for all agents of a policy."""
    legal = {"pair": (2, 2, 3), "single": (2, 1, 5)}
    return {
        name: torch.isin(torch.arange(shape[-1]), torch.tensor(given)).expand(shape)
        for (name, shape), given in zip(legal.items(), (pair, single), strict=True)
    }


@pytest.mark.parametrize("algorithm", ["maddpg", "matd3", "masac"])
def test_nobody_is_expected_to_do_what_is_illegal(algorithm):
    """Policies prefer choice 1 by far, which is illegal now and then: neither they nor the targets take it."""
    learners = world(algorithm, SMALL, LARGE, masked=True, learning_rate=1e-9)
    for learner in learners.values():
        for actor in {learner.actor, getattr(learner, "target_actor", learner.actor)}:
            nn.init.zeros_(actor.body[-1].weight)
            actor.body[-1].bias.data = torch.eye(learner.head.code_width)[1] * 50
    play(learners, 12, masks([0, 2], [3, 4]))
    for learner in learners.values():
        learner.update()
    done = learners["pair"].experience.replay.buffers["joint_action"][:2]
    assert not (done == 1).any()
    assert bool((done[..., 1] >= 3).all())
    for name, learner in learners.items():
        batch = learner._look(learner.experience.draw(learner.generator))
        next_codes = batch["next_situation"][:, 12:].unflatten(-1, (3, 5)).round()
        assert next_codes[..., 1].sum() == 0, "the targets ask what others do that is legal"
        assert next_codes[:, 1, 3:].sum(-1).eq(1).all()
        legal = masks([0, 2], [3, 4])[name][0]
        assert torch.equal(batch["mask"], legal.expand_as(batch["mask"]))
        if algorithm == "masac":
            assert torch.equal(batch["next_table"].exp() > 0, legal.expand_as(batch["next_table"]))


@pytest.mark.parametrize("algorithm", ["maddpg", "matd3", "masac"])
def test_a_policy_learns_the_best_of_what_is_legal(algorithm):
    """The critics rate choice 1, which is illegal, far above 2: a policy that counts it in learns nothing."""
    learner = world(algorithm, SMALL, LARGE, masked=True, learning_rate=0.05, **(
        {"temperature": 0.01, "learn_temperature": False} if algorithm == "masac" else {"policy_delay": 1}
    ))["pair"]  # fmt: skip
    worth = torch.tensor([0.0, 1e4, 1.0])

    class Says(nn.Module):
        def forward(self, situation: torch.Tensor, code: torch.Tensor | None = None) -> torch.Tensor:
            each = worth.expand(len(situation), 2, 3)
            return each if code is None else (each * code).sum(-1, keepdim=True)

    learner.critics = nn.ModuleList([Says(), Says()])
    batch = look(learner, {**drawn(True), **dict.fromkeys(("mask", "next_mask"), every([True, False, True]))})
    nn.init.zeros_(learner.actor.body[-1].weight)
    found = {}
    for _ in range(40):
        found = learner._actor_step(batch)
    assert abs(found["actor_loss"].item() + 1) < 0.2, "the illegal choice is worth nothing"
    probs = learner.head.log_probs(learner.actor(batch["obs"]), batch["mask"]).exp()[..., 0, :]
    assert probs[..., 2].min() > 0.8
    if algorithm == "masac":
        assert found["entropy"].item() < math.log(2)


def every(legal: list[bool]) -> torch.Tensor:
    """Masks (6, A, widest) in which all agents may do the same."""
    return torch.tensor([*legal, False, False]).expand(6, 3, 5)


def test_where_an_agent_is_cut_what_the_others_may_do_next_is_not_known():
    learners = world("maddpg", SMALL, LARGE, masked=True)
    experience = learners["pair"].experience
    play(learners, 12, masks([0, 1], [2]))
    for name, learner in learners.items():
        r = learner.rollout
        r.truncated[0, 0] = name == "single"  # agent 1 is cut in world 0, where agent 2 has ended
        r.terminated[0, 0] = torch.tensor([False, True]) if name == "pair" else torch.tensor([False])
    experience.keep()
    valid = experience.replay.buffers["valid"][:2]
    assert valid[0, 0].tolist() == [False, False, True]
    assert bool(valid[0, 1].all())
    assert bool(valid[1].all())
