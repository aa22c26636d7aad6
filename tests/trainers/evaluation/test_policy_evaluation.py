"""Cross-play counts every world once and knows who survived."""

import math

import pytest
import torch
from gymnasium import spaces
from toy_core import Corridor, Identity

from gpu_envs.errors import ConfigError, GpuEnvsError
from gpu_envs.runtime.factory import make_core
from trainers.base.agent_group import make_agent_group
from trainers.config.train_config import TrainConfig
from trainers.evaluation.cross_play import cross_play, table
from trainers.evaluation.policy_evaluation import evaluate_policies
from trainers.models.policy_set import PolicyRunner
from trainers.runner.agent_assignment import acting_groups, assign_policies


class Fixed:
    """A policy with one constant action."""

    def __init__(self, action: int) -> None:
        self.action = action

    def act(self, obs, mask=None, greedy=False, hidden_state=None):
        return torch.full(obs.shape[:-1], self.action)

    def initial_hidden_state(self, *shape: int) -> None:
        return None

    def seed(self, seed: int) -> None:
        pass


class Uneven(Corridor):
    """World i starts at cell 5 - i % 5 (both walkers), so that going right it takes 1 + i % 5 steps."""

    def _start(self, mask):
        start = 5 - torch.arange(self.num_envs) % 5
        cells = start.unsqueeze(1).expand(-1, 2)
        self.worlds["cell"].copy_(torch.where(mask.unsqueeze(1), cells, self.worlds["cell"]))


def test_each_world_counts_exactly_once():
    # Always right: lengths 1..5 equally often, mean 3. Counting the first 25 episodes that end would favor short ones.
    outcome = evaluate_policies(Uneven(25), {"walker": Fixed(1)}, seed=0)
    assert outcome.episodes == 25
    assert outcome.length.mean == 3.0
    # two walkers, each 1 - 0.05 * length: 2 * (1 - 0.05 * 3) = 1.7
    assert outcome.returns["walker"].mean == pytest.approx(1.7)
    # standard deviation of 5 x (1, 2, 3, 4, 5) is sqrt(50 / 24)
    assert outcome.length.half == pytest.approx(1.96 * math.sqrt(50 / 24) / 5)


def test_agents_that_have_left_need_no_legal_action():
    """Environments promise one to living agents only."""
    core = make_core("LevelBasedForaging-v0", 2)
    obs, info = core.reset(seed=0)
    config = TrainConfig(core.id, num_envs=2, algorithm="ppo")
    (assignment,) = assign_policies(config, core).values()
    players = dict.fromkeys(core.possible_agents, assignment.learner.policy())
    mask = info["action_mask"].clone()
    mask[:, 0] = False
    mask[0, 1] = torch.arange(mask.shape[-1]) == 2
    action = PolicyRunner(core, players).act(obs, {**info, "action_mask": mask})
    assert int(action[0, 1]) == 2
    assert ((action >= 0) & (action < mask.shape[-1])).all()


def test_survivors_are_those_that_no_rule_ended():
    class OneStays(Fixed):
        def act(self, obs, mask=None, greedy=False, hidden_state=None):
            return torch.tensor([1, 0]).expand(obs.shape[:-1])  # walker 0 goes, walker 1 stays until truncated

    outcome = evaluate_policies(Corridor(20, limit=8), {"walker": OneStays(1)}, seed=0)
    assert outcome.survivors["walker"].mean == 1.0
    assert outcome.leaves["walker"]
    assert outcome.length.mean == 8.0
    results = evaluate_policies(Uneven(5), {"walker": Fixed(1)}, seed=0)
    assert results.survivors["walker"].mean == 0.0
    assert not results.leaves["walker"]  # they arrive together, with the end of the world


