"""What a user calls first: make, parallel_env and check_env. ``gpu_envs`` has them at first use."""

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from gpu_envs.factory import make_core
from gpu_envs.views.batched import BatchedEnv

if TYPE_CHECKING:
    from gpu_envs.views.pettingzoo import ParallelView


def make(
    id: str,
    num_envs: int = 1,
    device: str | torch.device | None = None,
    *,
    render_mode: str | None = None,
    **kwargs: Any,
) -> BatchedEnv:
    """Make a batched multi-agent environment: dicts by agent of tensors with a leading ``num_envs``.

    Args:
        id: "SimpleTag-v0", "gpu_envs/SimpleTag-v0", ... see :func:`list_envs`.
        num_envs: Worlds.
        device: "cpu", "cuda", "cuda:1"; None takes cuda if there is one, else the CPU.
        render_mode: "rgb_array", "human" or None.
        **kwargs: The runner's settings (autoreset, reuse_buffers, seed, ... see :class:`gpu_envs.core.Core`) and the
            environment's own (see its page).

    Returns:
        The environment; ``env.core`` is the stacked-tensor form of the same worlds.

    Raises:
        UnknownEnvironmentError: No such id; names close matches.
        ConfigError: A setting that does not exist or has a bad value.
        DeviceError: The device is not there.
    """
    again = partial(make, id, num_envs, device, render_mode=render_mode, **kwargs)
    return BatchedEnv(make_core(id, num_envs, device, **kwargs), render_mode, again)


def parallel_env(id: str, render_mode: str | None = None, **config: Any) -> "ParallelView":
    """Make a single world as a ``pettingzoo.ParallelEnv``; see :func:`gpu_envs.views.pettingzoo.parallel_env`."""
    from gpu_envs.views import pettingzoo

    return pettingzoo.parallel_env(id, render_mode, **config)


def check_env(id_or_env: Any, **config: Any) -> None:
    """Check that an environment keeps the tensor contract; see :func:`gpu_envs.check.check_env`."""
    from gpu_envs import check

    check.check_env(id_or_env, **config)
