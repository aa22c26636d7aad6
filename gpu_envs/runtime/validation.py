"""What a core refuses before anything is allocated or launched, each in one line."""

from typing import Any, TypeGuard

import numpy as np
import torch

from gpu_envs.config import MAX_INT, check_value
from gpu_envs.errors import ActionError, ConfigError, described, shown
from gpu_envs.layout import AUTORESET
from warp_kernels import philox
from warp_kernels.rules import Rules

MAX_FRAME_BYTES = 2**31
"""Frames that one call draws take at most 2 GiB."""


def plain(value: Any) -> TypeGuard[torch.Tensor]:
    """Whether a value is a tensor of any shape (...) whose elements lie in memory.

    Sparse, nested and quantized tensors and those on "meta" are not.
    """
    if not isinstance(value, torch.Tensor) or value.is_nested or value.layout is not torch.strided:
        return False
    return value.device.type != "meta" and not value.is_quantized


def check_tensor(
    env_id: str, name: str, value: Any, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> None:
    """Refuse a tensor that does not fit.

    Raises:
        ActionError: Naming what was expected and what was given.
    """
    if not plain(value) or tuple(value.shape) != shape or value.dtype != dtype or value.device != device:
        wanted = f"a {dtype} tensor {shape} on {device}"
        raise ActionError(f"{env_id}: {name} must be {wanted}, got {described(value)}")


def numbers(where: str, values: Any, kinds: str, wanted: Any) -> np.ndarray:
    """Anything NumPy reads as an array of numbers, of dtypes of these kinds, that torch can hold.

    Raises:
        ActionError: Anything else.
    """
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError):  # a ragged list, a tensor without elements in memory
        raise ActionError(f"{where}: actions must be numbers of {wanted}, got {shown(values)}") from None
    if array.dtype.kind not in kinds or array.dtype.itemsize > 8:
        raise ActionError(f"{where}: actions must be numbers of {wanted}, got {array.dtype}")
    return array


def check_elapsed(env_id: str, steps: Any, mask: torch.Tensor | None, limit: int, clock: torch.Tensor) -> Any:
    """Step counts that episodes start at: int32 like ``clock`` (E,), or 0 where none are given.

    Args:
        env_id: For messages.
        steps: (E,) int64 or int32, or None.
        mask: (E,) bool, which of them count; None for all.
        limit: Time limit [steps]; 0 for none.
        clock: (E,) int32, of the core.

    Raises:
        ActionError: Another shape, dtype or device.
        ConfigError: A step count outside [0, limit).
    """
    if steps is None:
        return 0
    whole = steps.long() if plain(steps) and steps.dtype == torch.int32 else steps
    check_tensor(env_id, "elapsed_steps", whole, tuple(clock.shape), torch.int64, clock.device)
    wanted = whole if mask is None else whole.masked_fill(~mask, 0)
    low, high = map(int, wanted.aminmax())
    if low < 0 or high >= (limit or MAX_INT):
        raise ConfigError(f"{env_id}: elapsed_steps must lie in [0, {limit or MAX_INT}), got {low} to {high}")
    return wanted.int()


def check_worlds(env_id: str, envs: Any, num_envs: int) -> tuple[int, ...]:
    """Indices of worlds: an int, or a sequence, array or tensor (W,) of ints.

    Raises:
        ConfigError: No world, or one that is not there.
    """
    several: Any = (envs,) if isinstance(envs, int | np.integer) else envs
    if isinstance(several, np.ndarray) or plain(several):
        several = several.tolist()
    try:
        rows = tuple(int(env) if isinstance(env, np.integer) else env for env in several)
    except (TypeError, ValueError, RuntimeError):  # nothing to iterate over, as a tensor without elements in memory
        rows = ()
    if not rows or not all(type(env) is int and 0 <= env < num_envs for env in rows):  # a bool is no index
        raise ConfigError(f"{env_id}: envs must be indices of worlds in [0, {num_envs}), got {shown(envs)}")
    return rows


def check_frame(env_id: str, envs: Any, num_envs: int, size: Any) -> tuple[tuple[int, ...], int]:
    """Indices of worlds to draw, one or several, and the side of their frames [pixels].

    Raises:
        ConfigError: No world, one that is not there, a size that is none, or frames of more than MAX_FRAME_BYTES.
    """
    rows = check_worlds(env_id, envs, num_envs)
    side = check_value(env_id, "size", size, int, low=1)
    if len(rows) * side * side * 3 > MAX_FRAME_BYTES:
        most = int((MAX_FRAME_BYTES / 3 / len(rows)) ** 0.5)
        raise ConfigError(f"{env_id}: size must be at most {most} [pixels] for {len(rows)} worlds, got {side}")
    return rows, side


def check_settings(
    env_id: str, rules: Rules, num_envs: Any, autoreset: Any, env_offset: Any, illegal: Any, schedule: Any, threads: Any
) -> None:
    """Refuse settings that the runner cannot carry out.

    Raises:
        ConfigError: Naming the setting, what it may be and what it is.
    """

    def demand(good: bool, name: str, wanted: str, value: Any) -> None:
        if not good:
            raise ConfigError(f"{env_id}: {name} must be {wanted}, got {shown(value)}")

    def whole(value: Any, low: int) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value >= low

    def word(value: Any, *words: str) -> bool:
        return isinstance(value, str) and value in words

    worlds = 2**31 - 1  # the kernels count them in 32 bits, and so does the random stream
    demand(whole(num_envs, 1) and num_envs <= worlds, "num_envs", f"an int in [1, {worlds}]", num_envs)
    demand(
        whole(env_offset, 0) and env_offset + num_envs <= worlds, "env_offset", f"an int in [0, {worlds} - num_envs]",
        env_offset,
    )  # fmt: skip
    modes = ", ".join(map(repr, AUTORESET))
    demand(isinstance(autoreset, str) and autoreset in AUTORESET, "autoreset", f"one of {modes}", autoreset)
    demand(schedule is None or word(schedule, "fused", "phased"), "schedule", "'fused', 'phased' or None", schedule)
    demand(threads is None or whole(threads, 1), "threads", "an int >= 1 or None", threads)
    words = "'error', 'original', or 'loss' where agents take turns"
    can = ("error", "original", "loss") if rules.turn_based else ("error", "original")
    demand(word(illegal, *can), "illegal", words, illegal)
    demand(rules.masked or not rules.turn_based, "rules.masked", "True where agents take turns", rules.masked)
    agents, components = rules.num_agents, rules.action_size
    demand(agents > 1 or not rules.turn_based, "the number of agents", ">= 2 where agents take turns", agents)
    demand(agents <= philox.MAX_AGENTS, "the number of agents", f"<= {philox.MAX_AGENTS}", agents)
    demand(components <= philox.MAX_DRAWS, "the number of action components", f"<= {philox.MAX_DRAWS}", components)
