"""Drawing of GatherTradeBuild-v0: the map, and below it bars of wealth and tax rates, and prices over time."""

import torch

from gpu_envs.definition.environment import WorldView
from gpu_envs.envs.games.seven_segment import numbers
from gpu_envs.rendering.scene import (
    BLUE,
    DARK,
    GREEN,
    ORANGE,
    PURPLE,
    RED,
    Color,
    Scene,
    boxes,
    circles,
    join,
    lines,
    rings,
)
from warp_kernels.economy.gather_trade_build.economy_types import PRICE_POINTS, Sizes

_COLORS = (RED, BLUE, ORANGE, PURPLE, (0.35, 0.70, 0.90), (0.80, 0.47, 0.65), (0.55, 0.45, 0.10), (0.1, 0.35, 0.35))
_LAND, _WATER, _TRUNK = (0.93, 0.91, 0.82), (0.45, 0.66, 0.86), (0.47, 0.33, 0.20)
_STONE, _EDGE, _BARE = (0.55, 0.56, 0.60), (0.38, 0.39, 0.43), (0.84, 0.81, 0.70)
_PANEL, _EMPTY = (0.97, 0.97, 0.97), (0.90, 0.90, 0.91)
_GAP, _TALL = 0.03, 0.26  # distance between panels and their height, in the longer side of the map
_PLOT = 0.82  # part of a panel's height below its numbers


