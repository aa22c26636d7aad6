"""Bodies are whole in pictures, also at the limits of their positions, and messages leave the agents visible."""

import math

import pytest
import torch

from gpu_envs.runtime.factory import make_core

FEW = {"num_taggers": 1, "num_runners": 1}


def body_extents(core) -> torch.Tensor:
    """Return how far shapes above the ground reach out of the frame, (W, N); as a share of half its side."""
    scene = core.definition.draw(core, torch.arange(core.num_envs))
    bounds = torch.as_tensor(scene.bounds, dtype=torch.float32).expand(core.num_envs, 4)
    sides = bounds[:, 2:] - bounds[:, :2]
    half = (0.5 + scene.margin) * sides.amax(1, keepdim=True)
    middle = 0.5 * (bounds[:, :2] + bounds[:, 2:])
    shapes = scene.shapes[:, scene.ground :]
    reach = shapes[..., 3:5].abs() + 0.5 * shapes[..., 5:6]
    out = ((shapes[..., 1:3] - middle[:, None]).abs() + reach - half[:, None]).amax(-1) / half
    return out.masked_fill(shapes[..., 9] == 0.0, -1.0)


@pytest.mark.parametrize("position", [-2.4, 2.4])
def test_cart_and_pole_are_whole_at_the_ends_of_the_track(position):
    core = make_core("CartPole-v1", 1, "cpu", seed=0)
    core.reset()
    core.world_state["motion"][0] = torch.tensor([position, 0.0, math.copysign(0.21, position), 0.0])
    assert body_extents(core).max() <= 0.0


@pytest.mark.parametrize("env_id", ["MountainCar-v0", "MountainCarContinuous-v0"])
@pytest.mark.parametrize("position", [-1.2, 0.6])
def test_car_is_whole_at_both_ends_of_the_road(env_id, position):
    core = make_core(env_id, 1, "cpu", seed=0)
    core.reset()
    core.world_state["motion"][0, 0] = position
    car = body_extents(core)[:, 97:]  # the first shapes are the hill, which may end in the margin
    assert car.max() <= 0.0


@pytest.mark.parametrize("settings", [{}, FEW])
def test_agents_at_the_walls_are_whole_with_their_directions(settings):
    core = make_core("TagContinuous-v0", 1, "cpu", seed=0, **settings)
    core.alive.fill_(True)
    core.world_state["pos"][0] = core.get_params()["grid_length"][0]
    for angle in (0.0, math.pi / 2):
        core.world_state["direction"].fill_(angle)
        assert body_extents(core).max() <= 0.0


@pytest.mark.parametrize("rescaling", [True, False])
@pytest.mark.parametrize(
    "env_id", ["SimpleSpread-v0", "SimpleTag-v0", "SimpleWorldComm-v0", "SimpleReference-v0", "CollectTreasure-v0"]
)
def test_particles_far_from_the_arena_are_whole(env_id, rescaling):
    core = make_core(env_id, 32, "cpu", seed=0, dynamic_rescaling=rescaling)
    core.reset()
    core.world_state["pos"].uniform_(-1.0, 1.0).mul_(torch.logspace(0.0, 3.0, 32)[:, None, None])
    if "holding" in core.world_state:
        core.world_state["holding"].fill_(1)  # gems above the collectors
    assert body_extents(core).max() <= 1e-2  # the hairline around a body may lie on the edge


def test_messages_cover_no_agent_and_no_other_message():
    core = make_core("SimpleReference-v0", 4096, "cpu", seed=0)
    core.reset()
    core.world_state["pos"].uniform_(-1.3, 1.3)
    core.world_state["pos"][:1000, 1] = core.world_state["pos"][:1000, 0] + 0.2 * torch.randn(1000, 2)  # side by side
    scene = core.definition.draw(core, torch.arange(core.num_envs))
    first = scene.shapes.shape[1] - 2 * (3 + 2 * 10)  # both messages are last: a bubble, its edge, letters, a line
    bubbles = scene.shapes[:, first :: 3 + 2 * 10]
    assert bubbles.shape[1] == 2
    center, size, places = bubbles[..., 1:3], bubbles[..., 3:5], scene.places
    assert places is not None
    gap = ((places[:, None, :, :2] - center[:, :, None]).abs() - size[:, :, None]).clamp(min=0.0).norm(dim=-1)
    assert (gap >= places[:, None, :, 2]).all()
    assert ((center[:, 0] - center[:, 1]).abs() >= size[:, 0] + size[:, 1]).any(-1).all()


@pytest.mark.slow
def test_units_of_a_battle_are_whole_and_the_camera_is_close():
    core = make_core("SMAX-v0", 16, "cpu", seed=0, scenario="2s3z")
    core.reset()
    spread = torch.linspace(1.0, 16.0, 16)
    pos = core.world_state["pos"]
    pos.uniform_(-1.0, 1.0, generator=torch.Generator().manual_seed(0)).mul_(spread[:, None, None]).add_(16.0)
    pos[-1, :2] = torch.tensor([[0.0, 32.0], [32.0, 0.0]])  # at the border of the map
    assert body_extents(core)[:, 4:].max() <= 0.0  # the first shapes are the wall
    bounds = core.definition.draw(core, torch.arange(16)).bounds
    assert bounds[0].tolist() == [11.0, 11.0, 21.0, 21.0]
    assert (bounds[:, 2] - bounds[:, 0] <= 2.0 * spread + 5.0).logical_or(spread < 5.0).all()
