"""Statistics of episodes that end in a rollout, stored on the device and read once per rollout."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gpu_envs.errors import CheckpointError
from gpu_envs.runtime.core import Core
from gpu_envs.utils.agent_rows import rows_index
from trainers.base.gradients import LOCAL_REDUCER, GradientReducer

RECENT = 100
"""Number of last episodes in the mean return that `TrainConfig.until_return` is compared with."""


class EpisodeStatistics:
    """Returns, lengths and declared results (`EnvDefinition.results`) of completed episodes, by group.

    An agent counts when the episode of its environment ends, not when it leaves. Otherwise agents that leave early
    would be over-represented.
    """

    recent: Tensor
    """Mean return per agent of each group in the last N <= RECENT episodes, (N, G) float64 on the host, oldest first;
    episodes that end in the same step are in the order of their environments."""
    latest: dict[str, float]
    """Means of the latest rollout in which episodes ended, by column of metrics.csv."""

    def __init__(self, core: Core, length: int) -> None:
        """Create buffers for rollouts of `length` steps."""
        steps, device = (length, core.num_envs), core.device
        self.rows: dict[str, slice | Tensor] = {group: rows_index(rows, device) for group, rows in core.groups.items()}
        self.over: Tensor = torch.zeros(steps, dtype=torch.bool, device=device)
        self.returns: Tensor = torch.zeros((*steps, core.num_agents), device=device)
        self.lengths: Tensor = torch.zeros((*steps, core.num_agents), dtype=torch.int32, device=device)
        self.names: tuple[str, ...] = tuple(core.definition.results)
        self.results: Tensor = torch.zeros((*steps, core.num_agents, len(self.names)), device=device)
        self.recent = torch.zeros((0, len(self.rows)), dtype=torch.float64)
        self.latest = {}

    def store(self, t: int, over: Tensor, info: Mapping[str, Tensor], results: Tensor) -> None:
        """Store the episodes that a step ended, without host synchronization.

        Args:
            t: Step of the rollout.
            over: Environments whose episode ended, (E,) bool.
            info: Info of the step, with return and length of each agent's last episode, (E, A).
            results: Declared results at the end of each agent's last episode, (E, A, R).
        """
        self.over[t].copy_(over)
        self.returns[t].copy_(info["episode_return"])
        self.lengths[t].copy_(info["episode_length"])
        self.results[t].copy_(results)

    def read(self, reducer: GradientReducer = LOCAL_REDUCER) -> dict[str, float]:
        """Return means over agents and episodes of the rollout on all ranks by column; NaN if no episode ended.

        This synchronizes the host with the device.
        """
        ended = self.over.flatten().nonzero().squeeze(-1)  # in the order of steps
        parts = (self.returns.unsqueeze(-1), self.lengths.unsqueeze(-1), self.results)
        agents = torch.cat([part.flatten(0, 1)[ended].double() for part in parts], -1)
        episodes = torch.stack([agents[:, rows].mean(1) for rows in self.rows.values()], 1)  # (N, G, 2 + R)
        latest = reducer.gather_in_step_order(ended[-RECENT:], episodes[-RECENT:, :, 0])
        self.recent = torch.cat([self.recent, latest.cpu()])[-RECENT:]
        totals = reducer.sum(torch.cat([episodes.sum(0).flatten(), episodes.new_tensor([len(ended)])]))
        means = (totals[:-1] / totals[-1]).tolist()
        quantities = ("episode_return", "episode_length", *self.names)
        row = dict(zip([f"{group}/{name}_mean" for group in self.rows for name in quantities], means, strict=True))
        self.latest |= {column: value for column, value in row.items() if not math.isnan(value)}
        return row

    def load_recent(self, recent: object) -> None:
        """Restore `recent`; raise CheckpointError if it does not fit the groups."""
        if not isinstance(recent, Tensor) or recent.shape[1:] != self.recent.shape[1:]:
            expected = f"a tensor (N, {len(self.rows)})"
            raise CheckpointError(f"episodes.recent: expected {expected}, got {recent!r:.80}")
        self.recent = recent.cpu()

    def recent_returns(self) -> dict[str, float]:
        """Return the mean return per agent over the last RECENT episodes, by group; {} before RECENT episodes."""
        return mean_returns(self.recent, list(self.rows))


def progress_text(statistics: Sequence[EpisodeStatistics], quantities: Sequence[str]) -> list[str]:
    """Return the latest means of one training, or over trainings with several seeds, for the line of their progress.

    Returns:
        One text per quantity, such as "return per agent: ally 1.20  enemy -": no episode has ended for the enemies.
    """
    texts = []
    for name in quantities:
        means = []
        for group in statistics[0].rows:
            column = f"{group}/{name}_mean"
            values = [x.latest[column] for x in statistics if column in x.latest]
            means.append(f"{group} {sum(values) / len(values):.2f}" if values else f"{group} -")
        texts.append(f"{'return per agent:' if name == 'episode_return' else name} {'  '.join(means)}")
    return texts


def mean_returns(recent: Tensor, groups: Sequence[str]) -> dict[str, float]:
    """Return the means of `EpisodeStatistics.recent` (RECENT, groups), by group; {} before RECENT episodes."""
    return dict(zip(groups, recent.mean(0).tolist(), strict=True)) if len(recent) == RECENT else {}
