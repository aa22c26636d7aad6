"""Populations against independent learners of as many samples: who earns more, whoever sits opposite."""

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

from league import presets, solvers
from league.alphastar import AlphaStarConfig, AlphaStarLeagueBuilder, FreezeRules
from league.builder import NoLeagueBuilder
from league.game import Game
from league.league import League, LeagueConfig
from league.matches import play_matchups
from league.population import RandomPolicy
from league.psro import DEFAULTS, PSRO, PSROConfig
from league.response import Training
from league.run import opened, training
from league.seating import Draw
from trainers.policy import Plays
from trainers.presets import preset

LEAST = 2
"""Episodes of every pair of policies: a spread takes two, and more would be spent on what counts for little."""
SEEDS = 3
"""Populations, and trainings, from which on their spread is told."""
RARE = 5e-3
"""Policies of a mixture that are met less often are left out of it."""


@dataclass(frozen=True)
class Side:
    """Who plays: by role policies and how often each is drawn."""

    name: str
    policies: Mapping[str, Sequence[Plays]]
    weights: Mapping[str, Tensor]

    @classmethod
    def mixture(cls, name: str, populations: Mapping[str, Sequence[Plays]], marginals: Sequence[Tensor]) -> Side:
        """A population with a meta-strategy, one seat per role."""
        policies, weights = {}, {}
        for (role, population), marginal in zip(populations.items(), marginals, strict=True):
            kept = (marginal > RARE).nonzero().flatten().tolist()
            policies[role] = [population[index] for index in kept]
            weights[role] = marginal[kept] / marginal[kept].sum()
        return cls(name, policies, weights)


def equal_samples(
    env_id: str,
    steps: int,
    builders: Sequence[str],
    seeds: int,
    populations: int = 1,
    psro: Mapping[str, Any] | None = None,
    alphastar: Mapping[str, Any] | None = None,
    env: Mapping[str, Any] | None = None,
    with_together: bool = True,
    episodes: int = 4_000,
) -> dict[str, Any]:
    """Cross-play of populations and independent PPO after equally many steps of worlds.

    Several independent pairs are trained, since each has learned to play against its own opponent only. "together" is
    shown beside them: both roles learn in the same worlds, each from as many steps as all others have in sum.

    Args:
        env_id: A game of two seats with roles of their own.
        steps: Of worlds that are learned from, in all, of each population and of each independent training.
        builders: "psro", "alphastar".
        seeds: Independent trainings.
        populations: Of each builder, by seeds of their own.
        psro: Fields of `PSROConfig` beside the preset's.
        alphastar: `iterations` of the league, `main_exploiters` and `league_exploiters` per role, `min_steps` before a
            copy, `episodes` per cell of its payoff table, `train`.
        env: Arguments of the environment beside the preset's.
        with_together: Show "together" as well.
        episodes: Of every pair of sides, spread over their policies by weight.
    """
    game = Game.of(env_id, {**preset(env_id, "cpu").env, **(env or {})})
    sides, used, seconds, payoffs = [], {}, {}, {}
    for builder, seed in ((builder, seed) for builder in builders for seed in range(populations)):
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
    samples = max(used.values(), default=steps)
    for learn, count in ((independent, seeds), (together, 1 if with_together else 0)):
        for seed in range(count):
            began = time.perf_counter()
            made, taken = learn(game, samples, seed)
            sides.append(made)
            used[made.name], seconds[made.name] = taken, time.perf_counter() - began
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


def independent(game: Game, steps: int, seed: int) -> tuple[Side, int]:
    """PPO for each role as `NoLeagueBuilder` has it: each in worlds of its own, against the other as it is.

    Every step of a world is one that one policy learns from, as in a population.
    """
    each = steps // len(game.roles)
    train = {"total_steps": each, **preset_learner(game)}
    iterations, length = whole(each, training(game, "cpu", train).rollout_steps)
    config = LeagueConfig(iterations=iterations, steps=length, episodes=32, seed=seed, train=train)
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder) / "run", game, "independent", config) as store:
        league = League(store, config, NoLeagueBuilder())
        league.run()
        policies = {role: [store.populations[role][-1]] for role in game.roles}
        used = sum(each.total_steps for each in league.standing.learning.values())
    return Side(f"independent {seed}", policies, dict.fromkeys(game.roles, torch.ones(1).double())), used


