"""Agents by name, rows of some agents in a joint tensor of all agents, and observations of dead agents."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import torch

from gpu_envs.errors import ConfigError
from gpu_envs.utils.suggestions import unknown_name_message

T = TypeVar("T")


def of_agent(env_id: str, values: Mapping[str, T], agent: Any) -> T:
    """Return the value of an agent, such as its space.

    Raises:
        ConfigError: No agent has this name.
    """
    if not isinstance(agent, str) or agent not in values:
        raise ConfigError(f"{env_id}: {unknown_name_message('agent', agent, values)}")
    return values[agent]


def rows_index(rows: Sequence[int], device: torch.device) -> slice | torch.Tensor:
    """Return an index of rows: a slice (no copy) for consecutive rows, else (rows,) int64."""
    if list(rows) == list(range(rows[0], rows[0] + len(rows))):
        return slice(rows[0], rows[0] + len(rows))
    return torch.tensor(rows, device=device)


def scatter_actions(full: torch.Tensor, rows: slice | torch.Tensor, actions: torch.Tensor) -> None:
    """Write the actions of some agents into the joint action, in place.

    Args:
        full: Joint action, (E, A) or (E, A, K).
        rows: Index of the agents' n rows, see :func:`rows_index`.
        actions: (E, n) or (E, n, k) with k <= K; entries beyond k are padding and stay unchanged.
    """
    if full.ndim == 2:
        full[:, rows] = actions
    else:
        full[:, rows, : actions.shape[2]] = actions


def hides_dead(*policies: Any) -> bool:
    """Return whether dead agents must observe zeros for one of some policies, as for those of a transformer."""
    return any(getattr(policy, "hides_dead", False) for policy in policies)


def hide_dead(obs: torch.Tensor, alive: torch.Tensor) -> torch.Tensor:
    """Return observations (E, n, D) with zeros for the agents that are not alive, (E, n) bool."""
    return obs.masked_fill(~alive.unsqueeze(-1), 0.0)
