"""Action heads map a network's outputs to actions.

They compute the same densities as `torch.distributions` (Categorical, Normal, TransformedDistribution), without its
argument checks, which take longer than the small networks used here.

Critics of actions take them as codes: (..., code_width) numbers in [-1, 1]. The code of a continuous action is its
position in the box, of a discrete action it is one-hot. `relaxed` samples differentiable codes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.base.serialization import check_fields
from trainers.models.continuous_heads import GaussianHead, TanhGaussianHead, TanhHead
from trainers.models.discrete_heads import CategoricalHead, GreedyHead

__all__ = [
    "BOX_KINDS",
    "MAX_LOG_STD",
    "Head",
    "action_spec",
    "action_text",
    "check_action_spec",
    "greedy_spec",
    "make_head",
    "spec_like",
]

Head = CategoricalHead | GaussianHead | TanhGaussianHead | TanhHead
"""Head of a policy network."""
_SQUASHED = {"tanh_gaussian": TanhGaussianHead, "tanh": TanhHead}
BOX_KINDS = ("continuous", *_SQUASHED)
"""Kinds of heads for a Box space, as `action_spec` takes them."""
MAX_LOG_STD = 80.0
"""Bound on the absolute log standard deviation, within which exponentials are finite in float32."""
_BOUNDS = {"low": list[float], "high": list[float]}
_FIELDS: dict[str, dict[str, Any]] = {
    "discrete": {"sizes": list[int]},
    "multi_discrete": {"sizes": list[int]},
    "greedy": {"sizes": list[int], "dueling": bool},
    "continuous": {**_BOUNDS, "init_log_std": float},
    **dict.fromkeys(_SQUASHED, _BOUNDS),
}
"""Fields of an action specification by kind, without `kind` itself."""


def action_spec(space: spaces.Space[Any], init_log_std: float = 0.0, box: str = "continuous") -> dict[str, Any]:
    """Describe an action space as JSON data, for `make_head` and for policies on disk.

    Args:
        space: Action space of one agent.
        init_log_std: Initial log standard deviation of a Gaussian.
        box: Head for Box spaces: "continuous" (Gaussian), "tanh_gaussian" or "tanh"; the last two need bounds.

    Raises:
        ConfigError: The space has no such head.
    """
    if isinstance(space, spaces.Discrete):
        return {"kind": "discrete", "sizes": [int(space.n)]}
    if isinstance(space, spaces.MultiDiscrete):
        return {"kind": "multi_discrete", "sizes": [int(n) for n in space.nvec]}
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        if box in _SQUASHED and not space.is_bounded():
            raise ConfigError(f"action space: expected bounds for a {box} policy, got {space}; use ppo")
        bounds = {"low": [float(x) for x in space.low], "high": [float(x) for x in space.high]}
        return {"kind": box, **bounds} | ({} if box in _SQUASHED else {"init_log_std": init_log_std})
    raise ConfigError(f"action space: expected Discrete, MultiDiscrete or a one-dimensional Box, got {space}")


def greedy_spec(space: spaces.Space[Any], dueling: bool = False) -> dict[str, Any]:
    """Return `action_spec` for learners of action values; raise ConfigError unless the space is Discrete."""
    if isinstance(space, spaces.Discrete):
        return {"kind": "greedy", "sizes": [int(space.n)], "dueling": dueling}
    raise ConfigError(f"action values: expected Discrete actions, got {space}; use another algorithm, such as ppo")


def spec_like(spec: dict[str, Any], space: spaces.Space[Any]) -> dict[str, Any]:
    """Return the specification of `space` with the kind of head of `spec`; equal to `spec` if it fits the space."""
    if spec["kind"] == "greedy" and isinstance(space, spaces.Discrete):
        return greedy_spec(space, spec["dueling"])
    box = spec["kind"] if spec["kind"] in _SQUASHED else "continuous"
    bounded = isinstance(space, spaces.Box) and space.is_bounded()
    return action_spec(space, spec.get("init_log_std", 0.0), box if bounded else "continuous")


def action_text(spec: dict[str, Any]) -> str:
    """Return the action space of a specification in few words, as Gymnasium writes it."""
    if "sizes" in spec:
        sizes = spec["sizes"]
        return f"MultiDiscrete({sizes})" if spec["kind"] == "multi_discrete" else f"Discrete({sizes[0]})"
    low, high = set(spec["low"]), set(spec["high"])
    bounds = f"{low.pop():g}, {high.pop():g}, " if len(low) == len(high) == 1 else ""
    return f"Box({bounds}({len(spec['low'])},))"


def check_action_spec(source: str, spec: Any) -> None:
    """Check an action specification read from a file; raise CheckpointError at the first invalid field."""
    kind = spec.get("kind") if isinstance(spec, dict) else None
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise CheckpointError(f"{source}: kind: expected one of {', '.join(_FIELDS)}, got {kind!r:.80}")
    check_fields(source, spec, {"kind": str, **_FIELDS[kind]})
    if "sizes" in spec:
        sizes = spec["sizes"]
        if not sizes or min(sizes) < 1 or sum(sizes) >= 2**31 or (kind != "multi_discrete" and len(sizes) > 1):
            number = "numbers" if kind == "multi_discrete" else "one number"
            raise CheckpointError(f"{source}: sizes: expected {number} >= 1 of choices, got {sizes!r:.80}")
        return
    low, high = spec["low"], spec["high"]
    limit = float(np.finfo(np.float32).max)
    valid = all(abs(x) <= limit or (math.isinf(x) and kind == "continuous") for x in (*low, *high))
    if not low or len(low) != len(high) or not valid or not all(map(float.__le__, map(float, low), map(float, high))):
        raise CheckpointError(f"{source}: expected low <= high of each dimension, got {low!r:.80} and {high!r:.80}")
    if not abs(spec.get("init_log_std", 0.0)) <= MAX_LOG_STD:
        raise CheckpointError(f"{source}: init_log_std: expected at most ±{MAX_LOG_STD}, got {spec['init_log_std']}")


def make_head(spec: dict[str, Any]) -> Head:
    """Return the head described by `action_spec` or `greedy_spec`."""
    if spec["kind"] == "greedy":
        return GreedyHead(*spec["sizes"], dueling=spec["dueling"])
    if spec["kind"] in _SQUASHED:
        return _SQUASHED[spec["kind"]](spec["low"], spec["high"])
    if spec["kind"] == "continuous":
        return GaussianHead(spec["low"], spec["high"], float(spec["init_log_std"]))
    return CategoricalHead(spec["sizes"], multi=spec["kind"] == "multi_discrete")
