"""All modules by name, as mpe2's module all_modules. Importing it makes them: one module per scenario."""

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

from gpu_envs.mpe.scenario import SCENARIOS, MpeView, Scenario

if TYPE_CHECKING:
    from pettingzoo import AECEnv


class ScenarioModule(ModuleType):
    """A module with the functions of a scenario, which :class:`gpu_envs.mpe.scenario.Scenario` describes."""

    parallel_env: Callable[..., MpeView]
    """Function that returns a world as a ``pettingzoo.ParallelEnv``."""
    env: "Callable[..., AECEnv]"
    """Function that returns a world as a ``pettingzoo.AECEnv``."""
    raw_env: "Callable[..., AECEnv]"
    """Function that does the same as ``env``, because the environment itself does all checks of mpe2's wrappers."""


def _make_module(name: str, scenario: Scenario) -> ScenarioModule:
    """Return the module ``gpu_envs.mpe.NAME``, which any form of import finds from now on."""
    module = ScenarioModule(f"gpu_envs.mpe.{name}", f"{scenario.id} with the interface of mpe2's module {name}.")
    module.__spec__, module.__package__ = ModuleSpec(module.__name__, None), "gpu_envs.mpe"
    vars(module)["__all__"] = ["env", "parallel_env", "raw_env"]
    module.parallel_env, module.env, module.raw_env = scenario.parallel_env, scenario.env, scenario.raw_env
    sys.modules[module.__name__] = module
    return module


mpe_environments: dict[str, ScenarioModule] = {
    f"mpe/{name}": _make_module(name, scenario) for name, scenario in SCENARIOS.items()
}
"""mpe2's modules by mpe2's names of environments."""
