"""Scripted policy of CollectTreasure-v0: collectors fetch treasures, deposits meet those that bring them."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from gpu_envs.runtime.core import Core
from trainers.evaluation.formation_policies import PUSHES
from trainers.evaluation.state_policy import StatePolicy
from warp_kernels.mpe import particles

AHEAD = 5
"""Steps of the prediction, in which agents coast after one push."""
_ROOM = 1.5  # distance of collectors that is wide enough, in that at which they touch
_WARY = 4.0  # distance to the goal that a collector gives for the same distance to another one


class TreasurePolicy(StatePolicy):
    """Fetch a treasure and bring it to its deposit, and keep away from others; has the interface of a `Policy`.

    A collector goes to the nearest treasure among those to which no other free collector is nearer, or else to the
    nearest one. A deposit goes to the nearest collector with a treasure for it, or else to the center of all.
    """

    env_ids: ClassVar[tuple[str, ...]] = ("CollectTreasure-v0",)
    script = "fetch treasures and meet those that do"

    def __init__(self, core: Core, member: str) -> None:
        """Control a group or an agent of a core, see `StatePolicy`."""
        super().__init__(core, member)
        self._pushes = torch.tensor(PUSHES, device=core.device)
        self._continuous = core.action_buffer.dtype == torch.float32

    def _act(self, mask: Tensor | None) -> Tensor:
        config, state, params = self.core.config, self.core.world_state, self.core.get_params()
        collectors, count = config.num_collectors, self.core.num_agents
        decay, dt = float(particles.KEPT_VELOCITY), float(particles.DT)
        glide = dt * (1.0 - decay**AHEAD) / (1.0 - decay)
        positions, accel = state["pos"][:, :count], params["accel"][:, None].repeat(1, count)
        accel[:, collectors:] /= params["deposit_mass"][:, None]
        coasting = positions + glide * decay * state["vel"]  # (E, A, 2)
        reach = coasting[:, :, None] + (glide * dt * accel)[..., None, None] * self._pushes  # (E, A, 5, 2)
        cost = (reach - self._goals(positions)[:, :, None]).norm(dim=-1)
        gap = (reach[:, :collectors, :, None] - coasting[:, None, None, :collectors]).norm(dim=-1)  # (E, C, 5, C)
        gap = gap + 1e3 * torch.eye(collectors, device=positions.device)[:, None]  # a collector is not in its own way
        wide = _ROOM * 2.0 * params["collector_size"][:, None, None, None]
        cost[:, :collectors] += _WARY * (wide - gap).clamp(min=0.0).sum(-1)
        choice = cost[:, self.rows].argmin(-1)
        if self._continuous:
            return torch.nn.functional.one_hot(choice, len(PUSHES)).float()
        return choice

    def _goals(self, positions: Tensor) -> Tensor:
        """Return where agents at places (E, A, 2) want to go, (E, A, 2)."""
        state, num_collectors = self.core.world_state, self.core.config.num_collectors
        load, kind = state["holding"].long(), state["kind"]
        collectors, deposits = positions[:, :num_collectors], positions[:, num_collectors:]
        treasures = state["pos"][:, positions.shape[1] :]
        away = torch.cdist(collectors, treasures).masked_fill((kind == 0)[:, None], torch.inf)  # (E, C, T)
        free = away.masked_fill((load > 0)[..., None], torch.inf)
        is_taken = free.argmin(1)[:, None] != torch.arange(num_collectors, device=positions.device)[:, None]
        nearest = (away + 100.0 * is_taken).argmin(-1)  # others' treasures last
        fetch = treasures.gather(1, nearest[..., None].expand(-1, -1, 2))
        fetch = torch.where((kind > 0).any(1)[:, None, None], fetch, collectors)
        bring = deposits.gather(1, (load - 1).clamp(min=0)[..., None].expand(-1, -1, 2))
        mine = load[:, None] == 1 + torch.arange(deposits.shape[1], device=positions.device)[:, None]  # (E, K, C)
        coming = torch.cdist(deposits, collectors).masked_fill(~mine, torch.inf).argmin(-1)
        meet = collectors.gather(1, coming[..., None].expand(-1, -1, 2))
        meet = torch.where(mine.any(-1)[..., None], meet, collectors.mean(1, keepdim=True))
        return torch.cat([torch.where((load > 0)[..., None], bring, fetch), meet], 1)
