"""Walks the whole tree of a small game with the environment itself: all histories of a length are worlds of a batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from gymnasium import spaces
from torch import Tensor, from_numpy

from gpu_envs.core import Core
from gpu_envs.errors import ConfigError
from league.game import Game
from trainers.agents import members_of

LARGEST = 1_000_000
"""Histories of one length at most."""
_DRAWS = 64  # resets per deal, so that every deal comes up
_NOT_BY_WORLD = ("params",)  # entries of a core's state that all worlds share


@dataclass(frozen=True)
class Deals:
    """All that chance can do, at the reset and nowhere else, each as likely as the others."""

    field: str
    """Of the worlds' state, (E, dealt)."""
    deck: int
    """Cards there are."""
    dealt: int
    """What lies there: every order of so many different cards out of a deck."""


CHANCE: dict[str, Callable[[Any], Deals | None]] = {
    "KuhnPoker-v0": lambda config: Deals("card", config.num_players + 1, config.num_players),
    "LeducPoker-v0": lambda config: Deals("card", 6, 3),
    **dict.fromkeys(
        ("ClimbingGame-v0", "MatrixGame-v0", "RockPaperScissors-v0", "TicTacToe-v0", "TwoStepGame-v0"),
        lambda config: None,
    ),
}
"""What chance does, from a game's settings, by environment; None: nothing."""


@dataclass(frozen=True)
class Side:
    """What one seat can come to know: its infosets, I of them, each of `choices` C."""

    observations: np.ndarray
    """(I, D) float32, what is observed there, in the order of the steps."""
    legal: np.ndarray
    """(I, C) bool."""
    parent: np.ndarray
    """(I,) int64, the seat's sequence that leads there: 0 is nothing done yet, 1 + i C + a is action a at infoset i."""


@dataclass(frozen=True)
class Walk:
    """The leaves of a game's tree, Z of them, as S seats come there."""

    sides: tuple[Side, ...]
    """By seat, what it can come to know."""
    sequence: np.ndarray
    """(Z, S) int64, the last sequence of every seat."""
    chance: np.ndarray
    """(Z,) float64, the probability that chance has in it."""
    returns: np.ndarray
    """(Z, S) float64."""


class _Infosets:
    """A side, while it is found."""

    def __init__(self, env_id: str, choices: int) -> None:
        self.env_id, self.choices = env_id, choices
        self.index: dict[bytes, int] = {}
        self.observations: list[np.ndarray] = []
        self.legal: list[np.ndarray] = []
        self.parent: list[int] = []

    def number(self, obs: np.ndarray, legal: np.ndarray, sequence: np.ndarray) -> np.ndarray:
        """Infosets (W,) of worlds by observation, new ones added; every observation must fit one sequence alone."""
        rows, first, inverse = np.unique(obs + 0.0, axis=0, return_index=True, return_inverse=True)  # one zero
        for row, world in zip(rows, first, strict=True):
            if row.tobytes() not in self.index:
                self.index[row.tobytes()] = len(self.parent)
                self.observations.append(row)
                self.legal.append(legal[world])
                self.parent.append(int(sequence[world]))
        index = np.array([self.index[row.tobytes()] for row in rows], np.int64)[inverse.reshape(-1)]
        parents, masks = np.array(self.parent)[index], np.array(self.legal)[index]
        if (parents != sequence).any() or (masks != legal).any():
            raise ConfigError(
                f"{self.env_id}: no exact tree: an observation does not tell what its agent has done and seen before "
                "(perfect recall); choose a shorter episode, such as num_steps=1, or sampled payoffs"
            )
        return index

    def done(self) -> Side:
        return Side(np.array(self.observations), np.array(self.legal), np.array(self.parent, np.int64))


