"""Checks of policies and buffers that kernels read and write without bounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gymnasium import spaces
from torch import Tensor

from gpu_envs.errors import ConfigError, describe_tensor, shown
from gpu_envs.runtime.rollout.episode_results import EpisodeResults
from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from gpu_envs.runtime.rollout.rollout_core import RolloutCore
from gpu_envs.runtime.rollout.trace import RolloutTrace, trace_layout
from gpu_envs.utils.tensor_checks import plain
from warp_kernels.framework.policies import NO_POLICY, PolicyKind

__all__ = ["check_buffers", "check_policies", "misfit"]


def check_buffers(core: RolloutCore, trace: RolloutTrace | EpisodeResults, draws: bool) -> None:
    """Raise ConfigError if buffers do not fit the environments.

    Args:
        core: The environments.
        trace: The buffers.
        draws: Worlds draw matchups, which the buffers hold.
    """
    if isinstance(trace, EpisodeResults):
        return
    if not isinstance(trace, RolloutTrace):
        raise ConfigError(f"{core.id}: trace: expected a RolloutTrace, see RolloutTrace.allocate, got {shown(trace)}")
    steps, agents = len(trace.reward), core.num_envs * core.num_agents
    rows = len(trace.final_obs) - 1
    layout = trace_layout(core, steps, rows // agents, draws or len(trace.matchup) > 0)
    for name, expected in layout.items():
        tensor = getattr(trace, name)
        if expected is None:
            if tensor is not None:
                raise ConfigError(f"{core.id}: trace.{name}: expected None, got {shown(tensor)}")
        elif not plain(tensor) or (tuple(tensor.shape), tensor.dtype, tensor.device) != (*expected, core.device):
            form = f"{expected[1]} {expected[0]} on {core.device}"
            hint = "allocate the buffers by RolloutTrace.allocate"
            raise ConfigError(f"{core.id}: trace.{name}: expected {form}, got {describe_tensor(tensor)}; {hint}")
        elif not tensor.is_contiguous():
            raise ConfigError(f"{core.id}: trace.{name}: expected a contiguous tensor, got strides {tensor.stride()}")


def check_policies(
    core: RolloutCore, policies: Sequence[KernelPolicy], index: Tensor | np.ndarray, repeated: bool
) -> np.ndarray:
    """Raise ConfigError if weights are not where kernels read them, or an index is out of range.

    Args:
        core: The environments.
        policies: P policies.
        index: (A,) or (R, A) int, policy of every agent.
        repeated: World i plays matchup i, which must exist.

    Returns:
        The index on the host, (1, A) or (R, A).
    """
    for policy in policies:
        if policy.weights.device != core.device:
            actual = f"weights on {policy.weights.device}"
            raise ConfigError(
                f"{core.id}: KernelPolicy: expected weights on {core.device}, got {actual}; move them there"
            )
    numbers = index if isinstance(index, np.ndarray) else index.detach().cpu().numpy()
    if (
        numbers.ndim not in (1, 2)
        or numbers.shape[-1] != core.num_agents
        or (repeated and len(numbers) < core.num_envs)
    ):
        expected = f"({core.num_envs if repeated else 'R'}, {core.num_agents})"
        raise ConfigError(f"{core.id}: index: expected the policies of all agents {expected}, got {numbers.shape}")
    low, high = np.minimum.reduce(numbers, None), np.maximum.reduce(numbers, None)
    if numbers.dtype.kind == "f" or low < NO_POLICY or high >= len(policies):
        actual = f"{index.dtype} from {low} to {high}"
        raise ConfigError(f"{core.id}: index: expected ints from {NO_POLICY} to {len(policies) - 1}, got {actual}")
    return numbers.reshape(-1, core.num_agents)


def misfit(core: RolloutCore, name: str, kind: PolicyKind) -> str:
    """Return why policies of a kind do not fit an agent, or an empty string."""
    continuous = kind.continuous
    if continuous != core.definition.rules.continuous:
        return f"expected {core.action_kind} actions, got a {kind.head} policy"
    space, width = core.action_spaces[name], core.observation_spaces[name].shape[0]
    choices = core.num_choices[core.possible_agents.index(name)].tolist()
    if kind.sizes != (space.shape if continuous else tuple(n for n in choices if n)):
        return f"expected actions {space}, got sizes {kind.sizes}"
    if isinstance(space, spaces.Box) and kind.bounded != space.is_bounded():
        return f"expected actions {space}, got a policy of a box {'with' if kind.bounded else 'without'} bounds"
    if not width <= kind.mlp.inputs <= core.obs_width:  # a policy of several groups has the width of the widest
        expected = f"{width}" if width == core.obs_width else f"{width} to {core.obs_width}"
        return f"expected {expected} observation entries, got {kind.mlp.inputs}"
    return ""
