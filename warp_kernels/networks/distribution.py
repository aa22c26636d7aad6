"""Interface of distributions over actions; a head works on one row of outputs, so all forms of a network share it."""

from dataclasses import dataclass
from typing import Any

__all__ = ["Distribution"]


@dataclass(frozen=True)
class Distribution:
    """Warp functions of one distribution over actions; V is the vector of outputs, N the number of rows.

    Stored actions are ``choice`` (N, K) int64, or ``control`` (N, K) float32 before they are clipped or squashed.
    """

    prepare: Any
    """``prepare(o, mask, row) -> V``: what the other functions need of outputs; ``mask`` is (N, choices) bool."""
    sample: Any
    """``sample(v, rng, agent, greedy, choice, control, row)``: write an action; the most probable one with greedy."""
    log_prob: Any
    """``log_prob(v, choice, control, row) -> float``: log-probability, or log-density, of a stored action."""
    entropy: Any
    """``entropy(v, choice, control, row) -> float`` [nats]."""
    gradient: Any
    """``gradient(v, choice, control, row, by_log_prob, by_entropy) -> V``: gradient by the outputs.
    None for policies of off-policy learners, whose log-probabilities are 0."""
