"""Drawing of Overcooked: a kitchen from above with counters, dispensers, pots and a serving window, and chefs."""

import torch

from gpu_envs.definition.environment import WorldView
from gpu_envs.envs.kitchen import shapes
from gpu_envs.rendering.scene import BLUE, RED, Pen, Scene, circles, join
from warp_kernels.kitchen.overcooked import items


def _item_shapes(centers: torch.Tensor, item: torch.Tensor, scale: float) -> torch.Tensor:
    """Return what lies on counters and in hands (W, N): plates, onions, tomatoes, and plates with soup."""
    kind, recipe = item & 7, (item >> 3) & 255
    onions, tomatoes = recipe & 15, recipe >> 4

    def pen(visible: torch.Tensor) -> Pen:
        return Pen(centers, visible, scale)

    soup = pen(kind == items.SOUP)
    rows = [
        *shapes.plate(pen((kind == items.DISH) | (kind == items.SOUP))),
        soup.disc(0.0, 0.0, 0.2, shapes.BROTH),
        *_pieces(centers, onions, tomatoes, kind == items.SOUP, scale * 0.8),
        *shapes.onion(pen(kind == items.ONION)),
        *shapes.tomato(pen(kind == items.TOMATO)),
    ]
    return join(*rows)


def _pieces(
    centers: torch.Tensor, onions: torch.Tensor, tomatoes: torch.Tensor, visible: torch.Tensor, scale: float
) -> list[torch.Tensor]:
    """Return up to four ingredients in a soup: onions, then tomatoes."""
    pieces = []
    for index, (right, up) in enumerate(shapes.SLOTS):
        for low, count, color in ((0, onions, shapes.CREAM), (onions, tomatoes, RED)):
            present = visible & (index >= torch.as_tensor(low)) & (index < low + count)
            pen = Pen(centers, present, scale)
            edge = shapes.PIECE_EDGE
            pieces += [pen.disc(right, up - 0.04, 0.11, color), pen.ring(right, up - 0.04, 0.11, edge, 0.02)]
            if color is shapes.CREAM:
                pieces.append(pen.ring(right, up - 0.04, 0.06, edge, 0.012))
    return pieces


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    Brown counters, crates of onions and tomatoes, plates, pots on stoves with their ingredients and the steps left, a
    green serving window with a bell, and two chefs with white hats, who hold what they carry. A mark at the border of a
    chef's cell is on the side to which the chef looks.
    """
    kitchen = core.config.kitchen
    count, device = len(envs), core.device
    cell, facing, carried, item = (
        core.world_state[name][envs].long() for name in ("position", "facing", "inventory", "item")
    )
    cook_time = core.world_state["cook_time"][envs].long()

    def centers(cells: torch.Tensor) -> torch.Tensor:
        """Return the centers of cells (W, N, 2); row 0 is at the top."""
        x, y = cells // kitchen.height, cells % kitchen.height
        return torch.stack([x + 0.5, kitchen.height - 0.5 - y], -1).float()

    kinds = torch.from_numpy(kitchen.terrain & 7).to(device)

    def of_kind(*terrain: int) -> Pen:
        cells = torch.nonzero(torch.isin(kinds, torch.tensor(terrain, device=device))).flatten()
        middles = centers(cells)[None].expand(count, -1, -1)
        return Pen(middles)

    crates = [(of_kind(items.ONION_DISPENSER), shapes.onion), (of_kind(items.TOMATO_DISPENSER), shapes.tomato)]
    ground = join(
        shapes.floor(of_kind(items.FLOOR)),
        *shapes.solid(of_kind(*range(1, 7))),
        *[shape for pen, _ in crates for shape in shapes.crate(pen)],
        *[
            shape
            for pen, ingredient in crates
            for right, up in shapes.HEAP
            for shape in ingredient(Pen(pen.at(right, up), pen.visible, 0.75))
        ],
        *shapes.plates(of_kind(items.DISH_DISPENSER)),
        *shapes.window(of_kind(items.SERVING)),
    )
    surfaces = centers(torch.tensor(kitchen.surfaces, device=device))[None].expand(count, -1, -1)
    pots = kitchen.num_pots
    stoves, soup = surfaces[:, :pots], item[:, :pots]
    recipe, tick = (soup >> 3) & 255, soup >> 11
    times = cook_time.gather(1, recipe)
    left = (times + 1 - tick).clamp_min(0) * (tick > 0)
    pieces = _pieces(stoves, recipe & 15, recipe >> 4, soup != 0, 1.0)
    position = centers(cell)
    hands = _item_shapes(shapes.hands(position), carried, 0.62)
    return Scene(
        join(
            ground,
            shapes.pots(stoves, pieces, soup != 0, left, tick > times, int(cook_time.max())),
            _item_shapes(surfaces[:, pots:], item[:, pots:], 1.0),
            *shapes.chefs(position, facing, carried != 0, hands),
        ),
        (0.0, 0.0, float(kitchen.width), float(kitchen.height)),
        agents=circles(position, 0.3, BLUE),
        ground=ground.shape[1],
    )
