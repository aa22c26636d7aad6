"""Methods of the study of exploitability: each trains policies within a number of environment steps."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.league.cross_play import Side
from benchmarks.league.study_section import AVERAGE, LAST
from league import solvers
from league.game import Game, is_two_player_zero_sum
from league.leagues.alphastar import AlphaStarConfig, AlphaStarLeagueBuilder, FreezeRules
from league.leagues.builder import LeagueBuilder
from league.leagues.league import League, LeagueConfig
from league.leagues.self_play import SelfPlayBuilder, SelfPlayConfig
from league.psro.config import DEFAULTS, PSROConfig
from league.psro.joint_start import STEP, train_jointly
from league.psro.psro import PSRO
from league.storage import presets
from league.storage.open_run import open_run
from league.storage.run_config import training
from trainers.config.train_config import TrainConfig

__all__ = ["METHODS", "Trained", "train_config", "train_method"]


@dataclass(frozen=True)
class Trained:
    """Policies of a training."""

    sides: Mapping[str, Side]
    """Mixtures by name."""
    steps: int
    """Environment steps of all trainings."""
    samples: int | None = None
    """Sum over roles of the environment steps that are training data of the role; None: not counted."""
    episodes: int = 0
    """Episodes of payoff tables, which are no training data."""


def train_config(game: Game, overrides: Mapping[str, Any]) -> TrainConfig:
    """Return the settings of every training of a study: the preset of the environment, with changes.

    Args:
        game: Game of the study.
        overrides: Changes, as in `PSROConfig.train_overrides`.
    """
    return training(game, "cpu", overrides)


def joint_ppo(game: Game, steps: int, seed: int, settings: Mapping[str, Any], overrides: Mapping[str, Any]) -> Trained:
    """Train PPO of all roles in the same worlds, as `gpu-envs train`.

    Args:
        game: Game.
        steps: Environment steps.
        seed: Random seed.
        settings: `num_snapshots` of the average policy; None: no average.
        overrides: Training settings.
    """
    config = dataclasses.replace(train_config(game, overrides), total_steps=steps)
    number = settings.get("num_snapshots")
    result = train_jointly({}, game=game, train=config, steps=steps, num_snapshots=number or 1, seed=seed)
    sides = {LAST: Side.uniform({role: snapshots[-1:] for role, snapshots in result.snapshots.items()})}
    if number:
        sides[AVERAGE] = Side.uniform(result.snapshots)
    return Trained(sides, result.steps, result.steps * len(game.roles))


def psro(game: Game, steps: int, seed: int, settings: Mapping[str, Any], overrides: Mapping[str, Any]) -> Trained:
    """Run PSRO with equal steps of all responses.

    Args:
        game: Game.
        steps: Environment steps of all trainings.
        seed: Random seed.
        settings: `joint_share` of the steps for joint training before the first iteration, and fields of `PSROConfig`.
        overrides: Training settings.
    """
    fields = {**presets.psro_preset(game.env_id), **settings}
    joint = round(steps * fields.pop("joint_share", 0.0))
    response_steps = (steps - joint) // (fields["iterations"] * len(game.roles))
    fields["train_overrides"] = {**overrides, **fields.get("train_overrides", {}), "total_steps": response_steps}
    config = PSROConfig(**fields, seed=seed, joint_steps=joint)
    with tempfile.TemporaryDirectory() as folder, open_run(Path(folder) / "run", game, "psro", config) as store:
        run = PSRO(store, config)
        run.run()
        assert run.strategy is not None
        side = Side.mixture({role: list(store.populations[role]) for role in game.roles}, run.strategy.marginals)
        used = {name: store.result(name).get("steps", 0) for name in store.tasks()}
        steps, jointly = sum(used.values()), used.get(STEP, 0)
        samples = steps + jointly * (len(game.roles) - 1)  # a joint step is training data of all roles
        return Trained({"": side}, steps, samples, int(store.cells().count.sum()))


def alphastar(game: Game, steps: int, seed: int, settings: Mapping[str, Any], overrides: Mapping[str, Any]) -> Trained:
    """Run AlphaStar's league.

    Args:
        game: Game.
        steps: Environment steps of all trainings.
        seed: Random seed.
        settings: `exploiters`, number of main exploiters and of league exploiters per role. `exploiter_share`, share of
            an iteration's steps for each exploiter. `freeze_after`, iterations between two copies of a main agent.
            `reset_to` of exploiters. `main_matches`, fields of `MainMatches`. Also the settings of `_league`.
        overrides: Training settings.
    """
    count, iterations = settings.get("exploiters", 1), settings["iterations"]
    rollout = train_config(game, overrides).rollout_steps
    of_exploiter = max(round(settings.get("exploiter_share", 0.1) * steps / iterations / rollout), 1) * rollout
    main_steps = (
        steps // iterations - 2 * count * len(game.roles) * of_exploiter
    )  # main agents of both roles share worlds
    main_steps = max(main_steps // rollout, 1) * rollout
    least, of_exploiters = settings.get("freeze_after", 1) * main_steps, 5 * of_exploiter
    rules = FreezeRules(min_steps=least, timeout=least)
    exploiter = FreezeRules(
        count=count,
        min_steps=of_exploiters,
        timeout=of_exploiters,
        share_of_steps=min(of_exploiter / main_steps, 1.0),
        reset_probability=1.0,
        reset_to=settings.get("reset_to", "main"),
    )
    config = AlphaStarConfig(
        main=rules, main_exploiter=exploiter, league_exploiter=dataclasses.replace(exploiter, reset_probability=0.25)
    )
    config = dataclasses.replace(
        config, main_matches=dataclasses.replace(config.main_matches, **settings.get("main_matches", {}))
    )
    return _league(game, AlphaStarLeagueBuilder(config), main_steps, seed, settings, overrides)


def self_play(game: Game, steps: int, seed: int, settings: Mapping[str, Any], overrides: Mapping[str, Any]) -> Trained:
    """Run self-play of one main player per role in shared worlds, against current and past opponents.

    Args:
        game: Game.
        steps: Environment steps.
        seed: Random seed.
        settings: `opponents` and `latest` of `SelfPlayConfig`, and the settings of `_league`.
        overrides: Training settings.
    """
    main_steps = steps // settings["iterations"]
    config = SelfPlayConfig(
        opponents=settings["opponents"],
        latest=settings["latest"],
        freeze_every=settings.get("freeze_after", 1) * main_steps,
    )
    return _league(game, SelfPlayBuilder(config), main_steps, seed, settings, overrides)


def _league(
    game: Game,
    builder: LeagueBuilder,
    main_steps: int,
    seed: int,
    settings: Mapping[str, Any],
    overrides: Mapping[str, Any],
) -> Trained:
    """Run a league; its mixture is the meta-strategy of the payoff table of all frozen players.

    Args:
        game: Game.
        builder: Builder of the league.
        main_steps: Environment steps of main agents per iteration.
        seed: Random seed.
        settings: `iterations`; `episodes_per_matchup` of the payoff table; `train_overrides`.
        overrides: Training settings of all methods.
    """
    iterations = settings["iterations"]
    train = {**overrides, "total_steps": iterations * main_steps, **settings.get("train_overrides", {})}
    config = LeagueConfig(
        iterations=iterations,
        steps=main_steps,
        episodes_per_matchup=settings.get("episodes_per_matchup", 300),
        seed=seed,
        train_overrides=train,
    )
    with tempfile.TemporaryDirectory() as folder, open_run(Path(folder) / "run", game, "alphastar", config) as store:
        league = League(store, config, builder)
        league.run()
        table = league.evaluate()
        solver = "nash" if is_two_player_zero_sum(game) else "prd"
        strategy = solvers.solve(solver, table.mean, **DEFAULTS.get(solver, {}))
        populations = {role: list(store.populations[role]) for role in game.roles}
        side = Side.mixture(populations, strategy.marginals)
        return Trained({"": side}, league.steps, episodes=int(store.cells().count.sum()))


METHODS: Mapping[str, Callable[..., Trained]] = {
    "joint_ppo": joint_ppo,
    "psro": psro,
    "alphastar": alphastar,
    "self_play": self_play,
}
"""Functions by the kind of a method."""


def train_method(
    kind: str, game: Game, steps: int, seed: int, settings: Mapping[str, Any], overrides: Mapping[str, Any]
) -> tuple[Trained, float, float]:
    """Train a method; also return the seconds and the processor seconds that it took."""
    began, used = time.perf_counter(), time.process_time()
    trained = METHODS[kind](game, steps, seed, settings, overrides)
    return trained, time.perf_counter() - began, time.process_time() - used
