"""Networks, action heads and policies."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from trainers.models.action_heads import action_spec, make_head
    from trainers.models.batched_policies import BatchedPolicies
    from trainers.models.networks import Network, NetworkConfig
    from trainers.models.normalization import ObservationNormalizer
    from trainers.models.policy import Policy, PolicyProtocol

__all__ = [
    "BatchedPolicies",
    "Network",
    "NetworkConfig",
    "ObservationNormalizer",
    "Policy",
    "PolicyProtocol",
    "action_spec",
    "make_head",
]

__getattr__, __dir__ = lazy_exports(__name__)
