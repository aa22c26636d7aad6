"""Multi-agent reinforcement learning environments on the GPU, in PyTorch and NVIDIA Warp."""

from typing import TYPE_CHECKING, Any

from gpu_envs.registry import list_envs, make, register

if TYPE_CHECKING:
    from gpu_envs.views.pettingzoo import ParallelView

__all__ = ["check_env", "list_envs", "make", "parallel_env", "register"]
__version__ = "0.1.0"  # the one place; pyproject.toml reads it, a test compares CITATION.cff


def parallel_env(id: str, render_mode: str | None = None, **config: Any) -> "ParallelView":
    """Make a single world as a ``pettingzoo.ParallelEnv``; see :func:`gpu_envs.views.pettingzoo.parallel_env`."""
    from gpu_envs.views import pettingzoo

    return pettingzoo.parallel_env(id, render_mode, **config)


def check_env(id_or_env: Any, **config: Any) -> None:
    """Check that an environment keeps the tensor contract; see :func:`gpu_envs.check.check_env`."""
    from gpu_envs import check

    check.check_env(id_or_env, **config)
