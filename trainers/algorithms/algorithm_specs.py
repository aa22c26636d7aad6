"""Registry of algorithms by name. Their modules are imported on first use."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_envs.definition.id_modules import named_object, named_settings, split_id
from gpu_envs.errors import ConfigError
from gpu_envs.utils.suggestions import unknown_name_message


@dataclass(frozen=True)
class AlgorithmSpec:
    """Module of an algorithm, and the settings fixed by its name."""

    name: str
    """Name, as in `--algorithm`."""
    module: str
    """Module, in `trainers.algorithms` if `package` is that."""
    learner: str
    """Class name of the learner; the class of its settings has the suffix "Config"."""
    summary: str
    """Description on one line."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Settings implied by the name, which cannot be changed."""
    is_imitation: bool = False
    """Whether it learns from recorded episodes (`gpu-envs clone`): it has settings but no learner."""
    sharing: str = "group"
    """Parameter sharing of a training that sets none, see `TrainConfig.sharing`."""
    package: str = "trainers.algorithms."
    """Start of the module's full name."""

    page: str = ""
    """Name of the page in the documentation that it shares with another algorithm; "": its module's."""

    @property
    def family(self) -> str:
        """Name of its page in the documentation."""
        return self.page or self.module.rpartition(".")[2]

    @property
    def config_type(self) -> type[Any]:
        """Dataclass of the settings."""
        return getattr(importlib.import_module(self.package + self.module), f"{self.learner}Config")

    @property
    def learner_type(self) -> type[Any]:
        """Class of the learner; raises ConfigError if there is none."""
        self.check_plays()
        return getattr(importlib.import_module(self.package + self.module), self.learner)

    def check_plays(self) -> None:
        """Raise ConfigError for an algorithm without a learner."""
        if self.is_imitation:
            raise ConfigError(
                f"algorithm: expected an algorithm that trains by acting, got {self.name!r}; use gpu-envs clone"
            )

    def settings(self, **values: Any) -> Any:
        """Return settings with the given values; raise ConfigError if one is invalid or contradicts the name."""
        for name, value in self.fixed.items():
            if values.setdefault(name, value) != value:
                raise ConfigError(f"learner.{name}: expected {value!r}, which {self.name} fixes, got {values[name]!r}")
        return self.config_type(**values)


_PLAIN = {"twin": False, "policy_delay": 1, "target_noise": 0.0}  # TD3 without its three remedies
_ALL = (
    AlgorithmSpec(
        "ppo", "on_policy.ppo", "PPO", "proximal policy optimization, one critic per policy on its own observations"
    ),
    AlgorithmSpec(
        "ippo", "on_policy.ppo", "PPO", "independent PPO: ppo under its multi-agent name", {"critic_input": "obs"}
    ),
    AlgorithmSpec(
        "mappo", "on_policy.ppo", "PPO", "multi-agent PPO: critics on the global state", {"critic_input": "state"}
    ),
    AlgorithmSpec(
        "happo",
        "on_policy.sequential.happo",
        "HAPPO",
        "heterogeneous-agent PPO: mappo that updates the agents' policies one after another",
        {"critic_input": "state"},
        sharing="agent",
    ),
    AlgorithmSpec(
        "hatrpo",
        "on_policy.sequential.hatrpo",
        "HATRPO",
        "heterogeneous-agent TRPO: a trust region for one policy after another",
        {"critic_input": "state"},
        sharing="agent",
        page="happo",
    ),
    AlgorithmSpec(
        "mat",
        "on_policy.sequential.mat",
        "MAT",
        "multi-agent transformer: PPO for a team whose agents act one after another, given the earlier actions",
        {"critic_input": "obs"},
    ),
    AlgorithmSpec(
        "appo", "on_policy.appo", "APPO", "asynchronous PPO: clipped objective, V-trace returns, target policy"
    ),
    AlgorithmSpec(
        "mmd", "on_policy.mmd", "MMD", "magnetic mirror descent: PPO with divergences to the old policy and a magnet"
    ),
    AlgorithmSpec("a2c", "on_policy.a2c", "A2C", "advantage actor-critic: one gradient step per rollout"),
    AlgorithmSpec("impala", "on_policy.impala", "IMPALA", "actor-critic with V-trace returns"),
    AlgorithmSpec(
        "pg",
        "on_policy.pg",
        "PG",
        "policy gradient (REINFORCE), with or without a baseline",
        {"gae_lambda": 1.0},
    ),
    AlgorithmSpec(
        "dqn", "off_policy.dqn", "DQN", "deep Q-learning: double, dueling, n-step returns, prioritized replay"
    ),
    AlgorithmSpec("iql", "off_policy.dqn", "DQN", "independent Q-learning: dqn under its multi-agent name"),
    AlgorithmSpec(
        "nfsp",
        "off_policy.nfsp",
        "NFSP",
        "neural fictitious self-play: a policy that averages the best responses of dqn",
    ),
    AlgorithmSpec(
        "vdn",
        "off_policy.qmix",
        "QMIX",
        "value decomposition: the team value is the sum of the agents' values",
        {"mixer": "vdn"},
    ),
    AlgorithmSpec(
        "qmix",
        "off_policy.qmix",
        "QMIX",
        "the team value is a monotonic, state-dependent mix of the agents' values",
        {"mixer": "qmix"},
    ),
    AlgorithmSpec(
        "qplex",
        "off_policy.qmix",
        "QMIX",
        "the team value weights the agents' values and advantages: it represents every consistent one",
        {"mixer": "qplex"},
    ),
    AlgorithmSpec(
        "td3", "off_policy.td3", "TD3", "twin delayed deep deterministic policy gradient, continuous actions"
    ),
    AlgorithmSpec("ddpg", "off_policy.td3", "TD3", "deep deterministic policy gradient, continuous actions", _PLAIN),
    AlgorithmSpec(
        "maddpg", "off_policy.maddpg", "MADDPG", "DDPG with critics of all agents' observations and actions", _PLAIN
    ),
    AlgorithmSpec("matd3", "off_policy.maddpg", "MADDPG", "TD3 with critics of all agents' observations and actions"),
    AlgorithmSpec("sac", "off_policy.sac", "SAC", "soft actor-critic, continuous or discrete actions"),
    AlgorithmSpec(
        "masac", "off_policy.masac", "MASAC", "SAC with critics of all agents' observations and actions", page="sac"
    ),
)
ALGORITHMS: dict[str, AlgorithmSpec] = {spec.name: spec for spec in _ALL}
"""Algorithms with a learner, by name."""
IMITATION: dict[str, AlgorithmSpec] = {
    "bc": AlgorithmSpec(
        "bc",
        "imitation.behavior_cloning",
        "BC",
        "behavior cloning: imitate recorded episodes",
        is_imitation=True,
    )
}
"""Algorithms of the checkpoints written by `gpu-envs clone`."""


def find(name: str) -> AlgorithmSpec:
    """Return an algorithm by its name, or by "module:Learner" a learner of a module that is imported already.

    The settings of such a learner are the dataclass `LearnerConfig` of the same module.

    Raises:
        ConfigError: The name is unknown; the message has the closest one. Or a module is not imported, because names
            may come from files, or has no such classes.
    """
    if ":" in name:
        module, learner = split_id(name)
        named_object("algorithm", name, object)
        named_settings("algorithm", name)
        return AlgorithmSpec(name, module, learner, f"learner of {module}", package="")
    if name in IMITATION:
        return IMITATION[name]
    if name not in ALGORITHMS:
        raise ConfigError(unknown_name_message("algorithm", name, ALGORITHMS))
    return ALGORITHMS[name]
