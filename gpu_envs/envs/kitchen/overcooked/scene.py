"""Drawing of Overcooked: a kitchen from above with counters, dispensers, pots and a serving window, and chefs."""

import torch

from gpu_envs.definition.environment import WorldView
from gpu_envs.envs.games.scene import PAPER
from gpu_envs.envs.games.seven_segment import numbers
from gpu_envs.rendering.scene import BLUE, DARK, GRAY, GREEN, RED, Color, Pen, Scene, circles, join, lines
from warp_kernels.kitchen.overcooked import items

_TILE = (0.93, 0.90, 0.84)
_WOOD, _EDGE, _TOP = (0.62, 0.44, 0.28), (0.45, 0.31, 0.19), (0.74, 0.56, 0.38)
_IRON, _BROTH, _CREAM = (0.26, 0.28, 0.32), (0.91, 0.66, 0.27), (0.98, 0.90, 0.68)
_SKIN, _SKIN_EDGE = (0.95, 0.78, 0.60), (0.55, 0.38, 0.25)
_ONION, _ONION_EDGE, _ONION_SKIN = (0.95, 0.70, 0.33), (0.42, 0.23, 0.07), (0.72, 0.42, 0.13)
_PIECE_EDGE = (0.66, 0.46, 0.14)
_WINDOW = (0.62, 0.80, 0.66)
_PLACES = ((-0.13, 0.0), (0.13, 0.0), (0.0, 0.17), (0.0, -0.17))  # of ingredients


def _onion(pen: Pen) -> list[torch.Tensor]:
    """Return brown bulbs with roots, a pointed neck, and two curved lines of their skin."""
    sides = (-1.0, 1.0)
    return [
        *[pen.line((0.0, -0.15), (0.06 * side, -0.27), 0.03, _ONION_EDGE) for side in sides],
        *[pen.disc(0.05 * side, -0.02, 0.2, _ONION_EDGE) for side in sides],
        *[pen.line((0.1 * side, 0.13), (0.0, 0.27), 0.07, _ONION_EDGE) for side in sides],
        *[pen.disc(0.05 * side, -0.02, 0.175, _ONION) for side in sides],
        *[pen.line((0.06 * side, 0.11), (0.0, 0.22), 0.07, _ONION) for side in sides],
        *[pen.line((0.02 * side, 0.16), (0.1 * side, 0.0), 0.03, _ONION_SKIN) for side in sides],
        *[pen.line((0.1 * side, 0.0), (0.05 * side, -0.15), 0.03, _ONION_SKIN) for side in sides],
    ]


def _tomato(pen: Pen) -> list[torch.Tensor]:
    return [
        pen.disc(0.0, 0.0, 0.21, RED),
        pen.line((-0.09, 0.19), (0.0, 0.14), 0.05, GREEN),
        pen.line((0.09, 0.19), (0.0, 0.14), 0.05, GREEN),
        pen.line((0.0, 0.26), (0.0, 0.14), 0.04, GREEN),
        pen.disc(-0.07, 0.05, 0.05, (0.97, 0.55, 0.47)),
    ]


def _plate(pen: Pen) -> list[torch.Tensor]:
    return [
        pen.disc(0.0, 0.0, 0.27, PAPER),
        pen.ring(0.0, 0.0, 0.27, GRAY, 0.03),
        pen.ring(0.0, 0.0, 0.17, GRAY, 0.02),
    ]


def _item_shapes(centers: torch.Tensor, item: torch.Tensor, scale: float) -> torch.Tensor:
    """Return what lies on counters and in hands (W, N): plates, onions, tomatoes, and plates with soup."""
    kind, recipe = item & 7, (item >> 3) & 255
    onions, tomatoes = recipe & 15, recipe >> 4

    def pen(visible: torch.Tensor) -> Pen:
        return Pen(centers, visible, scale)

    soup = pen(kind == items.SOUP)
    shapes = [
        *_plate(pen((kind == items.DISH) | (kind == items.SOUP))),
        soup.disc(0.0, 0.0, 0.2, _BROTH),
        *_pieces(centers, onions, tomatoes, kind == items.SOUP, scale * 0.8),
        *_onion(pen(kind == items.ONION)),
        *_tomato(pen(kind == items.TOMATO)),
    ]
    return join(*shapes)


