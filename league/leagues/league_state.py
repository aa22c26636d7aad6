"""Where a league stands between two iterations: who plays, with which weights, and who won against whom."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_type_hints

import torch

from gpu_envs.errors import CheckpointError
from league.builder import Player, Roster
from league.matchmaking import WinRates
from league.store import Store, derived
from trainers.config import TrainConfig
from trainers.files import check_fields
from trainers.learner import part_of
from trainers.policy import Plays, Policy

RANDOM, RANDOM_NAME = 0, "random"
"""Where the random policy stands in every population, and its name there."""
OF_POLICY = ("net.normalizer.", "net.actor.", "net.head.", "spec")
"""What of a learner's weights is its policy; the rest is critics and targets."""


@dataclass
class Learning:
    """What a league remembers of a player that learns, beside its weights."""

    steps: int = 0
    """Of worlds, since it was last frozen or began anew."""
    total_steps: int = 0
    """Since it entered."""
    begun: int = 0
    """How often it began anew."""
    settings: dict[str, float] = field(default_factory=dict)
    """Of its learner, where they are not the run's."""


class Standing:
    """All that the next iteration depends on, as the store has it; what is made anew from a store stands alike.

    In the store are, by player that learns: `live.NAME`, weights as they were when the iteration began, which is how
    others meet it; `first.NAME`, those that it entered with; `learner.NAME`, its worlds and all of its learner after
    its last training, none where it is yet to begin from `live.NAME`.
    """

    def __init__(
        self, store: Store, builder: str, train: TrainConfig, seed: int, decay: float, device: str | torch.device
    ) -> None:
        """Reads what `keep` wrote, if there is anything.

        Args:
            store: Of the run.
            builder: Who says what changes, in words.
            train: How players learn that have no settings of their own.
            seed: Of the run.
            decay: See `LeagueConfig.decay`.
            device: Where policies are to be.

        Raises:
            ConfigError: The game has other than two seats.
            CheckpointError: The run began with another builder, or is damaged.
        """
        self.store, self.game, self.populations = store, store.game, store.populations
        self.builder, self.train, self.seed, self.device = builder, train, seed, device
        self.trained: dict[str, dict[str, Any]] = {}  # weights of those who trained in this iteration
        self.live: dict[str, Policy] = {}  # learning players as they were when the iteration began
        where = f"{store.file}: kv"
        self.even: float = store.get("even", 0.0, float)  # at the start, see `LeagueConfig.even`
        self.learning: dict[str, Learning] = {}
        for name, each in store.get("learning", {}, dict[str, dict[str, Any]]).items():
            own = Learning(**check_fields(f"{where}: learning: {name!r:.80}", each, get_type_hints(Learning)))
            if unknown := own.settings.keys() - {field.name for field in dataclasses.fields(train.learner)}:
                raise CheckpointError(
                    f"{where}: learning: {name!r:.80}: no setting of a learner is {min(unknown)!r:.80}"
                )
            self.learning[name] = own
        rates = store.get("win_rates", None, dict[str, Any])
        rates = WinRates(decay) if rates is None else WinRates.from_json(rates, f"{where}: win_rates")
        self.roster = Roster(self.game, rates)
        if (began := store.get("builder", builder)) != builder:
            raise CheckpointError(f"{store.path}: began with {began}, got {builder}; choose another folder")
        for each in players_of(store):
            self.roster.add(each)
        self.roster.retired = set(store.get("retired", [], list[str]))
        self._check_players(where)
        for name in self.learning:
            weights = store.state(f"live.{name}", device)
            if weights is None:
                raise CheckpointError(f"{store.path}: player {name}: expected its weights, got none (damaged)")
            self.live[name] = self._policy(weights)

    def _check_players(self, where: str) -> None:
        """Check that players that learn have weights and frozen ones a policy; else raise CheckpointError."""
        players = self.roster.players.values()
        learning = {player.name for player in players if player.parent is None}
        if learning != self.learning.keys() or not learning >= self.roster.retired:
            raise CheckpointError(f"{where}: learning, retired: expected players that learn, {sorted(learning)!r:.80}")
        there = {entry.name for pool in self.populations.values() for entry in pool.entries}
        if lost := {player.name for player in players if player.parent is not None} - there:
            raise CheckpointError(f"{where}: players: expected one of the policies, got {min(lost)!r:.80}")

    def keep(self) -> None:
        """Writes everything beside weights and worlds, which are written as they change."""
        self.store.put("builder", self.builder)
        self.store.put("players", [dataclasses.asdict(player) for player in self.roster.players.values()])
        self.store.put("retired", sorted(self.roster.retired))
        self.store.put("win_rates", self.roster.win_rates.to_json())
        self.store.put("learning", {name: dataclasses.asdict(each) for name, each in self.learning.items()})
        self.store.put("even", self.even)

    # ---------------------------------------------------------------- who can be met

    def members(self, role: str) -> list[str]:
        """All who ever were of a role, in the order of the pools, the random policy first; nobody leaves."""
        return [RANDOM_NAME, *(player.name for player in self.roster.players.values() if player.role == role)]

    def pools(self) -> dict[str, list[Plays]]:
        """Policies by role: of learning players as they were when the iteration began."""
        found: dict[str, list[Plays]] = {}
        for role, population in self.populations.items():
            place = {entry.name: entry.index for entry in population.entries}
            found[role] = [
                self.live[name] if name in self.live else population[place[name]] for name in self.members(role)
            ]
        return found

    # ---------------------------------------------------------------- learners

    def config(self, name: str) -> TrainConfig:
        """How a player learns."""
        own = self.learning[name]
        learner = dataclasses.replace(self.train.learner, **own.settings)
        return dataclasses.replace(self.train, seed=derived(self.seed, "player", name, own.begun), learner=learner)

    def learned(self, name: str) -> dict[str, Any]:
        """The weights of a player after its last training, as they are stored."""
        if name not in self.trained:  # it was trained before a kill
            self.train_as(name, self.store.state(f"learner.{name}", self.device) or {})
        return self.trained[name]

    def train_as(self, name: str, state: dict[str, Any]) -> None:
        """A player's training gave this state; others meet it as it was until `put_live`."""
        role = self.roster.players[name].role
        self.trained[name] = weights_of(part_of(state, f"learner.{role}."), self.live[name])

    def put_live(self, name: str, weights: Mapping[str, Any]) -> None:
        """Others meet a player with these weights from now on."""
        self.store.put_state(f"live.{name}", weights)
        self.live[name] = self._policy(weights)

    def _policy(self, weights: Mapping[str, Any]) -> Policy:
        of_policy = {key: value for key, value in weights.items() if key.startswith(OF_POLICY)}
        return Policy.from_state(of_policy, self.device)


def players_of(store: Store) -> list[Player]:
    """Read the players of a league; CheckpointError where a field is damaged."""
    hints = get_type_hints(Player)
    return [
        Player(**check_fields(f"{store.file}: kv: players", each, hints))
        for each in store.get("players", [], list[dict[str, Any]])
    ]


def weights_of(state: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """What of a learner's state makes up its networks, and the shape of its policy."""
    weights = {key: value for key, value in state.items() if key.startswith("net.")}
    return {**weights, "spec": json.dumps(policy.spec)}
