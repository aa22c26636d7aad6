"""Launches of the kernels of an update, on the threads of a CPU or on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from time import perf_counter
from typing import Any

import torch
import warp as wp
from torch import Tensor

import warp_kernels
from gpu_envs.runtime.item_launch import ItemLaunches
from gpu_envs.runtime.rollout.packed_weights import tile_rows
from gpu_envs.runtime.thread_pool import ThreadingHeuristic
from gpu_envs.utils.devices import warp_array
from trainers.algorithms.on_policy.actor_critic import ActorCriticConfig
from trainers.algorithms.on_policy.kernel_buffers import KernelBuffers
from trainers.algorithms.on_policy.objective import Objective
from trainers.buffers.rollout_buffer import RolloutBuffer
from warp_kernels.framework.acting import PolicyKind
from warp_kernels.networks.advantages import ROWS_PER_ITEM, GaeData, build_advantages, build_values
from warp_kernels.networks.distributions import distribution_of
from warp_kernels.networks.gradient import MAX_CHUNKS, Minibatches, build_gradient
from warp_kernels.networks.losses import RowData, policy_head, value_head
from warp_kernels.networks.mlp import LANES
from warp_kernels.networks.optimizer import Adam, build_epoch, build_optimizer
from warp_kernels.networks.tile_memory import BLOCK_DIM
from warp_kernels.networks.tiles import build_tile_forward, build_tile_gradient

MINIBATCH = 3  # argument of the kernels of one minibatch, and the number of minibatches of an epoch


class _recorded(cached_property[Any]):
    """Launches that are recorded at their first use, by one thread at a time."""

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        with warp_kernels.building:
            return super().__get__(instance, owner)


class KernelLaunches:
    """Recorded launches of an update: values and advantages of a rollout, and gradient steps.

    On a CPU one thread takes all gradient steps of an epoch in one launch, or several threads share every minibatch,
    whichever was faster. Both compute the same bits.
    """

    def __init__(
        self,
        config: ActorCriticConfig,
        rollout: RolloutBuffer,
        kind: PolicyKind,
        buffers: KernelBuffers,
        objective: Objective,
        threads: int,
    ) -> None:
        """Set what the kernels work on; arguments as in `KernelEngine`."""
        self.config: ActorCriticConfig = config
        self.rollout: RolloutBuffer = rollout
        self.kind: PolicyKind = kind
        self.buffers: KernelBuffers = buffers
        self.objective: Objective = objective
        self.device: torch.device = rollout.device
        warp_kernels.start()
        self.threads: int = threads if self.device.type == "cpu" else 1
        self._tile_rows = [tile_rows(network.mlp, self.device) for network in buffers.networks]
        self._heuristic = ThreadingHeuristic()
        self._addresses: tuple[int, ...] = ()

    def value(self, slots: int) -> None:
        """Normalize and value the observations of the rollout, and `slots` final ones; estimate the advantages."""
        self._follow_rollout()
        rows = self._tile_rows[1] or ROWS_PER_ITEM
        self._values.run(-(-len(self.buffers.inputs) // rows))
        if slots:
            self._final_values.run(-(-slots // rows))
        self._advantages.run(self.rollout.rows_per_step)

    def gradient(self, minibatch: int, size: int, parallel: bool | None = None) -> None:
        """Compute the gradients of a minibatch of `size` rows as the sum over its chunks."""
        chunks = min(max(size // 128, 1), MAX_CHUNKS)  # at least as many as there are
        self._gradients.set_param(MINIBATCH, minibatch)
        self._gradients.run(chunks, chunks, parallel=parallel)
        self._run_on_slices(self._optimizer[:1], minibatch)

    def adam(self, minibatch: int) -> None:
        """Take a step of Adam with the gradients of a minibatch, if `KernelBuffers.active` is set."""
        self._run_on_slices(self._optimizer[1:], minibatch)

    def _run_on_slices(self, sequence: Sequence[ItemLaunches], minibatch: int) -> None:
        for launches in sequence:
            launches.set_param(MINIBATCH, minibatch)
            launches.run(self.buffers.num_slices)

    def epoch(self, sizes: Sequence[int]) -> None:
        """Take a step of Adam on every minibatch, of these numbers of rows."""
        parallel = self.device.type != "cpu" or (self.threads > 1 and self._heuristic.parallel())
        start = perf_counter()
        if parallel:
            for minibatch, size in enumerate(sizes):
                self.gradient(minibatch, size, parallel)
                self.adam(minibatch)
        else:
            self._epoch.set_param(MINIBATCH, len(sizes))
            self._epoch.run(1)
        self._heuristic.record(perf_counter() - start, parallel)

    # ---------------------------------------------------------------- recorded launches

    def _follow_rollout(self) -> None:
        """Forget the launches if a buffer of the rollout has moved."""
        r = self.rollout
        used = [r.all_obs, r.action, r.log_prob, r.reward, r.final_obs, r.mask, r.to_move]
        used += [r.terminated, r.truncated, r.valid, r.final_slot]
        addresses = tuple(0 if tensor is None else tensor.data_ptr() for tensor in used)
        if addresses != self._addresses:
            self._addresses = addresses
            self.buffers.resize_final(r.capacity)
            for name, attribute in vars(type(self)).items():
                if isinstance(attribute, cached_property):
                    vars(self).pop(name, None)

    def _launches(
        self, launches: Sequence[tuple[Any, Sequence[Any]]], threads: int, tiled: bool = False
    ) -> ItemLaunches:
        on_gpu = tiled and self.device.type == "cuda"
        return ItemLaunches(launches, self.device, threads, BLOCK_DIM if on_gpu else 0)

    @_recorded
    def _values(self) -> ItemLaunches:
        b, obs = self.buffers, self.rollout.all_obs.flatten(0, 2)
        return self._launches([self._valuation(obs, b.inputs, b.values, 0)], self.threads, tiled=True)

    @_recorded
    def _final_values(self) -> ItemLaunches:
        b, obs = self.buffers, self.rollout.final_obs
        return self._launches([self._valuation(obs, b.final_inputs, b.final_values, 1)], self.threads, tiled=True)

    def _valuation(self, obs: Tensor, inputs: Tensor, values: Tensor, index: int) -> tuple[Any, list[Any]]:
        b, critic, rows = self.buffers, self.buffers.networks[1], self._tile_rows[1]
        if rows is not None:
            places = [warp_array(tensor) for tensor in (b.counts[index], b.no_rows, obs, inputs, values.view(-1, 1))]
            tiles = -(-len(inputs) // rows)
            return build_tile_forward(critic.mlp, rows, True), [critic.offset, warp_array(b.weights), tiles, *places]
        places = [critic.offset, critic.offset + critic.mlp.normalizer_offset, 0]
        arrays = [warp_array(tensor) for tensor in (self.buffers.weights, obs, inputs, values)]
        return build_values(critic.mlp), [*places, *arrays]

    @_recorded
    def _advantages(self) -> ItemLaunches:
        c, by_turns = self.config, self.rollout.to_move is not None
        inputs = [self._gae_data(), c.gamma, c.gae_lambda, c.reward_scale]
        return self._launches([(build_advantages(by_turns), inputs)], self.threads)

    @cached_property
    def _heads(self) -> tuple[tuple[Any, str], tuple[Any, str]]:
        """Losses of policy and critic, each with its name."""
        actor, critic = self.buffers.networks
        head, settings, kind = self.objective.kernel_head, self.objective.settings, type(self.objective)
        assert head is not None
        masked = self.rollout.mask is not None
        distribution = distribution_of(self.kind.head, self.kind.sizes, actor.mlp, masked)
        policy = policy_head(distribution, head, settings, actor.mlp.head_width)
        name = f"{kind.__module__}.{kind.__qualname__}"
        value = value_head(head, settings, critic.mlp.head_width), f"{name} value"
        return (policy, f"{name} {self.kind.head} {self.kind.sizes} {masked}"), value

    @_recorded
    def _gradients(self) -> ItemLaunches:
        kernels = [
            build_gradient(network.mlp, head, name)
            if rows is None
            else build_tile_gradient(network.mlp, head, name, rows)
            for network, (head, name), rows in zip(self.buffers.networks, self._heads, self._tile_rows, strict=True)
        ]
        inputs = [[0, n.offset, n.into, n.sums, self._minibatches] for n in self.buffers.networks]
        return self._launches(list(zip(kernels, inputs, strict=True)), self.threads, tiled=True)

    @_recorded
    def _epoch(self) -> ItemLaunches:
        (policy, key), (value, _) = self._heads
        actor, critic = self.buffers.networks
        kernel = build_epoch(actor.mlp, policy, critic.mlp, value, key)
        places = [wp.vec2i(*(getattr(n, name) for n in (actor, critic))) for name in ("offset", "into", "sums")]
        return self._launches([(kernel, [0, *places, self._minibatches, self._state])], 1)

    @_recorded
    def _optimizer(self) -> tuple[ItemLaunches, ...]:
        """Launches that add chunks, take a step of Adam, and copy matrices."""
        inputs = [0, self._minibatches, self._state]
        return tuple(self._launches([(kernel, inputs)], 1) for kernel in build_optimizer())

    # ---------------------------------------------------------------- arguments

    @cached_property
    def _minibatches(self) -> Any:
        b, r, batch, rows = self.buffers, self.rollout, Minibatches(), RowData()
        action = r.action.flatten(0, 2)
        action = action.view(len(action), -1)
        setattr(rows, "choice" if action.dtype == torch.int64 else "control", warp_array(action))
        if r.mask is not None:
            rows.mask = warp_array(r.mask.flatten(0, 2))
        rows.log_prob = warp_array(r.log_prob.flatten())
        rows.advantage, rows.returns, rows.value = (warp_array(x) for x in (b.advantage, b.returns, b.values))
        batch.rows = rows
        tensors = {"weights": b.weights, "packed": b.packed, "index": b.index, "begins": b.begins, "scale": b.scale}
        tensors |= {"valid": b.is_known, "x": b.inputs, "settings": b.settings}
        for name, tensor in tensors.items():
            setattr(batch, name, warp_array(tensor))
        return batch

    @cached_property
    def _state(self) -> Any:
        b, adam = self.buffers, Adam()
        vector = wp.types.vector(length=LANES, dtype=wp.float32)
        adam.gradients = b.num_gradients // LANES
        for name in ("packed", "total", "sums", "weights", "moments", "squared_moments"):
            tensor = getattr(b, name)
            setattr(adam, name, warp_array(tensor.view(len(tensor), -1, LANES), dtype=vector))
        for name in ("squares", "norms", "segments", "steps", "rates", "active", "targets", "sources"):
            setattr(adam, name, warp_array(getattr(b, name)))
        adam.numbers = warp_array(b.weights)
        return adam

    def _gae_data(self) -> Any:
        b, r, data = self.buffers, self.rollout, GaeData()
        steps = r.length
        tensors = {name: getattr(r, name) for name in ("reward", "terminated", "truncated", "valid", "final_slot")}
        tensors |= {} if r.to_move is None else {"to_move": r.to_move}
        for name, tensor in tensors.items():
            setattr(data, name, warp_array(tensor.flatten(1), name=f"rollout.{name}"))
        data.value, data.final_value = warp_array(b.values.view(steps + 1, -1)), warp_array(b.final_values)
        for name, tensor in (("advantage", b.advantage), ("returns", b.returns), ("known", b.is_known)):
            setattr(data, name, warp_array(tensor.view(steps, -1)))
        return data
