"""Drop-in replacement of mpe2: a script that imports from ``gpu_envs.mpe`` instead of mpe2 runs unchanged.

    from gpu_envs.mpe import simple_spread_v3  # was: from mpe2 import simple_spread_v3

    env = simple_spread_v3.parallel_env(N=5, max_cycles=50)

The environments are single worlds in NumPy, as in PettingZoo. Use :func:`gpu_envs.make` for batches of worlds.
"""

from typing import TYPE_CHECKING

from gpu_envs.mpe import all_modules
from gpu_envs.mpe.all_modules import ScenarioModule
from gpu_envs.mpe.scenario import SCENARIOS, MpeView, Scenario

__all__ = [
    "SCENARIOS",
    "MpeView",
    "Scenario",
    "all_modules",
    "collect_treasure_v1",
    "simple_adversary_v3",
    "simple_crypto_v3",
    "simple_formation_v1",
    "simple_line_v1",
    "simple_push_v3",
    "simple_reference_v3",
    "simple_speaker_listener_v4",
    "simple_spread_v3",
    "simple_tag_v3",
    "simple_v3",
    "simple_world_comm_v3",
]

if TYPE_CHECKING:
    # Modules that the loop below sets.
    collect_treasure_v1: ScenarioModule
    simple_adversary_v3: ScenarioModule
    simple_crypto_v3: ScenarioModule
    simple_formation_v1: ScenarioModule
    simple_line_v1: ScenarioModule
    simple_push_v3: ScenarioModule
    simple_reference_v3: ScenarioModule
    simple_speaker_listener_v4: ScenarioModule
    simple_spread_v3: ScenarioModule
    simple_tag_v3: ScenarioModule
    simple_v3: ScenarioModule
    simple_world_comm_v3: ScenarioModule

for _module in all_modules.mpe_environments.values():
    globals()[_module.__name__.rpartition(".")[2]] = _module
