"""Specification of a learner: shapes, budget, device and seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from gymnasium import spaces

from gpu_envs.errors import ConfigError
from trainers.base.shard import Shard

ENGINES = ("auto", "torch", "kernel")
"""Values of `engine`: kernels where they pay, never, or wherever they support the policy."""
EnginePart = Literal["rollouts", "gradients"]
"""Part of a training."""
ENGINE_PARTS: dict[str, tuple[EnginePart, ...]] = {
    "torch": (),
    "kernel": ("rollouts", "gradients"),
    "rollouts kernel, gradients torch": ("rollouts",),
    "rollouts torch, gradients kernel": ("gradients",),
}
"""Parts of a training that kernels compute, by the name of the engine in messages and checkpoints."""


@dataclass(frozen=True)
class ObservationLayout:
    """What the D numbers of an observation are: blocks, such as images and vectors, one after another."""

    blocks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Shapes by name; an image alone is the block "observation". {}: the observation is a vector."""
    channels_last: bool = False
    """Whether images, which are blocks of three axes, are (height, width, channels)."""
    by_feature: tuple[str, ...] = ()
    """Names of blocks of entities, which have two axes, that are (numbers of an entity, entities)."""
    targets: Mapping[str, int] = field(default_factory=dict)
    """First action that chooses an entity, by block; the next ones choose the next entities."""
    with_entities: Callable[[], ObservationLayout] | None = None
    """Return the blocks of a vector that the environment describes, see `gpu_envs.descriptions.entity_blocks`."""


@dataclass(frozen=True)
class AgentSpec:
    """One agent as a centralized critic sees it, see `LearnerSpec.agents`."""

    row: int
    """Row of the agent among all agents of a world."""
    policy: str
    """Name of the agent's policy."""
    obs_width: int
    """Observation width D of the policy."""
    action_space: spaces.Space[Any]
    """Action space of the policy."""
    index: int = 0
    """Index among the agents of its policy, in the order of the learner's tensors."""


@dataclass(frozen=True)
class LearnerSpec:
    """Shapes, budget, device and seed of a learner: all inputs except the settings of its algorithm."""

    obs_width: int
    """Width D of the observations passed to `act`."""
    action_space: spaces.Space[Any]
    """Action space of one agent: Discrete, MultiDiscrete or a one-dimensional Box."""
    num_envs: int
    """Number of worlds E."""
    num_agents: int
    """Number n of agents per world that share the policy."""
    total_steps: int
    """Number of environment steps at which schedules end. One step is one step of one world, with all its agents."""
    device: torch.device | str = "cpu"
    """Device of the environment and the networks."""
    seed: int = 0
    """Random seed of initial weights, samples and minibatches. Global random streams are not used."""
    time_limit: int = 0
    """Largest episode length [steps]; 0: no limit."""
    state_width: int = 0
    """Width S of the global state passed to `act` and in `Transition`; 0 if the learner does not use it."""
    has_action_mask: bool = False
    """Whether the environment has action masks."""
    layout: ObservationLayout = field(default_factory=ObservationLayout)
    """Blocks of the observations."""
    turn_based: bool = False
    """Whether agents take turns."""
    agents: tuple[AgentSpec, ...] = field(default=())
    """All A agents of a world, in order; () if the learner does not use them."""
    policy: str = ""
    """Name of the policy to train, as in `agents`."""
    cuda_graph: bool = False
    """Capture updates as CUDA graphs; has an effect on a GPU only."""
    engine: str = "auto"
    """Engine of rollouts and gradients, see `TrainConfig.engine`."""
    recorded_engine: str = ""
    """Engine of the run that is resumed, which "auto" keeps where it can; "": none is recorded."""
    num_trainings: int = 1
    """Number of trainings that share compiled kernels, such as trainings of a league; see `engine`."""
    shard: Shard | None = None
    """Position of these E worlds among the worlds of all processes; None: a single process."""

    @property
    def captured(self) -> bool:
        """Whether the updates of this learner are captured as CUDA graphs: on a GPU, by a single process."""
        alone = self.shard is None or self.shard.ranks == 1
        return self.cuda_graph and alone and torch.device(self.device).type == "cuda"

    @property
    def num_envs_total(self) -> int:
        """Number of worlds of all processes."""
        return self.num_envs if self.shard is None else self.shard.num_envs_total

    def reason_for_torch(self, part: EnginePart, unsupported: str, unprofitable: Callable[[], str]) -> str:
        """Return why PyTorch computes a part of this learner's training, or an empty string if kernels do.

        Args:
            part: Rollouts or gradients.
            unsupported: Why kernels do not support the learner; "": they do.
            unprofitable: Returns why "auto" does not take kernels; "": it does.

        Raises:
            ConfigError: The engine is "kernel", and kernels do not support the learner.
        """
        if self.engine == "torch":
            return "as set"
        if unsupported and self.engine == "kernel":
            raise ConfigError(f"engine = 'kernel': {unsupported}; use engine = 'auto' or 'torch'")
        if unsupported or self.engine == "kernel":
            return unsupported
        if self.recorded_engine:
            return "" if part in ENGINE_PARTS[self.recorded_engine] else "as recorded"
        return unprofitable()
