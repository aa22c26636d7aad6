"""Frozen policies of a training, a league or the model zoo as one mixture per seat of their game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

import gpu_envs
from gpu_envs.errors import ConfigError, format_names
from gpu_envs.runtime.core import Core
from gpu_envs.utils.terminal import shell_command
from league.analysis.run_tables import RunTables
from league.game import Game, Seat
from league.policies.team import TeamPolicy, part_policy
from league.solvers import MetaStrategy
from league.storage.run_store import RunStore
from trainers.base.agent_group import agent_rows_of
from trainers.config.train_config import TrainConfig, members_by_policy
from trainers.evaluation.policy_evaluation import check_fits
from trainers.models.policy import Policy, PolicyProtocol
from trainers.storage import checkpoint
from trainers.storage.checkpoint import Checkpoint


@dataclass(frozen=True)
class SavedProfile:
    """A distribution over the frozen policies of every seat of a game."""

    path: Path
    """Folder of the checkpoint or of the league."""
    file: str
    """Name of the file that records the environment."""
    game: Game
    """The game."""
    pools: Mapping[str, Sequence[PolicyProtocol]]
    """Policies by role."""
    strategy: MetaStrategy
    """Probabilities of the policies of each seat."""
    text: str
    """Description of the policies."""

    def probable_policies(self) -> dict[str, Policy | TeamPolicy]:
        """Return the most probable policy of each role, from whose weights a response can start.

        Raises:
            ConfigError: It is not a network, or a network per action space, but a random, tabular or mixed policy, or a
                team of other networks.
        """
        policies = {}
        for role, weights in self.game.marginals_by_role(self.strategy.marginals).items():
            policy = self.pools[role][int(weights.argmax())]
            parts = self.game.parts[self.game.seats_of(role)[0]]
            if not all(isinstance(part_policy(policy, parts, number), Policy) for number in range(len(parts))):
                raise ConfigError(
                    f"{self.path}: {role}: expected a network as the most probable policy, got a "
                    f"{type(policy).__name__}; use --response-init scratch"
                )
            policies[role] = policy
        return policies


def load_profile(path: Path, device: str = "cpu") -> SavedProfile:
    """Load the final policies of a training, a checkpoint, a league or an entry of the model zoo.

    The profile of a checkpoint is the policy of each role. The profile of a league is its final meta-strategy, as in
    `gpu-envs league report`. An environment without declared roles has one seat per policy of the checkpoint. Where the
    agents of a seat have different policies, these are the policy of the seat together.

    Args:
        path: Folder of a training, checkpoint folder, folder of a league, or "zoo:NAME".
        device: Device of the policies.

    Raises:
        ConfigError: The path is a file, the game has a single seat, or a league has no meta-strategy yet.
        CheckpointError: There are no policies, or their files are damaged or do not fit the environment.
    """
    if path.is_file():
        raise ConfigError(f"{path}: expected the folder of a training or a league, got a file; use {path.parent}")
    return _of_league(path, device) if RunStore.run_exists(path) else _of_checkpoint(path, device)


def _of_league(path: Path, device: str) -> SavedProfile:
    with RunStore.open(path, write=False) as store:
        tables = RunTables(store)
        end = tables.final_iteration()
        if end is None:
            raise ConfigError(
                f"{path}: expected a league with a meta-strategy, got one whose payoff table is not complete yet; "
                f"continue it with {shell_command('gpu-envs', 'league', 'resume', path)}"
            )
        for population in store.populations.values():
            population.device = device
        strategy, is_stored = tables.strategy(end), "meta_strategy" in tables.rows[end]
        name = "meta-strategy" if is_stored else f"{tables.solver} meta-strategy of the payoff table"
        if strategy.joint is not None:
            name = f"joint {name}"
        text = f"{store.config.get('algorithm', 'league')}: {name} at iteration {end}"
        return SavedProfile(store.path, checkpoint.LEAGUE, store.game, store.populations, strategy, text)


def _of_checkpoint(path: Path, device: str) -> SavedProfile:
    saved = checkpoint.load(path, replay=False)
    config = TrainConfig.of(saved)
    core = gpu_envs.make(config.env_id, num_envs=1, device="cpu", **config.env).core
    sides = members_by_policy(config, core)
    game = _game(config, core, sides)
    owner = {row: name for name, members in sides.items() for row in agent_rows_of(core, members)}
    loaded: dict[tuple[str, ...], PolicyProtocol] = {}  # by the policies of the agents of a seat
    chosen = []
    for seat in game.seats:
        names = tuple(owner[row] for row in agent_rows_of(core, seat.members))
        if len(set(names)) == 1:
            names = names[:1]
            check_fits(policy := saved.policy(names[0], device), seat.members, core, _file(saved, names[0]))
            loaded.setdefault(names, policy)
        elif names not in loaded:
            loaded[names] = _team(saved, seat, names, core, device)
        chosen.append(names)
    pools: dict[str, list[PolicyProtocol]] = {role: [] for role in game.roles}
    for seat, names in zip(game.seats, chosen, strict=True):
        if loaded[names] not in pools[seat.role]:
            pools[seat.role].append(loaded[names])
    marginals = []
    for seat, names in zip(game.seats, chosen, strict=True):
        weight = torch.zeros(len(pools[seat.role]), dtype=torch.float64)
        weight[pools[seat.role].index(loaded[names])] = 1.0
        marginals.append(weight)
    learners = list(dict.fromkeys(name for names in chosen for name in names))
    text = f"{config.algorithm}: {_words(learners)} after {saved.steps:,} steps"
    return SavedProfile(saved.path, "manifest.json", game, pools, MetaStrategy(tuple(marginals)), text)


def _team(saved: Checkpoint, seat: Seat, names: Sequence[str], core: Core, device: str) -> TeamPolicy:
    """Return the policies of a seat's agents, whose names are in the order of the agents, as one policy."""
    rows, members, places = agent_rows_of(core, seat.members), [], []
    for name in dict.fromkeys(names):
        positions = [i for i, learner in enumerate(names) if learner == name]
        policy = saved.policy(name, device)
        check_fits(policy, [core.possible_agents[rows[i]] for i in positions], core, _file(saved, name))
        members.append(policy)
        places.append(positions)
    return TeamPolicy(members, places)


def _file(saved: Checkpoint, name: str) -> Path:
    return saved.path / f"policy-{name}.json"


def _game(config: TrainConfig, core: Core, sides: Mapping[str, Sequence[str]]) -> Game:
    """Return the declared game of an environment, else the game with one seat per policy."""
    if core.definition.roles:
        game = Game.of(config.env_id, config.env)
    else:
        game = Game.of(config.env_id, config.env, roles={name: tuple(members) for name, members in sides.items()})
    if len(game.seats) < 2:
        raise ConfigError(
            f"{config.env_id}: expected a game with at least two seats, got one for all agents; exploitability needs "
            "opponents"
        )
    return game


def _words(names: Sequence[str]) -> str:
    return f"polic{'y' if len(names) == 1 else 'ies'} {format_names(names)}"
