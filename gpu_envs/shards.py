"""Several devices in one process: one core per device, together behind the interface of one."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from gpu_envs.core import Core
from gpu_envs.errors import ActionError, ConfigError

_LIVE = ("obs", "reward", "terminated", "truncated", "alive", "valid", "final_obs", "steps")


class ShardedCore:
    """Worlds split evenly over devices; tensors come and go on the first one.

    Every shard keeps the global indices of its worlds (``env_offset``), so the worlds play as they would in one core.
    Steps are queued on all devices before the first result is gathered. Gathering copies: results are always safe to
    keep and cannot be captured in a CUDA graph; for the last bit of speed use ``shards``, each with its own learner.

    Args:
        make_shard: ``make_shard(num_envs, device, env_offset)`` gives one core.
        num_envs: Worlds in all, at least one per device.
        devices: Where the shards live.
    """

    def __init__(
        self, make_shard: Callable[[int, torch.device, int], Core], num_envs: int, devices: Sequence[torch.device]
    ) -> None:
        if num_envs < len(devices):
            raise ConfigError(f"num_envs must be at least the number of devices, {len(devices)}, got {num_envs}")
        edges = [num_envs * part // len(devices) for part in range(len(devices) + 1)]
        self._spans = [slice(first, end) for first, end in pairwise(edges)]
        self.shards = [
            make_shard(span.stop - span.start, device, span.start)
            for span, device in zip(self._spans, devices, strict=True)
        ]
        self.num_envs = num_envs
        self.device = self.shards[0].device
        self.reuse_buffers = False
        buffer = self.shards[0].action_buffer
        self.action_buffer = torch.zeros((num_envs, *buffer.shape[1:]), dtype=buffer.dtype, device=self.device)

    def __getattr__(self, name: str) -> Any:
        """Live buffers are gathered; what all shards share is the first one's."""
        if name == "shards":  # asked for before __init__ has set it, as copy and pickle do
            raise AttributeError(name)
        if name in _LIVE:
            return self._gather([getattr(shard, name) for shard in self.shards])
        return getattr(self.shards[0], name)

    def reset(
        self, seed: int | torch.Tensor | None = None, mask: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """See :meth:`gpu_envs.core.Core.reset`."""
        seeds = self._split(seed) if isinstance(seed, torch.Tensor) else [seed] * len(self.shards)
        masks = [None] * len(self.shards) if mask is None else self._split(mask)
        results = [shard.reset(s, m) for shard, s, m in zip(self.shards, seeds, masks, strict=True)]
        return self._gather([obs for obs, _ in results]), self._gather_dicts([info for _, info in results])

    def step(
        self, action: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        """See :meth:`gpu_envs.core.Core.step`."""
        results, refused = [], None
        for shard, part in zip(self.shards, self._split(action), strict=True):
            try:
                results.append(shard.step(part))
            except ActionError as error:  # the shard has stepped; let the others keep pace before it is told
                refused = refused or error
        if refused is not None:
            raise refused
        obs, reward, terminated, truncated = (self._gather([result[k] for result in results]) for k in range(4))
        return obs, reward, terminated, truncated, self._gather_dicts([result[4] for result in results])

    def sample_actions(self) -> torch.Tensor:
        """See :meth:`gpu_envs.core.Core.sample_actions`."""
        return self._gather([shard.sample_actions() for shard in self.shards])

    def state(self) -> torch.Tensor:
        """See :meth:`gpu_envs.core.Core.state`."""
        return self._gather([shard.state() for shard in self.shards])

    def get_state(self) -> dict[str, torch.Tensor]:
        """Entries of every shard under ``shard<k>.``; see :meth:`gpu_envs.core.Core.get_state`."""
        return {
            f"shard{k}.{name}": tensor
            for k, shard in enumerate(self.shards)
            for name, tensor in shard.get_state().items()
        }

    def set_state(self, state: dict[str, torch.Tensor]) -> None:
        """Put back what :meth:`get_state` gave."""
        for k, shard in enumerate(self.shards):
            head = f"shard{k}."
            shard.set_state(
                {name.removeprefix(head): tensor for name, tensor in state.items() if name.startswith(head)}
            )

    def set_params(self, **values: float | torch.Tensor) -> None:
        """See :meth:`gpu_envs.core.Core.set_params`."""
        for shard, span in zip(self.shards, self._spans, strict=True):
            part = {n: v[span] if isinstance(v, torch.Tensor) and v.ndim else v for n, v in values.items()}
            shard.set_params(**part)

    def frame(self, envs: tuple[int, ...] = (0,), size: int = 256) -> np.ndarray:
        """See :meth:`gpu_envs.core.Core.frame`."""
        frames = []
        for env in envs:
            k = next(k for k, span in enumerate(self._spans) if span.start <= env < span.stop)
            frames.append(self.shards[k].frame((env - self._spans[k].start,), size))
        return np.concatenate(frames)

    def check(self) -> None:
        """See :meth:`gpu_envs.core.Core.check`."""
        for shard in self.shards:
            shard.check()

    def close(self) -> None:
        """Close every shard."""
        for shard in self.shards:
            shard.close()

    def _split(self, tensor: Any) -> list[torch.Tensor]:
        if not isinstance(tensor, torch.Tensor) or len(tensor) != self.num_envs:
            self.shards[0]._check_tensor(
                "a batched argument", tensor, (self.num_envs, *self.action_buffer.shape[1:]), self.action_buffer.dtype
            )
        return [
            tensor[span].to(shard.device, non_blocking=True)
            for span, shard in zip(self._spans, self.shards, strict=True)
        ]

    def _gather(self, parts: list[torch.Tensor]) -> torch.Tensor:
        return torch.cat([part.to(self.device, non_blocking=True) for part in parts])

    def _gather_dicts(self, parts: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        return {name: self._gather([part[name] for part in parts]) for name in parts[0]}
