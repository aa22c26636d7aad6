"""Enumeration of small game trees: all histories of one length are the worlds of a batch, or states of OpenSpiel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from numbers import Integral
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, from_numpy

from gpu_envs.definition import Chance
from gpu_envs.errors import ConfigError, shown
from gpu_envs.runtime.core import Core
from league.game import Game
from trainers.base.agent_group import agent_rows_of

LARGEST = 2_000_000
"""Largest number of histories of one length. As many need about 8 GB of memory."""
_LARGEST_OF_STATES = 200_000  # the same of OpenSpiel's states, which are copied one by one
_DRAWS = 64  # expected number of resets with the rarest outcome of chance, so that every outcome occurs
_MIN_DRAWS = 2**16  # lowest number of resets, so that wrong probabilities of few outcomes show
_LIKELIHOOD = 1e-9  # refused if drawn frequencies are less likely under the declared probabilities
_COMPARED_WORLDS = 256  # lowest number of worlds, over all outcomes, whose play is compared
_COMPARED_STEPS = 1000  # largest number of compared steps
_WAITS = -1  # in place of an action of a seat that does not move
_NOT_BY_WORLD = ("params",)  # entries of a core's state without an axis of worlds


def _too_large(env_id: str, largest: int) -> ConfigError:
    many = f"more than {largest} histories of one length"
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


def enumerate_tree(game: Game) -> tuple[list[PlayerTree], np.ndarray, np.ndarray, np.ndarray]:
    """Enumerate the tree of a game.

    Agents that move simultaneously choose one after the other, without observing the earlier choices. A game of
    OpenSpiel is enumerated by its own states, because the worlds of a host environment cannot be copied.

    Returns:
        The information sets of each of the S seats; and of the Z leaves the last sequence of every seat (Z, S) int64,
        the probability of the chance outcomes (Z,) float64 and the returns of the seats (Z, S) float64.

    Raises:
        ConfigError: The environment is no game of OpenSpiel with tensors of information states, and does not declare
            its chance (see `EnvDefinition.chance`), or plays differently: resets draw other outcomes, or worlds of one
            outcome differ after the same actions. Several agents share a seat, actions are not Discrete, an agent has
            no perfect recall, or there are more than `LARGEST` histories of one length.
    """
    if "domain_randomization" in game.env:
        raise ConfigError(f"{game.env_id}: no exact tree: expected an environment without domain_randomization")
    core = game.core(1, autoreset="disabled")
    declared, spiel_game = core.definition.chance, getattr(core.definition, "spiel_game", None)
    if declared is None and spiel_game is None:
        raise ConfigError(
            f"{game.env_id}: no exact tree: expected an environment that declares its random outcomes, "
            "EnvDefinition.chance, such as KuhnPoker-v0, or a game of OpenSpiel with tensors of information states, "
            "got another; use learned responses and sampled payoffs"
        )
    rows = [agent_rows_of(core, seat.members) for seat in game.seats]
    if any(len(members) != 1 for members in rows):
        raise ConfigError(f"{game.env_id}: no exact tree: expected one agent per seat, got {[len(r) for r in rows]}")
    if not all(isinstance(space, spaces.Discrete) for space in core.action_spaces.values()):
        raise ConfigError(f"{game.env_id}: no exact tree: expected Discrete actions, got others")
    agents = [row for (row,) in rows]
    if declared is None:
        return _enumerate_states(game.env_id, spiel_game, agents)
    core, chance = _dealt(game, declared)
    sizes = core.num_choices[agents, 0].tolist()
    sides = [_Infosets(game.env_id, size) for size in sizes]

    sequence = np.zeros((core.num_envs, len(agents)), np.int64)
    total = np.zeros((core.num_envs, len(agents)))
    leaves: list[tuple[np.ndarray, ...]] = []
    while True:
        over = ~core.alive.numpy().any(1)
        leaves.append((sequence[over], chance[over], total[over]))
        if over.all():
            break
        world, choice, sequence = _branches(core, np.flatnonzero(~over), sequence[~over], agents, sides)
        if len(world) > LARGEST:
            raise _too_large(game.env_id, LARGEST)
        chance, total = chance[world], total[world]
        core = _moved(game, core, world)
        core.step(from_numpy(choice))
        total = total + core.reward[:, agents].numpy()
    sequence, chance, returns = (np.concatenate(parts) for parts in zip(*leaves, strict=True))
    return [side.done() for side in sides], sequence, chance, returns


def _enumerate_states(
    env_id: str, spiel_game: Any, players: Sequence[int]
) -> tuple[list[PlayerTree], np.ndarray, np.ndarray, np.ndarray]:
    """Enumerate the tree of a ``pyspiel.Game`` with the player of each seat; see `enumerate_tree`."""
    size = spiel_game.num_distinct_actions()
    sides = [_Infosets(env_id, size) for _ in players]
    leaves: list[tuple[tuple[int, ...], float, list[float]]] = []
    nodes: list[tuple[Any, tuple[int, ...], float]] = [(spiel_game.new_initial_state(), (0,) * len(players), 1.0)]
    while nodes:
        decisions = []
        while nodes:
            state, sequence, chance = nodes.pop()
            if state.is_terminal():
                returns = state.returns()
                leaves.append((sequence, chance, [returns[player] for player in players]))
            elif state.is_chance_node():
                nodes += [(state.child(outcome), sequence, chance * p) for outcome, p in state.chance_outcomes()]
            else:
                decisions.append((state, sequence, chance))
            if len(nodes) + len(decisions) > _LARGEST_OF_STATES:
                raise _too_large(env_id, _LARGEST_OF_STATES)
        moves = [_legal_moves(state, players) for state, _, _ in decisions]
        if sum(prod(len(actions) for actions in legal) for legal in moves) > _LARGEST_OF_STATES:
            raise _too_large(env_id, _LARGEST_OF_STATES)
        infosets = np.zeros((len(decisions), len(players)), np.int64)
        for seat, (player, side) in enumerate(zip(players, sides, strict=True)):
            rows = [row for row, legal in enumerate(moves) if legal[seat] != (_WAITS,)]
            if rows:
                tensors = [decisions[row][0].information_state_tensor(player) for row in rows]
                legal_choices = np.zeros((len(rows), size), bool)
                for choices, row in zip(legal_choices, rows, strict=True):
                    choices[list(moves[row][seat])] = True
                previous = np.array([decisions[row][1][seat] for row in rows])
                infosets[rows, seat] = side.number(np.array(tensors, np.float32), legal_choices, previous)
        for (state, sequence, chance), legal, rows_of_seats in zip(decisions, moves, infosets.tolist(), strict=True):
            for joint in product(*legal):
                following = tuple(
                    last if action == _WAITS else 1 + infoset * size + action
                    for last, action, infoset in zip(sequence, joint, rows_of_seats, strict=True)
                )
                nodes.append((_child(state, joint, players), following, chance))
    sequences, chances, returns = (np.array(values) for values in zip(*leaves, strict=True))
    return [side.done() for side in sides], sequences, chances, returns


def _legal_moves(state: Any, players: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the legal actions of each seat; ``(_WAITS,)`` for a seat that does not move."""
    simultaneous, mover = state.is_simultaneous_node(), state.current_player()
    return [
        tuple(state.legal_actions(player)) or (_WAITS,) if simultaneous or player == mover else (_WAITS,)
        for player in players
    ]