def _pieces(
    centers: torch.Tensor, onions: torch.Tensor, tomatoes: torch.Tensor, visible: torch.Tensor, scale: float
) -> list[torch.Tensor]:
    """Return up to four ingredients in a soup: onions, then tomatoes."""
    shapes = []
    for index, (right, up) in enumerate(_PLACES):
        for low, count, color in ((0, onions, _CREAM), (onions, tomatoes, RED)):
            present = visible & (index >= torch.as_tensor(low)) & (index < low + count)
            pen = Pen(centers, present, scale)
            shapes += [pen.disc(right, up - 0.04, 0.11, color), pen.ring(right, up - 0.04, 0.11, _PIECE_EDGE, 0.02)]
            if color is _CREAM:
                shapes.append(pen.ring(right, up - 0.04, 0.06, _PIECE_EDGE, 0.012))
    return shapes


def _pots(centers: torch.Tensor, soup: torch.Tensor, cook_time: torch.Tensor, longest: int) -> torch.Tensor:
    """Return pots on stoves; a soup that cooks shows the steps left, a ready one steams."""
    recipe, tick = (soup >> 3) & 255, soup >> 11
    all_pots = Pen(centers)
    cooks, ready = (tick > 0) & (tick <= cook_time), tick > cook_time
    full = Pen(centers, soup != 0)
    left = (cook_time + 1 - tick).clamp_min(0)
    hot, badge, steam = Pen(centers, tick > 0), Pen(centers, cooks), Pen(centers, ready)
    clouds = [(-0.14, 0.02), (0.0, 0.06), (0.14, 0.02)]
    return join(
        all_pots.box(0.0, 0.0, (0.46, 0.46), (0.50, 0.52, 0.55)),
        hot.disc(0.0, 0.0, 0.45, (0.93, 0.45, 0.20)),
        all_pots.line((-0.44, 0.0), (0.44, 0.0), 0.12, _IRON),
        all_pots.disc(0.0, 0.0, 0.38, _IRON),
        all_pots.disc(0.0, 0.0, 0.31, (0.42, 0.44, 0.48)),
        full.disc(0.0, 0.0, 0.31, _BROTH),
        *_pieces(centers, recipe & 15, recipe >> 4, soup != 0, 1.0),
        badge.disc(0.24, -0.26, 0.19, PAPER),
        badge.ring(0.24, -0.26, 0.19, RED),
        numbers(badge.at(0.24, -0.26), left, 0.26, 0.2, DARK, cooks.float(), largest=longest),
        *[
            steam.line((right, up + 0.16 * part), (right + bend, up + 0.16 * part + 0.16), 0.05, PAPER)
            for right, up in clouds
            for part, bend in ((0, 0.06), (1, -0.06))
        ],
    )


