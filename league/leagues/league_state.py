"""State of a league between two iterations: players, their weights, and win rates."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_type_hints

import torch

from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.utils.settings import bounds_of
from league.game import Game
from league.leagues.builder import Roster, check_numeric
from league.leagues.matchmaking import WinRates
from league.leagues.player import RANDOM_NAME, Change, Copy, Enter, Freeze, Player, Reset, Retire
from league.leagues.training_group import SEPARATOR, TrainingGroup, group_key
from league.matchups.best_response import BestResponseTraining
from league.matchups.matchup_distribution import LEARNER, MatchupDistribution
from league.policies.kinds import kind_of
from league.policies.population import Population
from league.policies.team import PLACES, TeamPolicy, join_states, part_state, policy_from_state
from league.storage.run_store import RunStore, derive_named_seed
from trainers.base.serialization import check_fields
from trainers.base.state import select_prefix
from trainers.config.train_config import TrainConfig
from trainers.models.policy import Policy, PolicyProtocol

RANDOM = 0
"""Index of the random policy in every population."""
LEARNER_STATE = "learner."
"""Prefix of the names of stored trainings."""
SCHEDULE = "asynchronous"
"""Key under which an asynchronous league stores its schedule, see `league.leagues.async_league.AsyncSchedule`."""
POLICY_KEYS = ("net.normalizer.", "net.actor.", "net.head.", "spec")
"""Prefixes of the keys of a learner's state that belong to its policy, not to critics or target networks."""


@dataclass
class LearningPlayer:
    """Counts and settings of a learning player."""

    steps: int = 0
    """Environment steps since the player was last frozen, reset or copied."""
    total_steps: int = 0
    """Environment steps since the player entered."""
    restarts: int = 0
    """Number of restarts from other weights."""
    settings: dict[str, float] = field(default_factory=dict)
    """Settings of the player's learner that differ from the run's."""


