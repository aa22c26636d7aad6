"""Positions of agents in a scene, used by clicks and trails."""

import pytest
import torch
from small_environments import SMALL

from gpu_envs.rendering.scene import RED, Scene, circles
from gpu_envs.runtime.factory import make_core

NOWHERE = {
    "ClimbingGame-v0",
    "ConnectFour-v0",
    "DarkHex-v0",
    "MatrixGame-v0",
    "OshiZumo-v0",
    "PhantomTicTacToe-v0",
    "RockPaperScissors-v0",
    "TicTacToe-v0",
    "TwoStepGame-v0",
}
"""Games whose players have no place of their own."""
WORLDS = 6


def scene(core) -> Scene:
    return core.definition.draw(core, torch.arange(core.num_envs))


def test_living_agents_are_in_the_picture(env_id):
    core = make_core(env_id, WORLDS, "cpu", seed=5, autoreset="disabled", **SMALL[env_id])
    core.reset()
    met = 0
    for _ in range(6):
        core.step(core.sample_actions())
        drawn, alive = scene(core), core.alive
        places = drawn.places
        assert places is not None
        assert places.shape == (WORLDS, core.num_agents, 3)
        assert places.dtype == torch.float32
        if env_id in NOWHERE:
            assert places.isnan().all()
            continue
        living = places[alive]
        met += len(living)
        assert not living.isnan().any()
        assert (living[:, 2] > 0.0).all()
        bounds = torch.as_tensor(drawn.bounds, dtype=torch.float32).expand(WORLDS, 4)
        sides = bounds[:, 2:] - bounds[:, :2]
        room = drawn.margin * sides.amax(1, keepdim=True) + 1e-6
        inside = (places[..., :2] >= (bounds[:, :2] - room)[:, None]) & (
            places[..., :2] <= (bounds[:, 2:] + room)[:, None]
        )
        assert inside.all(2)[alive].all()
    assert met or env_id in NOWHERE


@pytest.mark.parametrize("env_id", ["TagContinuous-v0", "SimpleTag-v0", "SimpleWorldComm-v0", "CollectTreasure-v0"])
def test_discs_are_where_the_agents_are(env_id):
    core = make_core(env_id, WORLDS, "cpu", seed=1, **SMALL[env_id])
    core.reset()
    for _ in range(3):
        core.step(core.sample_actions())
    places, pos = scene(core).places, core.world_state["pos"][:, : core.num_agents]
    assert places is not None
    torch.testing.assert_close(places[..., :2][core.alive], pos[core.alive])


def test_agents_on_cells_are_at_cell_centers():
    core = make_core("TagGridworld-v0", WORLDS, "cpu", seed=1, **SMALL["TagGridworld-v0"])
    core.reset()
    places = scene(core).places
    assert places is not None
    assert torch.equal(places[..., :2], core.world_state["cell"] + 0.5)


def test_agents_that_left_have_no_position():
    core = make_core("TagContinuous-v0", 2, "cpu", seed=1, **SMALL["TagContinuous-v0"])
    core.reset()
    core.alive[1, 4] = False
    places = scene(core).places
    assert places is not None
    assert places.isnan().nonzero().tolist() == [[1, 4, 0], [1, 4, 1], [1, 4, 2]]


def test_scenes_without_agents_or_with_invalid_ones():
    shapes = circles(torch.zeros(2, 3, 2), 0.5, RED)
    assert Scene(shapes, (0.0, 0.0, 1.0, 1.0)).places is None
    for wrong in (shapes[:1], shapes[..., :9], shapes.double(), shapes[0]):
        with pytest.raises(ValueError, match=r"agents: expected \(2, A, 10\) float32, got"):
            Scene(shapes, (0.0, 0.0, 1.0, 1.0), agents=wrong)
