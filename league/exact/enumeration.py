"""Enumeration of small game trees with the environment: all histories of one length are the worlds of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from gymnasium import spaces
from torch import Tensor, from_numpy

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core
from league.game import Game
from trainers.base.agent_group import agent_rows_of

__all__ = ["LARGEST", "EnumeratedTree", "PlayerTree", "enumerate_tree"]

LARGEST = 2_000_000
"""Largest number of histories of one length. As many need about 8 GB of memory."""
_DRAWS = 64  # resets per outcome of chance, so that every outcome occurs
_DEVIATIONS = 6.0  # largest difference of a frequency from its probability [standard deviations]
_NOT_BY_WORLD = ("params",)  # entries of a core's state without an axis of worlds


def _too_large(env_id: str) -> ConfigError:
    many = f"more than {LARGEST} histories of one length"
    return ConfigError(f"{env_id}: no exact tree: {many}; use learned responses and sampled payoffs")


_RECALL = {
    "Goofspiel-v0": "imp_info=True, fewer cards such as num_cards=3, or ",
    **dict.fromkeys(("MatrixGame-v0", "RockPaperScissors-v0"), "shorter episodes, such as num_repetitions=1, or "),
}
"""Settings with which agents have perfect recall, for messages, by environment whose agents can lack it."""


@dataclass(frozen=True)
class PlayerTree:
    """The I information sets of one seat, with C choices each."""

    observations: np.ndarray
    """Observations in the order of the steps (I, D) float32."""
    legal: np.ndarray
    """Legal choices (I, C) bool."""
    parent: np.ndarray
    """Sequence of the seat before each information set (I,) int64.

    It is 0 without actions, and 1 + i C + a after action a at information set i."""


@dataclass(frozen=True)
class EnumeratedTree:
    """The Z leaves of a game tree with S seats."""

    sides: tuple[PlayerTree, ...]
    """Information sets by seat."""
    sequence: np.ndarray
    """Last sequence of every seat (Z, S) int64."""
    chance: np.ndarray
    """Probability of the chance outcomes (Z,) float64."""
    returns: np.ndarray
    """Returns of the seats (Z, S) float64."""


class _Infosets:
    """Information sets of one seat during enumeration."""

    def __init__(self, env_id: str, choices: int) -> None:
        self.env_id, self.choices = env_id, choices
        self.index: dict[bytes, int] = {}
        self.observations: list[np.ndarray] = []
        self.legal: list[np.ndarray] = []
        self.parent: list[int] = []

    def number(self, obs: np.ndarray, legal: np.ndarray, sequence: np.ndarray) -> np.ndarray:
        """Return the information sets (W,) of worlds; observations of two different sequences raise ConfigError."""
        rows, first, inverse = np.unique(obs + 0.0, axis=0, return_index=True, return_inverse=True)  # maps -0.0 to 0.0
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
                f"{self.env_id}: no exact tree: expected observations with perfect recall, got equal ones after "
                f"different actions; use {_RECALL.get(self.env_id, '')}learned responses and sampled payoffs"
            )
        return index

    def done(self) -> PlayerTree:
        return PlayerTree(np.array(self.observations), np.array(self.legal), np.array(self.parent, np.int64))


def enumerate_tree(game: Game) -> EnumeratedTree:
    """Enumerate the tree of a game.

    Agents that move simultaneously choose one after the other, without observing the earlier choices.

    Raises:
        ConfigError: The environment does not declare its chance (see `EnvDefinition.chance`), or resets draw other
            outcomes; several agents share a seat, actions are not Discrete, an agent has no perfect recall, or there
            are more than `LARGEST` histories of one length.
    """
    if "domain_randomization" in game.env:
        raise ConfigError(f"{game.env_id}: no exact tree: expected an environment without domain_randomization")
    core, chance = _dealt(game)
    rows = [agent_rows_of(core, seat.members) for seat in game.seats]
    if any(len(members) != 1 for members in rows):
        raise ConfigError(f"{game.env_id}: no exact tree: expected one agent per seat, got {[len(r) for r in rows]}")
    if not all(isinstance(space, spaces.Discrete) for space in core.action_spaces.values()):
        raise ConfigError(f"{game.env_id}: no exact tree: expected Discrete actions, got others")
    agents = [row for (row,) in rows]
    sizes = core.num_choices[agents, 0].tolist()
    found = [_Infosets(game.env_id, size) for size in sizes]

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
            raise _too_large(game.env_id)
        chance, total = chance[world], total[world]
        core = _moved(game, core, world)
        core.step(from_numpy(choice))
        total = total + core.reward[:, agents].numpy()
    sequence, chance, returns = (np.concatenate(parts) for parts in zip(*leaves, strict=True))
    return EnumeratedTree(tuple(side.done() for side in found), sequence, chance, returns)


def _branches(
    core: Core, here: np.ndarray, sequence: np.ndarray, agents: Sequence[int], found: Sequence[_Infosets]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return all N joint choices in worlds (W,): the world (N,), actions (N, A) and next sequences (N, S)."""
    world, choice = here, np.zeros((len(here), core.num_agents), np.int64)
    movers = (core.alive if core.to_move is None else core.to_move).numpy()
    before = sequence
    source = np.arange(len(here))
    for seat, (row, infosets) in enumerate(zip(agents, found, strict=True)):
        moves, size = movers[here, row], infosets.choices
        legal = np.ones((len(here), size), bool)
        if core.action_mask is not None:
            legal = core.action_mask[:, row, :size].numpy()[here]
        legal[~moves] = np.arange(size) == 0  # agents that do not move have the single choice 0
        infoset = np.zeros(len(here), np.int64)
        if moves.any():
            infoset[moves] = infosets.number(core.obs[:, row].numpy()[here[moves]], legal[moves], before[moves, seat])
        each, action = legal[source].nonzero()
        source, world, choice, sequence = source[each], world[each], choice[each], sequence[each]
        choice[:, row] = action
        sequence[:, seat] = np.where(moves[source], 1 + infoset[source] * size + action, sequence[:, seat])
    return world, choice, sequence


