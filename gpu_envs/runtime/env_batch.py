"""A batch of worlds: buffers, launches, environment parameters, saved state and rendered frames."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from gymnasium import spaces

import warp_kernels
from gpu_envs.definition.env_summary import env_summary
from gpu_envs.definition.environment import EnvDefinition
from gpu_envs.errors import CaptureError, CheckpointError, ConfigError, ResetNeededError
from gpu_envs.runtime import parameters, state_validation
from gpu_envs.runtime.buffers import EnvBuffers
from gpu_envs.runtime.episode_recorder import Episode, EpisodeRecorder
from gpu_envs.runtime.illegal_actions import IllegalActions
from gpu_envs.runtime.kernels import available_cores, choose_schedule, choose_threads
from gpu_envs.runtime.launcher import KernelLauncher
from gpu_envs.runtime.seeding import int_key, write_keys
from gpu_envs.runtime.validation import changed_numbers, check_core_settings
from gpu_envs.utils.devices import current_device_kept, host_view
from gpu_envs.utils.settings import check_value
from gpu_envs.utils.summaries import Summarized, Summary
from gpu_envs.utils.tensor_checks import check_frame, check_worlds
from warp_kernels import episode

__all__ = ["REUSE", "EnvBatch"]

REUSE = "a step allocates its results; make(..., reuse_buffers=True) to put it into a CUDA graph"
"""Reason of a `CaptureError`."""
INTERRUPTED = "after an exception has interrupted a call, which may be half done"
"""Reason of a `ResetNeededError`."""


class EnvBatch(Summarized):
    """Everything of a :class:`~gpu_envs.runtime.core.Core` except for stepping; see there for the arguments."""

    _recorders: Sequence[EpisodeRecorder] = ()
    _last_rollout: Any = None

    @torch.inference_mode(False)  # tensors created in inference mode could not be written outside of it
    def __init__(
        self,
        definition: EnvDefinition,
        *,
        env_id: str,
        config: Any,
        num_envs: int,
        device: torch.device,
        autoreset: str = "same_step",
        reuse_buffers: bool = False,
        seed: int | None = None,
        env_offset: int = 0,
        illegal_actions: str = "error",
        schedule: str | None = None,
        threads: int | None = None,
        block_dim: int | None = None,
        fuse_fp: bool | None = None,
        env_contiguous: bool = False,
        domain_randomization: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        rules = definition.rules
        reuse_buffers = check_value(env_id, "reuse_buffers", reuse_buffers, bool)
        env_contiguous = check_value(env_id, "env_contiguous", env_contiguous, bool)
        fuse_fp = check_value(env_id, "fuse_fp", fuse_fp, bool | None)
        self.domain_randomization: dict[str, tuple[float, float]] = parameters.check_ranges(
            env_id, definition, config, domain_randomization
        )
        check_core_settings(
            env_id, rules, num_envs, autoreset, env_offset, illegal_actions, schedule, threads, block_dim
        )
        self.id = env_id
        self.config = config
        self.definition = definition
        self.num_envs = num_envs
        self.num_agents: int = rules.num_agents
        self.device = device
        self.autoreset = autoreset
        self.reuse_buffers = reuse_buffers
        self.env_offset = env_offset
        self.illegal_actions = illegal_actions
        self.possible_agents: tuple[str, ...] = definition.agents
        self.groups: dict[str, tuple[int, ...]] = definition.groups
        self.observation_spaces: dict[str, spaces.Box] = definition.flat_spaces
        self.action_spaces: dict[str, spaces.Space[Any]] = definition.action_spaces
        self.render_fps: int = definition.render_fps
        self.schedule: str = schedule or choose_schedule(self.num_agents, device)
        self.threads = (threads or choose_threads(num_envs, self.num_agents, device)) if device.type == "cpu" else 1
        self.threads: int = min(self.threads, num_envs)
        self.block_dim = block_dim
        self.fuse_fp: bool
        self.fuse_fp = fuse = device.type == "cuda" if fuse_fp is None else fuse_fp
        rollout_threads = (threads or available_cores()) if device.type == "cpu" else 1
        self._launcher = KernelLauncher(
            rules, self.schedule, fuse, num_envs, self.threads, rollout_threads, device, block_dim
        )
        slots, ranges = self._launcher.num_slots, self.domain_randomization
        try:
            buffers = self._buffers = EnvBuffers(definition, num_envs, slots, device, env_contiguous, ranges)
        except ConfigError as error:
            given = ", ".join(filter(None, (f"num_envs={num_envs}", changed_numbers(config))))
            raise ConfigError(f"{env_id}: {error}; the settings are {given}") from error
        io = self._io = buffers.io
        self._reset_rows = {name: host_view(io[name]) for name in ("restart", "step", "seed", "world", "episode")}
        self._indices = torch.arange(env_offset, env_offset + num_envs, dtype=torch.int32, device=device)
        self._host_indices = host_view(self._indices)
        self.obs_width: int = buffers.width
        self.action_kind: str = buffers.action_kind
        self.num_choices: torch.Tensor = buffers.num_choices
        self.obs: torch.Tensor
        self.reward: torch.Tensor
        self.terminated: torch.Tensor
        self.truncated: torch.Tensor
        self.obs, self.reward, self.terminated, self.truncated = buffers.results[:4]
        self.alive: torch.Tensor = io["alive"]
        self.valid: torch.Tensor = io["valid"]
        self.final_obs: torch.Tensor = io["final_obs"]
        self.episode_results: torch.Tensor = io["episode_results"]
        self.action_mask: torch.Tensor | None = buffers.info.get("action_mask")
        self.to_move: torch.Tensor | None = buffers.info.get("to_move")
        self._action_shape, self._action_dtype = buffers.action.shape, buffers.action.dtype
        self._on_gpu = device.type == "cuda"
        self._illegal = IllegalActions(env_id, definition, env_offset, io["error"], buffers.action)
        self._error_slots = self._illegal.slots
        self._launcher.bind(buffers.action, buffers.results)
        self._record_launches()
        self._started = False  # nor while a call changes the worlds, see _begin_change
        self._why_reset = "before the first reset"  # while not started
        self._closed = False
        key = int.from_bytes(os.urandom(8), "little") if seed is None else seed
        write_keys(self._reset_rows, int_key(env_id, "seed", key), self._host_indices, None)

    def __getstate__(self) -> NoReturn:
        """Raise an error: a core is bound to the memory and launches of its device."""
        raise CheckpointError(
            f"{self.id}: a core can be neither pickled nor copied; make another with the same settings, "
            "then set_state(core.get_state())"
        )

    def _summary(self) -> Summary:
        return env_summary(self.id, self.definition, self.config, worlds=self.num_envs, device=self.device)

    @torch.inference_mode(False)
    def keep_final_state(self) -> None:
        """Keep the last global state of episodes from the next step on, for `final_state`.

        Steps become slower by the global state of worlds where an episode ends. It does nothing where the global state
        is made of observations, whose last ones are always kept. Graphs captured before must be captured again.
        """
        self._check_open()
        if self._launcher.program.global_state and not self._launcher.rules.keeps_final_state:
            self._buffers.add_final_state()
            self._launcher.keep_final_state()
            self._record_launches()

    def _record_launches(self) -> None:
        """Record the launches; needed again only when the memory of an argument moves."""
        with warp_kernels.building, current_device_kept(self.device):
            structs = self._buffers.structs(self.autoreset, self.illegal_actions)
            self._launcher.set_arguments(*structs)

    # ---------------------------------------------------------------- state and parameters

    def get_state(self) -> dict[str, torch.Tensor]:
        """Return a copy of all data that later steps depend on: State, clocks, seeds, flags, returns, parameters.

        Entries are "params" (1, F) or (E, F), "state.*" (E, ...), and "io.*" of the shapes in
        ``warp_kernels.episode.IO``.

        Raises:
            ResetNeededError: An exception, as of a signal handler, has interrupted a call.
        """
        if self._why_reset == INTERRUPTED:
            self._check_ready("get_state()")
        state = {name: tensor.clone() for name, tensor in self._buffers.saved_tensors().items()}
        return state | {"params": self._buffers.params.clone()}

    def set_state(self, state: dict[str, torch.Tensor]) -> None:
        """Restore a state that :meth:`get_state` of this or an equally configured core returned.

        Raises:
            CheckpointError: An entry is missing, unknown, or has a wrong shape, dtype or value. Nothing has changed
                then.
            ResetNeededError: The environment is closed.
        """
        self._check_open()
        self.check_state(state)
        self._load_state(state)

    def check_state(self, state: dict[str, torch.Tensor]) -> None:
        """Raise the CheckpointError that :meth:`set_state` would raise, see there for the state; change nothing."""
        state_validation.check(self.id, self._buffers, self.config, state_validation.upgraded(state, self._indices))

    def check_episode(self, recorded: Episode) -> None:
        """Raise an error if a recorded episode, such as one read from a file, does not fit this environment.

        Raises:
            CheckpointError: An entry is missing, unknown, or has a wrong shape, dtype or value.
        """
        state_validation.check_episode(self.id, self._buffers, recorded.tensors(), len(recorded))

    @property
    def is_recording(self) -> bool:
        """Whether episodes are recorded, so that every step returns to Python."""
        return any(not recorder.closed for recorder in self._recorders)

    def _load_state(self, state: Mapping[str, torch.Tensor]) -> None:
        """Copy a state that has been checked."""
        self._begin_change()
        state = state_validation.upgraded(state, self._indices)
        for name, tensor in self._buffers.saved_tensors().items():
            if name in state or name not in self._buffers.shows_results:
                tensor.copy_(state[name])
        self._load_params(state["params"].to(self.device))
        self._started = True

    def set_params(self, **values: float | torch.Tensor) -> None:
        """Change environment parameters for the whole batch (a number) or per world (a tensor (E,)).

        The first per-world value moves the parameters to new memory: captured CUDA graphs must be captured again.

        Raises:
            ConfigError: An unknown or fixed name, a tensor of another shape, or a value that is not finite, not an
                int where one is needed, or outside the limits of the setting of this name.
        """
        self._load_params(self._changed_params(values))

    def get_params(self, envs: int | Sequence[int] | torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """Return the environment parameters by name, each (1,) or (E,); of the worlds ``envs`` (indices), each (W,).

        Raises:
            ConfigError: An index is out of range.
        """
        rows = None if envs is None else torch.tensor(check_worlds(self.id, envs, self.num_envs), device=self.device)
        return parameters.read(self.definition, self._buffers.params, self.num_envs, rows)

    def _changed_params(self, values: Mapping[str, Any]) -> torch.Tensor:
        """Return the table of parameters with other values, after all checks of :meth:`set_params`."""
        self._check_open()
        return parameters.changed(
            self.id,
            self.definition,
            self.config,
            self._buffers.params,
            values,
            num_envs=self.num_envs,
            randomized=self.domain_randomization,
        )

    @torch.inference_mode(False)
    def _load_params(self, table: torch.Tensor) -> None:
        """Copy a table of parameters (1, F) or (E, F)."""
        if table.shape == self._buffers.params.shape:
            self._buffers.params.copy_(table)
        else:
            self._buffers.params = table.clone(memory_format=torch.contiguous_format)
            self._record_launches()

    # ---------------------------------------------------------------- live tensors and frames

    @property
    def world_state(self) -> dict[str, torch.Tensor]:
        """State of the rules by field, (E, ...), live; for rendering, scripted agents and tests."""
        return self._buffers.state

    @property
    def action_buffer(self) -> torch.Tensor:
        """Buffer that kernels read actions from, (E, A) or (E, A, K).

        A policy may write its actions here and pass the buffer to ``step``, which then skips a copy.
        """
        return self._buffers.action

    @property
    def block_dims(self) -> dict[str, tuple[int, ...]]:
        """Threads per block of every GPU kernel, in order, by kind of launch: "step", "reset", ...; empty on a CPU."""
        return self._launcher.block_dims

    @property
    def elapsed_steps(self) -> torch.Tensor:
        """Steps taken in the current episodes, (E,) int32, live; ``reset(elapsed_steps=)`` sets them."""
        return self._io["step"]

    @property
    def episode_index(self) -> torch.Tensor:
        """Index of the current episodes in their random streams, from 0; (E,) int32, live."""
        return self._io["episode"]

    def render_frames(self, envs: int | Sequence[int] = (0,), size: int = 256) -> np.ndarray:
        """Draw worlds as frames of ``size`` pixels a side: uint8 (W, size, size, 3).

        Args:
            envs: Indices of the worlds, or one index.
            size: Side of a frame [pixels].

        Raises:
            ConfigError: An index is out of range, the size is below 1, or the frames take more than 2 GiB.
            ResetNeededError: The environment was not reset, or is closed.
        """
        from gpu_envs.rendering.scene import rasterize

        self._check_open()
        self._check_ready("nothing to draw")
        worlds, side = check_frame(self.id, envs, self.num_envs, size)
        rows = torch.as_tensor(worlds, device=self.device)
        return rasterize(self.definition.draw(self, rows), side).cpu().numpy()

    # ---------------------------------------------------------------- errors and the end

    def raise_pending_errors(self) -> None:
        """Raise the error of an earlier illegal action that a GPU has reported; waits for the device."""
        if self._on_gpu:
            self._illegal.copy_to_host(wait=True)
        if min(self._error_slots) != episode.NO_ERROR:
            self._illegal.raise_error(None)

    def close(self) -> None:
        """Raise pending errors and refuse further use."""
        if not self._closed:
            self._closed = True
            self.raise_pending_errors()

    def _mark_reset(self, keys: torch.Tensor | int | None, clock: torch.Tensor | int) -> None:
        """Write what the kernel of a reset reads: all worlds start an episode at step counts (E,), with keys (E,)."""
        self._reset_rows["restart"][:], self._reset_rows["step"][:] = True, clock
        if keys is not None:
            write_keys(self._reset_rows, keys, self._host_indices, None)

    def _check_open(self) -> None:
        if self._closed:
            raise ResetNeededError(f"{self.id}: this environment is closed; make a new one")

    def _check_ready(self, call: str) -> None:
        """Raise a ResetNeededError if the environment was not reset, or if an exception interrupted a call."""
        if not self._started:
            raise ResetNeededError(f"{self.id}: {call} {self._why_reset}; call reset() first")

    def _begin_change(self) -> None:
        """Note that the worlds change until ``_started`` is True again.

        A signal handler may raise an exception at any line in between, for example between two launches of a step.
        """
        self._why_reset = INTERRUPTED
        self._started = False

    def _returned(self, buffer: torch.Tensor) -> torch.Tensor:
        """Return a buffer, or a clone of it unless buffers are reused."""
        return buffer if self.reuse_buffers else buffer.clone()

    def _look_for_errors(self) -> None:
        """Raise the error of an illegal action that was reported so far, without waiting for the device."""
        if self._on_gpu and self._is_capturing():
            if not self.reuse_buffers:
                raise CaptureError(f"{self.id}: {REUSE}")
        elif min(self._error_slots) != episode.NO_ERROR:
            self._illegal.raise_error(None)

    def _is_capturing(self) -> bool:
        with torch.cuda.device(self.device):  # torch asks the stream of the current device
            return torch.cuda.is_current_stream_capturing()