class Scored(Uneven):
    """Its info counts the steps of an agent before this one, twice for walker 1."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.definition.results = ("steps_before",)

    def step(self, action):
        age = self.worlds["age"].clone()
        *outcome, info = super().step(action)
        return *outcome, {**info, "steps_before": age * torch.tensor([1, 2])}


def test_entries_of_info_are_those_of_the_last_step():
    players = {"walker": Fixed(1)}
    outcome = evaluate_policies(Scored(25), players, seed=0, last_info=("steps_before",))
    # lengths 1 to 5: 0 to 4 steps before the last one, for walker 1 twice the number
    assert outcome.last_info["steps_before"]["walker"].mean == 3.0
    assert evaluate_policies(Scored(25), players, seed=0).last_info == {}
    with pytest.raises(ConfigError, match="engine: expected 'auto' or 'torch'"):
        evaluate_policies(Scored(25), players, seed=0, last_info=("valid",), engine="kernel")
    results = cross_play(Scored(25), {"all": ["walker"]}, {"all": Fixed(1)}, None, seed=0)
    assert results[1][1].last_info == outcome.last_info
    lines = table(results).splitlines()
    assert lines[0].endswith("walker steps_before")
    assert lines[3].split()[-3:] == str(outcome.last_info["steps_before"]["walker"]).split()


def test_random_players_and_seeds():
    core = Identity(200)
    first, repeated, other = (evaluate_policies(core, {"even": None, "odd": None}, seed=s) for s in (1, 1, 2))
    assert first == repeated
    assert first != other
    # 4 steps, a third of the answers right
    assert first.returns["odd"].mean == pytest.approx(4 / 3, abs=0.3)
    assert first.returns["even"].mean == pytest.approx(8 / 3, abs=0.4)


def test_endless_episodes_are_an_error():
    with pytest.raises(GpuEnvsError, match="3 of 3 episodes lasted over 10 steps"):
        evaluate_policies(Corridor(3, limit=50), {"walker": Fixed(0)}, seed=0, max_steps=10)


def test_cross_play_pits_each_side_against_random_and_another():
    core, sides = Identity(6), {"even": ["even"], "odd": ["odd"]}
    trained, other = {"even": Fixed(0), "odd": Fixed(1)}, {"even": Fixed(2), "odd": Fixed(2)}
    played = [matchup for matchup, _ in cross_play(core, sides, trained, other, seed=0)]
    assert [(m["even"], m["odd"]) for m in played] == [
        ("random", "random"), ("trained", "random"), ("random", "trained"), ("trained", "trained"),
        ("other", "other"), ("trained", "other"), ("other", "trained"),
    ]  # fmt: skip
    results = cross_play(core, {"all": ["even", "odd"]}, {"all": Fixed(0)}, None, seed=0)
    assert [m["all"] for m, _ in results] == ["random", "trained"]
    lines = table(results).splitlines()
    assert lines[0].split() == ["all", "even", "return", "odd", "return", "episode", "length"]
    assert "survivors" not in lines[0]  # no agent leaves early in Identity
    assert lines[-2:] == [
        "6 episodes each, mean ± half of the 95 % interval",
        "returns are per team: the sum over the agents of a group",
    ]


class Bold(Fixed):
    """Bet and call in Kuhn poker, except with the jack: in both seats it wins 1/3 from a random player on average."""

    def act(self, obs, mask=None, greedy=False, hidden_state=None):
        return 1 - obs[..., 2].long()  # own row (2), own card (3)


def test_cross_play_of_one_policy_in_a_zero_sum_game_is_by_seat():
    """The sum over both seats is zero, whoever plays well."""
    core = make_core("KuhnPoker-v0", 400, "cpu", seed=0)
    results = cross_play(core, {"player": ["player"]}, {"player": Bold(0)}, {"player": Bold(0)}, seed=0)
    played = [tuple(matchup.values()) for matchup, _ in results]
    assert list(results[0][0]) == ["player_0", "player_1"]
    assert played[:4] == [("random", "random"), ("trained", "random"), ("random", "trained"), ("trained", "trained")]
    assert played[4:] == [("other", "other"), ("trained", "other"), ("other", "trained")]
    lines = table(results).splitlines()
    assert lines[0].split()[:6] == ["player_0", "player_1", "player_0", "return", "player_1", "return"]
    assert results[1][1].agent_returns["player_0"].mean == pytest.approx(1 / 3, abs=0.25)
    assert results[2][1].agent_returns["player_1"].mean == pytest.approx(1 / 3, abs=0.25)
    assert (
        results[3][1].agent_returns == results[4][1].agent_returns == results[5][1].agent_returns
    )  # the same policies


class Uneasy(Identity):
    """Agents of group "odd" have two of three actions; their masks are padded to three with illegal actions."""

    def __init__(self, num_envs: int, kind: str = "discrete") -> None:
        super().__init__(num_envs, kind, masked=kind == "discrete")
        self.action_mask = self.mask
        if kind == "discrete":
            self.action_spaces["odd_1"] = spaces.Discrete(2)

    def _update_mask(self) -> None:
        self.mask.fill_(True)[:, 1] = torch.tensor([False, True, False])

    def _answer(self) -> torch.Tensor:
        return self.worlds["target"][..., 0].long() % torch.tensor([3, 2, 3])


def test_masks_are_cut_to_a_groups_own_choices():
    core = Uneasy(8)
    seats = assign_policies(TrainConfig("Uneasy", num_envs=8), core)
    _, info = core.reset()
    for part in acting_groups(seats, core):
        part.start()
        part.act(core, info, core.action_buffer)
    assert core.action_buffer[:, 1].tolist() == [1] * 8  # its only legal one
    evaluate_policies(
        core, {name: seat.learner.policy() for name, seat in seats.items()}, seed=0
    )  # the toy asserts legality


def test_masks_of_several_components_follow_each_other():
    core = make_core("OneStepEconomy-v0", 4, "cpu", seed=0, reuse_buffers=True, tax_limit=0.1)
    _, info = core.reset()
    assignments = assign_policies(TrainConfig("OneStepEconomy-v0", num_envs=4), core)
    masks = {name: assignment.agents.mask(info["action_mask"]) for name, assignment in assignments.items()}
    assert masks["worker"].shape == (4, 4, 101)
    legal = masks["planner"].view(4, 7, 22)
    assert legal[..., :4].all()  # the no-op and rates up to 10 %
    assert not legal[..., 4:].any()
    for part in acting_groups(assignments, core):
        part.start()
        part.act(core, info, core.action_buffer)
    core.step(core.action_buffer)  # raises an error if an action is illegal


@pytest.mark.parametrize("kind", ["discrete", "multi_discrete", "continuous"])
def test_actions_of_some_agents_go_into_those_of_all(kind):
    core = Identity(2, kind)
    for groups, rows in ((["even"], [0, 2]), (["odd"], [1]), (["odd", "even"], [1, 0, 2])):
        into = torch.full((2, 3, *core.action_buffer.shape[2:]), -7.0)
        if into.dim() == 3:
            into = torch.nn.functional.pad(into, (0, 1), value=-7.0)  # wider than the group's own
        actions = torch.arange(1.0, 1 + 2 * len(rows) * max(core.action_buffer[0, 0].numel(), 1))
        actions = actions.view(2, len(rows), *core.action_buffer.shape[2:])
        make_agent_group(core, groups).scatter_actions(actions, into)
        actual = into[:, rows, : actions.shape[-1]] if into.dim() == 3 else into[:, rows]
        assert torch.equal(actual, actions)
        assert (into == -7).sum() == into.numel() - actions.numel()


def test_cross_play_reports_progress():
    reports = []
    core = Corridor(5, limit=3)
    cross_play(
        core,
        {"walker": ["walker"]},
        {"walker": Fixed(0)},
        None,
        0,
        progress=lambda done, text: reports.append((done, text)),
    )
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)
    assert (5, "walker random") in reports
    assert reports[-1] == (10, "walker trained")
