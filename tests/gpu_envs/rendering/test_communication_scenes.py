"""Images of MPE's communication scenarios: visible agents, sizes of discs, letters of words."""

import numpy as np
import pytest
import torch

from gpu_envs.envs.mpe.scene import VIEW, Discs, Word, scene
from gpu_envs.rendering.scene import rasterize
from gpu_envs.runtime.factory import make_core

PLACES = ("SimpleReference-v0", "SimpleSpeakerListener-v0", "SimpleWorldComm-v0")


def area(frame, color):
    """Return the number of pixels of approximately one color."""
    rgb = np.array([round(255 * part) for part in color])
    return int((np.abs(frame.astype(int) - rgb).max(-1) < 4).sum())


@pytest.mark.parametrize("rescaling", [True, False])
def test_camera_zooms_out(rescaling):
    core = make_core("SimpleSpeakerListener-v0", 3, "cpu", seed=0, dynamic_rescaling=rescaling)
    core.reset()
    gray = (0.66, 0.68, 0.71)
    core.world_state["pos"].zero_()
    core.world_state["pos"][:, 0, 0] = torch.tensor([0.0, 1.0, 2.6])  # the speaker; the listener stays in the middle
    near, edge, far = (area(frame, gray) for frame in core.render_frames((0, 1, 2), 400))
    assert near < edge  # uncovered by the listener
    assert edge == pytest.approx(np.pi * (0.075 / (2.0 * VIEW) * 400) ** 2, rel=0.25)
    zoom = 1.04 * 2.675 / VIEW
    assert far == pytest.approx(edge / zoom**2 if rescaling else edge, rel=0.25)


def test_letter_opacity_equals_loudness():
    core = make_core("SimpleWorldComm-v0", 3, "cpu", seed=0, continuous_actions=True)
    core.world_state["pos"].fill_(0.9)
    core.world_state["said"].copy_(torch.tensor([[0.0, 0, 0, 0], [1, 0, 0, 0], [0.5, 1, 1, 1]])[:, None])
    core.alive.fill_(True)
    drawn = rasterize(core.definition.draw(core, torch.arange(3)), 500).numpy()
    dark = [int((frame.max(-1) < 90).sum()) for frame in drawn]
    assert dark[0] < dark[1] < dark[2]


@pytest.mark.parametrize("row", [0.0, 30.0, -30.0])
def test_messages_stay_in_the_frame(row):
    core = make_core("SimpleReference-v0", 1, "cpu", seed=0)
    core.reset()
    core.world_state["pos"].fill_(row)
    everyone, word = Discs(slice(0, 5), 0.05, (0.0, 0.0, 0.0)), Word(0, core.world_state["said"][:, 0])
    silent, picture = (scene(core, torch.tensor([0]), *parts) for parts in ((everyone,), (everyone, word)))
    bubble = picture.shapes[0, silent.shapes.shape[1]]
    assert (bubble[1:3].abs() + bubble[3:5] <= picture.bounds[0, 3] + 1e-4).all()
    assert (bubble[3:5] > 0).all()


@pytest.mark.parametrize("env_id", PLACES)
def test_distant_discs_are_visible(env_id):
    few = {"num_adversaries": 1, "num_good": 1, "num_obstacles": 0, "num_food": 1, "num_forests": 0}
    core = make_core(env_id, 2, "cpu", seed=0, **(few if env_id == "SimpleWorldComm-v0" else {}))
    core.reset()
    core.world_state["pos"][1] *= 1000.0
    frames = core.render_frames((0, 1), 128)
    assert all(len(np.unique(frame)) > 3 for frame in frames)


def test_crypto_scene_shows_goal_key_and_messages():
    core = make_core("SimpleCrypto-v0", 1, "cpu", seed=0)
    core.reset()
    state, frames = core.world_state, []
    for goal, key, letter in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)):
        state["goal"].fill_(goal)
        state["key"].fill_(key)
        state["said"].zero_()
        state["said"][..., letter] = 1.0
        frames.append(core.render_frames((0,), 128)[0].tobytes())
    assert len(set(frames)) == 4