def _chefs(core: WorldView, centers: torch.Tensor, facing: torch.Tensor, carried: torch.Tensor) -> list[torch.Tensor]:
    """Return upright chefs with their hats, and what they hold before them; eyes and a mark show where they look."""
    ahead = torch.tensor([[0.0, 1.0], [0.0, -1.0], [1.0, 0.0], [-1.0, 0.0]], device=core.device)[facing]
    side = torch.stack([-ahead[..., 1], ahead[..., 0]], -1)
    colors = torch.tensor([BLUE, (0.18, 0.58, 0.34)], device=core.device)[: centers.shape[1]]
    chef, hands = Pen(centers), Pen(centers, carried != 0)
    eyes = Pen(centers + torch.tensor([0.06, 0.0], device=core.device) * ahead, ahead[..., 1] < 0.5)
    tip = centers + 0.56 * ahead

    def puffs(more: float, color: Color) -> list[torch.Tensor]:
        """Return the top of a hat."""
        return [chef.disc(right, up, 0.09 + more, color) for right, up in ((-0.11, 0.34), (0.11, 0.34), (0.0, 0.38))]

    return [
        chef.line((-0.13, -0.25), (0.13, -0.25), 0.35, DARK),
        chef.line((-0.13, -0.25), (0.13, -0.25), 0.3, colors),
        chef.disc(0.0, 0.1, 0.165, _SKIN_EDGE),
        chef.disc(0.0, 0.1, 0.145, _SKIN),
        *[eyes.disc(right, 0.1, 0.028, DARK) for right in (-0.06, 0.06)],
        *puffs(0.025, GRAY),
        chef.box(0.0, 0.25, (0.155, 0.085), GRAY),
        *puffs(0.0, PAPER),
        chef.box(0.0, 0.26, (0.13, 0.08), PAPER),
        chef.box(0.0, 0.19, (0.13, 0.025), colors),
        *[hands.line((sign * 0.24, -0.2), (sign * 0.16, -0.25), 0.11, colors) for sign in (-1.0, 1.0)],
        _item_shapes(centers + torch.tensor([0.0, -0.24], device=core.device), carried, 0.62),
        *[hands.disc(sign * 0.17, -0.26, 0.055, _SKIN) for sign in (-1.0, 1.0)],
        *[lines(tip, tip - 0.09 * ahead + sign * 0.09 * side, 0.05, DARK) for sign in (-1.0, 1.0)],
    ]


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    Brown counters, crates of onions and tomatoes, plates, pots on stoves with their ingredients and the steps left, a
    green serving window with a bell, and two chefs with white hats, who hold what they carry. A mark at the border of a
    chef's cell is on the side to which the chef looks.
    """
    kitchen = core.config.kitchen
    count, device = len(envs), core.device
    cell, facing, carried, item = (core.world_state[name][envs].long() for name in ("place", "facing", "held", "item"))
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

    floor = of_kind(items.FLOOR)
    solid = of_kind(*range(1, 7))
    onions, tomatoes = of_kind(items.ONION_DISPENSER), of_kind(items.TOMATO_DISPENSER)
    dishes, window = of_kind(items.DISH_DISPENSER), of_kind(items.SERVING)
    crates = [
        pen.box(0.0, 0.0, half, color)
        for pen in (onions, tomatoes)
        for half, color in (((0.4, 0.4), _EDGE), ((0.34, 0.34), _WOOD))
    ]
    heap = [(-0.16, 0.13), (0.16, 0.13), (0.0, -0.13)]
    ground = join(
        floor.box(0.0, 0.0, (0.49, 0.49), _TILE),
        solid.box(0.0, 0.0, (0.5, 0.5), _EDGE),
        solid.box(0.0, 0.0, (0.47, 0.47), _TOP),
        *crates,
        *[shape for right, up in heap for shape in _onion(Pen(onions.at(right, up), onions.visible, 0.75))],
        *[shape for right, up in heap for shape in _tomato(Pen(tomatoes.at(right, up), tomatoes.visible, 0.75))],
        *[shape for up in (-0.1, -0.03, 0.04) for shape in _plate(Pen(dishes.at(0.0, up), dishes.visible, 1.3))],
        window.box(0.0, 0.0, (0.46, 0.46), _WINDOW),
        *[window.line((right, -0.4), (right, 0.4), 0.05, PAPER) for right in (-0.3, 0.0, 0.3)],
        window.line((-0.22, -0.14), (0.22, -0.14), 0.09, DARK),
        window.disc(0.0, -0.06, 0.19, (0.98, 0.78, 0.25)),
        window.ring(0.0, -0.06, 0.19, _EDGE),
        window.box(0.0, -0.2, (0.24, 0.05), DARK),
        window.disc(0.0, 0.17, 0.05, DARK),
    )
    surfaces = centers(torch.tensor(kitchen.surfaces, device=device))[None].expand(count, -1, -1)
    pots = kitchen.num_pots
    times = cook_time.gather(1, (item[:, :pots] >> 3) & 255)
    position = centers(cell)
    return Scene(
        join(
            ground,
            _pots(surfaces[:, :pots], item[:, :pots], times, int(cook_time.max())),
            _item_shapes(surfaces[:, pots:], item[:, pots:], 1.0),
            *_chefs(core, position, facing, carried),
        ),
        (0.0, 0.0, float(kitchen.width), float(kitchen.height)),
        agents=circles(position, 0.3, BLUE),
        ground=ground.shape[1],
    )
