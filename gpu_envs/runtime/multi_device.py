"""One core per device, behind the interface of a single core."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch

from gpu_envs.definition.env_summary import env_summary
from gpu_envs.errors import ActionError, CaptureError, CheckpointError, ConfigError, shown
from gpu_envs.runtime.core import Core, Seed
from gpu_envs.runtime.episode_recorder import Episode
from gpu_envs.runtime.seeding import seed_keys
from gpu_envs.runtime.validation import check_elapsed
from gpu_envs.utils.settings import MAX_INT, check_value
from gpu_envs.utils.summaries import Summarized, Summary
from gpu_envs.utils.tensor_checks import check_frame, check_tensor, check_worlds, plain
from gpu_envs.utils.world_split import split_worlds

__all__ = ["LIVE", "SHARED", "MultiDeviceCore"]

T = TypeVar("T")

LIVE = (
    "obs",
    "reward",
    "terminated",
    "truncated",
    "alive",
    "valid",
    "final_obs",
    "episode_results",
    "elapsed_steps",
    "episode_index",
    "action_mask",
    "to_move",
)
"""Buffers of a core that are gathered at every access."""
SHARED = (
    "domain_randomization",
    "id",
    "config",
    "definition",
    "possible_agents",
    "num_agents",
    "groups",
    "observation_spaces",
    "action_spaces",
    "obs_width",
    "action_kind",
    "num_choices",
    "autoreset",
    "illegal_actions",
    "env_offset",
    "schedule",
    "threads",
    "fuse_fp",
    "is_recording",
    "block_dim",
    "block_dims",
    "render_fps",
)
"""Attributes that are equal for all shards; those of the first one are returned."""


class MultiDeviceCore(Summarized):
    """Worlds split evenly over devices, with actions and results on the first one.

    Every shard keeps the global indices of its worlds (``env_offset``), so worlds play as they would in one core.
    Steps are queued on all devices before the first result is gathered. Gathering copies: results stay valid, writing
    into them changes nothing, and they cannot be captured in a CUDA graph. For the highest speed use ``shards``, each
    with its own learner.

    Args:
        env_id: ID of the environment, for messages.
        make_shard: ``make_shard(num_envs, device, env_offset)`` returns one core.
        num_envs: Total number of worlds, at least one per device.
        devices: Devices of the shards.
    """

    def __init__(
        self,
        env_id: str,
        make_shard: Callable[[int, torch.device, int], Core],
        num_envs: int,
        devices: Sequence[torch.device],
    ) -> None:
        num_envs = check_value(env_id, "num_envs", num_envs, int, ge=len(devices))  # at least one world per device
        self._spans = [slice(first, end) for first, end in split_worlds(num_envs, len(devices))]
        self.shards: list[Core] = [
            make_shard(span.stop - span.start, device, span.start)
            for span, device in zip(self._spans, devices, strict=True)
        ]
        self.num_envs = num_envs
        self.device: torch.device = self.shards[0].device
        self.reuse_buffers = False
        buffer = self.shards[0].action_buffer
        self.action_buffer: torch.Tensor = torch.zeros(
            (num_envs, *buffer.shape[1:]), dtype=buffer.dtype, device=self.device
        )

    def _summary(self) -> Summary:
        devices = ", ".join(str(shard.device) for shard in self.shards)
        return env_summary(self.id, self.definition, self.config, worlds=self.num_envs, devices=devices)

    def __getattr__(self, name: str) -> Any:
        """Gather live buffers; return shared attributes of the first shard."""
        if name in LIVE:
            parts = [getattr(shard, name) for shard in self.shards]
            return None if parts[0] is None else self._gather(parts)
        if name in SHARED:
            return getattr(self.shards[0], name)
        raise AttributeError(f"a sharded core has no {name!r}; its .shards, one core per device, may have")

    def reset(
        self,
        seed: Seed | None = None,
        reset_mask: torch.Tensor | None = None,
        *,
        elapsed_steps: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """See :meth:`gpu_envs.runtime.core.Core.reset`."""
        like = torch.empty(self.num_envs, dtype=torch.int64, device=self.device)
        keys = None if seed is None else seed_keys(self.id, seed, like)
        if reset_mask is not None:
            self._check("reset_mask", reset_mask, (self.num_envs,), torch.bool)
        limit = self.definition.max_episode_steps
        clock = check_elapsed(self.id, elapsed_steps, reset_mask, limit, self.elapsed_steps)
        own_keys, masks, clocks = map(self._parts, (keys, reset_mask, clock))
        self._each(lambda k: self.shards[k]._prepare_reset(masks[k], elapsed_steps))  # all are reset, or none
        self._begin_change()
        results = self._each(lambda k: self.shards[k]._reset_unchecked(own_keys[k], masks[k], clocks[k]))
        return self._gather([obs for obs, _ in results]), self._gather_dicts([info for _, info in results])

    def step(
        self, action: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        """See :meth:`gpu_envs.runtime.core.Core.step`."""
        self._check("action", action, tuple(self.action_buffer.shape), self.action_buffer.dtype)
        actions = self._split(action)
        self._each(lambda k: self.shards[k]._prepare_step())  # all shards step, or none
        self._begin_change()
        return self._gather_steps(self._each(lambda k: self.shards[k]._step_unchecked(actions[k])))

    def step_in_place(self) -> None:
        """See :meth:`gpu_envs.runtime.core.Core.step_in_place`."""
        self.step(self.action_buffer)

    def random_rollout(
        self, num_steps: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        """See :meth:`gpu_envs.runtime.core.Core.random_rollout`."""
        num_steps = check_value(self.id, "num_steps", num_steps, int, ge=1, le=MAX_INT)
        self._each(lambda k: self.shards[k]._prepare_step())  # all shards play, or none
        self._begin_change()
        return self._gather_steps(self._each(lambda k: self.shards[k]._random_rollout_unchecked(num_steps)))

    def _gather_steps(
        self, results: list[tuple]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        return (
            self._gather([result[0] for result in results]),
            self._gather([result[1] for result in results]),
            self._gather([result[2] for result in results]),
            self._gather([result[3] for result in results]),
            self._gather_dicts([result[4] for result in results]),
        )

    def capture(self, *_: Any, **__: Any) -> NoReturn:
        """Raise a CaptureError: gathering allocates, and a CUDA graph belongs to one device."""
        raise CaptureError(f"{self.id}: a sharded core cannot be captured; capture each of its .shards")

    def rollout(self, *_: Any, **__: Any) -> NoReturn:
        """Raise a ConfigError: rollouts with policies run on one device."""
        raise ConfigError(f"{self.id}: a sharded core plays no rollouts with policies; roll out each of its .shards")

    def record_episodes(self, *_: Any, **__: Any) -> NoReturn:
        """Raise a ConfigError: an episode recorder works on one device."""
        raise ConfigError(f"{self.id}: a sharded core cannot be recorded; record worlds of its .shards")

    def check_episode(self, recorded: Episode) -> None:
        """See :meth:`gpu_envs.runtime.core.Core.check_episode`."""
        self.shards[0].check_episode(recorded)

    def sample_actions(self) -> torch.Tensor:
        """See :meth:`gpu_envs.runtime.core.Core.sample_actions`."""
        return self._gather([shard.sample_actions() for shard in self.shards])

    def state(self) -> torch.Tensor:
        """See :meth:`gpu_envs.runtime.core.Core.state`."""
        return self._gather([shard.state() for shard in self.shards])

    def keep_final_state(self) -> None:
        """See :meth:`gpu_envs.runtime.core.Core.keep_final_state`."""
        self._each(lambda k: self.shards[k].keep_final_state())

    def final_state(self) -> torch.Tensor:
        """See :meth:`gpu_envs.runtime.core.Core.final_state`."""
        return self._gather([shard.final_state() for shard in self.shards])

    @property
    def world_state(self) -> dict[str, torch.Tensor]:
        """Copies of the State of the rules by field: (E, ...)."""
        return self._gather_dicts([shard.world_state for shard in self.shards])

    def get_state(self) -> dict[str, torch.Tensor]:
        """Return the entries of every shard under ``shard<k>.``; see :meth:`gpu_envs.runtime.core.Core.get_state`."""
        return {
            f"shard{k}.{name}": tensor
            for k, shard in enumerate(self.shards)
            for name, tensor in shard.get_state().items()
        }

    def set_state(self, state: dict[str, torch.Tensor]) -> None:
        """Restore a state that :meth:`get_state` returned; see :meth:`gpu_envs.runtime.core.Core.set_state`.

        Raises:
            CheckpointError: The number of shards differs, or an entry does not fit. Nothing has changed then.
        """
        self.check_state(state)
        self._begin_change()
        for k, shard in enumerate(self.shards):
            shard._load_state(_of_shard(state, k))

    def check_state(self, state: dict[str, torch.Tensor]) -> None:
        """Raise the CheckpointError that :meth:`set_state` would raise, see there for the state; change nothing."""
        if not isinstance(state, Mapping):
            got = type(state).__name__
            raise CheckpointError(
                f"{self.id}: a state is a dict of tensors by name, got {got}; take it from get_state()"
            )
        if {str(name).partition(".")[0] for name in state} != {f"shard{k}" for k in range(len(self.shards))}:
            count = len(self.shards)
            raise CheckpointError(f"{self.id}: this state is not of {count} shards; use the same devices and num_envs")
        for k, shard in enumerate(self.shards):
            shard.check_state(_of_shard(state, k))

    def get_params(self, envs: int | Sequence[int] | torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """Return the environment parameters per world, each (E,), or (W,) of the worlds ``envs``."""
        per_world = self._gather_dicts(
            [{n: v.expand(shard.num_envs) for n, v in shard.get_params().items()} for shard in self.shards]
        )
        if envs is None:
            return per_world
        rows = torch.tensor(check_worlds(self.id, envs, self.num_envs), device=self.device)
        return {name: values[rows] for name, values in per_world.items()}

    def set_params(self, **values: float | torch.Tensor) -> None:
        """See :meth:`gpu_envs.runtime.core.Core.set_params`, also for its ConfigError."""
        tensors = {}
        for name, given in values.items():
            wanted = f"{self.id}: {name}: expected a number or a tensor ({self.num_envs},)"
            try:
                value = tensors[name] = torch.as_tensor(given)
            except (TypeError, ValueError, RuntimeError):
                raise ConfigError(f"{wanted}, got {shown(given)}") from None
            if not plain(value):
                raise ConfigError(f"{wanted}, got {shown(given)}")
            if value.shape not in ((), (self.num_envs,)):
                raise ConfigError(f"{wanted}, got {tuple(value.shape)}")
        tables = []  # all are checked before one is changed
        for shard, span in zip(self.shards, self._spans, strict=True):
            part = {name: value[span] if value.ndim else value for name, value in tensors.items()}
            tables.append(shard._changed_params(part))
        for shard, table in zip(self.shards, tables, strict=True):
            shard._load_params(table)

    def render_frames(self, envs: int | Sequence[int] = (0,), size: int = 256) -> np.ndarray:
        """See :meth:`gpu_envs.runtime.core.Core.render_frames`."""
        frames = []
        worlds, side = check_frame(self.id, envs, self.num_envs, size)
        for env in worlds:
            k = next(k for k, span in enumerate(self._spans) if span.start <= env < span.stop)
            frames.append(self.shards[k].render_frames((env - self._spans[k].start,), side))
        return np.concatenate(frames)

    def raise_pending_errors(self) -> None:
        """See :meth:`gpu_envs.runtime.core.Core.raise_pending_errors`."""
        self._each(lambda k: self.shards[k].raise_pending_errors())

    def close(self) -> None:
        """Close every shard."""
        self._each(lambda k: self.shards[k].close())

    def _each(self, call: Callable[[int], T]) -> list[T]:
        """Call a function for every shard; raise an ActionError only after all calls, so that shards stay in step."""
        results, first_error = [], None
        for k in range(len(self.shards)):
            try:
                results.append(call(k))
            except ActionError as error:
                first_error = first_error or error
        if first_error is not None:
            raise first_error
        return results

    def _begin_change(self) -> None:
        """Note that the shards change, each until its own part is done: an exception may come between two of them."""
        for shard in self.shards:
            shard._begin_change()

    def _check(self, name: str, value: Any, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        check_tensor(self.id, name, value, shape, dtype, self.device)

    def _parts(self, value: Any) -> list[Any]:
        """Return the parts of a tensor (E, ...) by shard; any other value for every shard."""
        return self._split(value) if isinstance(value, torch.Tensor) else [value] * len(self.shards)

    def _split(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        return [_moved(tensor[span], shard.device) for span, shard in zip(self._spans, self.shards, strict=True)]

    def _gather(self, parts: list[torch.Tensor]) -> torch.Tensor:
        return torch.cat([_moved(part, self.device) for part in parts])

    def _gather_dicts(self, parts: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        return {name: self._gather([part[name] for part in parts]) for name in parts[0]}


def _moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a tensor on a device. Copies between GPUs do not wait; a CPU would read before its copy has ended."""
    return tensor.to(device, non_blocking=tensor.is_cuda and device.type == "cuda")


def _of_shard(state: dict[str, torch.Tensor], k: int) -> dict[str, torch.Tensor]:
    """Return the entries of one shard without their prefix."""
    head = f"shard{k}."
    return {name.removeprefix(head): tensor for name, tensor in state.items() if str(name).startswith(head)}
