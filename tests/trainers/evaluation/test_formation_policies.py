"""Scripted policy of SimpleFormation-v0: places in states set by hand, returns above random play."""

import torch

from gpu_envs.runtime.factory import make_core
from trainers.evaluation.formation_policies import FormationPolicy, fixed_places, places_on_circle

LEFT, RIGHT, UP = 1, 2, 4


def test_places_on_the_circle_keep_the_order_of_the_angles():
    core = make_core("SimpleFormation-v0", 1, "cpu", seed=0)
    core.reset()
    core.world_state["pos"][0] = torch.tensor([(0.2, 1.0), (-1.0, 0.2), (1.0, 0.0), (0.2, -1.0), (0.2, 0.0)])
    places = [(0.2, 0.5), (-0.3, 0.0), (0.7, 0.0), (0.2, -0.5)]
    torch.testing.assert_close(places_on_circle(core)[0], torch.tensor(places), atol=1e-6, rtol=0.0)
    core.world_state["vel"].zero_()
    assert FormationPolicy(core, "agent").act(core.obs)[0].tolist() == [3, RIGHT, LEFT, UP]


def test_fixed_places_depend_on_the_index_only():
    core = make_core("SimpleFormation-v0", 1, "cpu", seed=0)
    core.reset()
    core.world_state["pos"][0] = torch.tensor([(0.2, 1.0), (-1.0, 0.2), (1.0, 0.0), (0.2, -1.0), (0.2, 0.0)])
    places = [(0.7, 0.0), (0.2, 0.5), (-0.3, 0.0), (0.2, -0.5)]
    torch.testing.assert_close(fixed_places(core)[0], torch.tensor(places), atol=1e-6, rtol=0.0)
    core.world_state["vel"].zero_()
    assert FormationPolicy(core, "agent", fixed=True).act(core.obs)[0].tolist() == [3, RIGHT, LEFT, UP]
    assert FormationPolicy(core, "agent_1", fixed=True).act(core.obs)[0].tolist() == [RIGHT]
