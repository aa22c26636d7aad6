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
from gpu_envs.definition.registry import list_envs
from gpu_envs.envs.classic import pendulum
from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core

PLACES = tables.names()
VMAS = {id for id in list_envs() if id.startswith("VMAS")}
CONTINUOUS = {"MountainCarContinuous-v0", "Pendulum-v1", "DiscGame-v0"} | VMAS


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


def entities_of(env_id, agent, **settings):
    core = make_core(env_id, 1, "cpu", **settings)
    row = core.possible_agents.index(agent)
    return descriptions.entity_blocks(env_id, core.config, row, core.observation_spaces[agent].shape[0])


SIDES = {"scenario": "5m_vs_6m", "enemy": "self_play"}


@pytest.mark.parametrize(
    ("env_id", "agent", "settings", "shapes"),
    [
        ("SMAX-v0", "ally_2", SIDES, {"own side": (4, 13), "other side": (6, 13), "numbers": (10,)}),
        ("SMAX-v0", "enemy_2", SIDES, {"own side": (5, 13), "other side": (5, 13), "numbers": (10,)}),
        ("SMAX-v0", "ally_0", {"observation_type": "conic"}, {"units": (64, 13), "numbers": (10,)}),
        ("TagContinuous-v0", "runner_1", {"num_runners": 6}, {"other agents": (7, 10), "numbers": (1,)}),
        ("TagGridworld-v0", "tagger_0", {}, {}),
        ("LevelBasedForaging-v0", "player_0", {}, {"foods": (2, 3), "numbers": (3,), "other players": (1, 3)}),
        ("CollectTreasure-v0", "deposit_0", {}, {"numbers": (4,), "other agents": (7, 8), "treasures": (6, 4)}),
        (
            "SimpleSpread-v0",
            "agent_0",
            {"N": 4},
            {"numbers": (4,), "landmarks": (4, 2), "other agents": (3, 2), "numbers 3": (6,)},
        ),
        ("CartPole-v1", "agent_0", {}, {}),
    ],
)
def test_entities_of_environments_are_blocks(env_id, agent, settings, shapes):
    blocks = entities_of(env_id, agent, **settings)
    assert list(blocks.shapes.items()) == list(shapes.items())
    assert blocks.by_feature == tuple(name for name in shapes if env_id.startswith("Tag") and name.endswith("agents"))
    assert blocks.targets == ({"other side": 5} if "other side" in shapes else {})


def test_units_of_the_sides_are_theirs_and_attacks_follow_them():
    """The labels of each unit name its side."""
    core = make_core("SMAX-v0", 1, "cpu", **SIDES)
    for agent, side in (("ally_2", "ally"), ("enemy_2", "enemy")):
        host, row = descriptions.description_module("SMAX-v0"), core.possible_agents.index(agent)
        blocks, actions = (describe(core.config, row) for describe in (host.observation_blocks, host.action_names))
        opponents = [block.meaning.partition(",")[0] for block in blocks[:10] if block.entities.name == "other side"]
        assert actions[blocks[9].entities.first_action :] == [f"attack {unit}" for unit in opponents]
        for block in blocks[:10]:
            assert (block.entities.name == "own side") == block.meaning.startswith(side)


def test_entities_with_different_numbers_are_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "words", host := ModuleType("words"))
    toy.announce(monkeypatch, "Described-v0", description="words")
    pairs = descriptions.Entities("units", 2)
    block, other = (descriptions.ObservationBlock("units", width=width, entities=pairs) for width in (4, 3))
    host.observation_blocks = lambda config, row: [block]
    assert descriptions.entity_blocks("Described-v0", None, 0, 4) == descriptions.NamedBlocks({"units": (2, 2)})
    host.observation_blocks = lambda config, row: [block, other]
    with pytest.raises(ConfigError, match="Described-v0: description of row 0: expected blocks of 7 entries, got 6"):
        descriptions.entity_blocks("Described-v0", None, 0, 7)


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
