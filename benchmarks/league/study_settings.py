"""Settings of the studies of exploitability: games, budgets and methods."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.hardware import provenance
from league.game import Game
from trainers.config.presets import preset

__all__ = ["STUDIES", "Method", "Study", "study_file"]


@dataclass(frozen=True)
class Method:
    """A way to train policies."""

    kind: str
    """Function of `benchmarks.league.study_methods`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the function."""
    population: bool = False
    """Whether it is a population whose result is compared with joint PPO."""
    equal: str = "steps"
    """Budget: "steps" of the study, or as many "samples" or as much "time" as the method `like`. With "time", its steps
    follow from the processor time of that method, and from the speed of joint PPO with the same seed."""
    like: str = "PSRO"
    """Method with as many training samples, or as much processor time."""
    tried: str = ""
    """Description of an attempt; attempts have one seed and no cross-play."""


@dataclass(frozen=True)
class Study:
    """A game, budgets and methods."""

    env_id: str
    """Environment."""
    steps: int
    """Environment steps of each training."""
    budget: int
    """Environment steps of each best response that measures exploitability; 0 if NashConv is exact."""
    episodes: int
    """Episodes that evaluate a response."""
    methods: Mapping[str, Method]
    """Methods by name."""
    env: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment, in addition to the preset."""
    train: Mapping[str, Any] = field(default_factory=dict)
    """Training settings of all methods, in addition to the preset."""
    num_seeds: int = 10
    """Number of trainings of each method, except attempts."""
    cross_play_episodes: int = 200
    """Episodes of each pair of seeds in cross-play."""

    def game(self) -> Game:
        """Return the game."""
        return Game.of(self.env_id, {**preset(self.env_id, "cpu").env, **self.env})

    def overrides(self) -> dict[str, Any]:
        """Return the training settings of all methods."""
        return dict(self.train)

    def seeds(self, method: str) -> range:
        """Return the random seeds of a method."""
        return range(1 if self.methods[method].tried else self.num_seeds)

    def compared(self) -> list[str]:
        """Return the names of the methods that take part in cross-play."""
        return [name for name, method in self.methods.items() if not method.tried]

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    def settings_of(self, method: str) -> dict[str, Any]:
        """Return as JSON values all settings that the policies of a method depend on."""
        content = self.to_json()
        about = {key: value for key, value in content["methods"][method].items() if key != "tried"}
        return {"method": about, **{key: content[key] for key in ("env_id", "env", "steps", "train")}}


def study_file(name: str) -> Path:
    """Return the file with the results of a study."""
    return provenance.ROOT / "benchmarks" / "results" / "league" / f"study-{name}.json"


def _entropy(value: float) -> dict[str, float]:
    return {"learner.entropy_coef": value, "learner.entropy_coef_final": value}


def _baselines(snapshots: int) -> dict[str, Method]:
    """Return joint PPO at equal steps, equal samples and equal time."""
    return {
        "joint PPO": Method("joint_ppo", {"num_snapshots": snapshots}),
        "joint PPO, equal samples": Method("joint_ppo", equal="samples"),
        "joint PPO, equal time": Method("joint_ppo", equal="time"),
    }


def _tried(name: str, kind: str, **settings: Any) -> dict[str, Method]:
    """Return an attempt: it is trained once, without cross-play."""
    return {name: Method(kind, settings, tried=name)}


_LEDUC_PSRO: dict[str, Any] = {
    "joint_share": 0.6,
    "joint_snapshots": 40,
    "iterations": 10,
    "response_init": "warm_start",
}
_LEAGUE: dict[str, Any] = {
    "iterations": 20,
    "exploiters": 1,
    "exploiter_share": 0.06,
    "main_matches": {"pfsp": 0.25, "verification": 0.1},
    "episodes_per_matchup": 1_000,
}

