"""Checks that every environment must pass, and diagnosis of a failed check."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from gpu_envs.testing.cuda_compilation import compile_for_cuda
    from gpu_envs.testing.env_checker import check_env, iter_checks

__all__ = ["check_env", "compile_for_cuda", "iter_checks"]

__getattr__, __dir__ = lazy_exports(__name__)
