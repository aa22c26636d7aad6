"""Drawing of CollectTreasure: people who carry gems to chests."""

from typing import TYPE_CHECKING

import torch

from gpu_envs.envs.games.scene import PAPER
from gpu_envs.envs.mpe.scene import Discs, scene
from gpu_envs.rendering.pen import Pen
from gpu_envs.rendering.scene import BLUE, DARK, GREEN, ORANGE, PURPLE, RED, Color, Scene

if TYPE_CHECKING:
    from gpu_envs.definition.environment import WorldView

__all__ = ["draw"]

_KINDS = (BLUE, ORANGE, GREEN, RED, PURPLE, (0.55, 0.34, 0.29))
_SHIRT, _SLEEVE = (0.78, 0.80, 0.83), (0.40, 0.43, 0.48)
_SKIN, _HAT, _HAT_EDGE = (0.96, 0.80, 0.62), (0.62, 0.44, 0.28), (0.42, 0.28, 0.16)
_GOLD, _IRON = (0.98, 0.80, 0.30), (0.26, 0.28, 0.32)
_COLLECTOR, _DEPOSIT, _TREASURE = 2.4, 2.0, 2.4
"""Drawn sizes [radii]: figures are larger than the discs that touch, which would be too small to tell apart."""
_GEM = 0.5
"""Size of a gem that is carried, in units of the collector."""
_SHAPE = (((-0.52, 0.3), (0.52, 0.3)), ((-0.52, 0.3), (0.0, -0.5)), ((0.52, 0.3), (0.0, -0.5)))
"""Sides of a gem."""


def _gem(pen: Pen, color: Color) -> list[torch.Tensor]:
    color = torch.as_tensor(color, device=pen.centers.device)
    edge, light = 0.5 * color, 0.45 * color + 0.55
    return [
        *[pen.line(start, end, 0.9, edge) for start, end in _SHAPE],
        *[pen.line(start, end, 0.58, color) for start, end in _SHAPE],
        pen.line((-0.34, 0.36), (0.3, 0.36), 0.2, light),
        pen.line((-0.34, 0.3), (-0.06, -0.28), 0.16, light),
    ]


def _chest(pen: Pen, color: Color) -> list[torch.Tensor]:
    color = torch.as_tensor(color, device=pen.centers.device)
    dark = 0.45 * color
    return [
        *[pen.disc(right, -0.62, 0.24, _IRON) for right in (-0.55, 0.55)],
        *[pen.disc(right, -0.62, 0.09, PAPER) for right in (-0.55, 0.55)],
        pen.line((-0.6, 0.5), (0.6, 0.5), 0.8, dark),
        pen.box(0.0, 0.0, (0.98, 0.56), dark),
        pen.box(0.0, 0.0, (0.9, 0.48), color),
        pen.line((-0.6, 0.52), (0.6, 0.52), 0.64, color),
        pen.box(0.0, 0.36, (0.98, 0.07), dark),
        pen.box(0.0, 0.36, (0.17, 0.16), _GOLD),
        pen.disc(0.0, 0.36, 0.07, DARK),
    ]


def draw(core: "WorldView", envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: gems, chests on wheels and people.

    Treasures are gems in the color of their type. Deposits are chests on wheels in the color of the type that they
    accept. Collectors are people with hats; one that carries a treasure holds the gem above the head, and has a shirt
    in its color.
    """
    config, count, state = core.config, core.num_agents, core.world_state
    kinds = torch.tensor([_SHIRT, *_KINDS], device=core.device)
    kind, holding = state["kind"][envs].long(), state["holding"][envs].long()

    def person(pen: Pen, color: Color) -> list[torch.Tensor]:
        full, empty = (Pen(pen.centers, carries, pen.scale) for carries in (holding > 0, holding == 0))
        gem = Pen(pen.at(0.0, 1.02), holding > 0, _GEM * pen.scale)
        return [
            *[pen.line((sign * 0.15, -0.3), (sign * 0.17, -0.56), 0.2, _IRON) for sign in (-1.0, 1.0)],
            *[full.line((sign * 0.28, 0.18), (sign * 0.5, 0.74), 0.17, _SLEEVE) for sign in (-1.0, 1.0)],
            *[empty.line((sign * 0.28, 0.16), (sign * 0.44, -0.22), 0.17, _SLEEVE) for sign in (-1.0, 1.0)],
            pen.box(0.0, 0.0, (0.34, 0.36), _SLEEVE),
            pen.box(0.0, 0.0, (0.27, 0.29), color),
            pen.disc(0.0, 0.44, 0.3, _HAT_EDGE),
            pen.disc(0.0, 0.44, 0.26, _SKIN),
            *[pen.disc(right, 0.4, 0.055, DARK) for right in (-0.1, 0.1)],
            pen.line((-0.18, 0.66), (0.18, 0.66), 0.24, _HAT),
            pen.line((-0.38, 0.56), (0.38, 0.56), 0.12, _HAT_EDGE),
            *_gem(gem, color),
            *[full.disc(sign * 0.5, 0.8, 0.1, _SKIN) for sign in (-1.0, 1.0)],
        ]

    collectors, deposits = slice(0, config.num_collectors), slice(config.num_collectors, count)
    return scene(
        core,
        envs,
        Discs(deposits, "deposit_size", kinds[1 : 1 + config.num_deposits], figure=_chest, enlarged=_DEPOSIT),
        Discs(slice(count, None), "treasure_size", kinds[kind], visible=kind > 0, figure=_gem, enlarged=_TREASURE),
        Discs(collectors, "collector_size", kinds[holding], figure=person, enlarged=_COLLECTOR),
    )