def whole(steps: int, rollout: int, iterations: int = 20) -> tuple[int, int]:
    """About so many iterations, and their steps, of whole rollouts: together as few more than `steps` as can be."""
    rollouts = -(-steps // rollout)
    each = max(rollouts // iterations, 1)
    return -(-rollouts // each), each * rollout


def together(game: Game, steps: int, seed: int) -> tuple[Side, int]:
    """PPO for each role, all in the same worlds: every step is learned from by all, so that each learns from more."""
    pools = {role: [RandomPolicy.of(game, role)] for role in game.roles}
    config = dataclasses.replace(training(game, "cpu", preset_learner(game)), total_steps=steps, seed=seed)
    learner = Training(game, Draw.self_play(game), pools, config)
    with config.in_force():
        while learner.steps < steps:
            learner.iterate()
    policies = {role: [learner.learner(role).policy()] for role in game.roles}
    return Side(f"together {seed}", policies, dict.fromkeys(game.roles, torch.ones(1).double())), learner.steps


def preset_learner(game: Game) -> dict[str, Any]:
    """The settings of learners of a training that stands alone, as `league.run.training` takes them."""
    return {f"learner.{name}": value for name, value in vars(preset(game.env_id, "cpu").learner).items()}


def _psro(game: Game, steps: int, seed: int, given: Mapping[str, Any]) -> tuple[Side, int, int]:
    """PSRO whose responses share the steps evenly; also the steps they took, and episodes of its payoff table."""
    fields = {**presets.psro(game.env_id), **given}
    each = steps // (fields["iterations"] * len(game.roles))
    config = PSROConfig(**{**fields, "seed": seed, "train": {**fields.get("train", {}), "total_steps": each}})
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder) / "run", game, "psro", config) as store:
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
    """AlphaStar's league whose players share the steps evenly, as `_psro`; its mixture is of all frozen players."""
    iterations = given.get("iterations", 12)
    main_exploiters, league_exploiters = given.get("main_exploiters", 1), given.get("league_exploiters", 0)
    players = (1 + main_exploiters + league_exploiters) * len(game.roles)
    each = steps // (iterations * players)
    least = given.get("min_steps", 2 * each)
    rules = FreezeRules(min_steps=least, timeout=2 * least)
    builder = AlphaStarLeagueBuilder(
        AlphaStarConfig(
            main=rules,
            main_exploiter=dataclasses.replace(rules, count=main_exploiters, reset_probability=1.0),
            league_exploiter=dataclasses.replace(rules, count=league_exploiters, reset_probability=0.25),
        )
    )
    episodes = given.get("episodes", 100)
    train = {"total_steps": iterations * each, **given.get("train", {})}  # over which learning rates fall
    config = LeagueConfig(iterations=iterations, steps=each, episodes=episodes, seed=seed, train=train)
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder) / "run", game, "alphastar", config) as store:
        league = League(store, config, builder)
        league.run()
        table = league.evaluate()
        strategy = solvers.solve("prd", table.mean, **DEFAULTS["prd"])
        used = sum(each.total_steps for each in league.standing.learning.values())
        side = Side.mixture(f"alphastar {seed}", store.populations, strategy.marginals)
        return side, used, int(store.cells().count.sum())


