"""All modules by name, as mpe2's module all_modules."""

from importlib import import_module
from types import ModuleType

from gpu_envs.mpe.scenario import SCENARIOS

__all__ = ["mpe_environments"]

mpe_environments: dict[str, ModuleType] = {f"mpe/{name}": import_module(f"gpu_envs.mpe.{name}") for name in SCENARIOS}
"""mpe2's modules by mpe2's names of environments."""
