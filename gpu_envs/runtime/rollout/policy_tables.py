"""Tables in which kernels look up the policies of agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import warp as wp
from torch import Tensor

from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from gpu_envs.runtime.rollout.rollout_core import RolloutCore
from gpu_envs.utils.devices import host_view
from warp_kernels.framework.policies import PolicyKind

__all__ = ["PolicyTables"]


class PolicyTables:
    """Tables of policies and matchups, which are written without PyTorch on a CPU.

    Args:
        core: The environments.
        repeated: Every world has a matchup.
    """

    def __init__(self, core: RolloutCore, repeated: bool) -> None:
        self._core = core
        self.matchup = torch.zeros(core.num_envs if repeated else 0, dtype=torch.int32, device=core.device)
        """(E,) of every world; empty where all play matchup 0."""
        self._matchup_rows = host_view(self.matchup)
        self._allocate(0, 0)

    def _allocate(self, policies: int, matchups: int) -> None:
        device = self._core.device
        self._addresses = torch.zeros(policies, dtype=torch.int64, device=device)
        self._seeds, self._kinds = torch.zeros_like(self._addresses), self._addresses.int()
        self._index = torch.zeros((matchups, self._core.num_agents), dtype=torch.int32, device=device)
        tables = (self._index, self._addresses, self._seeds, self._kinds)
        self._index_rows, *self._policy_rows = (host_view(table) for table in tables)

    def reserve(self, policies: int, matchups: int) -> bool:
        """Make room for a number of policies and of matchups; return whether the tables have moved."""
        capacity, rows = len(self._addresses), len(self._index)
        if policies <= capacity and matchups <= rows:
            return False
        self._allocate(max(policies, capacity, 1), max(matchups, rows))
        return True

    def write_matchups(self, index: np.ndarray, matchup: Tensor | np.ndarray | None) -> None:
        """Write the policies of all agents (R, A), and the matchup of every world (E,); None: world i plays matchup i.

        Without matchups of worlds, R is 1.
        """
        _write(self._index_rows, index)
        if len(self.matchup):
            _write(self._matchup_rows, np.arange(len(self.matchup)) if matchup is None else matchup)

    def write_policies(self, policies: Sequence[KernelPolicy], kinds: Sequence[PolicyKind]) -> None:
        """Write where the weights of policies are, their seeds, and their kinds among the kernels' kinds."""
        values = [(policy.weights.data_ptr(), policy.seed, kinds.index(policy.kind)) for policy in policies]
        for rows, column in zip(self._policy_rows, zip(*values, strict=True), strict=bool(values)):
            _write(rows, column)

    def reseed(self, seed: int) -> None:
        """Set the key of the random streams of all policies."""
        self._policy_rows[1][:] = seed

    def fill(self, struct: Any) -> None:
        """Set the arrays of a struct of policies."""
        struct.addresses = wp.from_torch(self._addresses, dtype=wp.uint64)
        struct.seeds = wp.from_torch(self._seeds, dtype=wp.uint64)
        struct.kinds = wp.from_torch(self._kinds)
        struct.index = wp.from_torch(self._index)
        struct.matchup = wp.from_torch(self.matchup)


def _write(rows: Any, values: Tensor | np.ndarray | Sequence[int]) -> None:
    """Copy numbers into the first rows of a table, see `host_view`."""
    rows[: len(values)] = values if isinstance(rows, np.ndarray) else torch.as_tensor(values)
