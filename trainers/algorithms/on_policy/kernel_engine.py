"""Values, gradients and steps of Adam of an actor-critic learner in kernels."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from trainers.algorithms.on_policy.actor_critic_agent import ActorCriticAgent
from trainers.algorithms.on_policy.engines import Divisor, Loss
from trainers.algorithms.on_policy.kernel_buffers import KernelBuffers
from trainers.algorithms.on_policy.kernel_launches import KernelLaunches
from trainers.base.gradients import GradientReducer
from trainers.base.optimizers import is_plain_adam
from trainers.models.kernel_networks import policy_kind
from trainers.models.overrides import override_of
from warp_kernels.framework.policies import PolicyKind
from warp_kernels.networks import losses

__all__ = ["KernelEngine"]

METRICS = {
    "policy_loss": losses.POLICY_LOSS,
    "value_loss": losses.VALUE_LOSS,
    "entropy": losses.ENTROPY,
    "approx_kl": losses.KL,
    "clip_fraction": losses.CLIP_FRACTION,
}
"""Places of the metrics of a gradient step."""
OF_RATIO = ("approx_kl", "clip_fraction")
"""Metrics of PPO only."""
REDUCES = ("step", "_all_reduce")
"""Methods of a reducer that kernels compute for a single process."""
SETTINGS = {
    "clip_range": losses.CLIP_RANGE,
    "entropy_coef": losses.ENTROPY_COEF,
    "value_coef": losses.VALUE_COEF,
    "clip_range_vf": losses.CLIP_RANGE_VF,
}
"""Places of the settings of losses."""


class KernelEngine:
    """Gradient steps of an actor-critic learner with dense networks, without PyTorch's operations.

    Weights and moments are packed for the kernels at the start of an update and written back at its end. A reducer of
    several processes receives the gradients as PyTorch's would.
    """

    def __init__(
        self,
        agent: ActorCriticAgent,
        optimizer: torch.optim.Optimizer,
        objective: str,
        threads: int,
        captured: bool = False,
    ) -> None:
        """Allocate the buffers.

        Args:
            agent: Networks and rollout.
            optimizer: Optimizer of the networks; steps of another than plain Adam are PyTorch's.
            objective: Loss of the policy, see `warp_kernels.networks.losses.policy_head`.
            threads: Largest number of CPU threads.
            captured: Updates are CUDA graphs, which always pack the weights.
        """
        self.agent: ActorCriticAgent = agent
        self.optimizer: torch.optim.Optimizer = optimizer
        self.objective: str = objective
        self.kind: PolicyKind = policy_kind(agent.net.spec, agent.head)
        self.buffers: KernelBuffers = KernelBuffers(agent, self.kind)
        self.captured: bool = captured
        self.launches: KernelLaunches = KernelLaunches(agent, self.kind, self.buffers, objective, threads)
        self._gradient_steps = 0
        self._rows: Tensor | None = None
        self._begins: dict[tuple[int, ...], Tensor] = {}
        self._is_packed = False

    @property
    def is_adam(self) -> bool:
        """Whether the optimizer takes the steps that kernels compute: Adam on all networks."""
        return is_plain_adam(self.optimizer, [p for network in self.buffers.networks for p in network.parameters])

    def policy(self, seed: int) -> KernelPolicy:
        """Return the policy for rollouts in kernels, with the weights of the last `pack`."""
        return KernelPolicy(self.kind, self.buffers.weights[0, : self.kind.mlp.row_size], seed)

    def pack(self, always: bool = False) -> None:
        """Copy weights, statistics of observations and moments from the networks and the optimizer.

        Args:
            always: Copy weights and moments even if their versions, which fused optimizers do not change, are the same.
        """
        adam = self.optimizer if self.is_adam else None
        self.buffers.pack(self.agent.normalizer, adam, always or self.captured)
        self._is_packed = True

    def invalidate(self) -> None:
        """Pack the weights again before the next update, because they were replaced."""
        self._is_packed = False

    # ---------------------------------------------------------------- an update

    def batch(self, reducer: GradientReducer, fixed_shapes: bool) -> dict[str, Tensor]:
        """Return the decisions of the rollout, see `row_batch`, and clear the totals."""
        r, c, b = self.agent.rollout, self.agent.config, self.buffers
        slots = r.capacity if fixed_shapes else r.check()
        if self.captured or not self._is_packed:
            self.pack()
        self._is_packed = False
        self.launches.value(slots if r.to_move is None else 0)
        everything = fixed_shapes or bool(b.is_known.all())
        rows = b.all_rows if everything else b.is_known.nonzero().squeeze(-1)
        self._rows = None if everything else rows
        valid = b.is_known if fixed_shapes else None
        advantage, returns = (x if everything else x[rows] for x in (b.advantage, b.returns))
        if c.normalize_advantage:
            advantage = reducer.normalize(advantage, valid)
            b.advantage.copy_(advantage) if everything else b.advantage.index_copy_(0, rows, advantage)
        raw_obs, value = r.obs.flatten(0, 2), b.values[: len(b.all_rows)]
        if not everything:
            raw_obs, value = raw_obs[rows], value[rows]
        batch = {"raw_obs": raw_obs, "obs": raw_obs, "rows": rows, "returns": returns, "value": value}
        if valid is not None:
            batch["valid"] = valid
        b.sums.zero_()
        b.norms.zero_()
        self._gradient_steps = 0
        return batch

    def step(
        self,
        reducer: GradientReducer,
        loss: Loss,
        minibatches: Sequence[tuple[Tensor | None, Divisor]],
        active: Tensor | None,
        settings: Mapping[str, float | Tensor | None],
    ) -> float | Tensor:
        """Take a gradient step on each minibatch, see `Engine.step`; `loss` is not called."""
        if self._gradient_steps == 0:
            self._set(settings)
        self._gradient_steps += len(minibatches)
        sizes = self._set_minibatches([rows for rows, _ in minibatches])
        local = self.is_adam and reducer.can_capture and not override_of(reducer, GradientReducer, REDUCES)
        if active is None and local:
            for index, (size, (_, divisor)) in enumerate(zip(sizes, minibatches, strict=True)):
                _write(self.buffers.scale[0, index], 1.0 / (max(size, 1) if divisor is None else divisor))
            self.launches.epoch(sizes)
            return float(len(minibatches))
        count: float | Tensor = 0.0
        begins = itertools.accumulate(sizes, initial=0)
        for index, (begin, size, (_, divisor)) in enumerate(zip(begins, sizes, minibatches, strict=False)):
            enabled = self._prepare_minibatch(index, begin, size, divisor, active)
            self.launches.gradient(index, size)
            if local:
                self.launches.adam(index)
            else:
                self._step_by(reducer, enabled)
            count = count + (1.0 if enabled is None else enabled)
        return count

    def _set_minibatches(self, rows: Sequence[Tensor | None]) -> list[int]:
        """Write the rows of minibatches one after another, and return their numbers."""
        b = self.buffers
        row_lists = [b.all_rows[: self._num_rows] if part is None else part for part in rows]
        begins = tuple(itertools.accumulate(map(len, row_lists), initial=0))
        joined = torch.cat(row_lists) if len(row_lists) > 1 else row_lists[0]
        if self._rows is None:
            b.index[0, : len(joined)].copy_(joined)
        else:
            torch.index_select(self._rows, 0, joined, out=b.index[0, : len(joined)])
        offsets = self._begins.get(begins)
        if offsets is None:
            offsets = torch.tensor(begins, dtype=torch.int32, device=b.begins.device)
            if self.captured:  # a CUDA graph must not copy from the host; its sizes never change
                self._begins[begins] = offsets
        b.begins[: len(begins)].copy_(offsets)
        return [end - begin for begin, end in itertools.pairwise(begins)]

    def _prepare_minibatch(
        self, index: int, begin: int, size: int, divisor: Divisor, active: Tensor | None
    ) -> Tensor | None:
        """Set the factor of rows, and whether policies take the step: with `active`, if a row counts."""
        b = self.buffers
        if active is None:
            _write(b.scale[0, index], 1.0 / (max(size, 1) if divisor is None else divisor))
            return None
        valid = b.is_known[b.index[0, begin : begin + size]]
        _write(b.scale[0, index], 1.0 / (valid.sum().clamp(min=1) if divisor is None else divisor))
        enabled = active & valid.any()
        b.active[0].copy_(enabled)
        return enabled

    def totals(self) -> dict[str, Tensor]:
        """Return the sums of the metrics over the gradient steps on this batch, scalars; {} before the first one."""
        if not self._gradient_steps:
            return {}
        sums = self.buffers.metric_sums().sum(0)
        clipped = self.objective == losses.PPO
        metrics = {name: sums[index] for name, index in METRICS.items() if clipped or name not in OF_RATIO}
        return metrics | {"grad_norm": self.buffers.norms[0].clone()}

    def finish(self) -> None:
        """Write weights and moments to the networks and the optimizer."""
        if self.is_adam and self._gradient_steps:
            self.buffers.unpack(self.optimizer)

    @property
    def _num_rows(self) -> int:
        return len(self.buffers.all_rows if self._rows is None else self._rows)

    def _step_by(self, reducer: GradientReducer, active: Tensor | None) -> None:
        """Let a reducer and PyTorch's optimizer take the step of the computed gradients."""
        b = self.buffers
        b.write_gradients()
        norm = reducer.step(self.optimizer, None, self.agent.config.max_grad_norm, active)
        b.norms += norm if active is None else torch.where(active, norm, 0.0)
        b.sums += b.total if active is None else torch.where(active, b.total, 0.0)
        self.pack(always=True)
        self._is_packed = False

    def _set(self, settings: Mapping[str, float | Tensor | None]) -> None:
        """Set what the kernels read in addition to the rollout."""
        for name, index in SETTINGS.items():
            value = settings.get(name)
            _write(self.buffers.settings[index], -1.0 if value is None else value)
        if self.is_adam:
            group = self.optimizer.param_groups[0]
            rates = [group["lr"], *group["betas"], group["eps"], self.agent.config.max_grad_norm]
            for index, value in enumerate(rates):
                _write(self.buffers.rates[index], value)


def _write(target: Tensor, value: Tensor | float) -> None:
    """Set a scalar on the device without a copy from the host, which a CUDA graph cannot hold."""
    if isinstance(value, Tensor):
        target.copy_(value)
    else:
        target.fill_(value)
