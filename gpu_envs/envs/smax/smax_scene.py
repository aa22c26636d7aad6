"""Drawing of SMAX: a battlefield seen from above, with units, their shots, health bars and the fallen."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from gpu_envs.rendering.scene import BLUE, DARK, GRAY, GREEN, RED, Color, Scene, boxes, circles, join, lines
from warp_kernels.smax.units import ATTACK_RANGE, HEALTH, NUM_MOVES, NUM_STATS, RADIUS

if TYPE_CHECKING:
    from gpu_envs.definition.environment import WorldView

__all__ = ["draw"]

_GRASS, _FURROW, _ROCK = (0.80, 0.84, 0.72), (0.74, 0.78, 0.65), (0.45, 0.42, 0.38)
_BLADE, _FLASH, _BONE = (0.25, 0.85, 0.98), (1.0, 0.80, 0.20), (0.93, 0.90, 0.78)
_FIELDS = 8  # in a row of the meadow
_CLOSE = 5.0
"""Half the side of the smallest frame [map unit]."""
_SCALE, _LARGEST = 1.05, 1.7
"""Drawn size of units, in their radii, in the smallest frame, and of those in large ones."""
_MELEE = 3.0  # units with a shorter range strike instead of shooting
_Point = tuple[float, float]


class _Body:
    """Helper that paints units around their positions (W, U, 2), ahead and to their left, in their radii."""

    def __init__(
        self, pos: torch.Tensor, front: torch.Tensor, radius: torch.Tensor, color: torch.Tensor, present: torch.Tensor
    ) -> None:
        self.pos, self.radius, self.present = pos, radius, present.float()
        self.front, self.side = front, torch.stack([-front[..., 1], front[..., 0]], -1)
        self.color, self.dark = color, 0.55 * color

    def at(self, ahead: float, left: float) -> torch.Tensor:
        return self.pos + self.radius[..., None] * (ahead * self.front + left * self.side)

    def disc(self, ahead: float, left: float, radius: float, color: Color) -> torch.Tensor:
        return circles(self.at(ahead, left), radius * self.radius, color, self.present)

    def line(self, start: _Point, end: _Point, width: float, color: Color) -> torch.Tensor:
        return lines(self.at(*start), self.at(*end), width * self.radius, color, self.present)

    def edged(self, start: _Point, end: _Point, width: float) -> list[torch.Tensor]:
        """Return a thick line in the color of the side, with a dark edge."""
        return [self.line(start, end, width + 0.24, self.dark), self.line(start, end, width, self.color)]

    def mirrored(self, start: _Point, end: _Point, width: float, color: Color) -> list[torch.Tensor]:
        """Return a line and its mirror image."""
        return [self.line((start[0], sign * start[1]), (end[0], sign * end[1]), width, color) for sign in (-1.0, 1.0)]


def _marine(body: _Body) -> list[torch.Tensor]:
    return [
        body.line((0.0, -0.5), (1.7, -0.5), 0.36, DARK),
        *body.edged((0.0, -0.5), (0.0, 0.5), 0.8),
        body.disc(0.12, 0.0, 0.5, body.dark),
        body.line((0.36, -0.2), (0.36, 0.2), 0.24, _FLASH),
    ]


def _marauder(body: _Body) -> list[torch.Tensor]:
    return [
        *body.mirrored((0.1, 0.8), (1.4, 0.8), 0.5, DARK),
        *body.edged((0.0, -0.5), (0.0, 0.5), 1.1),
        *body.mirrored((-0.1, 0.8), (0.2, 0.8), 0.8, body.dark),
        body.disc(0.2, 0.0, 0.36, body.dark),
        body.line((0.36, -0.14), (0.36, 0.14), 0.2, _FLASH),
    ]


def _stalker(body: _Body) -> list[torch.Tensor]:
    knees, feet = ((0.6, 0.75), (-0.6, 0.75)), ((1.0, 1.0), (-1.0, 1.0))
    return [
        *[leg for knee in knees for leg in body.mirrored((0.0, 0.0), knee, 0.3, body.dark)],
        *[leg for knee, foot in zip(knees, feet, strict=True) for leg in body.mirrored(knee, foot, 0.2, DARK)],
        *body.edged((-0.25, 0.0), (0.2, 0.0), 0.95),
        body.disc(0.25, 0.0, 0.32, DARK),
        body.disc(0.25, 0.0, 0.22, _BLADE),
    ]


def _zealot(body: _Body) -> list[torch.Tensor]:
    return [
        *body.mirrored((0.2, 0.75), (1.7, 0.5), 0.26, _BLADE),
        *body.edged((0.0, -0.5), (0.0, 0.5), 0.8),
        *[body.disc(0.0, left, 0.24, _FLASH) for left in (-0.75, 0.75)],
        body.line((-0.5, 0.0), (0.1, 0.0), 0.44, body.dark),
        body.line((-0.3, 0.0), (0.3, 0.0), 0.16, _FLASH),
    ]


def _zergling(body: _Body) -> list[torch.Tensor]:
    return [
        body.line((-0.6, 0.0), (-1.6, 0.0), 0.18, body.dark),
        *body.mirrored((-0.1, 0.2), (-1.0, 0.95), 0.34, body.dark),
        *body.mirrored((0.3, 0.2), (0.8, 0.9), 0.22, body.dark),
        *body.mirrored((0.8, 0.9), (1.6, 0.45), 0.2, _BONE),
        *body.edged((-0.6, 0.0), (0.5, 0.0), 0.6),
        body.disc(0.65, -0.15, 0.1, _FLASH),
        body.disc(0.65, 0.15, 0.1, _FLASH),
    ]


def _hydralisk(body: _Body) -> list[torch.Tensor]:
    return [
        body.line((-0.9, 0.4), (-1.7, 0.0), 0.3, body.dark),
        *body.edged((-0.1, 0.0), (-0.9, 0.4), 0.5),
        *body.mirrored((0.0, 0.5), (0.7, 1.1), 0.24, body.dark),
        *body.mirrored((0.7, 1.1), (1.5, 0.7), 0.2, _BONE),
        body.disc(0.05, 0.0, 0.62, body.color),
        *body.mirrored((0.75, 0.0), (-0.35, 0.75), 0.34, body.dark),
        body.disc(0.4, 0.0, 0.2, _BONE),
    ]


_TYPES: tuple[Callable[[_Body], list[torch.Tensor]], ...] = (
    _marine,
    _marauder,
    _stalker,
    _zealot,
    _zergling,
    _hydralisk,
)
"""Drawings of the default unit types; further types repeat them."""


def _ground(width: float, height: float, count: int, device: torch.device) -> torch.Tensor:
    """Return a meadow with furrows and a wall around it, (W, N, 10)."""
    middle = torch.tensor([[0.5 * width, 0.5 * height]], device=device)
    corners = torch.tensor([[0.0, 0.0], [width, 0.0], [width, height], [0.0, height]], device=device)
    corners = corners[None].expand(count, -1, -1)
    walls = corners, corners.roll(-1, 1)
    share = torch.linspace(0.0, 1.0, _FIELDS + 1, device=device)[1:-1]
    low, size = torch.zeros_like(share), max(width, height)
    rows = [torch.stack([x * width + low, share * height], -1)[None].expand(count, -1, -1) for x in (0.0, 1.0)]
    columns = [torch.stack([share * width, y * height + low], -1)[None].expand(count, -1, -1) for y in (0.0, 1.0)]
    return join(
        boxes(middle.expand(count, 1, 2), middle, _GRASS),
        lines(rows[0], rows[1], 0.12, _FURROW),
        lines(columns[0], columns[1], 0.12, _FURROW),
        lines(*walls, 0.03 * size, _ROCK),
        lines(*walls, 0.012 * size, GRAY),
    )


def _half_frame(pos: torch.Tensor, width: float, height: float) -> torch.Tensor:
    """Return half the side of the frame around the middle of the map that shows all units, (W,)."""
    far = (pos - 0.5 * torch.tensor([width, height], device=pos.device)).abs().amax((1, 2))
    largest = 0.5 * max(width, height)
    # In whole units, so that the camera is calm; beyond the map is room for the bar of a unit at its border.
    return (far + 1.5).ceil().clamp(min(_CLOSE, largest), largest + 1.0)


def draw(core: "WorldView", envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds; the camera zooms in as far as all units are visible.

    Allies blue and enemies red on a meadow with a wall around it. Every unit type has its shape: marines have a rifle,
    marauders two launchers, stalkers four legs and an eye, zealots two shining blades, zerglings and hydralisks claws.
    A bar above a unit shows its health, a cross a fallen one.
    """
    state = {name: core.world_state[name][envs] for name in ("pos", "health", "kind", "move", "attack", "stats")}
    params, config, device = core.get_params(envs), core.config, core.device
    width, height = float(params["map_width"].max()), float(params["map_height"].max())
    allies, pos = len(config.units.allies), state["pos"]
    worlds, units = pos.shape[:2]
    kind = state["kind"].long()
    stats = state["stats"].view(worlds, -1, NUM_STATS).gather(1, kind[..., None].expand(-1, -1, NUM_STATS))
    half = _half_frame(pos, width, height)
    zoom = (_SCALE * half / _CLOSE).clamp(_SCALE, _LARGEST)[:, None]
    radius, alive = zoom * stats[..., RADIUS].clamp_min(0.2), state["health"] > 0.0
    opacity, index = alive.float(), torch.arange(units, device=device)
    is_ally = index < allies

    ahead = state["attack"].long() - NUM_MOVES
    victim = torch.where(is_ally, allies + ahead, allies - 1 - ahead).clamp(0, units - 1)
    goal = pos.gather(1, victim[..., None].expand(-1, -1, 2))
    way = goal - pos
    reach = way.norm(dim=-1)
    attacks = (ahead >= 0) & alive & (reach < stats[..., ATTACK_RANGE] + 1.0)
    home = torch.stack([torch.where(is_ally, 1.0, -1.0), torch.zeros(units, device=device)], -1)
    moves = state["move"].norm(dim=-1, keepdim=True)
    front = torch.where(moves > 1e-3, state["move"] / moves.clamp_min(1e-6), home)
    front = torch.where(attacks[..., None], way / reach.clamp_min(1e-6)[..., None], front)
    colors = torch.where(is_ally[:, None], *(torch.tensor(paint, device=device) for paint in (BLUE, RED)))

    size, all_units = radius[..., None], _Body(pos, front, radius, colors, alive)
    has_gun = (stats[..., ATTACK_RANGE] > _MELEE) & alive
    shoots, strikes = (attacks & has_gun).float(), (attacks & ~has_gun).float()
    fallen, cross = 1.0 - opacity, 0.6 * size
    tall, wide = torch.tensor([0.0, 1.0], device=device), torch.tensor([1.0, 0.0], device=device)
    share = (state["health"] / stats[..., HEALTH]).clamp(0.0, 1.0)
    left = pos + size * (1.4 * tall - 0.8 * wide)
    muzzle = all_units.at(1.5, 0.0)
    cuts = [0.55 * size * (sign * all_units.side - front) for sign in (-1.0, 1.0)]
    ground = _ground(width, height, worlds, device)
    present = {*config.units.allies, *config.units.enemies}
    if core.get_params()["smacv2_unit_type_generation"].any():
        present = {*range(len(config.unit_type_names))}
    scene = join(
        ground,
        lines(pos - cross * (tall + wide), pos + cross * (tall + wide), 0.25 * radius, DARK, fallen),
        lines(pos - cross * (tall - wide), pos + cross * (tall - wide), 0.25 * radius, DARK, fallen),
        *[
            part
            for shape in sorted({shape % len(_TYPES) for shape in present})
            for part in _TYPES[shape](_Body(pos, front, radius, colors, alive & (kind % len(_TYPES) == shape)))
        ],
        lines(muzzle, goal, 0.15 * radius, _FLASH, shoots),
        circles(muzzle, 0.28 * radius, _FLASH, shoots),
        circles(goal, 0.3 * radius, _FLASH, shoots),
        *(lines(goal + cut, goal - cut, 0.14 * radius, _FLASH, strikes) for cut in cuts),
        lines(left, left + 1.6 * size * wide, 0.36 * radius, DARK, opacity),
        lines(left, left + 1.6 * size * wide * share[..., None], 0.22 * radius, GREEN, opacity),
    )
    agents = circles(pos, radius, colors)[:, : core.num_agents]  # the dead, too: their agents stay in the game
    middle = 0.5 * torch.tensor([width, height], device=device)
    bounds = torch.cat([middle - half[:, None], middle + half[:, None]], 1)
    return Scene(scene, bounds, 0.05, agents=agents, ground=ground.shape[1])
