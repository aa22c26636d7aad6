"""The algorithms by name. Each is a file of its own, imported when it is asked for."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_envs.errors import ConfigError


@dataclass(frozen=True)
class Algorithm:
    """Where an algorithm is, and which settings make it what its name says."""

    name: str
    """As `--algorithm` takes it."""
    module: str
    """File in `trainers`, without its suffix."""
    learner: str
    """Class of the learner; its settings are the class of that name and "Config"."""
    summary: str
    """One line for people."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Settings that the name stands for and that cannot be changed."""
    recorded: bool = False
    """It learns from recorded episodes (`gpu-envs clone`): there are settings, and no learner that plays."""

    @property
    def config_type(self) -> type[Any]:
        """Dataclass of its settings."""
        return getattr(importlib.import_module(f"trainers.{self.module}"), f"{self.learner}Config")

    @property
    def learner_type(self) -> type[Any]:
        """Class of its learner; ConfigError where there is none."""
        self.check_plays()
        return getattr(importlib.import_module(f"trainers.{self.module}"), self.learner)

    def check_plays(self) -> None:
        """Raises ConfigError where there is no learner that plays."""
        if self.recorded:
            raise ConfigError(f"algorithm = {self.name!r}: it learns from recorded episodes, see gpu-envs clone --help")

    def settings(self, **given: Any) -> Any:
        """Its settings where they differ from the defaults; ConfigError where one is bad or contradicts the name."""
        for name, value in self.fixed.items():
            if given.setdefault(name, value) != value:
                raise ConfigError(
                    f"learner.{name} = {given[name]!r}: expected {value!r}, which is what {self.name} means"
                )
        return self.config_type(**given)


_PLAIN = {"twin": False, "policy_delay": 1, "target_noise": 0.0}  # what TD3 is without its remedies
_ALL = (
    Algorithm("ppo", "ppo", "PPO", "proximal policy optimisation, one critic per policy on its own observations"),
    Algorithm("ippo", "ppo", "PPO", "independent PPO: ppo, by its name among many agents", {"critic": "obs"}),
    Algorithm("mappo", "ppo", "PPO", "multi-agent PPO: critics on the global state", {"critic": "state"}),
    Algorithm("a2c", "a2c", "A2C", "advantage actor-critic: one gradient step per rollout"),
    Algorithm("dqn", "dqn", "DQN", "deep Q-learning: double, dueling, n-step returns, prioritised replay"),
    Algorithm("iql", "dqn", "DQN", "independent Q-learning: the same as dqn, by its name among many agents"),
    Algorithm("vdn", "qmix", "QMIX", "value decomposition: a team's value is the sum of its agents'", {"mixer": "vdn"}),
    Algorithm("qmix", "qmix", "QMIX", "a team's value is a monotone mix of its agents', by state", {"mixer": "qmix"}),
    Algorithm("td3", "td3", "TD3", "twin delayed deep deterministic policy gradient, continuous actions"),
    Algorithm("ddpg", "td3", "TD3", "deep deterministic policy gradient, continuous actions", _PLAIN),
    Algorithm("maddpg", "maddpg", "MADDPG", "DDPG with critics of all agents' observations and actions", _PLAIN),
    Algorithm("matd3", "maddpg", "MADDPG", "TD3 with critics of all agents' observations and actions"),
    Algorithm("sac", "sac", "SAC", "soft actor-critic, continuous or discrete actions"),
    Algorithm("masac", "masac", "MASAC", "SAC with critics of all agents' observations and actions"),
)
ALGORITHMS: dict[str, Algorithm] = {each.name: each for each in _ALL}
"""By name, those that play and learn."""
RECORDED: dict[str, Algorithm] = {
    "bc": Algorithm("bc", "bc", "BC", "behaviour cloning: do as was done in recorded episodes", recorded=True)
}
"""Those of checkpoints that `gpu-envs clone` wrote."""


def find(name: str) -> Algorithm:
    """The algorithm of a name; ConfigError names the nearest and all others."""
    if name in RECORDED:
        return RECORDED[name]
    if name not in ALGORITHMS:
        near = difflib.get_close_matches(name, ALGORITHMS, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(f"algorithm = {name!r}: expected one of {', '.join(ALGORITHMS)}{meant}")
    return ALGORITHMS[name]
