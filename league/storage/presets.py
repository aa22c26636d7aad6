"""Presets for training in leagues, by environment and type of device.

They override `trainers.config.presets`: a league trains many policies, each briefly.
"""

from __future__ import annotations

from typing import Any

from gpu_envs.errors import ConfigError

# Games of a few moves: episodes fit in a rollout, and many of them are needed.
_CARDS: dict[str, Any] = {
    "algorithm": "ppo",
    "num_envs": 256,
    "num_threads": 1,
    "learner.learning_rate": 3e-3,
    "learner.entropy_coef": 0.02,
    "learner.rollout_length": 8,
}
TRAIN_PRESETS: dict[tuple[str, str], dict[str, Any]] = {
    ("KuhnPoker-v0", "cpu"): {**_CARDS, "total_steps": 40_000},
    # A higher entropy bonus until the end: mixed responses leave smaller gains against mixtures of them.
    ("LeducPoker-v0", "cpu"): {
        **_CARDS,
        "total_steps": 100_000,
        "learner.entropy_coef": 0.05,
        "learner.entropy_coef_final": 0.05,
    },
    ("Goofspiel-v0", "cpu"): {**_CARDS, "total_steps": 40_000},
    ("LiarsDice-v0", "cpu"): {**_CARDS, "total_steps": 100_000},
    ("RockPaperScissors-v0", "cpu"): {**_CARDS, "total_steps": 20_000},
    ("SimpleTag-v0", "cpu"): {"algorithm": "ppo", "total_steps": 50_000},
    ("TagContinuous-v0", "cpu"): {"algorithm": "ppo", "total_steps": 40_000},
}
"""Presets for `league.storage.run_config.training`: fields of `TrainConfig`, and of the learner with the prefix
"learner.". They apply to the named algorithm."""
FALLBACK_PRESETS: dict[str, dict[str, Any]] = {
    "cpu": {"algorithm": "ppo", "total_steps": 100_000},
    "cuda": {"algorithm": "ppo", "total_steps": 2_000_000},
}
"""Presets of environments that are not in `TRAIN_PRESETS`, by type of device."""
PSRO_PRESETS: dict[str, dict[str, Any]] = {
    "KuhnPoker-v0": {"iterations": 10, "response_init": "scratch"},
    "LeducPoker-v0": {"iterations": 25, "response_init": "scratch"},
    "Goofspiel-v0": {"iterations": 20, "response_init": "scratch"},
    "LiarsDice-v0": {"iterations": 20, "response_init": "scratch"},
    "RockPaperScissors-v0": {"iterations": 6, "response_init": "scratch"},
    "SimpleTag-v0": {"iterations": 40, "response_init": "resume", "episodes_per_matchup": 300},
    "TagContinuous-v0": {"iterations": 8, "response_init": "resume", "episodes_per_matchup": 20},
}
"""Fields of `PSROConfig` by environment.

In games of a few moves, responses start from scratch: a policy that plays one move with certainty does not change to
another one in a short training. Pursuit games need long training, so responses resume the last learner; see
docs/league.md. TagContinuous-v0 has few episodes per payoff cell because its episodes are long. Use more of them if the
best policies need to be distinguished.
"""


def train_preset(env_id: str, device: str, algorithm: str | None = None) -> dict[str, Any]:
    """Return learner settings for an environment on "cpu", "cuda" or "cuda:<i>".

    Args:
        env_id: Id of the environment.
        device: Device of the training.
        algorithm: Training algorithm; None: the preset's. Settings for other algorithms are left out.

    Raises:
        ConfigError: The device is unknown.
    """
    kind = device.partition(":")[0]
    if kind not in FALLBACK_PRESETS:
        raise ConfigError(f"device: expected one of cpu, cuda, cuda:N, got {device!r:.80}")
    preset = TRAIN_PRESETS.get((env_id, kind), FALLBACK_PRESETS[kind])
    if algorithm in (None, preset["algorithm"]):
        return dict(preset)
    return {name: value for name, value in preset.items() if name != "algorithm" and not name.startswith("learner.")}


def psro_preset(env_id: str) -> dict[str, Any]:
    """Return fields of `PSROConfig` for an environment, empty if there is no preset."""
    return dict(PSRO_PRESETS.get(env_id, {}))
