"""Cross-play of populations and joint PPO at equal environment steps, learner samples and wall-clock time."""

from __future__ import annotations

import dataclasses
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from scipy.stats import t as student
from torch import Tensor

from league import solvers
from league.game import Game
from league.leagues.alphastar import AlphaStarConfig, AlphaStarLeagueBuilder, FreezeRules
from league.leagues.league import League, LeagueConfig
from league.policies.random import RandomPolicy
from league.psro.config import DEFAULTS, PSROConfig
from league.psro.psro import PSRO
from league.rollout.best_response import BestResponseTraining
from league.rollout.matchup_distribution import MatchupDistribution
from league.rollout.matchups import simulate_matchups
from league.storage import presets
from league.storage.open_run import open_run
from league.storage.run_config import training
from trainers.config.presets import preset
from trainers.models.policy import PolicyProtocol

JOINT_PPO = ("joint PPO, equal steps", "joint PPO, equal samples", "joint PPO, equal time")
"""Baselines: as many environment steps as a population, as many samples per role, or as much wall-clock time."""
SPEED_STEPS = 100_000
"""Environment steps of the training that measures the speed of joint PPO."""
LEAST = 2
"""Minimum episodes per pair of policies; an interval needs two."""
SEEDS = 3
"""Minimum number of populations and trainings for an interval over seeds."""
RARE = 5e-3
"""Policies of a mixture below this probability are omitted."""


@dataclass(frozen=True)
class Side:
    """Policies and their probabilities by role."""

    name: str
    policies: Mapping[str, Sequence[PolicyProtocol]]
    weights: Mapping[str, Tensor]

    @classmethod
    def mixture(
        cls, name: str, populations: Mapping[str, Sequence[PolicyProtocol]], marginals: Sequence[Tensor]
    ) -> Side:
        """Return a population with its meta-strategy, one seat per role."""
        policies, weights = {}, {}
        for (role, population), marginal in zip(populations.items(), marginals, strict=True):
            kept = (marginal > RARE).nonzero().flatten().tolist()
            policies[role] = [population[index] for index in kept]
            weights[role] = marginal[kept] / marginal[kept].sum()
        return cls(name, policies, weights)


def compare_with_joint_ppo(
    env_id: str,
    steps: int,
    builders: Sequence[str],
    seeds: int,
    psro: Mapping[str, Any] | None = None,
    alphastar: Mapping[str, Any] | None = None,
    env: Mapping[str, Any] | None = None,
    baselines: Sequence[str] = JOINT_PPO,
    episodes: int = 4_000,
) -> dict[str, Any]:
    """Compare populations with joint PPO by cross-play.

    In joint PPO both roles learn in the same worlds, as in `gpu-envs train`: a step is training data of all roles. In
    a population a step is training data of one policy.

    Args:
        env_id: A two-player game with two roles.
        steps: Environment steps of each population.
        builders: "psro", "alphastar".
        seeds: Number of populations per builder, and of trainings per baseline.
        psro: Fields of `PSROConfig` in addition to the preset.
        alphastar: `iterations` of the league, `main_exploiters` and `league_exploiters` per role, `min_steps` before a
            copy, `episodes_per_matchup` of its payoff table, `shared_worlds` of main agents, `train_overrides`.
        env: Arguments of the environment in addition to the preset.
        baselines: Some of `JOINT_PPO`.
        episodes: Episodes per pair of populations, distributed over their policies by weight.
    """
    game = Game.of(env_id, {**preset(env_id, "cpu").env, **(env or {})})
    sides, used, seconds, payoffs = [], {}, {}, {}
    for builder, seed in ((builder, seed) for builder in builders for seed in range(seeds)):
        began = time.perf_counter()
        made, taken, played = (
            _psro(game, steps, seed, psro or {})
            if builder == "psro"
            else _alphastar(game, steps, seed, alphastar or {})
        )
        sides.append(made)
        used[made.name], payoffs[made.name], seconds[made.name] = taken, played, time.perf_counter() - began
        weights = {role: [round(each, 3) for each in weight.tolist()] for role, weight in made.weights.items()}
        print(made.name, taken, "steps", f"{seconds[made.name]:.0f} s", weights, flush=True)
    most, longest, speed = max(used.values(), default=steps), max(seconds.values(), default=0.0), 0.0
    for baseline, seed in ((baseline, seed) for baseline in baselines for seed in range(seeds)):
        budget = most
        if baseline == JOINT_PPO[1]:
            budget = most // len(game.roles)
        elif baseline == JOINT_PPO[2]:
            speed = speed or _joint_speed(game)
            budget = max(int(speed * longest), 1)
        began = time.perf_counter()
        made, taken = joint_ppo(game, budget, seed, f"{baseline} {seed}")
        sides.append(made)
        used[made.name], seconds[made.name] = taken, time.perf_counter() - began
        print(made.name, taken, "steps", f"{seconds[made.name]:.0f} s", flush=True)
    began = time.perf_counter()
    means, halves = cross_play(game, sides, episodes)
    print(f"cross-play {time.perf_counter() - began:.0f} s", flush=True)
    result = {
        "env_id": env_id,
        "sides": [side.name for side in sides],
        "roles": [seat.name for seat in game.seats],
        "means": means.tolist(),
        "halves": halves.tolist(),
        "steps": used,
        "seconds": seconds,
        "payoffs": payoffs,
        "episodes": episodes,
    }
    result |= judged(result)
    for name, found in result["verdicts"].items():
        print(name, json.dumps(found), flush=True)
    return result


