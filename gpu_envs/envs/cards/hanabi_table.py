"""Picture of a table of Hanabi: fireworks, hands with hints, tokens, deck and discards."""

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from gpu_envs.definition.environment import WorldView
    from gpu_envs.rendering.scene import Scene

__all__ = ["COLORS", "draw"]

COLORS = ((0.87, 0.25, 0.20), (0.97, 0.81, 0.22), (0.20, 0.66, 0.38), (0.95, 0.95, 0.95), (0.22, 0.50, 0.88))
"""Red, yellow, green, white and blue, the order of the original."""
_NIGHT, _SHADE, _INK = (0.07, 0.09, 0.17), (0.13, 0.16, 0.27), (0.12, 0.13, 0.18)
SIDE = 12.0
"""Width and height of the picture [world units]."""
RAYS = 12
"""Rays of a firework."""


def draw(core: "WorldView", envs: torch.Tensor) -> "Scene":
    """Return the scene of these worlds, as a spectator sees them, who knows all cards.

    At the top are the fireworks with a burst per card, deck and tokens: blue for information, red for life. Below are
    the hands, player 0 first, and the discards on the right. A golden frame marks the player to act. Below a card are
    the color and the rank that were hinted.
    """
    from gpu_envs.envs.games.scene import BACK, GOLD, PAPER
    from gpu_envs.envs.games.seven_segment import numbers
    from gpu_envs.rendering.scene import Scene, boxes, circles, join, lines, rings

    sizes, device = core.config.sizes, core.device
    state = {name: tensor[envs] for name, tensor in core.world_state.items()}
    worlds, colors, ranks = len(envs), sizes.colors, sizes.ranks
    paints = torch.tensor(COLORS, device=device)[:colors]
    inks = torch.tensor([PAPER if index in (0, 2, 4) else _INK for index in range(colors)], device=device)

    def at(points: list[tuple[float, float]]) -> torch.Tensor:
        return torch.tensor(points, device=device).reshape(-1, 2).expand(worlds, -1, -1)

    def cards_at(
        centers: torch.Tensor, color: torch.Tensor, rank: torch.Tensor, height: float, visible: torch.Tensor
    ) -> torch.Tensor:
        """Return cards (W, N) with their numbers, 0.7 * height wide."""
        half = torch.tensor([0.35, 0.5], device=device) * height
        return join(
            boxes(centers, half + 0.05, _INK, visible),
            boxes(centers, half, paints[color], visible),
            numbers(centers, rank + 1, 0.5 * height, 0.55 * height, inks[color], visible, largest=ranks),
        )

    # Fireworks: a slot, the highest card of the color, and bursts above it.
    x = [4.4 + 1.6 * (color - (colors - 1) / 2) for color in range(colors)]
    height = state["fireworks"]
    slots = at([(column, 8.9) for column in x])
    order = torch.arange(colors, device=device).expand(worlds, -1)
    parts = [
        boxes(slots, torch.tensor([0.56, 0.79]), _SHADE),
        cards_at(slots, order, height.clamp(min=1) - 1, 1.5, height > 0),
    ]
    heads = at([(column, 10.75) for column in x])
    angles = torch.arange(RAYS, device=device) * (2 * math.pi / RAYS)
    rays = torch.stack([angles.cos(), angles.sin()], -1)
    for step in range(ranks):
        lit = (height > step).repeat_interleave(RAYS, 1)
        inner, outer = 0.17 + 0.6 * step / ranks, 0.17 + 0.6 * (step + 0.75) / ranks
        starts, ends = ((heads[:, :, None] + radius * rays).flatten(1, 2) for radius in (inner, outer))
        parts.append(lines(starts, ends, 0.07, paints.repeat_interleave(RAYS, 0), lit))

    # Deck, information tokens and life tokens.
    deck, left = at([(9.6, 10.6)]), sizes.deck - state["dealt"][:, None]
    parts += [
        boxes(deck, torch.tensor([0.62, 0.85]), PAPER, left > 0),
        boxes(deck, torch.tensor([0.54, 0.77]), BACK, left > 0),
        numbers(deck, left, 0.9, 0.6, PAPER, largest=sizes.deck),
    ]
    for name, limit, top, color in (
        ("information", sizes.information_tokens, 9.25, COLORS[4]),
        ("lives", sizes.life_tokens, 8.2, COLORS[0]),
    ):
        radius = min(0.2, 1.6 / max(limit, 8))
        gap = 2.6 * radius
        places = at([(9.0 + gap * (index % 6), top - gap * (index // 6)) for index in range(limit)])
        present = torch.arange(limit, device=device) < state[name][:, None]
        parts += [rings(places, radius, color, 0.05, alpha=0.5), circles(places, radius, color, present)]

    # Hands.
    row_height = 7.2 / sizes.players
    tall = min(1.5, 0.62 * row_height, 7.2 / sizes.hand_size / 0.8)
    gap = min(1.45, 7.0 / sizes.hand_size)
    seats = []
    assert core.to_move is not None
    for player in range(sizes.players):
        y = 7.45 - row_height * (player + 0.5)
        seats.append((0.65, y))
        middle = 1.55 + 0.5 * gap * sizes.hand_size
        frame = torch.tensor([0.5 * gap * sizes.hand_size + 0.1, 0.47 * row_height])
        center = at([(middle, y)])
        moves = core.to_move[envs, player, None]
        parts.append(boxes(center, frame, _SHADE))
        parts.append(boxes(center, frame, GOLD, moves, line_width=0.1))
        card, revealed = state["hand"][:, player], state["revealed"][:, player]
        present, face = card >= 0, card.clamp(min=0)
        color, rank = face // ranks, face % ranks
        lift, drop = 0.14 * row_height, 0.36 * row_height
        centers = at([(1.55 + gap * (slot + 0.5), y + lift) for slot in range(sizes.hand_size)])
        parts.append(cards_at(centers, color, rank, tall, present))
        hinted = [((revealed >> bit) & 1).bool() & present for bit in (color, colors + rank)]
        left_of, right_of = (
            at([(1.55 + gap * (slot + 0.5) + way * 0.2 * tall, y - drop) for slot in range(sizes.hand_size)])
            for way in (-1, 1)
        )
        parts.append(boxes(left_of, 0.11 * tall, paints[color], hinted[0]))
        parts.append(numbers(right_of, rank + 1, 0.3 * tall, 0.26 * tall, PAPER, hinted[1], largest=ranks))
    agents = circles(at(seats), 0.36, BACK)
    number = torch.arange(sizes.players, device=device).expand(worlds, -1)
    parts += [agents, numbers(at(seats), number, 0.5, 0.36, PAPER)]

    # Discards: a column for each color, a place for each card.
    rank_of = [rank for rank in range(ranks) for _copy in range(sizes.copies(rank))]
    places, color_of = [], []
    for color in range(colors):
        for index in range(sizes.per_color):
            places.append((9.2 + 0.56 * color, 6.95 - 0.66 * index))
            color_of.append(color)
    bits = torch.arange(sizes.per_color, device=device)
    gone = ((state["discards"][:, :, None] >> bits) & 1).bool().flatten(1)
    tint = torch.tensor(color_of, device=device).expand(worlds, -1)
    rank = torch.tensor(rank_of * colors, device=device).expand(worlds, -1)
    parts.append(boxes(at(places), torch.tensor([0.2, 0.27]), _SHADE))
    parts.append(cards_at(at(places), tint, rank, 0.56, gone))
    return Scene(join(*parts), (0.0, 0.0, SIDE, SIDE), background=_NIGHT, border=_INK, agents=agents)
