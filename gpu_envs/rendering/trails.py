"""Frames of worlds as they play: behind every agent a trail that fades, and a cross where one has left the game."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch

from gpu_envs.checks import check_frame
from gpu_envs.config import check_value
from gpu_envs.core import Core
from gpu_envs.rendering import Scene, join, lines, rasterise

TRAIL = 0.5
"""Length of a trail where none is given [s], at the environment's own pace."""


class Film:
    """The pictures of some worlds, one after another. Ask for one per step.

    ::

        film = Film(core, envs=(0, 1))
        core.reset()
        while playing:
            frames.append(film.frame())
            core.step(...)

    Trails go by :attr:`gpu_envs.rendering.Scene.places`, so there are none of players who sit still or have no place,
    and a new episode begins without.

    Args:
        core: Whose worlds.
        envs: Their indices, or one.
        size: Side of a frame [pixels].
        trails: Steps that a trail goes back, 0 for none; None: as many as make half a second.

    Raises:
        ConfigError: An index, a size or a number of steps that cannot be.
    """

    def __init__(
        self, core: Core, envs: int | Sequence[int] = (0,), size: int = 256, trails: int | None = None
    ) -> None:
        self.core = core
        worlds, self.size = check_frame(core.id, envs, core.num_envs, size)
        self.rows = torch.as_tensor(worlds, device=core.device)
        usual = max(1, round(TRAIL * core.render_fps))
        self.trails = usual if trails is None else check_value(core.id, "trails", trails, int, low=0)
        shape = (len(self.rows), core.num_agents)
        self._episode = torch.full((len(self.rows),), -1, dtype=torch.int32, device=core.device)
        self._past = torch.full((*shape, self.trails + 1, 2), torch.nan, device=core.device)  # newest first
        self._left = torch.full((*shape, 2), torch.nan, device=core.device)  # where agents have left the game
        self._radius = torch.zeros(shape, device=core.device)

    def frame(self) -> np.ndarray:
        """The worlds as they stand: (W, size, size, 3) uint8."""
        return rasterise(self.scene(), self.size).cpu().numpy()

    def scene(self) -> Scene:
        """The same as a scene. Where frames are left out, ask for this in their place, so that trails are whole."""
        scene = self.core.definition.draw(self.core, self.rows)
        if self.trails == 0 or scene.agents is None:
            return scene
        self._follow(scene.places)
        under, over = scene.shapes[:, : scene.ground], scene.shapes[:, scene.ground :]
        trails = self._trails(scene)
        return dataclasses.replace(scene, shapes=join(under, trails, over), ground=scene.ground + trails.shape[1])

    def _follow(self, places: torch.Tensor) -> None:
        """Take in where the agents are now."""
        episode, steps = self.core.episodes[self.rows], self.core.steps[self.rows]
        fresh = ((episode != self._episode) | (steps == 0))[:, None, None]
        self._episode = episode
        now, before = places[..., :2], self._past[:, :, 0]
        self._left = torch.where(self._left.isnan() & now.isnan(), before, self._left).masked_fill(fresh, torch.nan)
        self._radius = torch.where(places[..., 2].isnan(), self._radius, places[..., 2])
        past = self._past[:, :, :-1].masked_fill(fresh[..., None], torch.nan)
        self._past = torch.cat([now[:, :, None], past], 2)

    def _trails(self, scene: Scene) -> torch.Tensor:
        """Trails, the oldest parts first, and crosses. Opaque, so that parts that overlap show no beads."""
        starts, ends = (part.flip(2).transpose(1, 2) for part in (self._past[:, :, 1:], self._past[:, :, :-1]))
        moved = (starts - ends).norm(dim=-1) > 0.0  # False where one of them is NaN too
        worlds, steps, _ = moved.shape
        share = (torch.arange(steps, device=moved.device) + 1.0)[:, None] / steps  # 1 at the agent
        ground = torch.tensor(tuple(scene.background), device=moved.device)
        assert scene.agents is not None
        colour = scene.agents[..., 6:9] - ground
        width = self._radius[:, None] * (0.2 + 0.6 * share)
        tinted = ground + colour[:, None] * (0.5 * share[..., None])
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
        faint = ground + 0.55 * colour
        crosses = [lines(middle - a, middle + a, 0.5 * self._radius, faint, gone) for a in (arm, turned)]
        return join(trails, *crosses)
