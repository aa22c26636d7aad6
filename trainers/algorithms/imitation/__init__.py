"""Algorithms that learn from recorded episodes."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from trainers.algorithms.imitation.behavior_cloning import BCConfig, CloningResult, clone

__all__ = ["BCConfig", "CloningResult", "clone"]

__getattr__, __dir__ = lazy_exports(__name__)
