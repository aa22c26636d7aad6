"""Names of observation entries and actions of every environment."""

import sys
from types import ModuleType

import pictures
import pytest
import toy
from gymnasium import spaces
from small_environments import SMALL

from docs.scripts import tables
from gpu_envs import descriptions
from gpu_envs.envs.classic import pendulum
from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core

PLACES = tables.names()
CONTINUOUS = {"MountainCarContinuous-v0", "Pendulum-v1", "DiscGame-v0"}


def of_agent(names, core, row):
    """Return the names of the agent in a row, by agent or by group."""
    agent = core.possible_agents[row]
    return names.get(agent) or names[next(group for group, rows in core.groups.items() if row in rows)]


@pytest.mark.parametrize("name", PLACES)
def test_every_entry_has_a_name(name):
    """Settings are the default, small ones, and the page's."""
    id = PLACES[name]
    variants = [settings for _, settings in tables.views(name) if settings]
    for settings in ({}, SMALL[id], *variants):
        core = make_core(id, 1, "cpu", **settings)
        observations, done = descriptions.describe_observations(core), descriptions.describe_actions(core)
        for row, agent in enumerate(core.possible_agents):
            blocks = of_agent(observations, core, row)
            assert sum(len(block["entries"]) for block in blocks) == core.observation_spaces[agent].shape[0]
            assert all(block["meaning"] and all(block["entries"]) for block in blocks)
            space = core.action_spaces[agent]
            if isinstance(space, spaces.Box):
                assert done is None
            elif isinstance(space, spaces.MultiDiscrete):
                assert [len(part) for part in of_agent(done, core, row)] == space.nvec.tolist()
            elif done.get(agent) != []:  # the numbers are the names
                names = of_agent(done, core, row)
                assert len(names) == len(set(names)) == space.n or (id, names) == ("MatrixGame-v0", [])
        assert (done is None) == (id in CONTINUOUS)


def test_names_are_grouped_and_readable():
    core = make_core("SimpleTag-v0", 1, "cpu", num_good=2)
    names = descriptions.describe_observations(core)
    assert list(names) == ["adversary", "agent"]
    assert names["agent"][0] == {"meaning": "own velocity (x, y)", "unit": "m/s", "entries": ["x", "y"]}
    assert names["agent"][2]["entries"] == ["0 x", "0 y", "1 x", "1 y"]
    assert descriptions.describe_actions(core)["agent"][1] == "left"
    tag = descriptions.describe_observations(make_core("TagContinuous-v0", 1, "cpu"))["tagger"]
    assert (tag[0]["unit"], tag[0]["entries"][:2]) == ("√2 grid_length", ["0", "1"])


def test_agents_of_a_group_that_differ_have_their_own_names():
    names = descriptions.describe_actions(make_core("ClimbingGame-v0", 1, "cpu"))
    assert names == {"player_0": ["row 0", "row 1", "row 2"], "player_1": ["column 0", "column 1", "column 2"]}


def test_registered_environment_with_a_description(monkeypatch):
    """It has no names without a description, whose counts must match."""
    toy.announce(monkeypatch)
    core = make_core("Toy-v0", 1, "cpu")
    assert descriptions.describe_observations(core) is descriptions.describe_actions(core) is None
    monkeypatch.setitem(sys.modules, "words", host := ModuleType("words"))
    toy.announce(monkeypatch, "Described-v0", description="words")
    core = make_core("Described-v0", 1, "cpu")
    assert descriptions.describe_observations(core) is descriptions.describe_actions(core) is None
    block = descriptions.ObservationBlock("cell: own, mean", "`length`", width=2)
    host.observation_blocks, host.action_names = (
        lambda config, row: [block],
        lambda config, row: ["stay", "left", "right"],
    )
    expected = {"meaning": "cell: own, mean", "unit": "length", "entries": ["0", "1"]}
    assert list(descriptions.describe_observations(core).values()) == [[expected]]
    assert list(descriptions.describe_actions(core).values()) == [["stay", "left", "right"]]
    host.observation_blocks, host.action_names = lambda config, row: [block, block], lambda config, row: ["stay"]
    with pytest.raises(ConfigError, match="expected 2 entries of the observation, got 4"):
        descriptions.describe_observations(core)
    with pytest.raises(ConfigError, match="expected 3 actions, got 1"):
        descriptions.describe_actions(core)


def test_images_and_named_blocks_without_a_description_have_their_shapes_and_indices(monkeypatch):
    toy.announce(monkeypatch, "Pictures-v0", pictures)
    (image,) = descriptions.describe_observations(make_core("Pictures-v0", 1, "cpu"))["viewer"]
    assert (image["meaning"], len(image["entries"])) == ("observation 3 x 2 x 4", 24)
    assert image["entries"][:5] == ["0, 0, 0", "0, 0, 1", "0, 0, 2", "0, 0, 3", "0, 1, 0"]
    blocks = descriptions.describe_observations(make_core("Pictures-v0", 1, "cpu", kind="named"))["viewer"]
    assert [block["meaning"] for block in blocks] == ["vector 5", "image 2 x 3 x 2", "flags 3", "map 1 x 2 x 2"]
    assert blocks[3]["entries"] == ["0, 0, 0", "0, 0, 1", "0, 1, 0", "0, 1, 1"]


@pytest.mark.parametrize(
    ("env_id", "names"),
    [
        ("Pendulum-v1", {"agent": ["torque"]}),
        ("MountainCarContinuous-v0", {"agent": ["throttle"]}),
        ("DiscGame-v0", {"player": ["x", "y"]}),
        ("SimpleSpread-v0", {"agent": ["nothing", "left", "right", "down", "up"]}),
        (
            "SimpleSpeakerListener-v0",
            {"speaker": ["letter 0", "letter 1", "letter 2"], "listener": ["nothing", "left", "right", "down", "up"]},
        ),
    ],
)
def test_components_of_continuous_actions_have_names(env_id, names):
    settings = {"continuous_actions": True} if env_id.startswith("Simple") else {}
    assert descriptions.describe_action_parts(make_core(env_id, 1, "cpu", **settings)) == names
    assert descriptions.describe_action_parts(make_core("CartPole-v1", 1, "cpu")) is None


def test_lists_of_choices_do_not_name_continuous_components(monkeypatch):
    monkeypatch.setattr(pendulum, "action_parts", None)
    monkeypatch.setattr(pendulum, "action_names", lambda config, row: [["left", "right"]], raising=False)
    assert descriptions.describe_action_parts(make_core("Pendulum-v1", 1, "cpu")) == {"agent": []}