class LeagueState:
    """State on which the next iteration depends, read from the store of a run.

    The store holds for each learning player: `live.NAME`, its weights at the start of the iteration, with which it
    plays as an opponent; `first.NAME`, its weights when it entered. For each group of players that train together it
    holds `learner.KEY`, their environments and learners after the last training, see `group_key`. `learner.KEY` is
    missing until the group has trained from the weights of its players.
    """

    def __init__(
        self, store: RunStore, builder: str, train: TrainConfig, seed: int, decay: float, device: str | torch.device
    ) -> None:
        """Read the state that `save` has written, if any.

        Args:
            store: Store of the run.
            builder: Description of the league builder.
            train: Training configuration of players without their own settings.
            seed: Random seed of the run.
            decay: See `LeagueConfig.decay`.
            device: Device of the policies.

        Raises:
            ConfigError: The game has a single seat.
            CheckpointError: The run was created with another builder, or is damaged.
        """
        self.store: RunStore = store
        self.game: Game = store.game
        self.populations: dict[str, Population] = store.populations
        self.builder: str = builder
        self.train: TrainConfig = train
        self.seed: int = seed
        self.device: str | torch.device = device
        self.trained: dict[str, dict[str, Any]] = {}  # weights of players that trained in this iteration
        # learning players with their weights from the start of the iteration, or, if asynchronous, the newest ones
        self.live: dict[str, Policy | TeamPolicy] = {}
        context = f"{store.file}: kv"
        self.draw_margin: float = store.get("draw_margin", 0.0, float)  # first one, see `LeagueConfig.draw_margin`
        self.learning: dict[str, LearningPlayer] = {}
        for name, entry in store.get("learning", {}, dict[str, dict[str, Any]]).items():
            player = LearningPlayer(
                **check_fields(f"{context}: learning: {name!r:.80}", entry, get_type_hints(LearningPlayer))
            )
            if unknown := player.settings.keys() - {field.name for field in dataclasses.fields(train.learner)}:
                raise CheckpointError(
                    f"{context}: learning: {name!r:.80}: no setting of a learner is {min(unknown)!r:.80}"
                )
            self.learning[name] = player
        rates = store.get("win_rates", None, dict[str, Any])
        rates = WinRates(decay) if rates is None else WinRates.from_json(rates, f"{context}: win_rates")
        self.roster: Roster = Roster(self.game, rates)
        if (recorded := store.get("builder", builder)) != builder:
            raise CheckpointError(
                f"{store.path}: expected the builder {recorded}, got {builder}; choose another folder"
            )
        for entry in read_players(store):
            self.roster.add(entry)
        self.roster.retired = set(store.get("retired", [], list[str]))
        for name in self.roster.learning():
            if name not in self.learning:
                raise CheckpointError(f"{context}: learning: expected an entry of {name}, got none (damaged)")
        for name in self.learning:
            weights = store.state(f"live.{name}", device)
            if weights is None:
                raise CheckpointError(f"{store.path}: player {name}: expected its weights, got none (damaged)")
            self.live[name] = self._policy(weights)

    def save(self) -> None:
        """Write the state, except weights and environments, which are written when they change."""
        self.store.put("builder", self.builder)
        self.store.put("players", [dataclasses.asdict(player) for player in self.roster.players.values()])
        self.store.put("retired", sorted(self.roster.retired))
        self.store.put("win_rates", self.roster.win_rates.to_json())
        self.store.put("learning", {name: dataclasses.asdict(player) for name, player in self.learning.items()})
        self.store.put("draw_margin", self.draw_margin)

    # ---------------------------------------------------------------- players and policies

    def members(self, role: str) -> list[str]:
        """Return the names of all players of a role, retired ones too, in the order of `pools`: random first."""
        return [RANDOM_NAME, *(player.name for player in self.roster.players.values() if player.role == role)]

    def pools(self) -> dict[str, list[PolicyProtocol]]:
        """Return the policies by role; learning players have their weights from the start of the iteration.

        Raises:
            CheckpointError: If the population lacks the policy of a player.
        """
        pools: dict[str, list[PolicyProtocol]] = {}
        for role, population in self.populations.items():
            index = {entry.name: entry.index for entry in population.entries}
            names = self.members(role)
            if missing := [name for name in names if name not in self.live and name not in index]:
                text = f"expected a policy of {missing[0]} in the population of {role}, got none (damaged)"
                raise CheckpointError(f"{self.store.path}: {text}")
            pools[role] = [self.live[name] if name in self.live else population[index[name]] for name in names]
        return pools

    # ---------------------------------------------------------------- results of trainings

    def add_steps(self, results: Mapping[str, Mapping[str, Any]]) -> None:
        """Add the environment steps of completed trainings to the counts of their players."""
        for name, result in results.items():
            self.learning[name].steps += result["steps"]
            self.learning[name].total_steps += result["steps"]

    def add_win_rates(self, results: Mapping[str, Mapping[str, Any]], outdated: Collection[str] = ()) -> None:
        """Add the matches of completed trainings to the win rates, except those against outdated opponents."""
        for name, result in results.items():
            for opponent, games, score, _ in result["matches"]:
                if opponent not in outdated:
                    self.roster.win_rates.add(name, opponent, games, score)

    # ---------------------------------------------------------------- weights

    def config(self, name: str) -> TrainConfig:
        """Return the training configuration of a player."""
        player = self.learning[name]
        learner = dataclasses.replace(self.train.learner, **player.settings)
        return dataclasses.replace(
            self.train, seed=derive_named_seed(self.seed, "player", name, player.restarts), learner=learner
        )

    def trained_weights(self, name: str) -> dict[str, Any]:
        """Return the weights of a player after its last training."""
        if name not in self.trained:  # trained before the run was interrupted
            stored = next((self.store.state(state, self.device) for state in self._trainings(name)), None)
            if stored is None:  # an asynchronous league copies players before their first training
                return self.store.state(f"live.{name}", self.device) or {}
            self.set_trained_weights(name, stored)
        return self.trained[name]

    def drop_trainings(self, name: str) -> None:
        """Remove the stored training of a player's group: the group restarts from the weights of its players."""
        for state in self._trainings(name):
            self.store.drop_state(state)

    def keep_trainings(self, groups: Sequence[TrainingGroup]) -> None:
        """Remove the stored trainings of all other groups."""
        names = {f"{LEARNER_STATE}{group_key(group)}" for group in groups}
        for state in self.store.state_names():
            if state.startswith(LEARNER_STATE) and state not in names:
                self.store.drop_state(state)

    def _trainings(self, name: str) -> list[str]:
        """Return the names of the stored trainings of a player."""
        states = [state for state in self.store.state_names() if state.startswith(LEARNER_STATE)]
        return [state for state in states if name in state.removeprefix(LEARNER_STATE).split(SEPARATOR)]

    def set_trained_weights(self, name: str, state: dict[str, Any]) -> None:
        """Set a player's weights after training; as an opponent it plays with them after `publish_weights`."""
        names = self.game.learners_of(self.roster.players[name].role)
        states = [select_prefix(state, f"learner.{learner}.") for learner in names]
        self.trained[name] = policy_weights(states[0] if len(names) == 1 else join_states(states), self.live[name])

    def publish_weights(self, name: str, weights: Mapping[str, Any]) -> None:
        """Set the weights with which a player plays as an opponent."""
        self.store.put_state(f"live.{name}", weights)
        self.live[name] = self._policy(weights)

    def _policy(self, weights: Mapping[str, Any]) -> Policy | TeamPolicy:
        return policy_from_state(weights, self.device, POLICY_KEYS)

    # ---------------------------------------------------------------- transitions

    def apply(self, number: int, changes: Sequence[Change]) -> None:
        """Apply the transitions of an iteration, freezes first.

        Sources of copies keep their weights and settings from before the transitions.

        Args:
            number: Number of the iteration that ends.
            changes: Transitions of players.

        Raises:
            ConfigError: A new player is invalid, or a setting cannot be multiplied.
        """
        sources = {change.source for change in changes if isinstance(change, Copy)}
        learned = {name: self.trained_weights(name) for name in sources}
        settings = {name: dict(self.learning[name].settings) for name in sources}
        for change in sorted(changes, key=lambda change: not isinstance(change, Freeze)):
            match change:
                case Freeze(name):
                    self._freeze(number, name)
                case Reset(name):
                    first = self.store.state(f"first.{name}", self.device)
                    assert first is not None
                    self._restart_from(name, first)
                case Copy(name, source, factors):
                    self.learning[name].settings = multiply_settings(self.train, settings[source], factors)
                    self._restart_from(name, learned[source])
                case Enter(player):
                    self._enter(player)
                case Retire(name):
                    self.roster.retire(name)
                    self.drop_trainings(name)
                    self.trained.pop(name, None)

    def _enter(self, player: Player) -> None:
        """Add a learning player with random weights."""
        name = player.name
        if player.parent is not None or name == RANDOM_NAME or ":" in name or SEPARATOR in name:
            raise ConfigError(
                f"player {name}: expected a learning player (parent = None) whose name is not {RANDOM_NAME!r} and has "
                f"no ':' or {SEPARATOR!r}, got {player}"
            )
        self.roster.add(player)
        self.learning[name] = LearningPlayer()
        alone = MatchupDistribution(
            torch.tensor([[LEARNER if seat.role == player.role else RANDOM for seat in self.game.seats]])
        )
        pools = {role: [population[RANDOM]] for role, population in self.populations.items()}
        config = dataclasses.replace(self.config(name), device=self.device)
        learner = BestResponseTraining(self.game, alone, pools, config, draw_margin=self.draw_margin).learner(
            player.role
        )
        weights = policy_weights(learner.state_dict(), learner.policy())
        self.store.put_state(f"first.{name}", weights)
        self.publish_weights(name, weights)

    def _freeze(self, number: int, name: str) -> None:
        """Add a frozen copy of a player's published weights to its population."""
        player, snapshots = self.roster.players[name], self.roster.frozen(parent=name)
        population, learning = self.populations[player.role], self.learning[name]
        parent = population.named(snapshots[-1]).index if snapshots else None
        meta: dict[str, Any] = {"player": name, "kind": player.kind, "steps": learning.total_steps}
        copy = f"{name}:{len(snapshots) + 1}"
        policy = self.live[name]
        self.store.add_policy(player.role, policy, kind_of(policy), copy, parent, iteration=number, meta=meta)
        self.roster.add(Player(copy, player.role, player.kind, parent=name))
        learning.steps = 0

    def _restart_from(self, name: str, weights: Mapping[str, Any]) -> None:
        """Restart a player from other weights, with new environments and no win rates.

        The players that train together with it continue from their weights in new environments, too.
        """
        self.drop_trainings(name)
        self.trained.pop(name, None)
        self.learning[name].restarts += 1
        self.learning[name].steps = 0
        self.roster.win_rates.forget(name)
        self.publish_weights(name, weights)


