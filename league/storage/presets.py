"""Settings with which policies of a league learn, known to work, by environment and type of device.

They lie over those of `trainers.presets`: a best response has less to learn than a policy that learns alone, and there
are many of them.
"""

from __future__ import annotations

from typing import Any

from gpu_envs.errors import ConfigError

# Games of a few moves: episodes end within a rollout, what counts is that many are seen and none is forgotten.
_CARDS: dict[str, Any] = {
    "algorithm": "ppo",
    "num_envs": 256,
    "threads": 1,
    "learner.learning_rate": 3e-3,
    "learner.entropy": 0.02,
    "learner.rollout_length": 8,
}
TRAIN: dict[tuple[str, str], dict[str, Any]] = {
    ("KuhnPoker-v0", "cpu"): {**_CARDS, "total_steps": 40_000},
    # More of it than elsewhere, to the end: responses that mix leave less to find in mixtures of them.
    ("LeducPoker-v0", "cpu"): {**_CARDS, "total_steps": 100_000, "learner.entropy": 0.05, "learner.entropy_end": 0.05},
    ("RockPaperScissors-v0", "cpu"): {**_CARDS, "total_steps": 20_000},
    ("SimpleTag-v0", "cpu"): {"algorithm": "ppo", "total_steps": 50_000},
    ("TagContinuous-v0", "cpu"): {"algorithm": "ppo", "total_steps": 40_000},
}
"""What `league.run.training` takes: fields of `TrainConfig`, and with "learner." before their names those of the
learner's settings. They hold for their algorithm."""
FALLBACK: dict[str, dict[str, Any]] = {
    "cpu": {"algorithm": "ppo", "total_steps": 100_000},
    "cuda": {"algorithm": "ppo", "total_steps": 2_000_000},
}
"""Of environments without any: a response is shorter than a training."""
PSRO: dict[str, dict[str, Any]] = {
    "KuhnPoker-v0": {"iterations": 10, "start": "scratch"},
    "LeducPoker-v0": {"iterations": 25, "start": "scratch"},
    "RockPaperScissors-v0": {"iterations": 6, "start": "scratch"},
    "SimpleTag-v0": {"iterations": 40, "start": "continue", "episodes": 300},
    "TagContinuous-v0": {"iterations": 8, "start": "continue", "episodes": 20},
}
"""Fields of `PSROConfig` by environment. Responses in games of a few moves begin anew: the last policy plays one move
with certainty where the next has to play another, and in so short a training it does not come away from it. To chase
and to flee takes long to learn: there learners go on, or no response would be good (see docs/league.md). Cells of
TagContinuous-v0 have few episodes, as these are long; where who is best is told by little, give them more."""


def train(env_id: str, device: str, algorithm: str | None = None) -> dict[str, Any]:
    """Settings of learners for an environment on "cpu", "cuda" or "cuda:<i>".

    Args:
        env_id: Its id.
        device: Where.
        algorithm: What is asked for; None: what the settings name. Settings of another algorithm are left out.

    Raises:
        ConfigError: The device is another one.
    """
    kind = device.partition(":")[0]
    if kind not in FALLBACK:
        raise ConfigError(f"device = {device!r:.80}: expected one of cpu, cuda, cuda:N")
    found = TRAIN.get((env_id, kind), FALLBACK[kind])
    if algorithm in (None, found["algorithm"]):
        return dict(found)
    return {name: value for name, value in found.items() if name != "algorithm" and not name.startswith("learner.")}


def psro(env_id: str) -> dict[str, Any]:
    """Fields of `PSROConfig` that suit an environment; none where nothing is known."""
    return dict(PSRO.get(env_id, {}))
