"""Shapes for scenes of games: boards, cards, chips and payoff tables."""

import functools
import itertools
import math
from collections.abc import Sequence

import torch

from gpu_envs.definition.environment import WorldView
from gpu_envs.envs.games.seven_segment import digit_strokes, numbers
from gpu_envs.rendering.scene import BLUE, DARK, ORANGE, RED, Color, Values, boxes, circles, join, lines, rings

# Colors of tables and cards, as r, g, b in 0..1.
FELT = (0.16, 0.42, 0.34)
PAPER = (0.985, 0.985, 0.97)
GOLD = (0.98, 0.78, 0.25)
BACK = (0.25, 0.36, 0.58)
EDGE = (0.10, 0.28, 0.22)
MOST_NUMBERS = 64
"""Largest number of payoffs that are printed as numbers; larger tables show colors only."""


def marked(marks: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """Return the marks (W, 2, cells) bool from the bitboards (W, 2) int64 of ``warp_kernels/games/boards.py``."""
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    index = (column * (rows + 1) + row).flatten().to(marks.device)
    return ((marks[..., None] >> index) & 1).bool()


def cells(rows: int, columns: int, device: torch.device) -> torch.Tensor:
    """Return the centers of the cells of a board, row by row from y = 0, (1, cells, 2)."""
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return torch.stack([x.flatten(), y.flatten()], -1)[None].to(device) + 0.5


def card(
    position: tuple[float, float], rank: torch.Tensor, color: torch.Tensor, deck: int, face_up: torch.Tensor
) -> torch.Tensor:
    """Return a playing card, 1 wide and 1.4 high, with its rank or face down.

    Args:
        position: Center of the card.
        rank: Index of the rank in the deck, 0 is the lowest; (W,).
        color: Color of the rank (W, 3).
        deck: Number of ranks; the highest three are J, Q and K.
        face_up: Whether the card is face up, (W,) bool.
    """
    center = torch.tensor(position, device=rank.device).expand(len(rank), 1, 2)
    back = ~face_up[:, None]
    return join(
        boxes(center, torch.tensor([0.53, 0.73]), EDGE),
        boxes(center, torch.tensor([0.5, 0.7]), PAPER),
        rank_strokes(position, rank, deck, 0.72, color[:, None], face_up[:, None]),
        boxes(center, torch.tensor([0.42, 0.62]), BACK, alpha=back),
        boxes(center, torch.tensor([0.34, 0.54]), PAPER, alpha=0.6 * back, line_width=0.03),
    )


def seats(places: list[tuple[float, float]], envs: torch.Tensor) -> torch.Tensor:
    """Return the agents of a scene with players around a table, (W, A, 10): their cards."""
    centers = torch.tensor(places, device=envs.device).expand(len(envs), -1, 2)
    return boxes(centers, torch.tensor([0.53, 0.73]), PAPER)


def nowhere(players: int, envs: torch.Tensor) -> torch.Tensor:
    """Return invisible agents (W, A, 10), for a scene whose players have no position."""
    return circles(torch.zeros((len(envs), players, 2), device=envs.device), 0.0, PAPER, alpha=0.0)


def chips(position: tuple[float, float], count: torch.Tensor, limit: int, across: int) -> torch.Tensor:
    """Return ``count`` (W,) chips of up to ``limit`` in rows around a center; a single row is centered."""
    slot = torch.arange(limit, device=count.device)
    down = math.ceil(limit / across)
    wide = count[:, None].clamp(max=across) if down == 1 else torch.full_like(count, across)[:, None]
    x = position[0] + (slot % across - (wide - 1) / 2) * 0.36
    y = (position[1] + ((down - 1) / 2 - slot // across) * 0.36).expand_as(x)
    centers, present = torch.stack([x, y], -1), slot < count[:, None]
    return join(circles(centers, 0.16, ORANGE, alpha=present), rings(centers, 0.1, PAPER, 0.035, alpha=present))


def turn_marker(position: tuple[float, float], on_move: torch.Tensor) -> torch.Tensor:
    """Return a golden frame around the card of the player to act; ``on_move`` is (W,) bool."""
    center = torch.tensor(position, device=on_move.device).expand(len(on_move), 1, 2)
    return boxes(center, torch.tensor([0.66, 0.86]), GOLD, alpha=on_move[:, None], line_width=0.09)


def turn_border(
    core: WorldView, envs: torch.Tensor, bounds: tuple[float, float, float, float], colors: Sequence[Color]
) -> torch.Tensor:
    """Return the border of a board in the color of the player to act; invisible after the end of the game.

    Args:
        core: Core of the worlds.
        envs: Indices of the worlds, (W,) int64.
        bounds: Bounds of the board.
        colors: Colors of the players.
    """
    low, high = torch.tensor([bounds[:2], bounds[2:]], device=core.device)
    assert core.to_move is not None
    to_move = core.to_move[envs] & core.alive[envs]
    center = (0.5 * (low + high)).expand(len(envs), len(colors), 2)
    tints = torch.tensor(tuple(colors), device=core.device)
    return boxes(center, 0.5 * (high - low), tints, to_move, 0.02 * float((high - low).max()))


def heat_map(
    payoff: torch.Tensor, counts: tuple[int, ...], last: torch.Tensor
) -> tuple[torch.Tensor, tuple[float, float, float, float]]:
    """Return a heat map of the payoffs of all joint actions: a cell per joint action with a stripe per player.

    Gains are blue, losses red. The first half of the players (rounded up) choose the row, counted from the top, the
    other players choose the column.

    Args:
        payoff: Payoffs (W, J, P) of joint actions in C order; (W, J, 1) if all players have the same payoff.
        counts: Number of actions of each player.
        last: Last joint action (W, P), which gets a frame; -1 for none.

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
    gain, loss = (torch.tensor(color, device=payoff.device) for color in (BLUE, RED))
    neutral = torch.tensor((0.91, 0.915, 0.92), device=payoff.device)
    color = neutral + strength.abs() * (torch.where(strength > 0, gain, loss) - neutral)
    parts = []
    for stripe in range(stripes):
        centers = middles + torch.tensor([(stripe - (stripes - 1) / 2) * width, 0.0], device=payoff.device)
        parts.append(boxes(centers, torch.tensor([0.5 * width, 0.42]), color[:, :, stripe]))
        if rows * columns * stripes <= MOST_NUMBERS:
            ink = torch.tensor((DARK, PAPER), device=payoff.device)[(strength[:, :, stripe, 0].abs() > 0.5).long()]
            parts.append(numbers(centers, payoff[..., stripe], 0.8 * width, 0.24, ink))
    strides = [math.prod(counts[player + 1 :]) for player in range(players)]
    joint = (last * torch.tensor(strides, device=last.device)).sum(1)
    visible = torch.arange(rows * columns, device=last.device) == joint[:, None]
    visible &= (last >= 0).all(1, keepdim=True)
    frame = boxes(middles, 0.44, DARK, alpha=visible, line_width=0.06)
    return join(*parts, frame), (0.0, 0.0, float(columns), float(rows))


RANKS = ("2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K")
"""Ranks in ascending order; the highest card of a deck is a king."""

_Point = tuple[float, float]
_Stroke = tuple[_Point, _Point]


def rank_strokes(
    position: _Point, card: torch.Tensor, deck: int, height: float, color: Color, alpha: Values = 1.0
) -> torch.Tensor:
    """Return the rank of a card as shape rows (W, S, 10).

    Args:
        position: Center of the rank [world units].
        card: Index of the card in the deck, 0 is the lowest; (W,).
        deck: Number of ranks of the deck, at most 12.
        height: Height of a letter [world units].
        color: Color, broadcasts to (W, 1, 3).
        alpha: Opacity, broadcasts to (W, 1).
    """
    ends, lit = (table.to(card.device) for table in _table())
    rank = card.long() + len(RANKS) - deck
    points = torch.tensor(position, device=card.device) + height * ends[rank]  # (W, S, 2, 2)
    return lines(points[:, :, 0], points[:, :, 1], 0.13 * height, color, lit[rank] * torch.as_tensor(alpha))


@functools.cache
def _table() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the strokes of all ranks, (R, S, 2, 2), and which of them a rank has, (R, S)."""
    strokes = [_letter(rank) for rank in RANKS]
    longest = max(map(len, strokes))
    ends = torch.tensor([[*letter, *[((0.0, 0.0), (0.0, 0.0))] * (longest - len(letter))] for letter in strokes])
    return ends, torch.tensor([[float(index < len(letter)) for index in range(longest)] for letter in strokes])


def _letter(rank: str) -> list[_Stroke]:
    """Return the strokes of a rank of height 1 around (0, 0)."""
    if rank == "J":
        return [((-0.05, 0.5), (0.27, 0.5)), *_joined([(0.17, 0.5), *_arc((-0.07, -0.26), 0.24, 0.24, 0.0, -165.0, 6)])]
    if rank == "Q":
        return [*_joined(_arc((0.0, 0.0), 0.31, 0.5, 0.0, 360.0, 16)), ((0.07, -0.2), (0.33, -0.52))]
    if rank == "K":
        return [((-0.25, 0.5), (-0.25, -0.5)), ((0.27, 0.5), (-0.25, -0.08)), ((-0.08, 0.11), (0.29, -0.5))]
    places = (-0.65, 0.15) if rank == "10" else (0.0,)  # the strokes of a 1 are on its right side
    return [
        ((x0 + left, y0), (x1 + left, y1))
        for left, digit in zip(places, rank, strict=True)
        for (x0, y0), (x1, y1) in digit_strokes(digit)
    ]


def _arc(center: _Point, width: float, height: float, start: float, stop: float, parts: int) -> list[_Point]:
    """Return points of an ellipse with these half axes between two angles [degrees]."""
    angles = (math.radians(start + (stop - start) * part / parts) for part in range(parts + 1))
    return [(center[0] + width * math.cos(angle), center[1] + height * math.sin(angle)) for angle in angles]


def _joined(points: list[_Point]) -> list[_Stroke]:
    """Return the strokes that connect points."""
    return list(itertools.pairwise(points))