def multiply_settings(
    train: TrainConfig, settings: Mapping[str, float], factors: Mapping[str, float]
) -> dict[str, float]:
    """Return a player's settings with some of them multiplied and clipped to their valid range."""
    learner, result = dataclasses.replace(train.learner, **settings), dict(settings)
    bounds = {field.name: bounds_of(field) for field in dataclasses.fields(learner)}
    for key, factor in factors.items():
        value = check_numeric(learner, key)
        changed = value * factor
        result[key] = bounds[key].clip(round(changed) if isinstance(value, int) else changed)
    dataclasses.replace(train, learner=dataclasses.replace(learner, **result))  # checks conditions between settings
    return result


def read_players(store: RunStore) -> list[Player]:
    """Read the players of a league.

    Raises:
        CheckpointError: A value is damaged.
    """
    hints = get_type_hints(Player)
    return [
        Player(**check_fields(f"{store.file}: kv: players", entry, hints))
        for entry in store.get("players", [], list[dict[str, Any]])
    ]


def policy_weights(state: Mapping[str, Any], policy: Policy | TeamPolicy) -> dict[str, Any]:
    """Select the network weights of a learner's state, and add the specification of its policy; of a team, of each."""
    if isinstance(policy, TeamPolicy):
        members = [member for member in policy.members if isinstance(member, Policy)]
        states = [policy_weights(part_state({**state}, number), member) for number, member in enumerate(members)]
        return {**join_states(states), PLACES: json.dumps(policy.places)}
    weights = {key: value for key, value in state.items() if key.startswith("net.")}
    return {**weights, "spec": json.dumps(policy.spec)}