def joint_ppo(game: Game, steps: int, seed: int, name: str) -> tuple[Side, int]:
    """Train PPO of all roles in the same worlds; return the last policies and the number of environment steps."""
    pools = {role: [RandomPolicy.of(game, role)] for role in game.roles}
    config = dataclasses.replace(training(game, "cpu", preset_learner(game)), total_steps=steps, seed=seed)
    learner = BestResponseTraining(game, MatchupDistribution.self_play(game), pools, config)
    with config.in_force():
        while learner.steps < steps:
            learner.iterate()
    policies = {role: [learner.learner(role).policy()] for role in game.roles}
    return Side(name, policies, dict.fromkeys(game.roles, torch.ones(1).double())), learner.steps


def _joint_speed(game: Game) -> float:
    """Return the environment steps per second of joint PPO, from the second of two short trainings."""
    taken = began = 0.0
    for seed in range(2):
        began = time.perf_counter()
        taken = joint_ppo(game, SPEED_STEPS, seed, "speed")[1]
    return taken / (time.perf_counter() - began)


def preset_learner(game: Game) -> dict[str, Any]:
    """Return the training settings of a single run in the form of `league.storage.run_config.training`."""
    return {f"learner.{name}": value for name, value in vars(preset(game.env_id, "cpu").learner).items()}


def _psro(game: Game, steps: int, seed: int, given: Mapping[str, Any]) -> tuple[Side, int, int]:
    """Run PSRO with equal steps per response; also return its steps and the episodes of its payoff table."""
    fields = {**presets.psro_preset(game.env_id), **given}
    each = steps // (fields["iterations"] * len(game.roles))
    config = PSROConfig(
        **{**fields, "seed": seed, "train_overrides": {**fields.get("train_overrides", {}), "total_steps": each}}
    )
    with tempfile.TemporaryDirectory() as folder, open_run(Path(folder) / "run", game, "psro", config) as store:
        run = PSRO(store, config)
        run.run()
        assert run.strategy is not None
        side = Side.mixture(f"psro {seed}", store.populations, run.strategy.marginals)
        used = sum(
            store.result(f"{number}/respond/{role}/0")["steps"]
            for number in range(1, config.iterations + 1)
            for role in game.roles
        )
        return side, used, int(store.cells().count.sum())


def _alphastar(game: Game, steps: int, seed: int, given: Mapping[str, Any]) -> tuple[Side, int, int]:
    """Run AlphaStar's league with equal steps per training, as `_psro`; its mixture is over all frozen players."""
    iterations = given.get("iterations", 12)
    main_exploiters, league_exploiters = given.get("main_exploiters", 1), given.get("league_exploiters", 0)
    shared = given.get("shared_worlds", True)
    mains = 1 if shared else len(game.roles)
    trainings = mains + (main_exploiters + league_exploiters) * len(game.roles)
    each = steps // (iterations * trainings)
    least = given.get("min_steps", 2 * each)
    rules = FreezeRules(min_steps=least, timeout=2 * least)
    builder = AlphaStarLeagueBuilder(
        AlphaStarConfig(
            main=rules,
            main_exploiter=dataclasses.replace(rules, count=main_exploiters, reset_probability=1.0),
            league_exploiter=dataclasses.replace(rules, count=league_exploiters, reset_probability=0.25),
            shared_worlds=shared,
        )
    )
    episodes = given.get("episodes_per_matchup", 100)
    train = {"total_steps": iterations * each, **given.get("train_overrides", {})}  # over which learning rates fall
    config = LeagueConfig(
        iterations=iterations, steps=each, episodes_per_matchup=episodes, seed=seed, train_overrides=train
    )
    with tempfile.TemporaryDirectory() as folder, open_run(Path(folder) / "run", game, "alphastar", config) as store:
        league = League(store, config, builder)
        league.run()
        table = league.evaluate()
        strategy = solvers.solve("prd", table.mean, **DEFAULTS["prd"])
        side = Side.mixture(f"alphastar {seed}", store.populations, strategy.marginals)
        return side, league.steps, int(store.cells().count.sum())


