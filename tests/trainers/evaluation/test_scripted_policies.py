"""Scripted policies: what they do in places set by hand, and that both sides beat random play, intervals apart."""

import numpy as np
import pytest
import torch
from toy import announce

from gpu_envs.errors import ActionError, ConfigError
from gpu_envs.runtime.factory import make_core
from trainers.evaluation.foraging_policies import ForagingPolicy
from trainers.evaluation.policy_evaluation import evaluate_policies
from trainers.evaluation.scripted_policies import (
    SCRIPTED_POLICIES,
    SCRIPTS,
    ScriptedPolicy,
    has_script,
    scripted_policy,
)
from trainers.models.policy_set import PolicyRunner

ENVS = {
    "SimpleTag-v0": ("adversary", "agent", {}),
    "TagGridworld-v0": ("tagger", "runner", {"num_taggers": 3}),
    "TagContinuous-v0": (
        "tagger",
        "runner",
        {"num_taggers": 3, "num_runners": 12, "grid_length": 10.0, "episode_length": 100},
    ),
}


def act(core, member):
    return ScriptedPolicy(core, member).act(core.obs)


def gridworld(*cells):
    """Return a world of taggers and, last, the runner, in these cells; without a reset, which would compile kernels."""
    core = make_core("TagGridworld-v0", 1, "cpu", num_taggers=len(cells) - 1, grid_length=9)
    core.alive.fill_(True)
    core.world_state["cell"][0] = torch.tensor(cells)
    return core


def test_every_script_is_tested():
    assert set(ENVS) == set(SCRIPTS)


@pytest.mark.parametrize(
    "env_id", [pytest.param(name, marks=[pytest.mark.slow] * (name != "SimpleTag-v0")) for name in ENVS]
)
def test_both_sides_beat_random(env_id):
    hunters, prey, settings = ENVS[env_id]
    core = make_core(env_id, 128, "cpu", seed=0, reuse_buffers=True, **settings)
    chase, flee = ScriptedPolicy(core, hunters), ScriptedPolicy(core, prey)
    chance, hunted, fled, scripted = (
        evaluate_policies(core, {hunters: hunter, prey: runner}, seed=1)
        for hunter, runner in ((None, None), (chase, None), (None, flee), (chase, flee))
    )

    def above(more, less, group):
        a, b = more.returns[group], less.returns[group]
        assert a.mean - a.half > b.mean + b.half, f"{group}: {a} against {b}"

    above(hunted, chance, hunters)
    above(chance, hunted, prey)
    above(fled, chance, prey)
    above(chance, fled, hunters)
    above(scripted, hunted, prey)
    above(scripted, fled, hunters)


@pytest.mark.parametrize(("way", "towards", "away"), [((3, 0), 1, 2), ((-3, 0), 2, 1), ((0, 3), 3, 4), ((0, -3), 4, 3)])
def test_gridworld_moves(way, towards, away):
    core = gridworld((4, 4), (4 + way[0], 4 + way[1]))
    assert act(core, "tagger").tolist() == [[towards]]
    assert act(core, "runner").tolist() == [[towards]]  # away from the tagger, the same way
    core = gridworld((4 + way[0], 4 + way[1]), (4, 4))
    assert act(core, "runner").tolist() == [[away]]


def test_flees_the_nearest_and_not_into_the_wall():
    assert act(gridworld((4, 7), (4, 2), (4, 4)), "runner").tolist() == [[3]]
    assert act(gridworld((0, 9), (0, 3), (0, 0)), "runner").tolist() == [[1]]  # no way down or left


def test_chases_the_nearest_that_is_left():
    core = make_core("TagContinuous-v0", 1, "cpu", num_taggers=1, num_runners=2, num_turn_levels=5)
    core.alive.fill_(True)
    state = core.world_state
    state["pos"][0] = torch.tensor([[10.0, 10.0], [12.0, 10.0], [10.0, 3.0]])
    for name in ("speed", "acceleration", "direction"):
        state[name].zero_()
    # ahead, at full acceleration, without a turn: choice 0 and the middle one of five are none, the first is taken
    assert act(core, "tagger").tolist() == [[[10, 0]]]
    core.alive[0, 1] = False
    state["speed"].fill_(0.5)
    turn = act(core, "tagger")[0, 0, 1]
    assert turn == 2  # to the one below, by -1.175 of -2.35, -1.175, 0, 1.175, 2.35


def test_prey_stays_in_the_arena():
    core = make_core("SimpleTag-v0", 1, "cpu", num_adversaries=1)
    core.alive.fill_(True)
    core.world_state["vel"].zero_()
    core.world_state["pos"][0, :2] = torch.tensor([[-0.3, 0.1], [0.0, 0.1]])
    assert act(core, "agent").tolist() == [[2]]  # away, to the right
    core.world_state["pos"][0, :2] = torch.tensor([[0.6, 0.5], [0.99, 0.5]])
    assert act(core, "agent")[0, 0] in (3, 4)  # sideways, along the border


def test_one_agent_of_a_group_and_throttles():
    core = make_core("SimpleTag-v0", 5, "cpu", seed=0, continuous_actions=True)
    core.alive.fill_(True)
    core.world_state["pos"].uniform_(-1.0, 1.0)
    group, single = act(core, "adversary"), act(core, "adversary_1")
    assert group.shape == (5, 3, 5)
    assert group.dtype == torch.float32
    assert torch.equal(single, group[:, 1:2])
    assert torch.equal(group.sum(-1), torch.ones(5, 3))


