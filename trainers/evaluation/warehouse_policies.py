"""Scripted policy of RobotWarehouse-v0: robots fetch requested shelves by the shortest way and bring them back."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core
from trainers.evaluation.state_policy import StatePolicy
from warp_kernels.grid.robot_warehouse.robot_warehouse import (
    FORWARD,
    GOAL,
    NUM_ACTIONS,
    PLACE,
    TOGGLE_LOAD,
    TURN_LEFT,
    TURN_RIGHT,
)

MAX_WAYS = 2**26
"""Largest product of places of shelves and cells, for which the policy keeps the lengths of ways."""
GIVES_WAY = 0.8
"""Probability that a robot goes around one with a lower row."""
ACTS_AT_RANDOM = 0.1
"""Probability that a robot acts at random that wants to go where another one is."""
_FAR = 1 << 20  # more cells than any way has
_STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))  # rows and columns of the directions up, down, left, right
_QUARTERS = (0, 2, 3, 1)  # quarter turns to the right from up, by direction


class WarehousePolicy(StatePolicy):
    """Fetch a requested shelf, bring it to a goal, then to a free place; has the interface of a `Policy`.

    Robots choose in row order: the nearest requested shelf that no robot with a lower row has chosen, and the nearest
    free place. Robots with a shelf keep to corridors. A robot gives way to those with lower rows: it mostly goes where
    none of them is. A robot without a choice, and sometimes one that has another in its way, acts at random.
    """

    env_ids: ClassVar[tuple[str, ...]] = ("RobotWarehouse-v0",)
    script = "fetch requested shelves and bring them back"

    def __init__(self, core: Core, member: str) -> None:
        """Control a group or an agent of a core.

        Raises:
            ConfigError: The core is another environment, or the warehouse is too large.
        """
        super().__init__(core, member)
        self._floor = core.world_state["floor"][0].long()
        self._places = (self._floor.flatten() == int(PLACE)).nonzero()[:, 0]  # cells, numbered row by row
        if len(self._places) * self._floor.numel() > MAX_WAYS:
            raise ConfigError(
                f"WarehousePolicy: expected at most {MAX_WAYS} products of places and cells, got "
                f"{len(self._places)} x {self._floor.numel()}; use a smaller warehouse"
            )
        self._ways, self._steps_on = self._lengths()

    def _lengths(self) -> tuple[Tensor, Tensor]:
        """Return the lengths of ways with a shelf from all cells to each place, then to the nearest goal.

        Both tensors are (N + 1, (rows + 2) * (columns + 2)), with a margin of cells that lead nowhere. The second one
        leaves out places on the way, which a robot can leave but not enter.
        """
        rows, columns = self._floor.shape
        count = len(self._places)
        length = torch.full((count + 1, rows * columns), _FAR, device=self._floor.device)
        length[torch.arange(count), self._places] = 0
        length[count, self._floor.flatten() == int(GOAL)] = 0
        length = torch.nn.functional.pad(length.unflatten(1, (rows, columns)), (1, 1, 1, 1), value=_FAR)
        corridor = torch.nn.functional.pad(self._floor != int(PLACE), (1, 1, 1, 1))
        start = length
        while True:  # one more cell of every way, until none gets shorter
            through = torch.where(corridor | (start == 0), length, _FAR)
            around = [through.roll((-down, -right), (1, 2)) for down, right in _STEPS]
            longer = torch.minimum(length, torch.stack(around).amin(0) + 1)
            longer[:, [0, -1]] = longer[:, :, [0, -1]] = _FAR
            if torch.equal(longer, length):
                return length.flatten(1), through.flatten(1)
            length = longer

    def _act(self, mask: Tensor | None) -> Tensor:
        state = self.core.world_state
        row, column, way, load = (state[name].long() for name in ("row", "column", "direction", "load"))
        worlds, robots = row.shape
        rows, columns = self._floor.shape
        device = row.device
        cell, shelf = row * columns + column, state["shelf"].flatten(1)
        requested = shelf.gather(1, cell) == 2
        carried = torch.zeros_like(shelf, dtype=torch.bool).scatter_(1, cell, load > 0)
        requests, free = (shelf == 2) & ~carried, ((shelf == 0) | carried)[:, self._places]
        y = torch.arange(rows, device=device).repeat_interleave(columns)
        x = torch.arange(columns, device=device).repeat(rows)
        steps = torch.tensor(((0, 0), *_STEPS), device=device)
        choice = torch.randint(1, NUM_ACTIONS, row.shape, generator=self._generator, device=device)
        chance = torch.rand(row.shape, generator=self._generator, device=device)
        for robot in range(robots):
            loaded = load[:, robot] > 0
            down, right = (line[:, robot, None] + steps[:, axis] for axis, line in enumerate((row, column)))
            # without a shelf: below all others, straight to a requested one
            gap = (y - row[:, robot, None]).abs() + (x - column[:, robot, None]).abs()
            nearest = gap.masked_fill(~requests, _FAR).argmin(1)
            inside = (down >= 0) & (down < rows) & (right >= 0) & (right < columns)
            below = (down - y[nearest, None]).abs() + (right - x[nearest, None]).abs()
            below = below.masked_fill(~inside | ~requests.any(1, keepdim=True), _FAR)
            # with a shelf: through corridors, to a goal or a free place
            padded = (down + 1) * (columns + 2) + right + 1
            back = self._ways[:-1, padded[:, 0]].T.masked_fill(~free, _FAR).argmin(1)
            target = torch.where(requested[:, robot], len(self._places), back)
            length = torch.where(
                loaded[:, None], self._steps_on[target[:, None], padded], below
            )  # own cell, four around
            occupied = self._robots_around(cell, padded, columns)
            lower = occupied[..., :robot].any(-1) & (chance[:, robot, None] < GIVES_WAY)
            length[:, 1:] = length[:, 1:].masked_fill(lower, _FAR)
            shaken = chance[:, robot] > 1.0 - ACTS_AT_RANDOM
            choice[:, robot] = self._choose(length, way[:, robot], occupied.any(-1) & shaken[:, None], choice[:, robot])
            arrived = loaded & requested[:, robot] & (length[:, 0] == 0)  # requested while it is on the goal
            choice[:, robot] = choice[:, robot].masked_fill(arrived, 0)
            world = torch.arange(worlds, device=device)
            requests[world, nearest] &= loaded
            free[world, back] &= ~loaded | requested[:, robot]
        choice = choice[:, self.rows]
        bits = self.core.config.msg_bits
        if bits:
            return torch.nn.functional.pad(choice[..., None], (0, bits))
        return choice

    @staticmethod
    def _robots_around(cell: Tensor, padded: Tensor, columns: int) -> Tensor:
        """Return which robots are in the four cells around, (E, 4, A), numbered in a grid with a margin."""
        other = (cell // columns + 1) * (columns + 2) + cell % columns + 1
        return padded[:, 1:, None] == other[:, None]

    @staticmethod
    def _choose(length: Tensor, way: Tensor, shaken: Tensor, at_random: Tensor) -> Tensor:
        """Return the actions (E,) of a robot.

        Args:
            length: Lengths of ways from its cell and the four around, (E, 5).
            way: Direction.
            shaken: The cells around that make it act at random if it wants to go there, (E, 4).
            at_random: Random actions.
        """
        around = 2 * length[:, 1:]
        best = around.scatter_add(1, way[:, None], torch.full_like(way, -1)[:, None]).argmin(1)  # straight on if equal
        quarters = torch.tensor(_QUARTERS, device=way.device)
        turn = (quarters[best] - quarters[way]) % 4
        choice = torch.where(turn == 0, int(FORWARD), torch.where(turn == 3, int(TURN_LEFT), int(TURN_RIGHT)))
        lost = shaken.gather(1, best[:, None]).squeeze(1) | (around.amin(1) >= 2 * _FAR)
        return torch.where(length[:, 0] == 0, int(TOGGLE_LOAD), torch.where(lost, at_random, choice))