def cross_play(game: Game, sides: Sequence[Side], episodes: int = 4_000) -> tuple[Tensor, Tensor]:
    """Return the returns of every seat, (S, populations of seat 1, of seat 2), and half of the 95 % intervals."""
    first, second = game.seats
    pools = {role: [policy for side in sides for policy in side.policies[role]] for role in game.roles}
    starts = {role: [0] for role in game.roles}
    for side in sides:
        for role in game.roles:
            starts[role].append(starts[role][-1] + len(side.policies[role]))
    matchups, counts, shares, cells = [], [], [], []
    for a, one in enumerate(sides):
        for b, other in enumerate(sides):
            for i, p in enumerate(one.weights[first.role].tolist()):
                for j, q in enumerate(other.weights[second.role].tolist()):
                    matchups.append((starts[first.role][a] + i, starts[second.role][b] + j))
                    counts.append(max(LEAST, round(episodes * p * q)))
                    shares.append(p * q)
                    cells.append((a, b))
    results = simulate_matchups(pools, game=game, matchups=matchups, episodes=counts, seed=577_215)
    count, share = results.count[:, None].double(), torch.tensor(shares, dtype=torch.float64)[:, None]
    variance = (results.square / count - results.mean.square()).clamp(min=0) * count / (count - 1)
    place = torch.tensor(cells) @ torch.tensor([len(sides), 1])
    shape = (len(game.seats), len(sides), len(sides))
    means, squares = torch.zeros(2, len(sides) ** 2, len(game.seats), dtype=torch.float64)
    means.index_add_(0, place, share * results.mean)
    squares.index_add_(0, place, share.square() * variance / count)
    return means.T.reshape(shape), 1.96 * squares.sqrt().T.reshape(shape)


def over_seeds(differences: Tensor) -> list[float]:
    """Return the mean of a table (populations, trainings) and half of its 95 % interval over resampled seeds.

    Two crossed random effects: variances of both margins add up; Student's t with the degrees of the smaller margin.
    """
    margins = [differences.mean(1), differences.mean(0)]
    variance = sum(float(margin.var()) / len(margin) for margin in margins)
    return [float(differences.mean()), float(student.ppf(0.975, min(differences.shape) - 1)) * variance**0.5]


def kind(name: str) -> str:
    """Return the kind of a side: its name without the number of its seed."""
    return name.rpartition(" ")[0]


def judged(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdict on each builder against each baseline, and whether it earns more in both seats.

    `kinds` has the kind of every side, `not_measured` the baselines that are missing.
    """
    names = result["sides"]
    means, halves = (torch.tensor(result[key], dtype=torch.float64) for key in ("means", "halves"))
    kinds = list(map(kind, names))
    builders = dict.fromkeys(each for each in kinds if each in ("psro", "alphastar"))
    verdicts = {
        name: [
            row
            for baseline in JOINT_PPO
            if baseline in kinds
            for row in verdict(result["roles"], names, means, halves, name, baseline)
        ]
        for name in builders
    }
    return {
        "kinds": kinds,
        "not_measured": [baseline for baseline in JOINT_PPO if baseline not in kinds],
        "verdicts": verdicts,
        "met": {name: bool(found) and all(row["apart"] for row in found) for name, found in verdicts.items()},
    }


def verdict(
    roles: Sequence[str], names: Sequence[str], means: Tensor, halves: Tensor, builder: str, baseline: str
) -> list[dict[str, Any]]:
    """Return per seat the returns of populations against a baseline, and the converse.

    Means are over populations and trainings. `apart` is True if the interval of the populations is above the other.
    `each` has the returns by population. From `SEEDS` of both on, `ahead` has the difference with its interval over
    seeds, and must be above 0 for `apart`.
    """
    owns, others = ([index for index, each in enumerate(names) if kind(each) == of] for of in (builder, baseline))
    found = []
    for seat, role in enumerate(roles):
        mean, half = means[seat], halves[seat]
        if seat == 1:
            mean, half = mean.T, half.T  # rows: who sits here, columns: who sits opposite
        row: dict[str, Any] = {"seat": role, "baseline": baseline}
        for key, pairs in (
            ("mixture_against_baseline", [(own, other) for own in owns for other in others]),
            ("baseline_against_mixture", [(other, own) for own in owns for other in others]),
        ):
            values = torch.stack([mean[pair] for pair in pairs])
            squares = torch.stack([half[pair] ** 2 for pair in pairs])
            row[key] = [float(values.mean()), float(squares.sum().sqrt()) / len(pairs)]
        (value, wide), (bound, width) = row["mixture_against_baseline"], row["baseline_against_mixture"]
        row["apart"] = value - wide > bound + width
        if min(len(owns), len(others)) >= SEEDS:
            row["ahead"] = over_seeds(torch.stack([mean[own, others] - mean[others, own] for own in owns]))
            row["apart"] &= row["ahead"][0] > row["ahead"][1]
        row["each"] = {
            names[own]: [
                float(torch.stack([mean[place] for place in places]).mean())
                for places in ([(own, other) for other in others], [(other, own) for other in others])
            ]
            for own in owns
        }
        found.append(row)
    return found
