"""Results of one environment step, as learners store them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Transition:
    """Results of one environment step for the n agents of a policy in E worlds.

    Tensors may be the environment's own buffers, so `Learner.observe` must copy what it keeps.
    """

    reward: Tensor
    """(E, n) float32, reward of each agent."""
    terminated: Tensor
    """(E, n) bool, the agent's episode ended by the rules at this step."""
    truncated: Tensor
    """(E, n) bool, the agent's episode was cut at this step."""
    valid: Tensor
    """(E, n) bool, the agent was alive before the step."""
    next_obs: Tensor
    """(E, n, D) float32, observation for the next action; after an autoreset, the first one of the next episode."""
    final_obs: Tensor
    """(E, n, D) float32, last observation of the episode; defined only where terminated or truncated."""
    next_to_move: Tensor | None = None
    """(E, n) bool, agents to act next; None if all agents act at every step."""
    next_mask: Tensor | None = None
    """(E, n, choices) bool, legal actions of the next step; None: all actions are legal."""
    restarted: Tensor | None = None
    """(E,) bool, the next step starts an episode of this world; None if no learner is recurrent."""
    next_state: Tensor | None = None
    """(E, S) global state of the next step, for learners that use it (`Learner.central_input`)."""
    final_state: Tensor | None = None
    """(E, S) global state after the step and before an autoreset; defined only where an agent was truncated."""
    joint_action: Tensor | None = None
    """(E, A) or (E, A, K), actions of all agents of the world, for critics that take them."""


PER_WORLD = ("restarted", "next_state", "final_state", "joint_action")
"""Fields of a transition with one row per world; all other fields have one row per agent."""
