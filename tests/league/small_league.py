"""Leagues of rock-paper-scissors that take a second.

`python small_league.py WHICH FOLDER POINTS` runs WHICH undisturbed in FOLDER/whole, then POINTS times in FOLDER/0, 1,
..., each killed at a random point and resumed. `async-WHICH` is asynchronous, with tasks that finish in random order.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import toy_league
from shuffled import Shuffled

from league.executors.tasks import Executor
from league.game import Game
from league.leagues import builder_validation
from league.leagues.alphastar import AlphaStarLeagueBuilder, alphastar_preset
from league.leagues.async_league import AsyncLeague
from league.leagues.builder import LeagueBuilder
from league.leagues.league import LANE, League, LeagueConfig
from league.leagues.league_state import POLICY_KEYS
from league.leagues.population_based import PopulationBasedBuilder, PopulationBasedConfig
from league.leagues.self_play import SelfPlayBuilder, SelfPlayConfig
from league.leagues.training_group import cached_trainings
from league.matchups.best_response import BestResponseTraining
from league.storage.open_run import open_run
from league.storage.run_store import RunStore

RPS = Game.of("RockPaperScissors-v0", {"num_repetitions": 1})
TINY = {
    "num_envs": 4,
    "learner.rollout_length": 4,
    "learner.hidden_sizes": [4],
    "learner.num_epochs": 1,
    "learner.num_minibatches": 1,
    "learner.learning_rate": 0.05,
}
STEPS = 32


def builder(name: str, shared_worlds: bool = True) -> LeagueBuilder:
    if name == "alphastar":  # reset probability of main exploiters: 1, of others: 1/4
        return AlphaStarLeagueBuilder(replace(alphastar_preset(min_steps=STEPS), shared_worlds=shared_worlds))
    if name == "pbt":
        perturb = {"learning_rate": 1.5, "gamma": 1.5}
        return PopulationBasedBuilder(PopulationBasedConfig(size=3, ready_steps=STEPS, bottom=0.5, perturb=perturb))
    return SelfPlayBuilder(SelfPlayConfig(name, freeze_every=STEPS, shared_worlds=shared_worlds))


def league(
    path: Path,
    rules: LeagueBuilder | str = "alphastar",
    iterations: int = 3,
    game: Game = RPS,
    steps: int = STEPS,
    episodes: int = 20,
    seed: int = 0,
    max_envs: int = 1024,
    executor: Executor | None = None,
    asynchronous: bool = False,
    max_cells: int | None = 10_000,
    **train: Any,
) -> League:
    """Create or resume a league in a folder; its store is open."""
    config = LeagueConfig(
        asynchronous=asynchronous,
        iterations=iterations,
        steps=steps,
        episodes_per_matchup=episodes,
        seed=seed,
        eval_num_envs=max_envs,
        max_payoff_cells=max_cells,
        train_overrides={key: value for key, value in {**TINY, **train}.items() if value is not None},
    )
    store = open_run(path, game, "league", config)
    kind = AsyncLeague if asynchronous else League
    return kind(store, config, builder(rules) if isinstance(rules, str) else rules, executor=executor)


def train(running: League, number: int, *names: str) -> None:
    """Train the groups of some players only, as if the league were killed afterwards."""
    running.submit_draw_margin(number, LANE)
    running.coordinator.wait(LANE)
    draw_margin = running.draw_margin(number)
    for group in builder_validation.training_groups(running.builder, running.state):
        if set(names) & set(group):
            running._submit(number, group, running.state.pools(), draw_margin)
    running.coordinator.wait(LANE)


def training(running: League, name: str) -> BestResponseTraining:
    """Return the cached training of a player."""
    return cached_trainings(running.id)[name]


def records(path: Path) -> dict[str, Any]:
    """Return all rows and files of a run, without durations."""
    tables = toy_league.dump(path)
    rows = [(number, json.loads(summary)) for number, summary in tables["iterations"]]
    return {**tables, "iterations": [(number, {**row, "seconds": 0}) for number, row in rows]}


def trained(path: Path) -> dict[str, dict[str, Any]]:
    """Return the results of a run's trainings as "ITERATION/train/PLAYER"."""
    with RunStore.open(path, write=False) as store:
        results = {}
        for task in store.tasks():
            if "/train/" in task:
                result = store.result(task)
                for name, player in result["players"].items():
                    results[f"{task.partition('/')[0]}/train/{name}"] = {**player, "steps": result["steps"]}
        return results


def weights(policy) -> dict[str, torch.Tensor]:
    """Return copies of the weights of a policy by name."""
    return {f"net.{name}": tensor.clone() for name, tensor in policy.net.state_dict().items()}


def equal(first, other) -> bool:
    """Return whether two states have equal tensors."""
    first, other = ({k: v for k, v in state.items() if k != "spec"} for state in (first, other))
    return first.keys() == other.keys() and all(torch.equal(first[name], other[name]) for name in first)


def of_policy(state) -> dict[str, torch.Tensor]:
    """Return the entries of a learner's state that belong to its policy."""
    return {name: value for name, value in state.items() if name.startswith(POLICY_KEYS)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    name, folder, points = sys.argv[1].removeprefix("async-"), Path(sys.argv[2]), int(sys.argv[3])
    asynchronous = sys.argv[1] != name

    def work(path: Path, iterations: int = 3) -> None:
        executor = Shuffled(seed=time.monotonic_ns()) if asynchronous else None
        # five cells fill a batch
        running = league(path, name, iterations, max_envs=100, executor=executor, asynchronous=asynchronous)
        running.run()
        running.store.close()

    toy_league.kill(folder, points, work)
