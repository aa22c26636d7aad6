"""The episodes that end in a rollout: kept on the device as they end, read once per rollout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gpu_envs.core import Core
from gpu_envs.joint import rows_index
from trainers.learner import ALONE, Descent

RECENT = 100
"""Finished episodes whose mean return a training may have as its goal."""


class Episodes:
    """Returns and lengths of finished episodes, by group.

    An agent counts when its world ends, not when it leaves: else those who leave early would be over-represented.
    """

    recent: Tensor
    """(N, G) float64 on the host: mean return per agent of each group in the last N <= RECENT episodes, oldest first;
    within a step worlds stand in their order."""

    def __init__(self, core: Core, length: int) -> None:
        """Buffers for rollouts of `length` steps."""
        steps, device = (length, core.num_envs), core.device
        self.rows = {group: rows_index(rows, device) for group, rows in core.groups.items()}
        self.over = torch.zeros(steps, dtype=torch.bool, device=device)
        self.returns = torch.zeros((*steps, core.num_agents), device=device)
        self.lengths = torch.zeros((*steps, core.num_agents), dtype=torch.int32, device=device)
        self.recent = torch.zeros((0, len(self.rows)), dtype=torch.float64)

    def store(self, t: int, over: Tensor, info: Mapping[str, Tensor]) -> None:
        """Copies what step t ended; nothing waits for the device.

        Args:
            t: Step of the rollout.
            over: (E,) bool, worlds whose episode ended.
            info: What the core says of agents' last finished episodes, (E, A).
        """
        self.over[t].copy_(over)
        self.returns[t].copy_(info["episode_return"])
        self.lengths[t].copy_(info["episode_length"])

    def read(self, descent: Descent = ALONE) -> dict[str, float]:
        """Means over agents and episodes of the rollout, those of other ranks included, NaN if none ended.

        Waits for the device.
        """
        ended = self.over.flatten().nonzero().squeeze(-1)  # in the order of time
        returns, lengths = (
            torch.stack([all_agents[:, rows].double().mean(1) for rows in self.rows.values()], 1)
            for all_agents in (buffer.flatten(0, 1)[ended] for buffer in (self.returns, self.lengths))
        )
        latest = descent.in_time(ended[-RECENT:], returns[-RECENT:])
        self.recent = torch.cat([self.recent, latest.cpu()])[-RECENT:]
        count = torch.full_like(returns[:1].sum(0), len(ended))
        returns, lengths, count = descent.sum(torch.stack([returns.sum(0), lengths.sum(0), count]))
        means = torch.stack([returns / count, lengths / count], 1).tolist()
        row = {}
        for group, (mean_return, mean_length) in zip(self.rows, means, strict=True):
            row[f"{group}/return_per_agent"] = mean_return
            row[f"{group}/episode_length"] = mean_length
        return row

    def recent_returns(self) -> dict[str, float]:
        """Mean return per agent over the last RECENT episodes, by group; {} before so many have ended."""
        return mean_returns(self.recent, list(self.rows))


def mean_returns(recent: Tensor, groups: Sequence[str]) -> dict[str, float]:
    """Means of `Episodes.recent`, (episodes, groups), by group; {} before there are RECENT episodes."""
    return dict(zip(groups, recent.mean(0).tolist(), strict=True)) if len(recent) == RECENT else {}