def _dealt(game: Game) -> tuple[Core, np.ndarray]:
    """Return a world for every outcome of chance right after its reset, and the probabilities of the outcomes (W,).

    Worlds are reset until every outcome has occurred.
    """
    core = game.core(1, autoreset="disabled")
    chance, where = core.definition.chance, f"{game.env_id}: no exact tree"
    if chance is None:
        raise ConfigError(
            f"{where}: expected an environment that declares its random outcomes, EnvDefinition.chance, such as "
            "KuhnPoker-v0, got one that does not; use learned responses and sampled payoffs"
        )
    if chance.histories > LARGEST:
        raise _too_large(game.env_id)
    if not chance.field:
        core.reset(seed=0)
        return core, np.ones(1)
    weights = chance.weights() if chance.count * _DRAWS <= LARGEST else {}
    total = sum(weights.values())
    draws = total // min(weights.values(), default=1) * _DRAWS
    if not weights or draws > LARGEST:
        raise ConfigError(f"{where}: {chance.count} deals are too many; use sampled payoffs")
    core = game.core(draws, autoreset="disabled")
    core.reset(seed=0)
    outcomes, first, counts = np.unique(
        core.world_state[chance.field].flatten(1).numpy(), axis=0, return_index=True, return_counts=True
    )
    drawn = dict(zip(map(tuple, outcomes.tolist()), zip(first, counts, strict=True), strict=True))
    for outcome in dict.fromkeys((*weights, *drawn)):
        share, count = weights.get(outcome, 0) / total, drawn.get(outcome, (0, 0))[1]
        if abs(count - share * draws) > _DEVIATIONS * (share * (1.0 - share) * draws) ** 0.5:
            raise ConfigError(
                f"{where}: chance: expected State.{chance.field} {outcome} in {share:.4g} of all resets, got "
                f"{count} of {draws}; correct EnvDefinition.chance"
            )
    rows = np.array([drawn[outcome][0] for outcome in weights])
    return _moved(game, core, rows), np.array([weight / total for weight in weights.values()])


def _moved(game: Game, core: Core, rows: np.ndarray) -> Core:
    """Return a core with copies of worlds (N,)."""
    state: dict[str, Tensor] = core.get_state()
    index = from_numpy(rows)
    copies = game.core(len(rows), autoreset="disabled")
    by_world = {name for name, tensor in state.items() if len(tensor) == core.num_envs and name not in _NOT_BY_WORLD}
    copies.set_state({name: tensor[index] if name in by_world else tensor for name, tensor in state.items()})
    return copies
