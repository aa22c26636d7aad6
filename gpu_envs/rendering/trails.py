"""Frames with a fading trail of every agent, and a cross where an agent left the game."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch

from gpu_envs.definition.environment import WorldView
from gpu_envs.rendering.scene import Scene, join, lines, rasterize
from gpu_envs.utils.settings import check_value
from gpu_envs.utils.tensor_checks import check_frame

TRAIL = 0.5
"""Default length of a trail [s] at the environment's frame rate."""


class TrailRenderer:
    """Render worlds with trails, one frame per step.

    ::

        renderer = TrailRenderer(core, envs=(0, 1))
        core.reset()
        while playing:
            frames.append(renderer.frame())
            core.step(...)

    Trails follow :attr:`gpu_envs.rendering.scene.Scene.places`. Players without a position have none, and a new episode
    starts without trails.

    Args:
        core: Core of the worlds.
        envs: Index or indices of the worlds.
        size: Side of a frame [pixels].
        trails: Length of a trail [steps], 0 for none; None is half a second.

    Raises:
        ConfigError: An index, the size or the number of steps is invalid.
    """

    def __init__(
        self, core: WorldView, envs: int | Sequence[int] = (0,), size: int = 256, trails: int | None = None
    ) -> None:
        self.core = core
        self.size: int
        worlds, self.size = check_frame(core.id, envs, core.num_envs, size)
        self.rows: torch.Tensor = torch.as_tensor(worlds, device=core.device)
        default = max(1, round(TRAIL * core.render_fps))
        self.trails: int = default if trails is None else check_value(core.id, "trails", trails, int, ge=0)
        shape = (len(self.rows), core.num_agents)
        self._episode = torch.full((len(self.rows),), -1, dtype=torch.int32, device=core.device)
        self._past = torch.full((*shape, self.trails + 1, 2), torch.nan, device=core.device)  # newest first
        self._left = torch.full((*shape, 2), torch.nan, device=core.device)  # where agents have left the game
        self._radius = torch.zeros(shape, device=core.device)

    def frame(self) -> np.ndarray:
        """Return frames (W, size, size, 3) uint8 of the current state; those of a host environment are its own."""
        if self.core.definition.draw is None:
            return self.core.render_frames(self.rows.tolist(), self.size)
        return rasterize(self.scene(), self.size).cpu().numpy()

    def skip(self) -> None:
        """Follow the agents in a step without a frame, so that trails have no gaps."""
        if self.core.definition.draw is not None:
            self.scene()

    def scene(self) -> Scene:
        """Return the scene of the current state, with trails."""
        scene = self.core.definition.draw(self.core, self.rows)
        if self.trails == 0 or scene.agents is None:
            return scene
        self._follow(scene.places)
        under, over = scene.shapes[:, : scene.ground], scene.shapes[:, scene.ground :]
        trails = self._trails(scene)
        return dataclasses.replace(scene, shapes=join(under, trails, over), ground=scene.ground + trails.shape[1])

    def _follow(self, places: torch.Tensor) -> None:
        """Update the trails with the current positions."""
        episode, steps = self.core.episode_index[self.rows], self.core.elapsed_steps[self.rows]
        fresh = ((episode != self._episode) | (steps == 0))[:, None, None]
        self._episode = episode
        now, previous = places[..., :2], self._past[:, :, 0]
        self._left = torch.where(self._left.isnan() & now.isnan(), previous, self._left).masked_fill(fresh, torch.nan)
        self._radius = torch.where(places[..., 2].isnan(), self._radius, places[..., 2])
        past = self._past[:, :, :-1].masked_fill(fresh[..., None], torch.nan)
        self._past = torch.cat([now[:, :, None], past], 2)

    def _trails(self, scene: Scene) -> torch.Tensor:
        """Return trails, oldest parts first, and crosses; opaque, so that overlaps are not visible."""
        starts, ends = (part.flip(2).transpose(1, 2) for part in (self._past[:, :, 1:], self._past[:, :, :-1]))
        moved = (starts - ends).norm(dim=-1) > 0.0  # False if one of them is NaN
        worlds, steps, _ = moved.shape
        share = (torch.arange(steps, device=moved.device) + 1.0)[:, None] / steps  # 1 at the agent
        ground = torch.tensor(tuple(scene.background), device=moved.device)
        assert scene.agents is not None
        color = scene.agents[..., 6:9] - ground
        width = self._radius[:, None] * (0.2 + 0.6 * share)
        tinted = ground + color[:, None] * (0.5 * share[..., None])
        trails = lines(
            starts.nan_to_num().reshape(worlds, -1, 2),
            ends.nan_to_num().reshape(worlds, -1, 2),
            width.reshape(worlds, -1),
            tinted.reshape(worlds, -1, 3),
            moved.reshape(worlds, -1),
        )
        gone, middle = ~self._left.isnan().any(-1), self._left.nan_to_num()
        arm = self._radius[..., None] * torch.tensor([1.0, 1.0], device=moved.device)
        turned = arm * torch.tensor([1.0, -1.0], device=moved.device)
        faint = ground + 0.55 * color
        crosses = [lines(middle - a, middle + a, 0.5 * self._radius, faint, gone) for a in (arm, turned)]
        return join(trails, *crosses)
