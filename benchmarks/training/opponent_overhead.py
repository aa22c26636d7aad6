"""Overhead of opponents over plain self-play: `python -m benchmarks.training.opponent_overhead`.

Trainings of the same settings take turns, a rollout and its update each: "plain" is self-play without an opposition,
"bookkeeping" seats learners everywhere but draws and counts, "opponents" seats a learner against frozen networks.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time

import torch

from league.game import Game
from league.rollout.best_response import BestResponseTraining, settled
from league.rollout.matchup_distribution import MatchupDistribution
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.base.seeding import derive_seed
from trainers.config.train_config import TrainConfig
from trainers.models.policy import PolicyProtocol
from trainers.runner.collector import Collector
from trainers.runner.learner_group import LearnerGroup

GAMES = {"RockPaperScissors-v0": 256, "KuhnPoker-v0": 256, "ConnectFour-v0": 256, "SimpleTag-v0": 128}
"""Number of worlds per training."""
FROZEN = 8
"""Number of opponent networks."""
WARM = 3
"""Warm-up turns."""


def main() -> int:
    """Print milliseconds per rollout and per update, medians over turns, and return 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=20)
    turns = parser.parse_args().turns
    torch.set_num_threads(1)
    print(f"{'':22}{'':13}{'rollout':>12}{'of plain':>10}{'update':>12}{'steps/s':>12}{'of plain':>10}")
    for env_id, num_envs in GAMES.items():
        game = Game.of(env_id)
        config = TrainConfig(env_id, num_envs=num_envs, total_steps=10**9, learner=PPOConfig(rollout_length=25))
        config = settled(game, config)
        collectors = _collectors(game, config)
        spent: dict[str, list[tuple[float, float]]] = {name: [] for name in collectors}
        for turn in range(WARM + turns):
            for name, collector in collectors.items():
                begin = time.perf_counter()
                collector.collect()
                between = time.perf_counter()
                collector.learners.update(turn, str)
                spent[name].append((between - begin, time.perf_counter() - between))
        plain = [0.0, 0.0]
        for name, times in spent.items():
            rollout, update = (statistics.median(column) for column in zip(*times[WARM:], strict=True))
            total = statistics.median(sum(pair) for pair in times[WARM:])
            plain = plain if name != "plain" else [rollout, total]
            print(
                f"{env_id:22}{name:13}{rollout * 1e3:9.1f} ms{rollout / plain[0]:10.2f}{update * 1e3:9.1f} ms"
                f"{config.rollout_steps / total:12,.0f}{plain[1] / total:10.2f}",
                flush=True,
            )
    return 0


def _collectors(game: Game, config: TrainConfig) -> dict[str, Collector]:
    core = game.core(config.num_envs)
    plain = Collector(config, core, LearnerGroup(config, core))
    role, frozen = game.roles[0], {name: _frozen(game, config, name) for name in game.roles}
    mixture = [torch.ones(FROZEN) / FROZEN for _ in game.seats]
    return {
        "plain": plain,
        "bookkeeping": _trained(game, MatchupDistribution.self_play(game), {}, config),
        "opponents": _trained(game, MatchupDistribution.against(game, role, mixture), frozen, config),
    }


def _trained(
    game: Game, draw: MatchupDistribution, pools: dict[str, list[PolicyProtocol]], config: TrainConfig
) -> Collector:
    return BestResponseTraining(game, draw, pools, dataclasses.replace(config, policies={}, env={})).collector


def _frozen(game: Game, config: TrainConfig, role: str) -> list[PolicyProtocol]:
    """Return untrained policies with different weights."""
    policies = []
    for index in range(FROZEN):
        settings = dataclasses.replace(config, policies={}, env={}, seed=derive_seed(7, index), num_envs=1)
        policies.append(
            BestResponseTraining(game, MatchupDistribution.self_play(game), {}, settings).learner(role).policy()
        )
    return policies


if __name__ == "__main__":
    raise SystemExit(main())
