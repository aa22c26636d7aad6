"""Names of observations and actions: one for every number there is, of every environment."""

import sys
from types import ModuleType

import pytest
import toy
from conftest import SMALL
from gymnasium import spaces

from docs import tables
from gpu_envs import meanings
from gpu_envs.errors import ConfigError
from gpu_envs.factory import make_core

PLACES = tables.names()
CONTINUOUS = {"MountainCarContinuous-v0", "Pendulum-v1", "DiscGame-v0"}


def of_agent(names, core, row):
    """What names say of the agent in a row: they are told by agent, else by group."""
    agent = core.possible_agents[row]
    return names.get(agent) or names[next(group for group, rows in core.groups.items() if row in rows)]


@pytest.mark.parametrize("place", PLACES)
def test_every_number_has_a_name(place):
    """With default settings, small ones, and those that the page shows."""
    id = PLACES[place]
    shown = [settings for _, settings in tables.words(place).OBSERVATIONS.values()]
    for settings in ({}, SMALL[id], *shown):
        core = make_core(id, 1, "cpu", **settings)
        seen, done = meanings.observation_names(core), meanings.action_names(core)
        for row, agent in enumerate(core.possible_agents):
            blocks = of_agent(seen, core, row)
            assert sum(len(block["entries"]) for block in blocks) == core.observation_spaces[agent].shape[0]
            assert all(block["meaning"] and all(block["entries"]) for block in blocks)
            space = core.action_spaces[agent]
            if isinstance(space, spaces.Box):
                assert done is None
            elif isinstance(space, spaces.MultiDiscrete):
                assert [len(part) for part in of_agent(done, core, row)] == space.nvec.tolist()
            elif done.get(agent) != []:  # the numbers are the names
                told = of_agent(done, core, row)
                assert len(told) == len(set(told)) == space.n or (id, told) == ("MatrixGame-v0", [])
        assert (done is None) == (id in CONTINUOUS)


def test_they_are_told_by_group_and_read_well():
    core = make_core("SimpleTag-v0", 1, "cpu", num_good=2)
    names = meanings.observation_names(core)
    assert list(names) == ["adversary", "agent"]
    assert names["agent"][0] == {"meaning": "own velocity (x, y)", "unit": "m/s", "entries": ["x", "y"]}
    assert names["agent"][2]["entries"] == ["0 x", "0 y", "1 x", "1 y"]
    assert meanings.action_names(core)["agent"][1] == "left"
    tag = meanings.observation_names(make_core("TagContinuous-v0", 1, "cpu"))["tagger"]
    assert (tag[0]["unit"], tag[0]["entries"][:2]) == ("√2 grid_length", ["0", "1"])


def test_agents_of_a_group_that_differ_are_told_apart():
    names = meanings.action_names(make_core("ClimbingGame-v0", 1, "cpu"))
    assert names == {"player_0": ["row 0", "row 1", "row 2"], "player_1": ["column 0", "column 1", "column 2"]}


def test_an_environment_of_ones_own(monkeypatch):
    """It has no names until its author says them, and those have to fit."""
    toy.announce(monkeypatch)
    core = make_core("Toy-v0", 1, "cpu")
    assert meanings.observation_names(core) is meanings.action_names(core) is None
    monkeypatch.setitem(sys.modules, "words", host := ModuleType("words"))
    toy.announce(monkeypatch, "Told-v0", meanings="words")
    core = make_core("Told-v0", 1, "cpu")
    assert meanings.observation_names(core) is meanings.action_names(core) is None
    block = meanings.Block("cell: own, mean", "`length`", 0, 1, lambda world, row: 0.0, 2)
    host.blocks, host.choices = lambda config, row: [block], lambda config, row: ["stay", "left", "right"]
    told = {"meaning": "cell: own, mean", "unit": "length", "entries": ["0", "1"]}
    assert list(meanings.observation_names(core).values()) == [[told]]
    assert list(meanings.action_names(core).values()) == [["stay", "left", "right"]]
    host.blocks, host.choices = lambda config, row: [block, block], lambda config, row: ["stay"]
    with pytest.raises(ConfigError, match="has 2 entries of the observation, but its words tell of 4"):
        meanings.observation_names(core)
    with pytest.raises(ConfigError, match="has 3 actions, but its words tell of 1"):
        meanings.action_names(core)