def draw(worlds: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    Trees are wood, gray discs stone; a pale patch is a source without its resource. Houses and agents have the color of
    their agent. Below the map are the coin of every agent (numbers end at 999), the tax rate of every bracket in
    percent, and the mean prices of stone (gray) and wood (green) over the episode. The numbers above the curves are the
    mean prices at present.
    """
    state = {name: tensor[envs] for name, tensor in worlds.world_state.items()}
    sizes, layout, device = worlds.config.sizes, worlds.config.layout, worlds.device
    height, width, n = sizes.height, sizes.width, sizes.num_agents
    cell, count = state["cell"], len(envs)
    colors = torch.tensor([_COLORS[agent % len(_COLORS)] for agent in range(n)], device=device)

    def centers(cells: torch.Tensor) -> torch.Tensor:
        """Return the places (W, N, 2) of cells (N,) or (W, N)."""
        row = torch.div(cells, width, rounding_mode="floor")
        places = torch.stack([cells - row * width + 0.5, height - row - 0.5], -1).float()
        return places.expand(count, *places.shape[-2:])

    all_cells = torch.arange(height * width, device=device)

    def at(kind: int) -> torch.Tensor:
        """Return the cells where a kind of terrain can be."""
        if sizes.is_random and kind < 3:
            return all_cells
        return torch.tensor([c for c, k in enumerate(layout.terrain & 3) if k == kind], dtype=torch.long, device=device)

    def has(kind: int, bits: int) -> torch.Tensor:
        """Return 1 for cells of a kind that have some bits, (W, N)."""
        contents = cell[:, at(kind)]
        return (((contents & 3) == kind) & ((contents & bits) == bits)).float()

    stones, woods, waters = (centers(at(kind)) for kind in (1, 2, 3))
    owner = ((cell & 255) >> 3) - 1
    house, paint, plots = (owner >= 0).float(), colors[owner.clamp(0, n - 1)], centers(all_cells)
    up = torch.tensor([0.0, 0.34], device=device)
    side = torch.tensor([0.44, 0.0], device=device)
    agents = circles(centers(state["position"].long()), 0.36, colors, 1.0)
    middle = torch.tensor([[0.5 * width, 0.5 * height]], device=device).expand(count, 1, 2)
    shapes = [
        boxes(middle, (0.5 * width, 0.5 * height), _LAND),
        boxes(waters, 0.5, _WATER),
        boxes(torch.cat([stones, woods], 1), 0.46, _BARE, torch.cat([has(1, 0), has(2, 0)], 1)),
        lines(woods - up, woods, 0.14, _TRUNK, has(2, 4)),
        circles(woods + 0.3 * up, 0.36, GREEN, has(2, 4)),
        circles(stones, 0.36, _STONE, has(1, 4)),
        rings(stones, 0.36, _EDGE, 0.06, has(1, 4)),
        boxes(plots - 0.3 * up, (0.34, 0.28), paint, house),
        lines(plots - side + 0.45 * up, plots + 1.3 * up, 0.13, DARK, house),
        lines(plots + side + 0.45 * up, plots + 1.3 * up, 0.13, DARK, house),
        agents,
        rings(centers(state["position"].long()), 0.36, DARK, 0.1),
    ]  # fmt: skip
    shapes += _panel(state, sizes, colors)
    side = float(max(height, width))  # side of the largest square map with this panel
    low = -(_GAP + _TALL) * side
    if sizes.has_planner:  # in the panel
        center = torch.tensor([[0.5 * width, 0.5 * (low - _GAP * side)]], device=device).expand(count, 1, 2)
        agents = join(agents, circles(center, 0.36, DARK))
    left = 0.5 * (width - side)
    return Scene(join(*shapes), (left, low, left + side, float(height)), agents=agents)


def _panel(state: dict[str, torch.Tensor], sizes: Sizes, colors: torch.Tensor) -> list[torch.Tensor]:
    """Return the panels below the map: bars of coin and of rates, and curves of prices, from the left."""
    side, device = float(max(sizes.width, sizes.height)), colors.device
    wide, height, floor = (1.0 - 2.0 * _GAP) / 3.0 * side, _TALL * side, -(_GAP + _TALL) * side
    room = _PLOT * height

    def frame(left: float, count: int) -> torch.Tensor:
        """Return the background of a panel from its left side on."""
        middle = torch.tensor([[left + 0.5 * wide, floor + 0.5 * height]], device=device).expand(count, 1, 2)
        return boxes(middle, (0.5 * wide, 0.5 * height), _PANEL)

    def labels(x: torch.Tensor, values: torch.Tensor, step: float, color: Color, largest: float) -> torch.Tensor:
        """Return values (W, N) above the plots at places (W, N) that are step apart."""
        places = torch.stack([x, torch.full_like(x, floor + 0.5 * (room + height))], -1)
        return numbers(places, values, 0.9 * step, 0.7 * (height - room), color, largest=largest)

    def bars(share: torch.Tensor, color: Color, left: float, values: torch.Tensor) -> list[torch.Tensor]:
        """Return bars of shares (W, N) in [0, 1], with their values above."""
        step = wide / share.shape[1]
        x = (left + (torch.arange(share.shape[1], device=device) + 0.5) * step).expand(share.shape)
        tall = 0.5 * room * share.float().clamp(0.0, 1.0)
        slots = torch.stack([x, torch.full_like(x, floor + 0.5 * room)], -1)
        size = torch.stack([torch.full_like(tall, 0.36 * step), tall], -1)
        return [
            frame(left, len(share)),
            boxes(slots, (0.36 * step, 0.5 * room), _EMPTY),
            boxes(torch.stack([x, floor + tall], -1), size, color),
            labels(x, values.round(), step, DARK, 100.0),
        ]

    def curves(price: torch.Tensor, left: float) -> list[torch.Tensor]:
        """Return curves of mean prices (W, 2, T), with a line at every quarter."""
        points = price.shape[2]
        x = left + wide * (0.02 + 0.96 * torch.arange(points, device=device) / (points - 1))
        places = torch.stack([x.expand(price.shape), floor + room * (0.04 + 0.92 * price / (sizes.num_prices - 1))], -1)
        grid = torch.tensor([[left + 0.1, floor + room * (0.04 + 0.23 * line)] for line in range(5)], device=device)
        grid = grid.expand(len(price), 5, 2)
        visible = ((price[:, :, 1:] > 0) & (price[:, :, :-1] > 0)).float()
        shapes = [
            frame(left, len(price)),
            lines(grid, grid + torch.tensor([wide - 0.2, 0.0], device=device), 0.05, _EMPTY),
        ]
        for good, color in enumerate((_EDGE, GREEN)):
            shapes.append(lines(places[:, good, :-1], places[:, good, 1:], 0.2, color, visible[:, good]))
        tints = torch.tensor([_EDGE, GREEN], device=device)
        ends = torch.tensor([left + 0.25 * wide, left + 0.75 * wide], device=device).expand(len(price), 2)
        return [*shapes, labels(ends, state["market_rate"], 0.4 * wide, tints, 3.33)]

    n = sizes.num_agents
    coin = state["coin"][:, :n] + state["coin"][:, n:]
    left = [0.5 * (sizes.width - side) + index * (wide + _GAP * side) for index in range(3)]
    return [
        *bars(coin / coin.amax(1, keepdim=True).clamp(min=1.0), colors, left[0], coin.clamp(max=999.0)),
        *bars(state["rates"], (0.25, 0.30, 0.36), left[1], 100.0 * state["rates"]),
        *curves(state["price_curve"].unflatten(1, (2, PRICE_POINTS)), left[2]),
    ]
