"""Statistics of episodes that end in a rollout, stored on the device and read once per rollout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gpu_envs.errors import CheckpointError
from gpu_envs.runtime.core import Core
from gpu_envs.utils.agent_rows import rows_index
from trainers.base.gradients import LOCAL_REDUCER, GradientReducer

__all__ = ["RECENT", "EpisodeStatistics", "mean_returns"]

RECENT = 100
"""Number of last episodes in the mean return that `TrainConfig.until_return` is compared with."""


class EpisodeStatistics:
    """Returns and lengths of completed episodes, by group.

    An agent counts when the episode of its environment ends, not when it leaves. Otherwise agents that leave early
    would be over-represented.
    """

    recent: Tensor
    """Mean return per agent of each group in the last N <= RECENT episodes, (N, G) float64 on the host, oldest first;
    episodes that end in the same step are in the order of their environments."""

    def __init__(self, core: Core, length: int) -> None:
        """Create buffers for rollouts of `length` steps."""
        steps, device = (length, core.num_envs), core.device
        self.rows: dict[str, slice | Tensor] = {group: rows_index(rows, device) for group, rows in core.groups.items()}
        self.over: Tensor = torch.zeros(steps, dtype=torch.bool, device=device)
        self.returns: Tensor = torch.zeros((*steps, core.num_agents), device=device)
        self.lengths: Tensor = torch.zeros((*steps, core.num_agents), dtype=torch.int32, device=device)
        self.recent = torch.zeros((0, len(self.rows)), dtype=torch.float64)

    def store(self, t: int, over: Tensor, info: Mapping[str, Tensor]) -> None:
        """Store the episodes that a step ended, without host synchronization.

        Args:
            t: Step of the rollout.
            over: Environments whose episode ended, (E,) bool.
            info: Info of the step, with return and length of each agent's last episode, (E, A).
        """
        self.over[t].copy_(over)
        self.returns[t].copy_(info["episode_return"])
        self.lengths[t].copy_(info["episode_length"])

    def read(self, reducer: GradientReducer = LOCAL_REDUCER) -> dict[str, float]:
        """Return means over agents and episodes of the rollout on all ranks; NaN if no episode ended.

        This synchronizes the host with the device.
        """
        ended = self.over.flatten().nonzero().squeeze(-1)  # in the order of steps
        returns, lengths = (
            torch.stack([all_agents[:, rows].double().mean(1) for rows in self.rows.values()], 1)
            for all_agents in (buffer.flatten(0, 1)[ended] for buffer in (self.returns, self.lengths))
        )
        latest = reducer.gather_in_step_order(ended[-RECENT:], returns[-RECENT:])
        self.recent = torch.cat([self.recent, latest.cpu()])[-RECENT:]
        count = torch.full_like(returns[:1].sum(0), len(ended))
        returns, lengths, count = reducer.sum(torch.stack([returns.sum(0), lengths.sum(0), count]))
        means = torch.stack([returns / count, lengths / count], 1).tolist()
        row = {}
        for group, (mean_return, mean_length) in zip(self.rows, means, strict=True):
            row[f"{group}/episode_return_mean"] = mean_return
            row[f"{group}/episode_length_mean"] = mean_length
        return row

    def load_recent(self, recent: object) -> None:
        """Restore `recent`; raise CheckpointError if it does not fit the groups."""
        if not isinstance(recent, Tensor) or recent.shape[1:] != self.recent.shape[1:]:
            wanted = f"a tensor (N, {len(self.rows)})"
            raise CheckpointError(f"episodes.recent: expected {wanted}, got {recent!r:.80}")
        self.recent = recent.cpu()

    def recent_returns(self) -> dict[str, float]:
        """Return the mean return per agent over the last RECENT episodes, by group; {} before RECENT episodes."""
        return mean_returns(self.recent, list(self.rows))


def mean_returns(recent: Tensor, groups: Sequence[str]) -> dict[str, float]:
    """Return the means of `EpisodeStatistics.recent` (RECENT, groups), by group; {} before RECENT episodes."""
    return dict(zip(groups, recent.mean(0).tolist(), strict=True)) if len(recent) == RECENT else {}
