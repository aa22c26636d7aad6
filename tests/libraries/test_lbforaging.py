"""LevelBasedForaging-v0 against lbforaging 2.0.0, transition by transition."""

import importlib
import sys
import types
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from libraries import lbforaging_oracle as oracle
from libraries.oracle_checks import assert_equally_frequent, assert_recorded
from parity.grid.foraging_replay import core_at, replay

from gpu_envs.runtime.factory import make_core
from trainers.evaluation.foraging_policies import ForagingPolicy

SETTINGS, STEPS = 28, 900


@pytest.mark.parametrize("part", range(4))
def test_transitions_with_random_settings_equal_the_original(part):
    total = {}
    for index in range(part, SETTINGS, 4):
        settings = oracle.random_settings(np.random.default_rng(index))
        time_limit = ("termination", "truncation")[index % 2]
        counts = replay(settings, oracle.record(settings, STEPS, index), time_limit=time_limit)
        total = {name: count + total.get(name, 0) for name, count in counts.items()}
    assert total["steps"] == SETTINGS * STEPS // 4
    assert min(total.values()) > 20, total


@pytest.mark.parametrize("name", ["Foraging-8x8-2p-2f-v3", "Foraging-2s-8x8-2p-2f-coop-v3", "Foraging-15x15-4p-3f-v3"])
def test_settings_of_registered_names_equal_the_original(name):
    from gpu_envs.envs.grid.level_based_foraging import original_settings

    theirs = gymnasium.make(name).unwrapped
    core = make_core("LevelBasedForaging-v0", 1, "cpu", **original_settings(name))
    kwargs = gymnasium.spec(name).kwargs
    for setting, value in kwargs.items():
        if setting != "sight":
            assert getattr(core.config, setting) == value, setting
    assert core.get_params()["sight"].item() == kwargs["sight"]
    for row, agent in enumerate(core.possible_agents):
        assert core.observation_spaces[agent] == theirs.observation_space[row]
        assert core.action_spaces[agent] == theirs.action_space[row]


def test_recorded_traces_are_those_of_the_original(tmp_path):
    oracle.record_all(tmp_path / "trace.npz.xz", steps=300)
    assert_recorded(tmp_path / "trace.npz.xz", oracle.TRACE)


def test_load_of_one_of_two_adjacent_foods_is_an_outcome_of_the_original():
    """The original takes loading players in the order of a set. Its starts have no cell beside two foods; here is one.

    Player 1 is beside both foods and loads the northern one. Player 0 loads it, too, and player 2 the southern one.
    """
    players, foods = [(2, 2, 1), (3, 3, 1), (4, 4, 3)], [(2, 3, 2), (4, 3, 4)]
    state = dict(player=[players], food=[foods], spawned=[6], step=[0])
    state = {name: np.array(value) for name, value in state.items()}
    outcomes = set()
    for _ in range(200):
        env = oracle.make(players=3, field_size=(7, 7), max_player_level=3, max_food_level=4, sight=7)
        oracle.put(env, state, 0)
        rewards = env.step([5, 5, 5])[1]
        outcomes.add(tuple(np.round(rewards, 5)))
    assert len(outcomes) > 1
    core = core_at(dict(players=3, field_size=(7, 7), max_player_level=3, max_food_level=4), state)
    ours = core.step(torch.full((1, 3), 5))[1]
    assert tuple(np.round(ours[0].double().numpy(), 5)) in outcomes


@pytest.mark.parametrize(
    "settings",
    [
        dict(players=3, max_player_level=(1, 2, 3)),
        dict(players=3, force_coop=True),
        dict(players=2, max_num_food=3, min_food_level=(1, 2, 1), max_food_level=(3, 2, 4)),
        dict(players=2, min_food_level=2, max_food_level=5),
        dict(players=3, min_player_level=(2, 1, 1), max_player_level=3, min_food_level=(3, 1), force_coop=True),
        dict(players=4, max_num_food=4, field_size=(4, 6)),  # without room for all food
    ],
    ids=["levels", "coop", "list_of_food_levels", "range_of_food_levels", "coop_list", "no_room"],
)
def test_starts_are_distributed_as_in_the_original(settings):
    """Chi-square of cells of foods and players, and of levels, in 4,000 starts of new originals."""
    settings = dict(max_num_food=2, field_size=(5, 6), sight=6) | settings
    theirs = []
    env = oracle.make(**settings)
    for seed in range(4000):
        for player in env.players:  # an original that is reset keeps the old cells of its players free
            player.position = None
        env.reset(seed=seed)
        theirs.append(oracle.state_of(env)[:2])
    core = make_core("LevelBasedForaging-v0", 40_000, "cpu", seed=0, **settings)
    core.reset()
    ours = [core.world_state[name].numpy() for name in ("player", "food")]
    compared = 0
    for kind in range(2):
        mine, other = ours[kind], np.stack([start[kind] for start in theirs])
        for index in range(mine.shape[1]):
            pairs = [(mine[:, index] @ weights, other[:, index] @ weights) for weights in ([6, 1, 0], [0, 0, 1])]
            for have, want in pairs:
                assert_equally_frequent(have, want)
                compared += 1
    assert compared == 2 * (settings["players"] + settings["max_num_food"])
    if settings["field_size"] == (4, 6):
        assert len(np.unique((ours[1][:, :, 2] > 0).sum(1))) > 1


@pytest.mark.parametrize("heuristic", ["H1", "H2", "H3", "H4"])
def test_heuristics_choose_as_the_original(heuristic, monkeypatch):
    """The actions are the same, except that where the original acts at random, they only have an effect."""
    import lbforaging.foraging as foraging

    agents = types.ModuleType("lbforaging.agents")  # the original's own imports pandas for other agents
    agents.__path__ = [str(Path(foraging.__file__).parents[1] / "agents")]
    named = {"lbforaging.agents": agents, "foraging": foraging, "foraging.environment": foraging.environment}
    for name, module in named.items():
        monkeypatch.setitem(sys.modules, name, module)
    heuristic_agent = importlib.import_module("lbforaging.agents.heuristic_agent")
    same = at_random = 0
    monkeypatch.setattr(heuristic_agent.random, "choice", lambda actions: None)
    for seed, sight in enumerate((2, 9)):
        settings = dict(players=3, max_num_food=3, field_size=(9, 9), sight=sight, max_player_level=3)
        env = oracle.make(**settings)
        trace = oracle.record(settings, 400, seed)
        core = core_at(settings, trace)
        policy = ForagingPolicy(core, "player", heuristic)
        ours = policy.act(core.obs)
        allowed = core_mask(policy)
        for index in range(400):
            oracle.put(env, trace, index)
            for row, player in enumerate(env.players):
                action = getattr(heuristic_agent, heuristic)(player)._step(env._make_obs(player))
                mine = int(ours[index, row])
                if action is None:
                    assert allowed[index, row, mine]
                    at_random += 1
                else:
                    assert mine == action.value
                    same += 1
    assert min(same, at_random) > 50


def core_mask(policy):
    """Return the actions with an effect in the states of a policy's core."""
    food, player = (policy.core.world_state[name].long() for name in ("food", "player"))
    return policy._allowed(player, food[:, None, :, :2] - player[:, :, None, :2], food)
