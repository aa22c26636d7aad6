"""Checks of a core's settings and step counts, before anything is allocated or launched."""

import dataclasses
from typing import Any

import torch

from gpu_envs.errors import ConfigError, shown
from gpu_envs.runtime.buffers import AUTORESET
from gpu_envs.runtime.kernels import BLOCK_DIMS
from gpu_envs.utils.settings import MAX_INT
from gpu_envs.utils.tensor_checks import check_tensor, plain
from warp_kernels import philox
from warp_kernels.rules import Rules

__all__ = ["changed_numbers", "check_core_settings", "check_elapsed"]


def changed_numbers(config: Any) -> str:
    """Return the numbers and flags of settings that differ from their defaults, for a message: "name=value, ..."."""
    if not dataclasses.is_dataclass(config):
        return ""
    values = ((field.name, getattr(config, field.name), field.default) for field in dataclasses.fields(config))
    return ", ".join(f"{name}={x!r}" for name, x, default in values if isinstance(x, int | float) and x != default)


def check_elapsed(env_id: str, steps: Any, mask: torch.Tensor | None, limit: int, clock: torch.Tensor) -> Any:
    """Return the step counts at which episodes start, (E,) int32, or 0 if none are given.

    Args:
        env_id: ID of the environment, for messages.
        steps: (E,) int64 or int32, or None.
        mask: (E,) bool, the worlds whose counts are used; None for all.
        limit: Time limit [steps]; 0 for none.
        clock: Step counters of the core, (E,) int32.

    Raises:
        ActionError: Wrong shape, dtype or device.
        ConfigError: A step count outside [0, limit).
    """
    if steps is None:
        return 0
    counts = steps.long() if plain(steps) and steps.dtype == torch.int32 else steps
    check_tensor(env_id, "elapsed_steps", counts, tuple(clock.shape), torch.int64, clock.device)
    clocks = counts if mask is None else counts.masked_fill(~mask, 0)
    low, high = map(int, clocks.aminmax())
    if low < 0 or high >= (limit or MAX_INT):
        raise ConfigError(f"{env_id}: elapsed_steps: expected values in [0, {limit or MAX_INT}), got {low} to {high}")
    return clocks.int()


def check_core_settings(
    env_id: str,
    rules: Rules,
    num_envs: Any,
    autoreset: Any,
    env_offset: Any,
    illegal_actions: Any,
    schedule: Any,
    threads: Any,
    block_dim: Any,
) -> None:
    """Raise an error if a setting of a core is invalid.

    Raises:
        ConfigError: Naming the setting, its allowed values and the given one.
    """

    def demand(good: bool, name: str, expected: str, value: Any) -> None:
        if not good:
            raise ConfigError(f"{env_id}: {name}: expected {expected}, got {shown(value)}")

    def is_int(value: Any, low: int) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value >= low

    def word(value: Any, *words: str) -> bool:
        return isinstance(value, str) and value in words

    worlds = 2**31 - 1  # the kernels count them in 32 bits, and so does the random stream
    demand(is_int(num_envs, 1) and num_envs <= worlds, "num_envs", f"an int in [1, {worlds}]", num_envs)
    demand(
        is_int(env_offset, 0) and env_offset + num_envs <= worlds, "env_offset", f"an int in [0, {worlds} - num_envs]",
        env_offset,
    )  # fmt: skip
    modes = ", ".join(map(repr, AUTORESET))
    demand(isinstance(autoreset, str) and autoreset in AUTORESET, "autoreset", f"one of {modes}", autoreset)
    demand(schedule is None or word(schedule, "fused", "phased"), "schedule", "'fused', 'phased' or None", schedule)
    demand(threads is None or is_int(threads, 1), "threads", "an int >= 1 or None", threads)
    sizes = ", ".join(map(str, BLOCK_DIMS))
    demand(
        block_dim is None or (is_int(block_dim, 1) and block_dim in BLOCK_DIMS),
        "block_dim",
        f"{sizes} or None",
        block_dim,
    )
    words = "'error', 'saturate', or 'loss' where agents take turns"
    can = ("error", "saturate", "loss") if rules.turn_based else ("error", "saturate")
    demand(word(illegal_actions, *can), "illegal_actions", words, illegal_actions)
    demand(rules.masked or not rules.turn_based, "rules.masked", "True where agents take turns", rules.masked)
    forgives = rules.masked and not rules.turn_based
    demand(forgives or not rules.illegal_noop, "rules.illegal_noop", "False without masks or with turns", True)
    shares = rules.turn_based or not rules.shared_stake
    demand(shares, "rules.shared_stake", "False unless agents take turns", True)
    agents, components = rules.num_agents, rules.action_size
    demand(agents > 1 or not rules.turn_based, "the number of agents", ">= 2 where agents take turns", agents)
    demand(agents <= philox.MAX_AGENTS, "the number of agents", f"<= {philox.MAX_AGENTS}", agents)
    demand(components <= philox.MAX_DRAWS, "the number of action components", f"<= {philox.MAX_DRAWS}", components)
