"""Drawing of OvercookedV2: a kitchen from above with its recipe, and chefs with the windows that they see."""

import torch

from gpu_envs.definition.environment import WorldView
from gpu_envs.envs.games.scene import PAPER
from gpu_envs.envs.kitchen import shapes
from gpu_envs.rendering.scene import BLUE, DARK, GRAY, GREEN, RED, Pen, Scene, boxes, circles, join
from warp_kernels.kitchen.overcooked_v2 import items

_COLORS = (
    *(shapes.CREAM, RED, GREEN, (0.55, 0.36, 0.66), (0.97, 0.60, 0.22), (0.40, 0.62, 0.85), (0.88, 0.55, 0.70)),
    *((0.45, 0.33, 0.24), (0.75, 0.78, 0.30), (0.30, 0.36, 0.45)),
)
"""Colors of the ingredients."""


def _ingredient(pen: Pen, kind: int) -> list[torch.Tensor]:
    """Return whole ingredients: onions, tomatoes, or balls in another color."""
    if kind < 2:
        return (shapes.onion, shapes.tomato)[kind](pen)
    return [
        pen.disc(0.0, 0.0, 0.22, shapes.PIECE_EDGE),
        pen.disc(0.0, 0.0, 0.19, _COLORS[kind]),
        pen.disc(-0.06, 0.07, 0.05, PAPER),
    ]


def _pieces(centers: torch.Tensor, item: torch.Tensor, kinds: int, visible: torch.Tensor, scale: float) -> torch.Tensor:
    """Return up to three pieces of the ingredients of items (W, N)."""
    counts = torch.stack([(item >> (2 + 2 * kind)) & 3 for kind in range(kinds)], -1)
    ends = counts.cumsum(-1)
    colors = torch.tensor(_COLORS, device=item.device)
    pieces = []
    for index, (right, up) in enumerate(shapes.SLOTS[:3]):
        kind = (ends <= index).sum(-1).clamp_max(kinds - 1)
        pen = Pen(centers, visible & (index < ends[..., -1]), scale)
        center = pen.at(right, up - 0.04)
        pieces += [circles(center, 0.11 * scale, colors[kind], pen.visible)]
        pieces += [pen.ring(right, up - 0.04, 0.11, shapes.PIECE_EDGE, 0.02)]
    return join(*pieces)


def _item_shapes(centers: torch.Tensor, item: torch.Tensor, kinds: int, scale: float) -> torch.Tensor:
    """Return what lies on counters and in hands (W, N): plates, ingredients, and plates with a dish."""
    cooked = (item & items.COOKED) != 0
    raw = (item >> 2) * ((item & items.DISH) == 0)
    return join(
        *shapes.plate(Pen(centers, (item & items.PLATE) != 0, scale)),
        Pen(centers, cooked, scale).disc(0.0, 0.0, 0.2, shapes.BROTH),
        _pieces(centers, item, kinds, cooked, scale * 0.8),
        *[shape for kind in range(kinds) for shape in _ingredient(Pen(centers, raw == 1 << 2 * kind, scale), kind)],
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    Brown counters, crates of ingredients, plates, pots on stoves with the steps left, a green serving window with a
    bell, boards that show the recipe, boards with a red button that show it for a time, and chefs with white hats, who
    hold what they carry. Frames in the colors of the chefs are the windows that they see.
    """
    config, count, device = core.config, len(envs), core.device
    kitchen, kinds = config.kitchen, config.kitchen.num_ingredients
    names = ("position", "facing", "inventory", "item", "timer", "recipe")
    position, facing, inventory, item, timer, recipe = (core.world_state[name][envs].long() for name in names)

    def centers(cells: torch.Tensor) -> torch.Tensor:
        """Return the centers of cells (W, N, 2); row 0 is at the top."""
        x, y = cells % kitchen.width, cells // kitchen.width
        return torch.stack([x + 0.5, kitchen.height - 0.5 - y], -1).float()

    def pen_of(cells: list[int]) -> Pen:
        return Pen(centers(torch.tensor(cells, device=device, dtype=torch.long))[None].expand(count, -1, -1))

    piles = [(pen_of(kitchen.of_kind(items.INGREDIENTS + kind)), kind) for kind in range(kinds)]
    boards, buttons = pen_of(kitchen.of_kind(items.INDICATOR)), pen_of(kitchen.buttons)
    panels = pen_of(kitchen.of_kind(items.INDICATOR, items.BUTTON))
    ground = join(
        shapes.floor(pen_of(kitchen.of_kind(items.FLOOR))),
        *shapes.solid(pen_of([cell for cell, kind in enumerate(kitchen.kinds) if kind != items.FLOOR])),
        *[shape for pen, _ in piles for shape in shapes.crate(pen)],
        *[
            shape
            for pen, kind in piles
            for right, up in shapes.HEAP
            for shape in _ingredient(Pen(pen.at(right, up), pen.visible, 0.75), kind)
        ],
        *shapes.plates(pen_of(kitchen.of_kind(items.PLATES))),
        *shapes.window(pen_of(kitchen.of_kind(items.GOAL))),
        panels.box(0.0, 0.0, (0.42, 0.42), DARK),
        panels.box(0.0, 0.0, (0.38, 0.38), PAPER),
    )
    num_pots = len(kitchen.pots)
    surfaces = pen_of([*kitchen.pots, *kitchen.counters]).centers
    stoves, soup, pressed = surfaces[:, :num_pots], item[:, :num_pots], timer[:, num_pots:] > 0
    recipes = recipe[:, None]
    off = Pen(buttons.centers, ~pressed)
    pieces = [_pieces(stoves, soup, kinds, soup != 0, 1.0)]
    position = centers(position)
    hands = _item_shapes(shapes.hands(position), inventory, kinds, 0.62)
    windows = []
    if config.agent_view_size is not None:
        side = config.agent_view_size + 0.45
        windows = [boxes(position, side, shapes.coats(position.shape[1], device), 0.6, 0.06)]
    return Scene(
        join(
            ground,
            _pieces(boards.centers, recipes.expand(-1, boards.centers.shape[1]), kinds, boards.visible > 0, 1.5),
            off.disc(0.0, 0.0, 0.24, GRAY),
            off.disc(0.0, 0.0, 0.2, RED),
            _pieces(buttons.centers, recipes.expand(-1, buttons.centers.shape[1]), kinds, pressed, 1.5),
            shapes.pots(
                stoves,
                pieces,
                soup != 0,
                timer[:, :num_pots],
                (soup & items.COOKED) != 0,
                max(config.pot_cook_time, 1),
            ),
            _item_shapes(surfaces[:, num_pots:], item[:, num_pots:], kinds, 1.0),
            *windows,
            *shapes.chefs(position, facing, inventory != 0, hands),
        ),
        (0.0, 0.0, float(kitchen.width), float(kitchen.height)),
        agents=circles(position, 0.3, BLUE),
        ground=ground.shape[1],
    )
