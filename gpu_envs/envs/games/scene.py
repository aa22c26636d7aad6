"""What the pictures of games have in common: boards, cards and chips, tables of payoffs."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from gpu_envs.games.digits import numbers
from gpu_envs.rendering import BLUE, DARK, ORANGE, RED, Colour, boxes, circles, join, rings

if TYPE_CHECKING:
    from gpu_envs.core import Core

# Colours of tables and cards, as r, g, b in 0..1.
FELT = (0.16, 0.42, 0.34)
PAPER = (0.985, 0.985, 0.97)
GOLD = (0.98, 0.78, 0.25)
BACK = (0.25, 0.36, 0.58)
EDGE = (0.10, 0.28, 0.22)
MOST_NUMBERS = 64
"""Payoffs that are written into their cells; a larger table tells them by colour alone."""


def marked(marks: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """Where players have marks, out of the bits of ``warp_kernels/games/boards.py``: (W, 2) int64 -> (W, 2, cells)."""
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    index = (column * (rows + 1) + row).flatten().to(marks.device)
    return ((marks[..., None] >> index) & 1).bool()


def cells(rows: int, columns: int, device: torch.device) -> torch.Tensor:
    """Middles of a board's cells, row by row from y = 0: (1, cells, 2)."""
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return torch.stack([x.flatten(), y.flatten()], -1)[None].to(device) + 0.5