def walk(game: Game) -> Walk:
    """Plays all there is to play.

    Agents that move at once choose one after the other, the later ones without knowing.

    Raises:
        ConfigError: What chance does here is not known (see `CHANCE`), several agents share a seat, actions are not
            Discrete, an agent forgets, or there are over `LARGEST` histories of one length.
    """
    if game.env_id not in CHANCE or "randomise" in game.env:
        raise ConfigError(f"{game.env_id}: no exact tree: known only for {', '.join(CHANCE)} without `randomise`")
    core = _dealt(game)
    rows = [members_of(core, seat.members) for seat in game.seats]
    if any(len(members) != 1 for members in rows):
        raise ConfigError(f"{game.env_id}: no exact tree: expected one agent a seat, got {[len(r) for r in rows]}")
    if not all(isinstance(space, spaces.Discrete) for space in core.action_spaces.values()):
        raise ConfigError(f"{game.env_id}: no exact tree: expected Discrete actions")
    agents = [row for (row,) in rows]
    sizes = core.num_choices[agents, 0].tolist()
    found = [_Infosets(game.env_id, size) for size in sizes]

    chance = np.full(core.num_envs, 1.0 / core.num_envs)
    sequence = np.zeros((core.num_envs, len(agents)), np.int64)
    total = np.zeros((core.num_envs, len(agents)))
    leaves: list[tuple[np.ndarray, ...]] = []
    while True:
        over = ~core.alive.numpy().any(1)
        leaves.append((sequence[over], chance[over], total[over]))
        if over.all():
            break
        world, choice, sequence = _branches(core, np.flatnonzero(~over), sequence[~over], agents, found)
        if len(world) > LARGEST:
            raise ConfigError(
                f"{game.env_id}: no exact tree: over {LARGEST} histories of one length; learn and sample instead"
            )
        chance, total = chance[world], total[world]
        core = _moved(game, core, world)
        core.step(from_numpy(choice))
        total = total + core.reward[:, agents].numpy()
    sequence, chance, returns = (np.concatenate(parts) for parts in zip(*leaves, strict=True))
    return Walk(tuple(side.done() for side in found), sequence, chance, returns)


def _branches(
    core: Core, here: np.ndarray, sequence: np.ndarray, agents: Sequence[int], found: Sequence[_Infosets]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All that can be done in some worlds (W,): which world (N,), what by all agents (N, A), sequences then (N, S)."""
    world, choice = here, np.zeros((len(here), core.num_agents), np.int64)
    movers = (core.alive if core.to_move is None else core.to_move).numpy()
    before = sequence
    source = np.arange(len(here))
    for seat, (row, infosets) in enumerate(zip(agents, found, strict=True)):
        moves, size = movers[here, row], infosets.choices
        legal = np.ones((len(here), size), bool)
        if core.action_mask is not None:
            legal = core.action_mask[:, row, :size].numpy()[here]
        legal[~moves] = np.arange(size) == 0  # who does not move has the one thing to do, 0
        infoset = np.zeros(len(here), np.int64)
        if moves.any():
            infoset[moves] = infosets.number(core.obs[:, row].numpy()[here[moves]], legal[moves], before[moves, seat])
        each, action = legal[source].nonzero()
        source, world, choice, sequence = source[each], world[each], choice[each], sequence[each]
        choice[:, row] = action
        sequence[:, seat] = np.where(moves[source], 1 + infoset[source] * size + action, sequence[:, seat])
    return world, choice, sequence


def _dealt(game: Game) -> Core:
    """A world for every deal, right after its reset: the core deals until all have come up."""
    core = game.core(1, autoreset="disabled")
    deals = CHANCE[game.env_id](core.config)
    if deals is None:
        core.reset(seed=0)
        return core
    count = math.perm(deals.deck, deals.dealt)
    if count * _DRAWS > LARGEST:
        raise ConfigError(f"{game.env_id}: no exact tree: {count} deals are too many; learn and sample instead")
    core = game.core(count * _DRAWS, autoreset="disabled")
    core.reset(seed=0)
    cards = core.world_state[deals.field].tolist()
    world = {tuple(dealt): row for row, dealt in enumerate(cards)}
    rows = [world[deal] for deal in permutations(range(deals.deck), deals.dealt)]
    return _moved(game, core, np.array(rows))


def _moved(game: Game, core: Core, rows: np.ndarray) -> Core:
    """A core with copies of some worlds (N,)."""
    state: dict[str, Tensor] = core.get_state()
    index = from_numpy(rows)
    copies = game.core(len(rows), autoreset="disabled")
    by_world = {name for name, tensor in state.items() if len(tensor) == core.num_envs and name not in _NOT_BY_WORLD}
    copies.set_state({name: tensor[index] if name in by_world else tensor for name, tensor in state.items()})
    return copies
