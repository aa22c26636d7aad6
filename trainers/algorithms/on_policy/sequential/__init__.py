"""Algorithms that update policies one after another, each with knowledge of the updates before its own."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from trainers.algorithms.on_policy.sequential.happo import HAPPO, HAPPOConfig
    from trainers.algorithms.on_policy.sequential.hatrpo import HATRPO, HATRPOConfig

__all__ = ["HAPPO", "HATRPO", "HAPPOConfig", "HATRPOConfig"]

__getattr__, __dir__ = lazy_exports(__name__)
