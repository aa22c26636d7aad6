"""The C bounds of the benchmarks do the core's work: same starts, observations, rewards, flags and returns."""

import pytest
import torch

from benchmarks.hardware.bounds import NO_EXITS, SimpleTagBound, TagContinuousBound, compiler
from gpu_envs.runtime.factory import make_core

pytestmark = [pytest.mark.slow, pytest.mark.skipif(compiler() is None, reason="gcc is not installed")]
TOLERANCE = 1e-5


def play(core, bound, steps, shared):
    """Play both with the core's random actions, its worlds laid into the bound before every step.

    Flags must be equal. Yields the core's info, the bound's tensors and where agents are done.
    """
    theirs = bound.tensors
    core.reset(1)  # the key of the bounds' random starts
    assert largest(core.obs - theirs["obs"]) < TOLERANCE, "different starts"
    for _ in range(steps):
        for name in shared:
            theirs[name].copy_(core.world_state[name])
        action = core.sample_actions().clone()
        bound.step(action)
        *_, info = core.step(action)
        for name in ("terminated", "truncated", "alive", "valid"):
            assert torch.equal(getattr(core, name), theirs[name]), name
        done = core.terminated | core.truncated
        assert torch.equal(info["episode_length"][done], theirs["episode_length"][done])
        yield info, theirs, done


def largest(error):
    return float(error.abs().max()) if error.numel() else 0.0


def test_simple_tag():
    """Contacts, tags, walls and ten autoresets."""
    core = make_core("SimpleTag-v0", 512, "cpu", reuse_buffers=True)
    tags = ends = 0
    for info, theirs, done in play(core, SimpleTagBound(512, 2), 260, ("pos", "vel")):
        assert largest(core.obs - theirs["obs"]) < TOLERANCE
        assert largest(core.reward - theirs["reward"]) < TOLERANCE
        assert largest((info["final_obs"] - theirs["final_obs"])[done]) < TOLERANCE
        assert (
            largest((info["episode_return"] - theirs["episode_return"])[done]) < 25 * TOLERANCE
        )  # a sum of 25 rewards
        tags += int((core.reward > 0).sum())
        ends += int(done.sum())
    assert tags > 1000
    assert ends == 10 * 512 * 4


@pytest.mark.optimized  # for its many steps
def test_tag_continuous():
    """More than one episode: neighbors, tags, walls, the end of the game and its autoreset."""
    core = make_core("TagContinuous-v0", 8, "cpu", reuse_buffers=True, **NO_EXITS)
    assert core.num_agents == TagContinuousBound.agents
    shared = ("pos", "speed", "acceleration", "direction")
    tags = ends = turned = rows = 0
    for info, theirs, done in play(core, TagContinuousBound(8, 2), 520, shared):
        turned += compare_neighbours(core.obs, theirs["obs"])
        turned += compare_neighbours(info["final_obs"][done], theirs["final_obs"][done])
        rows += 8 * TagContinuousBound.agents
        assert largest(core.reward - theirs["reward"]) < TOLERANCE
        assert largest((info["episode_return"] - theirs["episode_return"])[done]) < TOLERANCE
        tags += int((core.reward > 1.0).sum())
        ends += int(done.sum())
    assert turned < 1e-4 * rows
    assert tags > 1000
    assert ends == 8 * TagContinuousBound.agents


def compare_neighbours(mine, theirs):
    """Compare rows and count those whose neighbors are equally far within rounding and change places."""
    differs = (mine - theirs).abs().amax(-1) > TOLERANCE
    for left, right in zip(mine[differs], theirs[differs], strict=True):
        blocks = (row[:-1].view(7, TagContinuousBound.nearest) for row in (left, right))
        a, b = (torch.hypot(block[0], block[1]) for block in blocks)
        assert largest(a - b) < TOLERANCE
    return int(differs.sum())
