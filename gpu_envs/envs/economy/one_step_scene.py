"""Drawing of OneStepEconomy-v0: a planner with the tax table, and the labor, income and coin of every worker."""

from typing import TYPE_CHECKING

import torch

from gpu_envs.envs.games.scene import GOLD, PAPER
from gpu_envs.envs.games.seven_segment import numbers
from gpu_envs.rendering.pen import Pen
from gpu_envs.rendering.scene import (
    BLUE,
    DARK,
    GRAY,
    GREEN,
    ORANGE,
    PURPLE,
    Color,
    Scene,
    boxes,
    join,
)

if TYPE_CHECKING:
    from gpu_envs.definition.environment import WorldView

__all__ = ["draw"]

_SKIN, _EMPTY = (0.96, 0.80, 0.62), (0.93, 0.93, 0.94)
_WIDTH, _HEIGHT = 12.0, 12.0
_TABLE = 2.6
"""Left side of the tax table."""
_TALL = 3.4
"""Height of a bar that is full."""
_TAXES, _WORK = 7.5, 2.8
"""Heights of the feet of the bars."""


def _person(pen: Pen, color: Color) -> list[torch.Tensor]:
    """Return persons: head and body, 1.7 high."""
    return [
        pen.line((-0.2, -0.45), (0.2, -0.45), 0.7, color),
        pen.box(0.0, -0.65, (0.55, 0.2), color),
        pen.disc(0.0, 0.3, 0.42, _SKIN),
        pen.ring(0.0, 0.3, 0.42, DARK, 0.07),
        pen.disc(-0.14, 0.36, 0.06, DARK),
        pen.disc(0.14, 0.36, 0.06, DARK),
    ]


def _crown(pen: Pen) -> list[torch.Tensor]:
    """Return the crown of a person."""
    points = [(-0.36, 0.95), (0.0, 1.02), (0.36, 0.95)]
    return [
        pen.box(0.0, 0.68, (0.38, 0.1), GOLD),
        *[pen.line((0.8 * x, 0.68), (x, y), 0.16, GOLD) for x, y in points],
        *[pen.disc(x, y, 0.09, ORANGE) for x, y in points],
    ]


def _percent(pen: Pen) -> list[torch.Tensor]:
    return [
        pen.line((-0.2, -0.3), (0.2, 0.3), 0.1, DARK),
        pen.ring(-0.22, 0.18, 0.13, DARK, 0.09),
        pen.ring(0.22, -0.18, 0.13, DARK, 0.09),
    ]


def _clock(pen: Pen) -> list[torch.Tensor]:
    return [
        pen.disc(0.0, 0.0, 0.36, PAPER),
        pen.ring(0.0, 0.0, 0.36, DARK, 0.09),
        pen.line((0.0, 0.0), (0.0, 0.22), 0.08, DARK),
        pen.line((0.0, 0.0), (0.14, -0.1), 0.08, DARK),
    ]


def _coin(pen: Pen) -> list[torch.Tensor]:
    return [
        pen.disc(0.0, 0.0, 0.36, GOLD),
        pen.ring(0.0, 0.0, 0.36, BLUE, 0.09),
        pen.line((0.0, -0.14), (0.0, 0.14), 0.1, BLUE),
    ]


def _purse(pen: Pen) -> list[torch.Tensor]:
    return [
        pen.line((-0.12, 0.36), (0.12, 0.36), 0.12, GREEN),
        pen.line((0.0, 0.14), (0.0, 0.32), 0.14, GREEN),
        pen.line((-0.1, -0.06), (0.1, -0.06), 0.54, GREEN),
        pen.line((-0.14, 0.2), (0.14, 0.2), 0.07, GOLD),
        pen.disc(0.0, -0.06, 0.13, GOLD),
    ]


def draw(core: "WorldView", envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    Above is the planner with the rate of every tax bracket in percent, a full box for 100 %, and below it the income
    where the bracket begins. Below are the workers with their labor (clock), income (coin) and coin (purse), scaled to
    the largest of the world.
    """
    state = {name: tensor[envs] for name, tensor in core.world_state.items()}
    sizes, device = core.config.sizes, core.device

    def bars(share: torch.Tensor, places: torch.Tensor, low: float, half: float, color: Color) -> torch.Tensor:
        """Return bars of a share (W, N) of their whole height at places (N,), and what is missing of it."""

        def column(height: torch.Tensor, color: Color) -> torch.Tensor:
            centers = torch.stack([places.expand_as(height), low + 0.5 * height], -1)
            return boxes(centers, torch.stack([torch.full_like(height, half), 0.5 * height], -1), color)

        return join(column(torch.full_like(share, _TALL), _EMPTY), column(_TALL * share, color))

    def along(places: torch.Tensor, up: float) -> torch.Tensor:
        """Return points (W, N, 2) of one height."""
        return torch.stack([places, torch.full_like(places, up)], -1).expand(len(envs), -1, -1)

    def spread(count: int, left: float) -> torch.Tensor:
        return left + (torch.arange(count, device=device) + 0.5) * ((_WIDTH - left) / count)

    rate, cutoff = state["rate"], state["cutoff"]
    if sizes.rates:
        rate = rate.gather(1, state["rate_index"].long())
    brackets, room = spread(sizes.brackets, _TABLE), (_WIDTH - _TABLE) / sizes.brackets
    size = min(1.0, _WIDTH / sizes.workers / 3.0)
    step = 0.9 * size
    workers = spread(sizes.workers, 0.0)
    income = torch.maximum(state["production"], state["coin"]).amax(1, keepdim=True).clamp(min=1e-6)
    hours = state["labor"].amax(1, keepdim=True).clamp(min=1e-6)
    planner = Pen(along(torch.tensor([1.2], device=device), 8.7), scale=1.2)
    people = Pen(along(workers, 0.95), scale=size)
    columns = [
        (-step, state["labor"] / hours, GRAY, _clock),
        (0.0, state["production"] / income, BLUE, _coin),
        (step, state["coin"] / income, GREEN, _purse),
    ]
    shapes = join(
        bars(rate, brackets, _TAXES, 0.42 * room, ORANGE),
        boxes(along(brackets, _TAXES + 0.5 * _TALL), torch.tensor([0.42 * room, 0.5 * _TALL]), DARK, line_width=0.07),
        numbers(along(brackets, _TAXES + _TALL + 0.5), (100.0 * rate).round(), 0.7 * room, 0.55, DARK, largest=100.0),
        numbers(along(brackets - 0.5 * room, _TAXES - 0.5), cutoff, 0.7 * room, 0.4, GRAY),
        *_percent(Pen(along(torch.tensor([2.1], device=device), _TAXES + _TALL + 0.5), scale=0.8)),
        *_person(planner, PURPLE),
        *_crown(planner),
        *[bars(share.clamp(0.0, 1.0), workers + right, _WORK, 0.4 * size, color) for right, share, color, _ in columns],
        *[shape for right, _, _, icon in columns for shape in icon(Pen(along(workers + right, 2.25), scale=size))],
        *_person(people, BLUE),
    )
    agents = [pen.disc(0.0, 0.3, 0.42, color) for pen, color in ((people, BLUE), (planner, PURPLE))]
    return Scene(shapes, (0.0, 0.0, _WIDTH, _HEIGHT), agents=join(*agents))
