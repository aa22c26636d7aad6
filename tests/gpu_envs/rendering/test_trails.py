"""Trails behind agents, and crosses where they have left."""

import numpy as np
import pytest
import torch
from small_environments import SMALL

from gpu_envs.errors import ConfigError
from gpu_envs.rendering.trails import TrailRenderer
from gpu_envs.runtime.factory import make_core
from warp_kernels.drawing import rasterizer

TAG = {"num_taggers": 1, "num_runners": 2, "grid_length": 10.0, "episode_length": 50}


def tag(autoreset: str = "disabled"):
    core = make_core("TagContinuous-v0", 2, "cpu", seed=0, autoreset=autoreset, **TAG)
    core.reset()
    return core


def look(film: TrailRenderer) -> torch.Tensor:
    """Return the visible shapes (n, 10) of world 0 that the core's scene does not have."""
    plain, scene = film.core.definition.draw(film.core, film.rows), film.scene()
    assert torch.equal(scene.shapes[:, : plain.ground], plain.shapes[:, : plain.ground])
    assert torch.equal(scene.shapes[:, scene.ground :], plain.shapes[:, plain.ground :])
    added = scene.shapes[0, plain.ground : scene.ground]
    assert (added[:, 0] == rasterizer.LINE).all()
    return added[added[:, 9] > 0]


def walk(film: TrailRenderer, *places: tuple[float, float]) -> torch.Tensor:
    """Put the first runner to places, one a step; what is seen at the last."""
    added = torch.empty(0, 10)
    for position in places:
        film.core.world_state["pos"][:, 1] = torch.tensor(position)
        added = look(film)
        film.core.elapsed_steps.add_(1)
    return added


def test_trail_follows_the_last_steps_and_fades():
    film = TrailRenderer(tag(), 0, 64, trails=2)
    added = walk(film, (1.0, 1.0), (2.0, 1.0), (4.0, 1.0), (4.0, 5.0))
    starts, ends = added[:, 1:3] - added[:, 3:5], added[:, 1:3] + added[:, 3:5]
    assert starts.tolist() == [[2.0, 1.0], [4.0, 1.0]]
    assert ends.tolist() == [[4.0, 1.0], [4.0, 5.0]]
    older, newer = added[:, 6:9]
    ground = torch.tensor(film.scene().background)
    assert (older - ground).norm() < (newer - ground).norm()
    assert added[0, 5] < added[1, 5]  # and is thinner there
    assert (added[:, 9] == 1.0).all()


def test_new_episode_starts_without_trails():
    film = TrailRenderer(tag(), 0, 64, trails=5)
    assert len(walk(film, (1.0, 1.0), (2.0, 1.0), (3.0, 1.0))) == 2
    film.core.reset()
    assert len(look(film)) == 0
    film.core.elapsed_steps.add_(1)
    assert len(walk(film, (5.0, 5.0))) == 1


def test_cross_marks_where_an_agent_left_until_the_episode_ends():
    film = TrailRenderer(tag(), 0, 64, trails=2)
    walk(film, (3.0, 4.0), (3.0, 4.0))
    film.core.alive[:, 1] = False
    for _ in range(6):
        added = walk(film, (9.0, 9.0))  # what becomes of its place does not matter
        torch.testing.assert_close(added[:, 1:3], torch.tensor([[3.0, 4.0], [3.0, 4.0]]))
    film.core.reset()
    assert len(look(film)) == 0


def test_trails_are_painted_under_the_agents():
    core = tag()
    film = TrailRenderer(core, 0, 100, trails=3)
    walk(film, (2.0, 5.0), (8.0, 5.0))
    row = film.frame()[0, 49].astype(int)
    plain = core.render_frames((0,), 100)[0, 49].astype(int)
    x = [round(100 * (0.04 + position / 10.0) / 1.08) for position in (5.0, 8.0)]
    assert np.abs(row - plain)[x[0]].max() > 20
    assert (row == plain)[x[1]].all()


def test_trails_are_absent_if_disabled_or_without_motion():
    core = tag()
    film = TrailRenderer(core, 0, 32, trails=0)
    for _ in range(3):
        core.step(core.sample_actions())
        np.testing.assert_array_equal(film.frame(), core.render_frames((0,), 32))
    poker = make_core("KuhnPoker-v0", 1, "cpu", seed=0, **SMALL["KuhnPoker-v0"])
    poker.reset()
    film = TrailRenderer(poker, 0, 32)
    for _ in range(3):
        np.testing.assert_array_equal(film.frame(), poker.render_frames((0,), 32))
        poker.step(poker.sample_actions())


def test_default_trail_is_half_a_second_long():
    assert TrailRenderer(tag(), 0, 32).trails == 10  # at 20 frames a second


def test_last_frame_of_an_episode_shows_its_agents():
    """All agents leave with the last runner; the last frame still shows them."""
    core = tag("next_step")
    core.world_state["pos"][:] = torch.tensor([[5.0, 5.0], [5.1, 5.0], [5.0, 5.1]])
    core.world_state["speed"][:] = 0.0
    core.step(torch.zeros((2, 3, 2), dtype=torch.int64))
    assert not core.alive.any()
    places = core.definition.draw(core, torch.arange(2)).places
    assert places is not None
    assert not places.isnan().any()


@pytest.mark.parametrize("trails", [-1, 1.5, True])
def test_invalid_lengths_raise(trails):
    with pytest.raises(ConfigError, match="trails: expected an int >= 0, got"):
        TrailRenderer(tag(), 0, 32, trails)
