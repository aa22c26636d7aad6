"""Picture of RobotWarehouse-v0."""

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from gpu_envs.definition.environment import WorldView
    from gpu_envs.rendering.scene import Scene

__all__ = ["draw"]

_WOOD, _EDGE = (0.72, 0.53, 0.34), (0.42, 0.28, 0.16)
_CARTON, _TAPE = (0.88, 0.73, 0.50), (0.62, 0.46, 0.27)
_WANTED, _WANTED_EDGE = (0.16, 0.70, 0.58), (0.04, 0.38, 0.32)
_FLOOR, _LINE = (0.90, 0.91, 0.92), (0.80, 0.81, 0.83)
_TRUCK = (0.99, 0.85, 0.30)


def draw(core: "WorldView", envs: torch.Tensor) -> "Scene":
    """Return the scene of these worlds.

    Shelves are wooden racks with cartons, green if they are requested. Goals are striped in yellow and black. Robots
    are orange with wheels and an arrow in their direction; a robot that carries a shelf is around it.
    """
    from gpu_envs.rendering.scene import DARK, ORANGE, Scene, boxes, circles, join, lines, rings

    state = core.world_state
    floor, shelf = state["floor"][envs].long(), state["shelf"][envs].long()
    worlds, rows, columns = shelf.shape
    device = core.device

    def shift(centers: torch.Tensor, right: float, up: float) -> torch.Tensor:
        return centers + torch.tensor([right, up], device=device)

    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    cells = torch.stack([x.flatten() + 0.5, rows - 0.5 - y.flatten()], -1)[None].to(device).expand(worlds, -1, -1)
    kind, shelves = floor.flatten(1), shelf.flatten(1)
    is_goal = (kind == 2).float()
    ground = [boxes(cells, 0.48, _FLOOR), boxes(cells, 0.42, _LINE, (kind == 0).float(), 0.04)]
    ground.append(boxes(cells, 0.48, _TRUCK, is_goal))
    for offset in (-0.28, 0.0, 0.28):  # stripes of a loading zone
        ground.append(lines(shift(cells, offset - 0.12, -0.38), shift(cells, offset + 0.12, 0.38), 0.1, DARK, is_goal))

    column, row = state["column"][envs], state["row"][envs]
    position = torch.stack([column + 0.5, rows - 0.5 - row], -1).to(device)
    ways = torch.tensor([[0.0, 1.0], [0.0, -1.0], [-1.0, 0.0], [1.0, 0.0]], device=device)
    ahead = ways[state["direction"][envs].long()]
    side = ahead.flip(-1) * torch.tensor([1.0, -1.0], device=device)
    loaded = (state["load"][envs] > 0).float()
    bodies = circles(position, 0.4 + 0.08 * loaded, ORANGE)
    robots = [
        *(lines(position + 0.36 * turn * side - 0.2 * ahead, position + 0.36 * turn * side + 0.2 * ahead, 0.16, DARK)
          for turn in (-1, 1)),
        bodies,
        rings(position, 0.4 + 0.08 * loaded, DARK, 0.05),
    ]  # fmt: skip

    present, requested = (shelves > 0).float(), (shelves > 1)[..., None]
    color = torch.where(requested, *(torch.tensor(paint, device=device) for paint in (_WANTED, _WOOD)))
    edge = torch.where(requested, *(torch.tensor(paint, device=device) for paint in (_WANTED_EDGE, _EDGE)))
    on_robot = torch.zeros((worlds, rows * columns), device=device)
    on_robot.scatter_(1, (row * columns + column).long(), loaded)
    half = 0.36 - 0.08 * on_robot  # the robot around a shelf that it carries stays visible
    racks = [boxes(cells, half[..., None], color, present), boxes(cells, half[..., None], edge, present, 0.07)]
    for right, up, size in ((-0.15, -0.14, 0.11), (0.13, -0.14, 0.12), (-0.1, 0.14, 0.13), (0.17, 0.12, 0.09)):
        scale = (half / 0.36)[..., None]
        center = cells + scale * torch.tensor([right, up], device=device)
        racks.append(boxes(center, size * scale, _CARTON, present))
        racks.append(boxes(center, size * scale * torch.tensor([0.2, 1.0], device=device), _TAPE, present))
    tip = position + 0.43 * ahead
    arrows = [
        lines(position + 0.27 * turn * side + 0.2 * ahead, tip, 0.1, color_of, 1.0)
        for color_of in (DARK,)
        for turn in (-1, 1)
    ]
    below = join(*ground)
    return Scene(
        join(below, *robots, *racks, *arrows),
        (0.0, 0.0, float(columns), float(rows)),
        agents=bodies,
        ground=below.shape[1],
    )
