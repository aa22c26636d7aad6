"""Multi-agent reinforcement learning environments on the GPU, in PyTorch and NVIDIA Warp.

Importing the package registers the environments. Torch is imported when the first environment is made.
"""

from typing import TYPE_CHECKING

from gpu_envs import errors
from gpu_envs.definition.registry import list_envs, register
from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from gpu_envs.host.environments import from_batched, from_gymnasium, from_open_spiel, from_pettingzoo
    from gpu_envs.runtime.factory import make_core
    from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
    from gpu_envs.runtime.rollout.trace import RolloutTrace
    from gpu_envs.testing.env_checker import check_env
    from gpu_envs.views.batched import make
    from gpu_envs.views.pettingzoo import aec_env, parallel_env

__all__ = [
    "KernelPolicy",
    "RolloutTrace",
    "aec_env",
    "check_env",
    "errors",
    "from_batched",
    "from_gymnasium",
    "from_open_spiel",
    "from_pettingzoo",
    "list_envs",
    "make",
    "make_core",
    "parallel_env",
    "register",
]
__version__ = "0.2.0"  # the only place of the version: pyproject.toml reads it

__getattr__, __dir__ = lazy_exports(__name__)
