"""Drawing of SMAX: a battlefield seen from above, with soldiers, their shots, health bars and the fallen."""

from typing import TYPE_CHECKING

import torch

from gpu_envs.rendering.scene import BLUE, DARK, GRAY, GREEN, RED, Scene, boxes, circles, join, lines, rings
from warp_kernels.smax.units import ATTACK_RANGE, HEALTH, NUM_MOVES, NUM_STATS, RADIUS

if TYPE_CHECKING:
    from gpu_envs.definition.environment import WorldView

__all__ = ["draw"]

_GRASS, _MEADOW, _ROCK = (0.80, 0.84, 0.72), (0.76, 0.80, 0.67), (0.45, 0.42, 0.38)
_STEEL, _BLADE, _FLASH = (0.36, 0.38, 0.42), (0.25, 0.75, 0.95), (1.0, 0.80, 0.20)
_SCALE = 1.8  # of the units, which are small on their map
_MELEE = 3.0  # units with a shorter range have blades instead of a gun


def _ground(width: float, height: float, count: int, device: torch.device) -> torch.Tensor:
    """Return meadows and a wall around them, (W, N, 10)."""
    columns, rows = 8, 8
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    fields = torch.stack([(x.flatten() + 0.5) * width / columns, (y.flatten() + 0.5) * height / rows], -1)
    even = ((x + y) % 2).flatten().float()
    corners = torch.tensor([[0.0, 0.0], [width, 0.0], [width, height], [0.0, height]], device=device)
    corners = corners[None].expand(count, -1, -1)
    walls = corners, corners.roll(-1, 1)
    fields, size = fields.to(device)[None].expand(count, -1, -1), max(width, height)
    half = torch.tensor([0.5 * width / columns, 0.5 * height / rows], device=device)
    return join(
        boxes(fields, half, _GRASS),
        boxes(fields, half, _MEADOW, even.to(device)),
        lines(*walls, 0.03 * size, _ROCK),
        lines(*walls, 0.012 * size, GRAY),
    )


def draw(core: "WorldView", envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    Allies blue and enemies red on a meadow with a wall around it. Units with a long range carry a gun and fire at their
    targets; others have two blades. A bar above a unit shows its health, a gray cross a fallen one.
    """
    state = {name: core.world_state[name][envs] for name in ("pos", "health", "kind", "move", "attack", "stats")}
    params = core.get_params(envs)
    width, height = float(params["map_width"].max()), float(params["map_height"].max())
    allies, pos = len(core.config.units.allies), state["pos"]
    worlds, units = pos.shape[:2]
    stats = state["stats"].view(worlds, -1, NUM_STATS).gather(1, state["kind"].long()[..., None].expand(-1, -1, 7))
    radius, alive = _SCALE * stats[..., RADIUS].clamp_min(0.2), state["health"] > 0.0
    seen, index = alive.float(), torch.arange(units, device=core.device)
    is_ally = index < allies

    ahead = state["attack"].long() - NUM_MOVES
    victim = torch.where(is_ally, allies + ahead, allies - 1 - ahead).clamp(0, units - 1)
    goal = pos.gather(1, victim[..., None].expand(-1, -1, 2))
    way = goal - pos
    reach = way.norm(dim=-1)
    attacks = (ahead >= 0) & alive & (reach < stats[..., ATTACK_RANGE] + 1.0)
    home = torch.stack([torch.where(is_ally, 1.0, -1.0), torch.zeros(units, device=core.device)], -1)
    moves = state["move"].norm(dim=-1, keepdim=True)
    front = torch.where(moves > 1e-3, state["move"] / moves.clamp_min(1e-6), home)
    front = torch.where(attacks[..., None], way / reach.clamp_min(1e-6)[..., None], front)
    side = torch.stack([-front[..., 1], front[..., 0]], -1)
    size = radius[..., None]
    colors = torch.where(is_ally[:, None], *(torch.tensor(each, device=core.device) for each in (BLUE, RED)))
    dark = 0.55 * colors

    has_gun = (stats[..., ATTACK_RANGE] > _MELEE) & alive
    gun, blade = has_gun.float(), (alive & ~has_gun).float()
    shoots, strikes = (attacks & has_gun).float(), (attacks & ~has_gun).float()
    bodies = circles(pos, radius, colors, seen)
    fallen, cross = 1.0 - seen, 0.7 * size
    tall, wide = torch.tensor([0.0, 1.0], device=core.device), torch.tensor([1.0, 0.0], device=core.device)
    share = (state["health"] / stats[..., HEALTH]).clamp(0.0, 1.0)
    bar = pos + size * 1.55 * tall
    left = bar - 0.9 * size * wide
    muzzle = pos + size * (1.45 * front - 0.45 * side)
    blades = [(pos + size * sign * 0.9 * side, pos + size * (sign * 0.75 * side + 1.6 * front)) for sign in (-1.0, 1.0)]
    cuts = [0.7 * size * (sign * side - front) for sign in (-1.0, 1.0)]
    visor = pos + size * (0.4 * front - 0.25 * side), pos + size * (0.4 * front + 0.25 * side)
    ground = _ground(width, height, worlds, core.device)
    scene = join(
        ground,
        lines(pos - cross * (tall + wide), pos + cross * (tall + wide), 0.25 * radius, _STEEL, fallen),
        lines(pos - cross * (tall - wide), pos + cross * (tall - wide), 0.25 * radius, _STEEL, fallen),
        *(lines(*each, 0.28 * radius, _BLADE, blade) for each in blades),
        lines(pos - size * 0.45 * side, muzzle, 0.42 * radius, DARK, gun),
        bodies,
        rings(pos, radius, dark, 0.18 * radius, seen),
        *(circles(pos + size * sign * 0.8 * side, 0.42 * radius, dark, seen) for sign in (-1.0, 1.0)),  # shoulders
        lines(*visor, 0.2 * radius, DARK, seen),
        lines(muzzle, goal, 0.13 * radius, _FLASH, shoots),
        circles(muzzle, 0.38 * radius, _FLASH, shoots),
        circles(goal, 0.55 * radius, _FLASH, shoots),
        *(lines(goal + cut, goal - cut, 0.2 * radius, _FLASH, strikes) for cut in cuts),
        lines(left, left + 1.8 * size * wide, 0.42 * radius, DARK, seen),
        lines(left, left + 1.8 * size * wide * share[..., None], 0.26 * radius, GREEN, seen),
    )
    agents = circles(pos, radius, colors)[:, : core.num_agents]  # the dead, too: their agents stay in the game
    return Scene(scene, (0.0, 0.0, width, height), 0.05, agents=agents, ground=ground.shape[1])
