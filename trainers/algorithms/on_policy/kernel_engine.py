"""Values, gradients and steps of Adam of an actor-critic learner in kernels."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from trainers.algorithms.on_policy.actor_critic import ActorCritic, ActorCriticConfig
from trainers.algorithms.on_policy.kernel_buffers import KernelBuffers
from trainers.algorithms.on_policy.kernel_launches import KernelLaunches
from trainers.algorithms.on_policy.objective import Objective
from trainers.algorithms.on_policy.torch_engine import Divisor, Loss
from trainers.base.gradients import GradientReducer
from trainers.base.learner_spec import LearnerSpec
from trainers.base.optimizers import is_plain_adam
from trainers.buffers.rollout_buffer import RolloutBuffer
from trainers.models.kernel_networks import policy_kind
from trainers.models.normalization import ObservationNormalizer
from trainers.models.overrides import override_of
from warp_kernels.framework.policies import PolicyKind

MIN_TRAINING_OPERATIONS = 2e10
"""Fewest floating-point operations of a training that kernels are compiled for; PyTorch takes seconds for them."""

REDUCES = ("step", "_all_reduce")
"""Methods of a reducer that kernels compute for a single process."""


class KernelEngine:
    """Gradient steps of an actor-critic learner with dense networks, without PyTorch's operations.

    Weights and moments are packed for the kernels at the start of an update and written back at its end. A reducer of
    several processes receives the gradients as PyTorch's would.
    """

    def __init__(
        self,
        config: ActorCriticConfig,
        net: ActorCritic,
        rollout: RolloutBuffer,
        optimizer: torch.optim.Optimizer,
        objective: Objective,
        threads: int,
        captured: bool = False,
    ) -> None:
        """Allocate the buffers.

        Args:
            config: Settings of the learner.
            net: Its networks.
            rollout: Its rollout.
            optimizer: Optimizer of the networks; steps of another than plain Adam are PyTorch's.
            objective: Loss with a kernel head.
            threads: Largest number of CPU threads.
            captured: Updates are CUDA graphs, which always pack the weights.
        """
        self.config: ActorCriticConfig = config
        self.rollout: RolloutBuffer = rollout
        self.normalizer: ObservationNormalizer = net.normalizer
        self.optimizer: torch.optim.Optimizer = optimizer
        self.objective: Objective = objective
        self.kind: PolicyKind = policy_kind(net.spec, net.head)
        self.buffers: KernelBuffers = KernelBuffers(net, rollout, self.kind, len(objective.settings))
        self.captured: bool = captured
        self.launches: KernelLaunches = KernelLaunches(config, rollout, self.kind, self.buffers, objective, threads)
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
        self.buffers.pack(self.normalizer, adam, always or self.captured)
        self._is_packed = True

    def invalidate(self) -> None:
        """Pack the weights again before the next update, because they were replaced."""
        self._is_packed = False

    # ---------------------------------------------------------------- an update

    def batch(self, reducer: GradientReducer, fixed_shapes: bool) -> dict[str, Tensor]:
        """Return the decisions of the rollout, see `row_batch`, and clear the totals."""
        r, c, b = self.rollout, self.config, self.buffers
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
        """Take a gradient step on each minibatch, see `TorchEngine.step`; `loss` is not called."""
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
        head = self.objective.kernel_head
        assert head is not None
        networks = zip((head.policy_metrics, head.value_metrics), self.buffers.metric_sums().clone(), strict=True)
        metrics = {name: value for names, sums in networks for name, value in zip(names, sums, strict=False)}
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
        norm = reducer.step(self.optimizer, None, self.config.max_grad_norm, active)
        b.norms += norm if active is None else torch.where(active, norm, 0.0)
        b.sums += b.total if active is None else torch.where(active, b.total, 0.0)
        self.pack(always=True)
        self._is_packed = False

    def _set(self, settings: Mapping[str, float | Tensor | None]) -> None:
        """Set what the kernels read in addition to the rollout."""
        for target, name in zip(self.buffers.settings, self.objective.settings, strict=False):
            value = settings[name]
            _write(target, -1.0 if value is None else value)
        if self.is_adam:
            group = self.optimizer.param_groups[0]
            rates = [group["lr"], *group["betas"], group["eps"], self.config.max_grad_norm]
            for index, value in enumerate(rates):
                _write(self.buffers.rates[index], value)


def unprofitable(net: ActorCritic, config: ActorCriticConfig, spec: LearnerSpec) -> str:
    """Return why gradients in kernels, with the time to compile them, make a training longer; "" if they do not.

    On one thread of a CPU, updates in kernels took 0.07 to 0.61 of PyTorch's time for all sizes measured: 4 to 512
    inputs, 1 to 3 layers of 16 to 128 units, minibatches of 64 to 4,096 rows.
    """
    device = torch.device(spec.device).type
    reason = "" if device == "cpu" else f"gradients in kernels are not measured on {device}"
    return short_training(net, config, spec) or reason


def unprofitable_rollouts(net: ActorCritic, config: ActorCriticConfig, spec: LearnerSpec) -> str:
    """Return why rollouts in kernels make a training with PyTorch's gradients longer; an empty string if they do not.

    On one thread of a CPU they made training iterations of PPO on SimpleTag-v0 1.16 times as fast, median of 12 pairs,
    which takes long to make up for the time to compile them. On a GPU they save most launches; no GPU has run them yet.
    """
    if torch.device(spec.device).type == "cpu":
        return "PyTorch's gradients take most of the time"
    return short_training(net, config, spec)


def short_training(net: ActorCritic, config: ActorCriticConfig, spec: LearnerSpec) -> str:
    """Return that a training is too short to compile kernels for it, or an empty string."""
    parameters, epochs = sum(parameter.numel() for parameter in net.parameters()), getattr(config, "num_epochs", 1)
    operations = 6 * parameters * epochs * spec.num_agents * spec.total_steps * spec.num_trainings
    return "a short training" if operations < MIN_TRAINING_OPERATIONS else ""


def _write(target: Tensor, value: Tensor | float) -> None:
    """Set a scalar on the device without a copy from the host, which a CUDA graph cannot hold."""
    if isinstance(value, Tensor):
        target.copy_(value)
    else:
        target.fill_(value)