_PURSUIT_PSRO: dict[str, Any] = {
    "joint_share": 0.8,
    "joint_snapshots": 20,
    "iterations": 4,
    "response_init": "resume",
}
_LEDUC_ATTEMPTS = {
    **_tried("PSRO without joint training: 12 responses from random weights", "psro", iterations=12),
    **_tried(
        "PSRO without joint training: 12 responses from the latest weights",
        "psro",
        iterations=12,
        response_init="warm_start",
    ),
    **_tried("PSRO, responses from random weights", "psro", **{**_LEDUC_PSRO, "response_init": "scratch"}),
    **_tried("PSRO, 20 shorter responses", "psro", **{**_LEDUC_PSRO, "iterations": 20}),
    **_tried("PSRO, 10 snapshots", "psro", **{**_LEDUC_PSRO, "joint_snapshots": 10}),
    **_tried("PSRO, meta-strategy of the 16 latest policies", "psro", **_LEDUC_PSRO, recent_policies=16),
    **_tried("SP-PSRO", "psro", **_LEDUC_PSRO, variant="self_play"),
    **_tried("anytime PSRO", "psro", **_LEDUC_PSRO, variant="anytime"),
    **_tried(
        "PSRO, responses with entropy 0.01",
        "psro",
        **_LEDUC_PSRO,
        joint_overrides=_entropy(0.1),
        train_overrides=_entropy(0.01),
    ),
    **_tried("PSRO, entropy 0.05", "psro", **_LEDUC_PSRO, train_overrides=_entropy(0.05)),
    **_tried(
        "fictitious self-play in shared worlds, half of the matches against copies",
        "self_play",
        iterations=20,
        opponents="uniform",
        latest=0.5,
        episodes_per_matchup=1_000,
    ),
    **_tried("AlphaStar, exploiters restart from first weights", "alphastar", **_LEAGUE, reset_to="first"),
}
_PURSUIT_ATTEMPTS = {
    **_tried(
        "PSRO without joint training: 10 responses from random weights",
        "psro",
        iterations=10,
        response_init="scratch",
    ),
    **_tried("PSRO without joint training: 10 responses, learners resumed", "psro", iterations=10),
    **_tried("PSRO, half of the steps joint", "psro", **{**_PURSUIT_PSRO, "joint_share": 0.5}),
    **_tried("PSRO, meta-strategy of the 5 latest policies", "psro", **_PURSUIT_PSRO, recent_policies=5),
    **_tried(
        "PSRO, constant learning rate", "psro", **_PURSUIT_PSRO, train_overrides={"learner.learning_rate_final": 3e-3}
    ),
    **_tried("PSRO, entropy three times as high", "psro", **_PURSUIT_PSRO, train_overrides=_entropy(0.01)),
    **_tried(
        "fictitious self-play in shared worlds, half of the matches against copies",
        "self_play",
        iterations=20,
        opponents="uniform",
        latest=0.5,
    ),
    **_tried("AlphaStar, exploiters restart from first weights", "alphastar", **_LEAGUE, reset_to="first"),
}

STUDIES: Mapping[str, Study] = {
    "leduc": Study(
        "LeducPoker-v0",
        steps=2_500_000,
        budget=0,
        episodes=0,
        train=_entropy(0.1),
        methods={
            "PSRO": Method("psro", _LEDUC_PSRO, population=True),
            "AlphaStar": Method("alphastar", _LEAGUE, population=True),
            "AlphaStar without exploiters": Method("alphastar", {**_LEAGUE, "exploiters": 0}, population=True),
            **_baselines(40),
            **_LEDUC_ATTEMPTS,
        },
    ),
    "simpletag": Study(
        "SimpleTag-v0",
        num_seeds=8,
        steps=1_000_000,
        budget=250_000,
        episodes=20_000,
        methods={
            "PSRO": Method("psro", _PURSUIT_PSRO, population=True),
            "AlphaStar": Method("alphastar", _LEAGUE, population=True),
            "AlphaStar without exploiters": Method("alphastar", {**_LEAGUE, "exploiters": 0}, population=True),
            **_baselines(20),
            **_PURSUIT_ATTEMPTS,
        },
    ),
    "tag": Study(
        "TagContinuous-v0",
        num_seeds=3,
        env={"num_taggers": 2, "num_runners": 4, "grid_length": 7.0, "episode_length": 100},
        steps=500_000,
        budget=125_000,
        episodes=5_000,
        methods={
            "PSRO": Method("psro", _PURSUIT_PSRO, population=True),
            "AlphaStar": Method("alphastar", {**_LEAGUE, "episodes_per_matchup": 40}, population=True),
            "AlphaStar without exploiters": Method(
                "alphastar", {**_LEAGUE, "exploiters": 0, "episodes_per_matchup": 40}, population=True
            ),
            **_baselines(20),
            **_tried("PSRO, meta-strategy of the 5 latest policies", "psro", **_PURSUIT_PSRO, recent_policies=5),
            **_tried(
                "fictitious self-play in shared worlds, half of the matches against copies",
                "self_play",
                iterations=20,
                opponents="uniform",
                latest=0.5,
                episodes_per_matchup=40,
            ),
        },
    ),
}
"""Studies by name."""
