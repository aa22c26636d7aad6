"""Action heads: what turns a network's outputs into actions.

They hold the mathematics of `torch.distributions` (Categorical, Normal, TransformedDistribution) without its argument
checks, which cost more than the policies used here.

Critics that judge actions see them as a code: (..., code_width) numbers in [-1, 1]. A continuous action's code is its
place in the box, a discrete one's is one-hot. `relaxed` draws codes that gradients flow through.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.boxes import GaussianHead, TanhGaussianHead, TanhHead
from trainers.categories import CategoricalHead, GreedyHead
from trainers.files import check_fields

Head = CategoricalHead | GaussianHead | TanhGaussianHead | TanhHead  # what a policy's outputs mean
_SQUASHED = {"tanh_gaussian": TanhGaussianHead, "tanh": TanhHead}
BOX_KINDS = ("continuous", *_SQUASHED)
"""Kinds of heads for a box, as `action_spec` takes them."""
MAX_LOG_STD = 80.0
"""Largest logarithm of a standard deviation: its exponential and that of its negative are finite in float32."""
_BOUNDS = {"low": list[float], "high": list[float]}
_FIELDS: dict[str, dict[str, Any]] = {
    "discrete": {"sizes": list[int]},
    "multi_discrete": {"sizes": list[int]},
    "greedy": {"sizes": list[int], "dueling": bool},
    "continuous": {**_BOUNDS, "init_log_std": float},
    **dict.fromkeys(_SQUASHED, _BOUNDS),
}
"""Fields of a description beside its kind."""


def action_spec(space: spaces.Space[Any], init_log_std: float = 0.0, box: str = "continuous") -> dict[str, Any]:
    """Describes an action space in JSON's terms, for `make_head` and for policies on disk.

    Args:
        space: Of one agent.
        init_log_std: That a Gaussian starts from.
        box: Head of continuous actions: "continuous" is a Gaussian; "tanh_gaussian" and "tanh" need a bounded box.

    Raises:
        ConfigError: There is no such head for the space.
    """
    if isinstance(space, spaces.Discrete):
        return {"kind": "discrete", "sizes": [int(space.n)]}
    if isinstance(space, spaces.MultiDiscrete):
        return {"kind": "multi_discrete", "sizes": [int(n) for n in space.nvec]}
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        if box in _SQUASHED and not space.is_bounded():
            raise ConfigError(f"action space {space} has no bounds, which a {box} policy needs; ppo does without")
        bounds = {"low": [float(x) for x in space.low], "high": [float(x) for x in space.high]}
        return {"kind": box, **bounds} | ({} if box in _SQUASHED else {"init_log_std": init_log_std})
    raise ConfigError(f"action space {space} has no head: expected Discrete, MultiDiscrete or a Box of one dimension")


def greedy_spec(space: spaces.Space[Any], dueling: bool = False) -> dict[str, Any]:
    """`action_spec` for learners of action values; ConfigError where actions are not Discrete."""
    if isinstance(space, spaces.Discrete):
        return {"kind": "greedy", "sizes": [int(space.n)], "dueling": dueling}
    raise ConfigError(f"action values need Discrete actions, got {space}; choose another algorithm, such as ppo")


def spec_like(given: dict[str, Any], space: spaces.Space[Any]) -> dict[str, Any]:
    """What `given`, a policy's own, would be for a space: equal to it where the policy can act in the space."""
    if given["kind"] == "greedy" and isinstance(space, spaces.Discrete):
        return greedy_spec(space, given["dueling"])
    box = given["kind"] if given["kind"] in _SQUASHED else "continuous"
    bounded = isinstance(space, spaces.Box) and space.is_bounded()
    return action_spec(space, given.get("init_log_std", 0.0), box if bounded else "continuous")


def check_action_spec(where: str, spec: Any) -> None:
    """Checks a description of an action space that was read from a file; CheckpointError names what is wrong."""
    kind = spec.get("kind") if isinstance(spec, dict) else None
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise CheckpointError(f"{where}: kind: expected one of {', '.join(_FIELDS)}, got {kind!r:.80}")
    check_fields(where, spec, {"kind": str, **_FIELDS[kind]})
    if "sizes" in spec:
        sizes = spec["sizes"]
        if not sizes or min(sizes) < 1 or sum(sizes) >= 2**31 or (kind != "multi_discrete" and len(sizes) > 1):
            number = "numbers" if kind == "multi_discrete" else "one number"
            raise CheckpointError(f"{where}: sizes: expected {number} >= 1 of choices, got {sizes!r:.80}")
        return
    low, high = spec["low"], spec["high"]
    most = float(np.finfo(np.float32).max)
    known = all(abs(each) <= most or (math.isinf(each) and kind == "continuous") for each in (*low, *high))
    if not low or len(low) != len(high) or not known or not all(map(float.__le__, map(float, low), map(float, high))):
        raise CheckpointError(f"{where}: expected low <= high of each dimension, got {low!r:.80} and {high!r:.80}")
    if not abs(spec.get("init_log_std", 0.0)) <= MAX_LOG_STD:
        raise CheckpointError(f"{where}: init_log_std: expected at most ±{MAX_LOG_STD}, got {spec['init_log_std']}")


def make_head(spec: dict[str, Any]) -> Head:
    """The head that `action_spec` or `greedy_spec` describes."""
    if spec["kind"] == "greedy":
        return GreedyHead(*spec["sizes"], dueling=spec["dueling"])
    if spec["kind"] in _SQUASHED:
        return _SQUASHED[spec["kind"]](spec["low"], spec["high"])
    if spec["kind"] == "continuous":
        return GaussianHead(spec["low"], spec["high"], float(spec["init_log_std"]))
    return CategoricalHead(spec["sizes"], multi=spec["kind"] == "multi_discrete")
