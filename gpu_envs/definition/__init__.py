"""Definition and registration of environments."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from gpu_envs.definition.chance import NO_CHANCE, Chance, deal
    from gpu_envs.definition.environment import EnvDefinition, WorldView, any_bits, box, index, integers, roster
    from gpu_envs.definition.registry import list_envs, register
    from gpu_envs.utils.settings import setting

__all__ = [
    "NO_CHANCE",
    "Chance",
    "EnvDefinition",
    "WorldView",
    "any_bits",
    "box",
    "deal",
    "index",
    "integers",
    "list_envs",
    "register",
    "roster",
    "setting",
]

__getattr__, __dir__ = lazy_exports(__name__)
