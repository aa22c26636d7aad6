"""Multi-agent reinforcement learning environments on the GPU, in PyTorch and NVIDIA Warp.

Importing the package registers the environments. Torch is imported when the first environment is made.
"""

from typing import TYPE_CHECKING

from gpu_envs import errors
from gpu_envs.definition.registry import list_envs, register
from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from gpu_envs.api import aec_env, make, parallel_env
    from gpu_envs.runtime.factory import make_core
    from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
    from gpu_envs.runtime.rollout.trace import RolloutTrace
    from gpu_envs.testing.env_checker import check_env

__all__ = [
    "KernelPolicy",
    "RolloutTrace",
    "aec_env",
    "check_env",
    "errors",
    "list_envs",
    "make",
    "make_core",
    "parallel_env",
    "register",
]
__version__ = "0.2.0"  # the only place of the version: pyproject.toml reads it

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        **dict.fromkeys(("aec_env", "make", "parallel_env"), "gpu_envs.api"),
        "make_core": "gpu_envs.runtime.factory",
        "check_env": "gpu_envs.testing.env_checker",
        "KernelPolicy": "gpu_envs.runtime.rollout.kernel_policy",
        "RolloutTrace": "gpu_envs.runtime.rollout.trace",
    },
)
