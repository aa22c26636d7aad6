"""League trainings as one of several processes.

Rank 0 writes the results of each case in `CASES`, a training and its continuation, to a file CASE.pt.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from pretended_gpu import activate
from random_networks import network
from torch import distributed

from league.executors.transport import pack, packed
from league.game import Game
from league.leagues.training_group import drop_trainings, train_group
from league.matchups import opponent_sampler
from league.matchups.best_response import train_best_response
from league.matchups.matchup_distribution import LEARNER, MatchupDistribution
from league.policies.mixture import MixturePolicy
from league.policies.random import RandomPolicy
from league.psro.variants.anytime import train_against_regret_minimizer
from league.psro.variants.pipeline import train_segment
from league.psro.variants.self_play import train_both_responses
from trainers.algorithms import algorithm_specs
from trainers.config.train_config import TrainConfig

WORLDS = 7
RPS = Game.of("RockPaperScissors-v0", {"num_repetitions": 3})
LEDUC = Game.of("LeducPoker-v0")
TAG = Game.of("SimpleTag-v0", {"max_cycles": 5})
BOX = Game.of("SimpleTag-v0", {"max_cycles": 5, "continuous_actions": True})
PPO_SMALL = {"rollout_length": 8, "hidden_sizes": (8,), "num_epochs": 2, "num_minibatches": 2, "learning_rate": 0.003}
REPLAY = {"rollout_length": 8, "hidden_sizes": (8,), "updates": 2, "batch_size": 16, "learning_starts": 60}
REPLAY |= {"prioritized": True, "n_step": 2, "learning_rate": 0.01, "replay_size": 400}


def config(game: Game, algorithm: str = "ppo", engine: str = "torch", **learner: Any) -> TrainConfig:
    settings = algorithm_specs.find(algorithm).settings(**(learner or PPO_SMALL))
    return TrainConfig(
        game.env_id, dict(game.env), algorithm=algorithm, learner=settings, num_envs=WORLDS, seed=3, num_threads=1,
        total_steps=WORLDS * 8 * 8, engine=engine,
    )  # fmt: skip


def pools(game: Game, kernels: bool, device: str) -> dict[str, list[Any]]:
    """Return opponents by role; those that kernels do not support keep hidden states and own random streams."""
    populations: dict[str, list[Any]] = {}
    for role in game.roles:
        seat = game.seats_of(role)[0]
        populations[role] = [RandomPolicy.of(game, role), network(game, seat, 1), network(game, seat, 2)]
        if not kernels:
            recurrent = {"network": "gru"}
            members = [network(game, seat, 5), RandomPolicy.of(game, role), network(game, seat, 6, **recurrent)]
            populations[role] += [
                network(game, seat, 3, **recurrent),
                MixturePolicy(members, torch.tensor([0.2, 0.3, 0.5])),
            ]
    return {role: [pack(policy).load(device) for policy in pool] for role, pool in populations.items()}


def group(game: Game, kernels: bool, train: TrainConfig, sharded: bool, relay: Any) -> list[dict[str, Any]]:
    """Train a group twice: against the pool and itself, then with another draw."""
    opponents = pools(game, kernels, train.device)
    size = len(opponents[game.roles[0]])
    rows = [[LEARNER, LEARNER], *([LEARNER, index] for index in range(size))]
    if game.shared:
        rows += [[index, LEARNER] for index in range(size)]
    arguments: dict[str, Any] = {
        "run": "shards",
        "group": game.roles,
        "game": game,
        "config": train,
        "draw_margin": 0.1,
    }
    state: Any = {}
    results = []
    for number, weight in enumerate((1.0, 3.0)):
        rows = rows[:1] + rows[1 + number :]  # the second draw has fewer matchups
        draw = MatchupDistribution(torch.tensor(rows), torch.tensor([weight] + [1.0] * (len(rows) - 1)).double())
        result = train_group(
            opponents, previous=f"{number - 1}" if number else None, task=f"{number}", draw=draw, state=state,
            seed=10 + number, steps=WORLDS * 8 * 2, sharded=sharded, **arguments,
        )  # fmt: skip
        drop_trainings("shards")  # the next one begins from the state, as after a restart
        state = relay(result["state"])
        results.append({"state": result["state"], "tally": result["tally"], "steps": result["steps"]})
    return results


def response(game: Game, kernels: bool, train: TrainConfig, sharded: bool, relay: Any) -> list[dict[str, Any]]:
    """Train a best response, and resume it."""
    opponents = pools(game, kernels, train.device)
    draw = MatchupDistribution.against(game, game.roles[0], [torch.ones(len(opponents[role])) for role in _roles(game)])
    results, start = [], None
    for seed in (1, 2):
        learned = train_best_response(
            opponents, game=game, role=game.roles[0], draw=draw, train=train, start=start, seed=seed,
            steps=WORLDS * 8 * 2, max_seconds=1e9, sharded=sharded,
        )  # fmt: skip
        start = relay(learned.state)
        policy = {f"policy.{name}": value for name, value in learned.policy.net.state_dict().items()}
        results.append({"state": {**learned.state, **policy}, "tally": learned.tally, "steps": learned.steps})
    return results


def segment(game: Game, kernels: bool, train: TrainConfig, sharded: bool, relay: Any) -> list[dict[str, Any]]:
    """Train two segments of a pipeline."""
    opponents = pools(game, kernels, train.device)
    draw = MatchupDistribution.against(game, game.roles[0], [torch.ones(len(opponents[role])) for role in _roles(game)])
    results, state = [], None
    for _ in range(2):
        part = train_segment(
            opponents, game=game, role=game.roles[0], draw=draw, train=train, state=state, iterations=3, sharded=sharded
        )
        state = relay(part.state)
        results.append({"state": part.state, "tally": part.tally, "steps": part.steps})
    return results


def response_pair(game: Game, kernels: bool, train: TrainConfig, sharded: bool, relay: Any) -> list[dict[str, Any]]:
    """Train a response in self-play with a new policy, then a response against regret minimizers."""
    opponents = pools(game, kernels, train.device)
    first, second = game.roles
    size = len(opponents[second])
    draw = MatchupDistribution.against(game, first, [torch.ones(size)] * 2)
    short = dataclasses.replace(train, total_steps=WORLDS * 8 * 4)
    arguments: dict[str, Any] = {"game": game, "role": first, "draw": draw, "train": short, "start": None, "seed": 1}
    pair = [
        train_both_responses(opponents, other=second, num_segments=2, sharded=sharded, **arguments),
        train_against_regret_minimizer(opponents, size=size, spread=10.0, sharded=sharded, **arguments),
    ]
    return [{"state": result.state, "tally": result.tally, "steps": result.steps} for result in pair]


def _roles(game: Game) -> list[str]:
    return [seat.role for seat in game.seats]


CASES = {
    "group_kernels": (group, RPS, True, config(RPS, engine="kernel")),
    "group_torch": (group, RPS, False, config(RPS)),
    "response_kernels": (response, LEDUC, True, config(LEDUC, engine="kernel")),
    "response_torch": (response, LEDUC, False, config(LEDUC)),
    "response_box": (response, BOX, False, config(BOX)),
    "both": (response_pair, LEDUC, True, config(LEDUC)),
    "segment": (segment, TAG, True, config(TAG, "dqn", **REPLAY)),
}


@patch.object(opponent_sampler, "MAX_UNUSED_ROWS", 0)  # processes remove the same matchups
def play(out: Path, cases: list[str], rank: int, sharded: bool, device: str = "cpu") -> None:
    """Write the results of all cases; every rank continues with the state of rank 0."""
    for case in cases:
        run, game, kernels, train = CASES[case]
        train = dataclasses.replace(train, device=device, cuda_graph=False)

        def relay(state: Any, case: str = case) -> Any:
            if sharded:
                if rank == 0:
                    torch.save(packed(state), out / f"{case}-state.pt")
                distributed.barrier()
                state = torch.load(out / f"{case}-state.pt", weights_only=True)
                distributed.barrier()
            return state

        results = packed(run(game, kernels, train, sharded, relay))
        if rank == 0:
            plain = [
                {**result, "tally": {field: getattr(result["tally"], field) for field in _fields(result["tally"])}}
                for result in results
            ]
            torch.save(plain, out / f"{case}.pt")


def _fields(value: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(value)]


def play_rank(out: Path, rank: int, ranks: int, port: int, device: str, cases: list[str]) -> None:
    """Play cases as one of several processes; the device "cuda:0" is a pretended GPU."""
    os.environ |= {"RANK": f"{rank}", "WORLD_SIZE": f"{ranks}", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{port}"}
    with contextlib.nullcontext() if device == "cpu" else activate():
        if ranks > 1:
            distributed.init_process_group("gloo")  # else NCCL for a GPU
        play(out, cases, rank, ranks > 1, device)
    if ranks > 1:
        distributed.barrier()  # gloo may abort a process whose peer closes its connections first
        distributed.destroy_process_group()
