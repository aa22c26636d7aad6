"""Descriptions of environments: what every observation entry, action and reward term is."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from gpu_envs.descriptions.base import (
        ANY,
        ObservationBlock,
        RewardTerm,
        Table,
        World,
        copy_world,
        describe_action_parts,
        describe_actions,
        describe_observations,
        description_module,
        expected_observation,
    )

__all__ = [
    "ANY",
    "ObservationBlock",
    "RewardTerm",
    "Table",
    "World",
    "copy_world",
    "describe_action_parts",
    "describe_actions",
    "describe_observations",
    "description_module",
    "expected_observation",
]

__getattr__, __dir__ = lazy_exports(__name__, dict.fromkeys(__all__, "gpu_envs.descriptions.base"))