def cross_play(game: Game, sides: Sequence[Side], episodes: int = 4_000) -> tuple[Tensor, Tensor]:
    """What every seat earns, (S, sides of the first seat, sides of the second), and half of the 95 % intervals."""
    first, second = game.seats
    pools = {role: [policy for side in sides for policy in side.policies[role]] for role in game.roles}
    begins = {role: [0] for role in game.roles}
    for side in sides:
        for role in game.roles:
            begins[role].append(begins[role][-1] + len(side.policies[role]))
    matchups, counts, shares, cells = [], [], [], []
    for a, one in enumerate(sides):
        for b, other in enumerate(sides):
            for i, p in enumerate(one.weights[first.role].tolist()):
                for j, q in enumerate(other.weights[second.role].tolist()):
                    matchups.append((begins[first.role][a] + i, begins[second.role][b] + j))
                    counts.append(max(LEAST, round(episodes * p * q)))
                    shares.append(p * q)
                    cells.append((a, b))
    results = play_matchups(game, pools, matchups, counts, seed=577_215)
    count, share = results.count[:, None].double(), torch.tensor(shares, dtype=torch.float64)[:, None]
    variance = (results.square / count - results.mean.square()).clamp(min=0) * count / (count - 1)
    place = torch.tensor(cells) @ torch.tensor([len(sides), 1])
    shape = (len(game.seats), len(sides), len(sides))
    means, squares = torch.zeros(2, len(sides) ** 2, len(game.seats), dtype=torch.float64)
    means.index_add_(0, place, share * results.mean)
    squares.index_add_(0, place, share.square() * variance / count)
    return means.T.reshape(shape), 1.96 * squares.sqrt().T.reshape(shape)


def over_seeds(differences: Tensor) -> list[float]:
    """Mean of a table (populations, trainings), and half of its 95 % interval where both are drawn anew.

    Two crossed random effects: variances of both margins add up; Student's t with the degrees of the smaller margin.
    """
    margins = [differences.mean(1), differences.mean(0)]
    variance = sum(float(margin.var()) / len(margin) for margin in margins)
    return [float(differences.mean()), float(student.ppf(0.975, min(differences.shape) - 1)) * variance**0.5]


def judged(result: Mapping[str, Any]) -> dict[str, Any]:
    """What follows from the means of a cross-play: the verdict on each builder, and who has met the claim."""
    names = result["sides"]
    means, halves = (torch.tensor(result[key], dtype=torch.float64) for key in ("means", "halves"))
    builders = dict.fromkeys(name.split()[0] for name in names if name.split()[0] not in ("independent", "together"))
    verdicts = {name: verdict(result["roles"], names, means, halves, name) for name in builders}
    return {
        "verdicts": verdicts,
        "met": {name: all(each["apart"] for each in found) for name, found in verdicts.items()},
    }


def verdict(
    roles: Sequence[str], names: Sequence[str], means: Tensor, halves: Tensor, builder: str
) -> list[dict[str, Any]]:
    """Per seat: what populations earn against independent learners, and what those earn in that seat against them.

    And what independent learners earn against independent ones of another training, which neither has met. Means over
    populations of the builder and over trainings; `apart` where the populations' interval lies above that of the first.
    `each` has the first two by population. From `SEEDS` of both on, `ahead` has their difference with the interval that
    other seeds would give, which is far wider.
    """
    owns = [index for index, each in enumerate(names) if each.split()[0] == builder]
    others = [index for index, each in enumerate(names) if each.startswith("independent")]
    found = []
    for seat, role in enumerate(roles):
        mean, half = means[seat], halves[seat]
        if seat == 1:
            mean, half = mean.T, half.T  # rows: who sits here, columns: who sits opposite
        pairs = {
            "mixture_against_independent": [(own, other) for own in owns for other in others],
            "independent_against_mixture": [(other, own) for own in owns for other in others],
            "independent_against_others": [(a, b) for a in others for b in others if a != b],
            "independent_against_its_own": [(a, a) for a in others],
            "mixture_against_mixture": [(own, own) for own in owns],
        }
        row: dict[str, Any] = {"seat": role}
        for key, places in pairs.items():
            if places:
                values = torch.stack([mean[place] for place in places])
                squares = torch.stack([half[place] ** 2 for place in places])
                row[key] = [float(values.mean()), float(squares.sum().sqrt()) / len(places)]
        (value, wide), (bound, width) = row["mixture_against_independent"], row["independent_against_mixture"]
        row["apart"] = value - wide > bound + width
        if min(len(owns), len(others)) >= SEEDS:
            row["ahead"] = over_seeds(torch.stack([mean[own, others] - mean[others, own] for own in owns]))
        row["each"] = {
            names[own]: [
                float(torch.stack([mean[place] for place in places]).mean())
                for places in ([(own, other) for other in others], [(other, own) for other in others])
            ]
            for own in owns
        }
        found.append(row)
    return found
