"""Evaluations during a training: every team against fixed policies, the same worlds every time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpu_envs.core import Core
from gpu_envs.errors import ConfigError
from trainers.config import CoreFactory, TrainConfig, make_core, make_eval_core
from trainers.evaluate import Team, opponents, play, teams
from trainers.policy import Plays, Policy
from trainers.seats import Seat

EVAL_SEED = 271_828
"""Worlds of the evaluations; training worlds have the run's own seed."""


class Judge:
    """Plays what has been learned so far in a core of its own; draws from no stream of the training."""

    def __init__(
        self, config: TrainConfig, core: Core, seats: Mapping[str, Seat], factory: CoreFactory = make_core
    ) -> None:
        """Loads the policies of `config.eval_against`, if any; worlds are made when they are first played in.

        Args:
            config: The run.
            core: That of the training.
            seats: Whom to judge, by policy.
            factory: Makes cores.

        Raises:
            ConfigError: `eval_against`, but there is no other side.
            CheckpointError: Its policies do not fit the environment.
        """
        self.config, self.seats, self.factory = config, seats, factory
        self.sides = {name: seat.members for name, seat in seats.items()}
        self.core: Core | None = None
        self.teams: list[Team] = []
        self.opponents: dict[str, Policy] = {}
        if config.eval_against is not None:
            if len(self.sides) == 1:
                told = f"all agents of {core.id} play one policy, there is no other side"
                raise ConfigError(f"eval_against: {told}; leave it out")
            policies = opponents(Path(config.eval_against), config.env_id, self.sides, core)[1]
            self.opponents = {member: policies[name] for name, members in self.sides.items() for member in members}

    def scores(self) -> dict[str, float]:
        """By policy "eval/<policy>/return" and ".../episode_length", and "eval/score", the mean of the returns."""
        if self.core is None:
            self.core = make_eval_core(self.config, self.config.eval_episodes, self.config.seed, self.factory)
            self.teams = teams(self.core, self.sides, EVAL_SEED)
        row: dict[str, float] = {}
        for names, groups in self.teams:
            players: dict[str, Plays | None] = {**self.opponents}
            for name in names:
                players |= dict.fromkeys(self.sides[name], self.seats[name].learner.policy())
            outcome = play(self.core, players, seed=EVAL_SEED)
            for name in names:
                row[f"eval/{name}/return"] = sum(outcome.returns[group].mean for group in groups[name])
                row[f"eval/{name}/episode_length"] = outcome.length.mean
        scores = [value for name, value in row.items() if name.endswith("/return")]
        return {**row, "eval/score": sum(scores) / len(scores)}
