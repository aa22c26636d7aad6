"""Multi-agent reinforcement learning environments on the GPU, in PyTorch and NVIDIA Warp.

The import registers the environments and loads no torch; that waits for the first environment that is made.
"""

import importlib
from typing import TYPE_CHECKING, Any

from gpu_envs.registry import list_envs, register

if TYPE_CHECKING:
    from gpu_envs.api import check_env, make, parallel_env

__all__ = ["check_env", "list_envs", "make", "parallel_env", "register"]
__version__ = "0.1.0"  # the one place; pyproject.toml reads it, a test compares CITATION.cff


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module("gpu_envs.api"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