def card(
    place: tuple[float, float], pips: torch.Tensor, colour: torch.Tensor, most: int, shown: torch.Tensor
) -> torch.Tensor:
    """A playing card, 1 wide and 1.4 high: so many pips of up to ``most``, or its back.

    Args:
        place: Its middle.
        pips: (W,) how many.
        colour: (W, 3) of the pips.
        most: Pips of the highest card; up to 12.
        shown: (W,) bool, face up.
    """
    centre = torch.tensor(place, device=pips.device).expand(len(pips), 1, 2)
    across, size = (1, 0.15) if most <= 3 else (3, 0.11)
    slot = torch.arange(most, device=pips.device)
    down = torch.ceil(pips / across)[:, None]  # rows that are needed
    y = ((down - 1) / 2 - slot // across) * (0.4 if across == 1 else 0.29)
    wide = (pips[:, None] - slot // across * across).clamp(1, across)  # pips in a slot's row
    x = (slot % across - (wide - 1) / 2) * 0.27
    there = (slot < pips[:, None]) & shown[:, None]
    back = ~shown[:, None]
    return join(
        boxes(centre, torch.tensor([0.53, 0.73]), EDGE),
        boxes(centre, torch.tensor([0.5, 0.7]), PAPER),
        circles(centre + torch.stack([x, y], -1), size, colour[:, None], alpha=there),
        boxes(centre, torch.tensor([0.42, 0.62]), BACK, alpha=back),
        boxes(centre, torch.tensor([0.34, 0.54]), PAPER, alpha=0.6 * back, line_width=0.03),
    )


def seats(places: list[tuple[float, float]], envs: torch.Tensor) -> torch.Tensor:
    """Agents of a scene whose players sit around a table: their cards, (W, A, 10)."""
    centres = torch.tensor(places, device=envs.device).expand(len(envs), -1, 2)
    return boxes(centres, torch.tensor([0.53, 0.73]), PAPER)


def nowhere(players: int, envs: torch.Tensor) -> torch.Tensor:
    """Agents of a scene in which no player has a place of its own: (W, A, 10), none to be seen."""
    return circles(torch.zeros((len(envs), players, 2), device=envs.device), 0.0, PAPER, alpha=0.0)


def chips(place: tuple[float, float], count: torch.Tensor, most: int, across: int) -> torch.Tensor:
    """Chips in rows around a middle, a single row centred: (W,) how many of up to ``most``."""
    slot = torch.arange(most, device=count.device)
    down = math.ceil(most / across)
    wide = count[:, None].clamp(max=across) if down == 1 else torch.full_like(count, across)[:, None]
    x = place[0] + (slot % across - (wide - 1) / 2) * 0.36
    y = (place[1] + ((down - 1) / 2 - slot // across) * 0.36).expand_as(x)
    centres, there = torch.stack([x, y], -1), slot < count[:, None]
    return join(circles(centres, 0.16, ORANGE, alpha=there), rings(centres, 0.1, PAPER, 0.035, alpha=there))


def turn_marker(place: tuple[float, float], on_move: torch.Tensor) -> torch.Tensor:
    """A golden frame around the card of who is on the move: (W,) bool."""
    centre = torch.tensor(place, device=on_move.device).expand(len(on_move), 1, 2)
    return boxes(centre, torch.tensor([0.66, 0.86]), GOLD, alpha=on_move[:, None], line_width=0.09)


def turn_border(
    core: "Core", envs: torch.Tensor, bounds: tuple[float, float, float, float], colours: Sequence[Colour]
) -> torch.Tensor:
    """A board's border in the colour of the player who is on the move; none once the game is over.

    Args:
        core: The core.
        envs: (W,) int64, the worlds.
        bounds: Of the board.
        colours: Of the players.
    """
    low, high = torch.tensor([bounds[:2], bounds[2:]], device=core.device)
    assert core.to_move is not None
    to_move = core.to_move[envs] & core.alive[envs]
    centre = (0.5 * (low + high)).expand(len(envs), len(colours), 2)
    tints = torch.tensor(tuple(colours), device=core.device)
    return boxes(centre, 0.5 * (high - low), tints, to_move, 0.02 * float((high - low).max()))


def heat_map(
    payoff: torch.Tensor, counts: tuple[int, ...], last: torch.Tensor
) -> tuple[torch.Tensor, tuple[float, float, float, float]]:
    """Payoffs of all joint actions: a cell each, a stripe a player, blue for gains and red for losses, and numbers.

    The first half of the players (rounded up) choose the row, counted from the top, the others the column.

    Args:
        payoff: (W, J, P), joint actions row by row, player 0's choice the slowest; (W, J, 1) where all earn the same.
        counts: Choices of the players.
        last: (W, P) the last joint action, framed; -1 for none.

    Returns:
        The shapes and their bounds.
    """
    players, stripes = len(counts), payoff.shape[-1]
    first = math.ceil(players / 2)
    rows, columns = math.prod(counts[:first]), math.prod(counts[first:])
    middles = cells(rows, columns, payoff.device).flip(1).view(rows, columns, 2).flip(1).reshape(1, -1, 2)
    middles = middles.expand(len(payoff), -1, -1)
    width = 0.84 / stripes
    scale = payoff.abs().amax((1, 2), keepdim=True).clamp(min=1e-12)
    strength = (payoff / scale)[..., None]
    gain, loss = (torch.tensor(colour, device=payoff.device) for colour in (BLUE, RED))
    neutral = torch.tensor((0.91, 0.915, 0.92), device=payoff.device)
    colour = neutral + strength.abs() * (torch.where(strength > 0, gain, loss) - neutral)
    parts = []
    for stripe in range(stripes):
        centres = middles + torch.tensor([(stripe - (stripes - 1) / 2) * width, 0.0], device=payoff.device)
        parts.append(boxes(centres, torch.tensor([0.5 * width, 0.42]), colour[:, :, stripe]))
        if rows * columns * stripes <= MOST_NUMBERS:
            ink = torch.tensor((DARK, PAPER), device=payoff.device)[(strength[:, :, stripe, 0].abs() > 0.5).long()]
            parts.append(numbers(centres, payoff[..., stripe], 0.8 * width, 0.24, ink))
    strides = [math.prod(counts[player + 1 :]) for player in range(players)]
    joint = (last * torch.tensor(strides, device=last.device)).sum(1)
    there = torch.arange(rows * columns, device=last.device) == joint[:, None]
    there &= (last >= 0).all(1, keepdim=True)
    frame = boxes(middles, 0.44, DARK, alpha=there, line_width=0.06)
    return join(*parts, frame), (0.0, 0.0, float(columns), float(rows))
