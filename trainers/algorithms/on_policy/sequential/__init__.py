"""Algorithms whose agents come one after another, in updates or in actions."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from trainers.algorithms.on_policy.sequential.happo import HAPPO, HAPPOConfig
    from trainers.algorithms.on_policy.sequential.hatrpo import HATRPO, HATRPOConfig
    from trainers.algorithms.on_policy.sequential.mat import MAT, MATConfig

__all__ = ["HAPPO", "HATRPO", "MAT", "HAPPOConfig", "HATRPOConfig", "MATConfig"]

__getattr__, __dir__ = lazy_exports(__name__)
