"""Local search for the best returns of SwitchRiddle-v0 with three prisoners, with and without the lamp.

``python -m benchmarks.training.tasks.switch_riddle_search STARTS`` improves random policies, which differ between the
prisoners and remember all they saw, by exact best responses, one prisoner after another. It prints each new best: the
number of sequences won minus those lost of all 729, and the return of one prisoner and of all three.
"""

import itertools
import random
import sys
from collections.abc import Sequence
from typing import TypeAlias

PRISONERS, STEPS = 3, 6
SEQUENCES = list(itertools.product(range(PRISONERS), repeat=STEPS))
SWITCH, TELL = 1, 2
Memory: TypeAlias = tuple[tuple[int, int, int], ...]
"""Visits of a prisoner: step, lamp seen, action."""
View: TypeAlias = tuple[int, Memory, int]
"""Step, memory and lamp that a prisoner sees in the room."""
Policy: TypeAlias = dict[View, int]
World: TypeAlias = tuple[tuple[int, ...], int, frozenset[int], tuple[Memory, ...]]
"""Sequence of prisoners, lamp, prisoners that have been in the room, and memories of all."""


class Search:
    """Best responses of one prisoner to the policies of the others."""

    def __init__(self, lamp: bool, me: int, policies: Sequence[Policy]) -> None:
        """``lamp``: whether prisoners see and switch the lamp; ``me``: the prisoner that responds."""
        self.lamp, self.me, self.policies = lamp, me, policies

    def respond(self) -> tuple[int, Policy]:
        """Return the value over all sequences and the policy of the best response."""
        start = ((),) * PRISONERS
        return self._solve([(0, (sequence, 0, frozenset[int](), start)) for sequence in SEQUENCES])

    def _solve(self, worlds: Sequence[tuple[int, World]]) -> tuple[int, Policy]:
        """Go on from the steps of these worlds until `me` enters, and choose the best action of each view."""
        value, policy, views = 0, Policy(), dict[View, list[World]]()
        for step, world in worlds:
            value += self._advance(step, world, views)
        for view, worlds_of_view in views.items():
            best, choices = max(
                (self._act(view, worlds_of_view, action) for action in self._actions()), key=lambda pair: pair[0]
            )
            value += best
            policy |= choices
        return value, policy

    def _actions(self) -> list[int]:
        """Return the actions in random order, which breaks ties."""
        return random.sample((0, SWITCH, TELL) if self.lamp else (0, TELL), 3 if self.lamp else 2)

    def _act(self, view: View, worlds: Sequence[World], action: int) -> tuple[int, Policy]:
        if action == TELL:
            won = sum(len(been | {self.me}) == PRISONERS for _, _, been, _ in worlds)
            return 2 * won - len(worlds), {view: action}
        value, policy = self._solve([(view[0] + 1, self._after(world, view, self.me, action)) for world in worlds])
        return value, policy | {view: action}

    def _after(self, world: World, view: View, prisoner: int, action: int) -> World:
        sequence, bulb, been, memories = world
        memory = (*memories[prisoner], (view[0], view[2], action))
        memories = (*memories[:prisoner], memory, *memories[prisoner + 1 :])
        return sequence, 1 - bulb if action == SWITCH else bulb, been | {prisoner}, memories

    def _advance(self, step: int, world: World, views: dict[View, list[World]]) -> int:
        """Let the others act until `me` enters, which is added to the views; return the value of worlds that end."""
        while step < STEPS:
            prisoner = world[0][step]
            view = (step, world[3][prisoner], world[1] if self.lamp else 0)
            if prisoner == self.me:
                views.setdefault(view, []).append(world)
                return 0
            if view not in self.policies[prisoner]:
                self.policies[prisoner][view] = random.choices((0, SWITCH, TELL), (0.55, 0.4, 0.05))[0]
            action = self.policies[prisoner][view]
            if action == TELL:
                return 1 if len(world[2] | {prisoner}) == PRISONERS else -1
            world, step = self._after(world, view, prisoner, action), step + 1
        return 0


def search(lamp: bool, start: int) -> int:
    """Return the value of a local optimum."""
    random.seed(start)
    policies, value, same = [Policy() for _ in range(PRISONERS)], -len(SEQUENCES), 0
    while same < PRISONERS:
        for me in range(PRISONERS):
            response, policies[me] = Search(lamp, me, policies).respond()
            value, same = (response, 0) if response > value else (value, same + 1)
    return value


if __name__ == "__main__":
    for lamp in (False, True):
        best = -len(SEQUENCES)
        for start in range(int(sys.argv[1])):
            if (value := search(lamp, start)) > best:
                best, mean = value, value / len(SEQUENCES)
                print(f"{'with' if lamp else 'without'} lamp: {best} of {len(SEQUENCES)}, {mean:.4f}, {3 * mean:.4f}")
