"""Functions that make environments; ``gpu_envs`` imports them at their first use."""

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from gpu_envs.runtime.factory import make_core
from gpu_envs.views.batched import BatchedEnv

if TYPE_CHECKING:
    from gpu_envs.views.pettingzoo import AECView, ParallelView

__all__ = ["aec_env", "make", "parallel_env"]


def make(
    id: str,
    num_envs: int = 1,
    device: str | torch.device | None = None,
    *,
    render_mode: str | None = None,
    **kwargs: Any,
) -> BatchedEnv:
    """Make a batched multi-agent environment: per-agent dicts of tensors with a leading ``num_envs``.

    Args:
        id: "SimpleTag-v0", "gpu_envs/SimpleTag-v0", ... see :func:`gpu_envs.list_envs`.
        num_envs: Number of worlds.
        device: "cpu", "cuda", "cuda:1"; None selects cuda if available, else the CPU.
        render_mode: "rgb_array", "human" or None.
        **kwargs: Settings of every environment (autoreset, reuse_buffers, seed, ... see
            :class:`gpu_envs.runtime.core.Core`) and of this one (see its page).

    Returns:
        The environment; ``env.core`` is the stacked-tensor form of the same worlds.

    Raises:
        UnknownEnvironmentError: The id is unknown; the message names similar ids.
        ConfigError: A setting is unknown or has an invalid value.
        DeviceError: The device is not available.
    """
    make_again = partial(make, id, num_envs, device, render_mode=render_mode, **kwargs)
    return BatchedEnv(make_core(id, num_envs, device, **kwargs), render_mode, make_again)


def parallel_env(id: str, render_mode: str | None = None, **config: Any) -> "ParallelView":
    """Make a single world as a ``pettingzoo.ParallelEnv``; see :func:`gpu_envs.views.pettingzoo.parallel_env`."""
    from gpu_envs.views import pettingzoo

    return pettingzoo.parallel_env(id, render_mode, **config)


def aec_env(id: str, render_mode: str | None = None, **config: Any) -> "AECView":
    """Make a single world as a ``pettingzoo.AECEnv``; see :func:`gpu_envs.views.pettingzoo.aec_env`."""
    from gpu_envs.views import pettingzoo

    return pettingzoo.aec_env(id, render_mode, **config)