def _child(state: Any, joint: Sequence[int], players: Sequence[int]) -> Any:
    """Return the state after the actions of the seats."""
    if not state.is_simultaneous_node():
        return state.child(next(action for action in joint if action != _WAITS))
    child, actions = state.clone(), [0] * len(players)
    for player, action in zip(players, joint, strict=True):
        actions[player] = max(action, 0)
    child.apply_actions(actions)
    return child


def _branches(
    core: Core, active: np.ndarray, sequence: np.ndarray, agents: Sequence[int], sides: Sequence[_Infosets]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return all N joint choices in worlds (W,): the world (N,), actions (N, A) and next sequences (N, S)."""
    world, choice = active, np.zeros((len(active), core.num_agents), np.int64)
    movers = (core.alive if core.to_move is None else core.to_move).numpy()
    previous = sequence
    source = np.arange(len(active))
    for seat, (row, infosets) in enumerate(zip(agents, sides, strict=True)):
        moves, size = movers[active, row], infosets.choices
        legal = np.ones((len(active), size), bool)
        if core.action_mask is not None:
            legal = core.action_mask[:, row, :size].numpy()[active]
        legal[~moves] = np.arange(size) == 0  # agents that do not move have the single choice 0
        infoset = np.zeros(len(active), np.int64)
        if moves.any():
            infoset[moves] = infosets.number(
                core.obs[:, row].numpy()[active[moves]], legal[moves], previous[moves, seat]
            )
        branch, action = legal[source].nonzero()
        source, world, choice, sequence = source[branch], world[branch], choice[branch], sequence[branch]
        choice[:, row] = action
        sequence[:, seat] = np.where(moves[source], 1 + infoset[source] * size + action, sequence[:, seat])
    return world, choice, sequence


def _dealt(game: Game, chance: Chance) -> tuple[Core, np.ndarray]:
    """Return a world for every outcome of chance right after its reset, and the probabilities of the outcomes (W,).

    Raises:
        ConfigError: There are too many outcomes, or worlds differ from the declared chance.
    """
    prefix = f"{game.env_id}: no exact tree"
    if chance.histories > LARGEST:
        raise _too_large(game.env_id, LARGEST)
    if chance.field and chance.count * _DRAWS > LARGEST:
        raise ConfigError(f"{prefix}: {chance.count} deals are too many; use sampled payoffs")
    weights = _weights(game, chance, f"{prefix}: chance")
    total, rarest = sum(weights.values()), min(weights.values())
    draws = -(-total // rarest) * _DRAWS
    if chance.field and draws > LARGEST:
        raise ConfigError(
            f"{prefix}: chance: expected outcomes in at least 1 of {LARGEST // _DRAWS} resets, got one in {rarest} of "
            f"{total}; use sampled payoffs"
        )
    draws = max(draws, _MIN_DRAWS) if chance.field else _COMPARED_WORLDS
    core = game.core(draws, autoreset="disabled")
    core.reset(seed=0)
    values, first, outcome_of, counts = np.unique(
        _outcomes(core, chance), axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    drawn = dict(zip(map(tuple, values.tolist()), zip(first.tolist(), counts.tolist(), strict=True), strict=True))
    _check_frequencies(chance, weights, {outcome: count for outcome, (_, count) in drawn.items()}, prefix)
    _check_play(game, core, outcome_of.reshape(-1), chance)
    rows = np.array([drawn[outcome][0] for outcome in weights])
    return _moved(game, core, rows), np.array([weight / total for weight in weights.values()])


def _outcomes(core: Core, chance: Chance) -> np.ndarray:
    """Return the outcomes of chance in all worlds (E, N); N = 0 if nothing is random."""
    if not chance.field:
        return np.zeros((core.num_envs, 0), np.int64)
    return core.world_state[chance.field].reshape(core.num_envs, -1).numpy()


def _weights(game: Game, chance: Chance, prefix: str) -> Mapping[tuple[int, ...], int]:
    """Return the declared weights by outcome, checked."""
    weights, size = chance.weights(), _outcomes(game.core(1), chance).shape[1]
    if not isinstance(weights, Mapping):
        raise ConfigError(f"{prefix}: expected a dict from weights(), got {shown(weights)}")
    for outcome, weight in weights.items():
        if not isinstance(outcome, tuple) or len(outcome) != size:
            field = f"State.{chance.field}" if chance.field else "no field"
            raise ConfigError(
                f"{prefix}: expected outcomes of weights() as tuples of {size} values of {field}, got {shown(outcome)}"
            )
        if not isinstance(weight, Integral) or int(weight) < 1:
            raise ConfigError(f"{prefix}: expected ints >= 1 in weights(), got {shown(weight)} for {shown(outcome)}")
    if len(weights) != chance.count:
        raise ConfigError(f"{prefix}: expected count={chance.count} outcomes in weights(), got {len(weights)}")
    return weights


def _check_frequencies(
    chance: Chance, weights: Mapping[tuple[int, ...], int], counts: Mapping[tuple[int, ...], int], prefix: str
) -> None:
    """Raise a ConfigError if the numbers of resets by outcome do not fit the weights, by Pearson's chi-squared test."""
    outcomes = list(dict.fromkeys((*weights, *counts)))
    observed = np.array([counts.get(outcome, 0) for outcome in outcomes])
    share = np.array([weights.get(outcome, 0) / sum(weights.values()) for outcome in outcomes])
    draws = int(observed.sum())
    is_impossible = (observed == 0) | (share == 0)
    statistic = np.where(
        is_impossible, np.inf, (observed - share * draws) ** 2 / np.where(is_impossible, 1.0, share * draws)
    )
    freedom = torch.tensor(max(len(outcomes) - 1, 1) / 2, dtype=torch.float64)
    if torch.special.gammaincc(freedom, torch.tensor(statistic.sum() / 2)) < _LIKELIHOOD:
        worst = int(statistic.argmax())
        raise ConfigError(
            f"{prefix}: chance: expected State.{chance.field} {outcomes[worst]} in {share[worst]:.4g} of all resets, "
            f"got {observed[worst]} of {draws}; correct EnvDefinition.chance"
        )


def _check_play(game: Game, core: Core, outcome_of: np.ndarray, chance: Chance) -> None:
    """Raise a ConfigError if two worlds of one outcome differ in what agents see or earn after the same actions.

    Pairs of worlds of one outcome play random legal actions, each pair its own.

    Args:
        game: The game.
        core: Worlds right after their resets.
        outcome_of: Number of the outcome by world (E,).
        chance: Declared chance.
    """
    order = outcome_of.argsort(kind="stable")
    counts = np.bincount(outcome_of)
    rank = np.arange(len(order)) - np.repeat(counts.cumsum() - counts, counts)  # among the worlds of the outcome
    pairs = max(_COMPARED_WORLDS // len(counts) // 2, 1)
    is_first = (rank % 2 == 0) & (rank + 1 < np.repeat(counts, counts)) & (rank < 2 * pairs)
    pair_start = np.flatnonzero(is_first)
    worlds = _moved(game, core, order[np.stack((pair_start, pair_start + 1), 1).reshape(-1)])
    sizes, generator = worlds.num_choices[:, 0].numpy(), np.random.default_rng(0)
    for step in range(_COMPARED_STEPS):
        alive = worlds.alive.numpy()
        moves = alive if worlds.to_move is None else worlds.to_move.numpy() & alive
        legal = np.broadcast_to(np.arange(sizes.max()) < sizes[:, None], (*alive.shape, sizes.max()))
        if worlds.action_mask is not None:
            legal = legal & worlds.action_mask[..., : sizes.max()].numpy()
        signals = {
            "reward": worlds.reward.numpy() if step else np.zeros(alive.shape),
            "end": alive,
            "turn": moves,
            "observation": np.where(moves[..., None], worlds.obs.numpy(), 0.0),
            "action mask": legal & moves[..., None],
        }
        for name, values in signals.items():
            if (values[::2] != values[1::2]).any():
                fixed = f"State.{chance.field} and actions" if chance.field else "actions"
                raise ConfigError(
                    f"{game.env_id}: no exact tree: chance: expected the same {name} in all worlds with the same "
                    f"{fixed}, got different ones after {step} steps; draw all that is random at the reset, and "
                    "declare it in EnvDefinition.chance"
                )
        running = alive.any(1)
        if not running.any():
            return
        scores = generator.random(legal[::2].shape).repeat(2, 0)
        choice = np.where(legal, scores, -1.0).argmax(-1) * moves  # agents that do not move have the single choice 0
        worlds, choice = _moved(game, worlds, np.flatnonzero(running)), choice[running]
        worlds.step(from_numpy(choice))


def _moved(game: Game, core: Core, rows: np.ndarray) -> Core:
    """Return a core with copies of worlds (N,)."""
    state: dict[str, Tensor] = core.get_state()
    index = from_numpy(rows)
    copies = game.core(len(rows), autoreset="disabled")
    by_world = {name for name, tensor in state.items() if len(tensor) == core.num_envs and name not in _NOT_BY_WORLD}
    copies.set_state({name: tensor[index] if name in by_world else tensor for name, tensor in state.items()})
    return copies
