"""Task functions for tests, in a module that workers can import."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch

from gpu_envs.definition.registry import recorded_id
from gpu_envs.errors import CheckpointError
from league.executors.tasks import RemoteTask
from league.game import Game
from league.matchups.best_response import train_best_response
from league.matchups.matchup_distribution import MatchupDistribution
from league.matchups.matchups import simulate_matchups
from league.policies.mixture import MixturePolicy
from league.policies.random import RandomPolicy
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.learner_spec import LearnerSpec
from trainers.config.train_config import TrainConfig

RPS = Game.of("RockPaperScissors-v0", {"num_repetitions": 1})


class NeedsTwoError(Exception):
    """An error that cannot be rebuilt from its message."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def add(pools: Any, a: Any, b: Any) -> Any:
    return a + b


def sleep(pools: Any, seconds: float, value: Any = None) -> Any:
    time.sleep(seconds)
    return value


def sleep_after_touch(pools: Any, file: str, seconds: float) -> None:
    Path(file).touch()
    time.sleep(seconds)


def wait_for_file(pools: Any, file: str, seconds: float) -> bool:
    """Return whether a file exists, as soon as it does, at the latest after some seconds."""
    deadline = time.monotonic() + seconds
    while not Path(file).exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return Path(file).exists()


def fail(pools: Any, how: str) -> None:
    if how == "library":
        raise CheckpointError("step 7: expected a tree, got a stone")
    if how == "two":
        raise NeedsTwoError("one", "two")
    raise ZeroDivisionError("division of a fish")


def die(pools: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def alive(process: int) -> bool:
    """Return whether a process is running."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def recorded(pools: Any, env_id: str) -> str:
    return recorded_id(env_id, "league.db")


def threads(pools: Any) -> tuple[int, str]:
    return torch.get_num_threads(), os.environ["OMP_NUM_THREADS"]


def process(pools: Any, seconds: float = 0.0) -> int:
    time.sleep(seconds)
    return os.getpid()


def sleep_after_mark(pools: Any, file: str, seconds: float) -> None:
    """Write the process to a file and sleep."""
    Path(file).write_text(f"{os.getpid()}")
    time.sleep(seconds)


def node_when_told(pools: Any, file: str, go: str) -> str:
    """Write the process to a file, wait for another file, and return the id of the Ray node of this task."""
    Path(file).write_text(f"{os.getpid()}")
    wait_for_file(pools, go, 600.0)
    return node(pools, 0.0)


def node(pools: Any, seconds: float, value: int = 0) -> str:
    """Return the id of the Ray node of this task."""
    time.sleep(seconds)
    return sys.modules["ray"].get_runtime_context().get_node_id()


def killed_once(pools: Any, marker: str, after: float, make: Any, **arguments: Any) -> Any:
    """Run `make`; the first worker dies during it."""
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return make(pools, **arguments)
    threading.Timer(after, os.kill, (os.getpid(), signal.SIGKILL)).start()
    while True:
        make(pools, **arguments)


def play(pools: Any, matchups: Any, episodes: int, seed: int) -> Any:
    return simulate_matchups(pools, game=RPS, matchups=matchups, episodes=episodes, seed=seed, max_envs=1024)


def learn(pools: Any, draw: MatchupDistribution, seed: int, state: Any = None) -> Any:
    """Return a trained best response and the given state."""
    train = TrainConfig(
        RPS.env_id, num_envs=8, total_steps=640, learner=PPOConfig(rollout_length=4, hidden_sizes=(8,)), seed=seed
    )
    return {"response": train_best_response(pools, game=RPS, role="player", draw=draw, train=train), "state": state}


def network(seed: int, body: str = "mlp") -> Any:
    settings = PPOConfig(hidden_sizes=(8,), **({} if body == "mlp" else {"network": body}))
    learner = PPO(
        settings, LearnerSpec(RPS.core(1).observation_spaces["player_0"].shape[0], SPACE, 1, 1, 100, seed=seed)
    )
    generator = torch.Generator().manual_seed(seed)
    for parameter in learner.net.parameters():
        parameter.data += torch.randn(parameter.shape, generator=generator)
    return learner.policy()


SPACE = RPS.core(1).action_spaces["player_0"]


def policies() -> dict[str, list[Any]]:
    """Return policies of every kind except tables."""
    random = RandomPolicy.of(RPS, "player")
    mixed = MixturePolicy(
        [network(5), RandomPolicy.of(RPS, "player"), network(6, "gru")], torch.tensor([0.2, 0.3, 0.5])
    )
    return {"player": [random, network(1), network(2, "gru"), mixed]}


def calls() -> list[RemoteTask]:
    """Return tasks that simulate matchups or train responses."""
    pools = policies()
    size = len(pools["player"])
    matchups = torch.tensor([(i, j) for i in range(size) for j in range(size)])
    tasks = [
        RemoteTask(f"play/{seed}", play, pools, {"matchups": matchups, "episodes": 20, "seed": seed}, device="cpu")
        for seed in range(3)
    ]
    state = {
        "weights": torch.arange(40_000.0).reshape(200, 200)[:, 3],
        "big": torch.randn(50_000, generator=torch.Generator().manual_seed(1)),
    }
    learner = {"player": pools["player"][:2]}
    draw = MatchupDistribution.against(RPS, "player", [torch.ones(2)] * 2)
    tasks += [
        RemoteTask(f"learn/{seed}", learn, learner, {"draw": draw, "seed": seed, "state": state}, learns=True)
        for seed in range(2)
    ]
    return tasks


def plain(value: Any) -> Any:
    """Return a result without durations, for bit-for-bit comparison."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.cpu().contiguous().view(-1).view(torch.uint8).tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if hasattr(value, "net"):
        return plain(dict(value.net.state_dict()))
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__ if name != "seconds"}
    return value


def run(task: RemoteTask) -> Any:
    """Return the result of a task that runs in this process."""
    return task.function(task.policies, **task.arguments)


def gathered(executor: Any, tasks: list[RemoteTask]) -> dict[str, Any]:
    """Return the plain results of tasks by key."""
    for call in tasks:
        executor.submit(call)
    results = {}
    while executor.pending:
        key, result = executor.next()
        assert key not in results
        results[key] = plain(result)
    return results
