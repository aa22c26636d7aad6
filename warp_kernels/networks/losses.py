"""Losses of actor-critic algorithms: gradients by the outputs of a network, for one row."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import warp as wp

from warp_kernels.generated_source import compiled
from warp_kernels.networks.activations import vector
from warp_kernels.networks.distributions import Distribution

NUM_METRICS = 8
"""Largest number of metrics of a network."""
Metrics = vector(NUM_METRICS)
"""Warp's type of the metrics of a network."""

_DATA = {"old_log_prob": "log_prob", "advantage": "advantage", "returns": "returns", "old_value": "value"}
"""Parameters of heads that are numbers of a row, and the arrays of `RowData` with them."""


@wp.struct
class RowData:
    """Decisions of a rollout that losses read, N rows."""

    choice: wp.array2d(dtype=wp.int64)  # (N, K) discrete actions; empty where actions are continuous
    control: wp.array2d(dtype=float)  # (N, K) continuous actions; empty where actions are discrete
    mask: wp.array2d(dtype=wp.bool)  # (N, choices); empty where every choice is always legal
    log_prob: wp.array(dtype=float)  # (N,) of the stored action when it was sampled
    advantage: wp.array(dtype=float)  # (N,)
    value: wp.array(dtype=float)  # (N,) prediction before the update
    returns: wp.array(dtype=float)  # (N,)


@dataclass(frozen=True)
class KernelHead:
    """Loss of one row: Warp functions of floats, which return derivatives of the loss, then metrics.

    Their parameters are named: ``old_log_prob``, ``advantage``, ``returns``, ``old_value``, and settings of the loss,
    where None is -1. The kernels average over rows.
    """

    policy: Any
    """``policy(log_prob, entropy, ...)``: derivatives by both, then the policy's metrics."""
    policy_metrics: tuple[str, ...]
    """Names of the policy's metrics."""
    value: Any
    """``value(value, ...)``: derivative by the value, then the critic's metrics."""
    value_metrics: tuple[str, ...]
    """Names of the critic's metrics."""

    def __post_init__(self) -> None:
        """Raise ValueError for too many metrics."""
        if (count := max(len(self.policy_metrics), len(self.value_metrics))) > NUM_METRICS:
            raise ValueError(f"KernelHead: expected at most {NUM_METRICS} metrics of a network, got {count}")


@cache
def policy_head(distribution: Distribution, head: KernelHead, settings: tuple[str, ...], length: int) -> Any:
    """Build ``head(data, settings, row, outputs, scale)``, which returns gradient and metrics of the policy loss.

    Args:
        distribution: Distribution over actions.
        head: Loss of one row.
        settings: Names of the array of settings.
        length: Length of the vector of outputs.
    """
    outputs = [
        "v = prepare(o, data.mask, row)",
        "log_prob = float(log_prob_of(v, data.choice, data.control, row))",
        "entropy = float(entropy_of(v, data.choice, data.control, row))",
    ]
    gradient = ["d = gradient(v, data.choice, data.control, row, by_log_prob * scale, by_entropy * scale)"]
    constants = {"prepare": distribution.prepare, "log_prob_of": distribution.log_prob}
    constants |= {"entropy_of": distribution.entropy, "gradient": distribution.gradient}
    derivatives = ("by_log_prob", "by_entropy")
    return _head(outputs, head.policy, derivatives, len(head.policy_metrics), gradient, settings, length, constants)


@cache
def value_head(head: KernelHead, settings: tuple[str, ...], length: int) -> Any:
    """Build ``head(data, settings, row, outputs, scale)`` of the value loss; arguments as in :func:`policy_head`."""
    gradient = ["d = V()", "d[0] = by_value * scale"]
    return _head(["value = o[0]"], head.value, ("by_value",), len(head.value_metrics), gradient, settings, length, {})


def _head(
    outputs: list[str],
    loss: Any,
    derivatives: tuple[str, ...],
    num_metrics: int,
    gradient: list[str],
    settings: tuple[str, ...],
    length: int,
    functions: dict[str, Any],
) -> Any:
    """Build a head: lines that read outputs, the loss of one row, lines that make the gradient of its derivatives."""
    places = {name: f"data.{array}[row]" for name, array in _DATA.items()}
    places |= {name: f"settings[{index}]" for index, name in enumerate(settings)}
    places |= {name.removeprefix("by_"): name.removeprefix("by_") for name in derivatives}
    if unknown := [name for name in loss.input_types if name not in places]:
        raise ValueError(f"{loss.key}: expected parameters of {', '.join(places)}, got {unknown[0]}")
    arguments = ", ".join(places[name] for name in loss.input_types)
    results = ", ".join([*derivatives, *(f"m{index}" for index in range(num_metrics))])
    lines = [
        *outputs,
        f"{results} = loss({arguments})",
        "m = Metrics()",
        *(f"m[{index}] = m{index}" for index in range(num_metrics)),
        *gradient,
        "m = m * scale",
        "if scale == 0.0:",  # the ratio of a row that does not count may be infinite
        "    d = V()",
        "    m = Metrics()",
        "return d, m",
    ]
    parameters = "data: RowData, settings: wp.array(dtype=float), row: int, o: V, scale: float"
    constants = {"loss": loss, "V": vector(length), "RowData": RowData, "Metrics": Metrics, **functions}
    return compiled("head", parameters, lines, constants)