@pytest.mark.parametrize(
    ("env_id", "settings"), [("SimpleFormation-v0", {}), pytest.param("CollectTreasure-v0", {}, marks=pytest.mark.slow)]
)
def test_scripted_agents_earn_more_than_random_ones(env_id, settings):
    core = make_core(env_id, 64, "cpu", seed=0, reuse_buffers=True, **settings)
    chance = evaluate_policies(core, dict.fromkeys(core.groups), seed=1).returns
    ours = evaluate_policies(core, {name: scripted_policy(core, name) for name in core.groups}, seed=1).returns
    for name, earned in ours.items():
        assert earned.mean - earned.half > chance[name].mean + chance[name].half, name


@pytest.mark.parametrize("env_id", SCRIPTED_POLICIES)
def test_scripts_are_found_by_the_id_and_play_their_environments_only(env_id):
    core = make_core(env_id, 1, "cpu")
    assert has_script(env_id)
    policy = scripted_policy(core, core.possible_agents[0])
    start = f"<{type(policy).__name__} {env_id}: plays={core.possible_agents[0]}, script={policy.script}"
    assert repr(policy) == f"{start}, device=cpu>"
    with pytest.raises(ConfigError, match=f"{type(policy).__name__}: expected a core of .*{env_id}.*, got SimpleLine"):
        type(policy)(make_core("SimpleLine-v0", 1, "cpu"), "agent")


def test_refused_settings_of_scripts():
    formation = make_core("SimpleFormation-v0", 1, "cpu", continuous_actions=True)
    warehouse = make_core("RobotWarehouse-v0", 1, "cpu", shelf_columns=151, shelf_rows=5, column_height=40)
    foraging = make_core("LevelBasedForaging-v0", 1, "cpu")
    with pytest.raises(ConfigError, match="expected discrete actions"):
        scripted_policy(formation, "agent")
    with pytest.raises(ConfigError, match=r"at most 67108864 products of places and cells, got .*; use a small"):
        scripted_policy(warehouse, "robot")
    with pytest.raises(ConfigError, match="heuristic: expected one of H1, H2, H3, H4, got 'H5'"):
        ForagingPolicy(foraging, "player", "H5")
    assert not has_script("SimpleSpread-v0")
    with pytest.raises(ConfigError, match=r"SimpleSpread-v0: there are .* for SimpleTag-v0, .* your own has what"):
        scripted_policy(make_core("SimpleSpread-v0", 1, "cpu"), "agent")


class Climber:
    """Policy of the toy that always goes right, if that is legal."""

    def __init__(self, core, member):
        self.core, self.member = core, member

    def act(self, obs, mask=None, greedy=False, hidden_state=None):
        return torch.where(mask[..., 2], 2, 0)

    def initial_hidden_state(self, *shape):
        return None

    def seed(self, seed):
        pass


@pytest.mark.parametrize(
    ("action", "description"),
    [
        (torch.full((3, 3), 1.7), r"torch.float32 \(3, 3\) on cpu"),
        (torch.zeros(3, 1, dtype=torch.int64), r"torch.int64 \(3, 1\) on cpu"),
        (torch.zeros(3, dtype=torch.int64), r"torch.int64 \(3,\) on cpu"),
        (torch.tensor(0), r"torch.int64 \(\) on cpu"),
        (np.zeros((3, 3), np.int64), r"int64 \(3, 3\) on cpu"),
        (None, "NoneType"),
    ],
    ids=["float", "column", "one_agent", "number", "array", "none"],
)
def test_action_of_a_registered_script_with_another_form_is_an_error(monkeypatch, action, description):
    announce(monkeypatch, scripted=Climber)
    core = make_core("Toy-v0", 3, "cpu", seed=0)
    obs, info = core.reset()
    policy = scripted_policy(core, "walker")
    runner = PolicyRunner(core, {"walker": policy})
    expected = torch.where(info["action_mask"][..., 2], 2, 0)
    assert torch.equal(runner.act(obs, info), expected)
    monkeypatch.setattr(policy, "act", lambda *inputs: action)
    message = r"^Toy-v0: scripted: action of walker: expected a torch.int64 tensor \(3, 3\) on cpu, got "
    with pytest.raises(ActionError, match=message + description):
        runner.act(obs, info)


def test_registered_script_plays(monkeypatch):
    announce(monkeypatch, scripted=Climber)
    core = make_core("Toy-v0", 3, "cpu", seed=0)
    assert has_script("Toy-v0")
    policy = scripted_policy(core, "agent")
    assert (type(policy), policy.core, policy.member) == (Climber, core, "agent")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("climb", r"register: scripted: expected a function scripted\(core, member\), got 'climb'"),
        (lambda core, member: torch.zeros, "Toy-v0: scripted: expected a policy with the method act, got"),
    ],
)
def test_registered_script_without_a_policy_is_refused(monkeypatch, script, words):
    def register_and_play():
        announce(monkeypatch, scripted=script)
        scripted_policy(make_core("Toy-v0", 1, "cpu"), "agent")

    with pytest.raises(ConfigError, match=words):
        register_and_play()
