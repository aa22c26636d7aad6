"""Action distributions of policy networks by name: samples, log-probabilities, entropies and their gradients."""

from collections.abc import Callable
from functools import cache

from warp_kernels.networks.categorical import categorical
from warp_kernels.networks.distribution import Distribution
from warp_kernels.networks.exploration import action_values, deterministic_tanh, explored_box, explored_choices
from warp_kernels.networks.gaussian import gaussian, tanh_gaussian
from warp_kernels.networks.mlp import Mlp

__all__ = ["distribution_of"]


@cache
def distribution_of(kind: str, sizes: tuple[int, ...], mlp: Mlp, masked: bool, explores: bool = False) -> Distribution:
    """Return the distribution of a policy network.

    Args:
        kind: "categorical", "gaussian", "tanh_gaussian", "values" or "tanh".
        sizes: Number of choices of each categorical, or (K,) for K dimensions.
        mlp: Network of the policy.
        masked: Some choices are illegal at times.
        explores: Take random actions with a probability.
    """
    length = mlp.head_width
    make: dict[str, Callable[[], Distribution]] = {
        "categorical": lambda: categorical(sizes, length, masked),
        "gaussian": lambda: gaussian(sizes[0], length),
        "tanh_gaussian": lambda: tanh_gaussian(sizes[0], length),
        "values": lambda: action_values(sizes[0], length, masked, mlp.outputs > sizes[0]),
        "tanh": lambda: deterministic_tanh(sizes[0], length),
    }
    policy = make[kind]()
    if not explores:
        return policy
    if kind in ("categorical", "values"):
        return explored_choices(policy, sizes, length, mlp.outputs)
    return explored_box(policy, sizes[0], length, mlp.outputs, noisy=kind == "tanh")
