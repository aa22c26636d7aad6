"""What a core refuses before anything is allocated or launched, each in one line."""

from typing import Any

import numpy as np
import torch

from gpu_envs.errors import ActionError, ConfigError, described
from gpu_envs.layout import AUTORESET
from warp_kernels import philox
from warp_kernels.rules import Rules


def check_tensor(
    env_id: str, name: str, value: Any, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> None:
    """Refuse a tensor that does not fit.

    Raises:
        ActionError: Naming what was expected and what was given.
    """
    if (
        not isinstance(value, torch.Tensor)
        or tuple(value.shape) != shape
        or value.dtype != dtype
        or value.device != device
    ):
        wanted = f"a {dtype} tensor {shape} on {device}"
        raise ActionError(f"{env_id}: {name} must be {wanted}, got {described(value)}")


def check_frame(env_id: str, envs: Any, num_envs: int, size: Any) -> tuple[int, ...]:
    """Indices of worlds to draw, one or several.

    Raises:
        ConfigError: No world, one that is not there, or a size that is none.
    """
    several = (envs,) if isinstance(envs, (int, np.integer)) else envs
    try:
        rows = tuple(int(env) if isinstance(env, np.integer) else env for env in several)
    except TypeError:
        rows = ()
    if not rows or not all(isinstance(env, int) and 0 <= env < num_envs for env in rows):
        raise ConfigError(f"{env_id}: envs must be indices of worlds in [0, {num_envs}), got {envs!r}")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ConfigError(f"{env_id}: size must be an int >= 1 [pixels], got {size!r}")
    return rows


def check_settings(
    env_id: str, rules: Rules, num_envs: Any, autoreset: Any, env_offset: Any, illegal: Any, schedule: Any, threads: Any
) -> None:
    """Refuse settings that the runner cannot carry out.

    Raises:
        ConfigError: Naming the setting, what it may be and what it is.
    """

    def demand(good: bool, name: str, wanted: str, value: Any) -> None:
        if not good:
            raise ConfigError(f"{env_id}: {name} must be {wanted}, got {value!r}")

    def whole(value: Any, low: int) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value >= low

    worlds = 2**31 - 1  # the kernels count them in 32 bits, and so does the random stream
    demand(whole(num_envs, 1) and num_envs <= worlds, "num_envs", f"an int in [1, {worlds}]", num_envs)
    demand(
        whole(env_offset, 0) and env_offset + num_envs <= worlds, "env_offset", f"an int in [0, {worlds} - num_envs]",
        env_offset,
    )  # fmt: skip
    modes = ", ".join(map(repr, AUTORESET))
    demand(isinstance(autoreset, str) and autoreset in AUTORESET, "autoreset", f"one of {modes}", autoreset)
    demand(schedule in (None, "fused", "phased"), "schedule", "'fused', 'phased' or None", schedule)
    demand(threads is None or whole(threads, 1), "threads", "an int >= 1 or None", threads)
    words = "'error', 'original', or 'loss' where agents take turns"
    demand(illegal in ("error", "original") or (illegal == "loss" and rules.turn_based), "illegal", words, illegal)
    demand(rules.masked or not rules.turn_based, "rules.masked", "True where agents take turns", rules.masked)
    agents, components = rules.num_agents, rules.action_size
    demand(agents > 1 or not rules.turn_based, "the number of agents", ">= 2 where agents take turns", agents)
    demand(agents <= philox.MAX_AGENTS, "the number of agents", f"<= {philox.MAX_AGENTS}", agents)
    demand(components <= philox.MAX_DRAWS, "the number of action components", f"<= {philox.MAX_DRAWS}", components)
