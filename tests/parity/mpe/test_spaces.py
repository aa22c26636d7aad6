"""Agents, their order and all spaces of MPE's environments equal mpe2's."""

import pytest
from mpe2.all_modules import mpe_environments

from gpu_envs.definition.registry import find
from gpu_envs.mpe import SCENARIOS
from gpu_envs.utils.settings import build_config
from parity.mpe.test_simple_world_comm import VARIANTS

CONTINUOUS = {"continuous_actions": True}
SETTINGS = {name: [{}, CONTINUOUS | {"dynamic_rescaling": False}] for name in SCENARIOS}
SETTINGS["collect_treasure_v1"] += [CONTINUOUS | {"num_deposits": 3}]
SETTINGS["simple_adversary_v3"] += [CONTINUOUS | {"N": 3}, {"num_agent_neighbors": 7}]
SETTINGS["simple_formation_v1"] += [CONTINUOUS | {"N": 2}]
SETTINGS["simple_line_v1"] += [CONTINUOUS | {"N": 2}]
SETTINGS["simple_spread_v3"] += [CONTINUOUS | {"N": 2}, {"num_agent_neighbors": 7}]
SETTINGS["simple_tag_v3"] += [CONTINUOUS | {"num_good": 2}, {"num_agent_neighbors": 7}]
SETTINGS["simple_world_comm_v3"] += [
    settings | kind for settings in VARIANTS.values() for kind in ({}, {"continuous_actions": True})
]


@pytest.mark.parametrize(("name", "settings"), [(name, case) for name, cases in SETTINGS.items() for case in cases])
def test_spaces_equal_the_reference(name, settings):
    theirs = mpe_environments[f"mpe/{name}"].parallel_env(**settings)
    kind, build = find(SCENARIOS[name].id).load()
    mine = build(build_config(kind, settings, name))
    assert list(mine.agents) == theirs.possible_agents
    for agent in mine.agents:
        assert mine.observation_spaces[agent] == theirs.observation_space(agent)
        assert mine.action_spaces[agent] == theirs.action_space(agent)
    assert not mine.global_state_size  # the observations, joined, as mpe2's state is
    assert (sum(space.shape[0] for space in mine.observation_spaces.values()),) == theirs.unwrapped.state_space.shape
