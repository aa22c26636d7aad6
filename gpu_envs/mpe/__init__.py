"""MPE, as in mpe2 1.1.1: host files, and mpe2's own names, so that ``from gpu_envs.mpe import simple_spread_v3`` works.

See :mod:`gpu_envs.mpe.drop_in`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_envs.mpe.drop_in import Scenario

    # Made at first use, by the names of mpe2's modules.
    simple_v3: Scenario
    simple_adversary_v3: Scenario
    simple_crypto_v3: Scenario
    simple_push_v3: Scenario
    simple_reference_v3: Scenario
    simple_speaker_listener_v4: Scenario
    simple_spread_v3: Scenario
    simple_tag_v3: Scenario
    simple_world_comm_v3: Scenario


def __getattr__(name: str) -> Any:
    """mpe2's modules by name; the view behind them is imported at first use."""
    if name.rpartition("_v")[2].isdigit():  # a submodule of this name is not there yet: that is Python's business
        from gpu_envs.mpe.drop_in import SCENARIOS

        if name in SCENARIOS:
            return SCENARIOS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
