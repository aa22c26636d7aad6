"""A batch of ordinary Python environments with the interface of a core."""

from __future__ import annotations

import dataclasses
import os
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.environment import env_summary
from gpu_envs.errors import ActionError, CaptureError, CheckpointError, ConfigError, HostError, ResetNeededError, shown
from gpu_envs.host.batched import BatchedRun, BatchedWorlds, batched_definition
from gpu_envs.host.definition import HostDefinition
from gpu_envs.host.workers import Layout, Share, WorkerPool, shared_buffer
from gpu_envs.host.worlds import CLEAR, RESET, SKIP, STEP, Maker, World, WorldBatch, close_worlds, make_worlds
from gpu_envs.utils.settings import MAX_INT, check_value
from gpu_envs.utils.summaries import Summarized, Summary
from gpu_envs.utils.tensor_checks import check_frame, check_tensor

_INFO = ("valid", "alive", "final_obs", "episode_return", "episode_length")
_KINDS = {spaces.Discrete: "discrete", spaces.MultiDiscrete: "multi_discrete", spaces.Box: "continuous"}
_HOST_ONLY = ("command", "next_seed", "over", "seed", "world", "running_return", "action", "playing")
"""Arrays that are not copied to the device."""


class HostCore(Summarized):
    """A batch of worlds that ordinary Python environments play, with the interface of ``gpu_envs.runtime.core.Core``.

    Shapes and meanings are those of a core. The worlds play on the host; tensors are on ``device``. The seed of an
    episode follows from the seed of the batch, the index of its world and the number of the episode, so that a world
    plays the same in batches of any size. What needs rules in kernels raises a ConfigError or a CaptureError: rollouts
    in kernels, CUDA graphs, recordings, parameters.

    Args:
        maker: Adapter, environment and its settings; or worlds that step at once.
        env_id: ID of the environment, for messages.
        config: Settings of the environment.
        num_envs: Number of worlds E.
        device: Device of all tensors.
        autoreset: "same_step", "next_step" or "disabled".
        reuse_buffers: Return the same buffers from every step, valid until the next one, instead of clones.
        seed: Seed until ``reset(seed=)``; None takes one from the operating system.
        env_offset: Global index of world 0, where this batch is one shard of a larger one.
        illegal_actions: "error" raises `ActionError` before the worlds step; "saturate" clips continuous actions.
        max_episode_steps: Steps after which an episode is truncated; None leaves the ends to the environment.
        workers: Number of processes that play the worlds, at most one per world; 1: this process. The results are the
            same. The function that makes an environment must be one that other processes can import.
        worker_timeout: Longest time that a worker process may take for a step of a world and a reset after it [s].
    """

    captures = False
    """A step cannot be part of a CUDA graph."""
    resumes_episodes = False
    """A restored state starts new episodes."""
    is_recording = False
    """No episodes are recorded."""
    schedule = "host"
    """In place of a schedule of kernels."""
    threads = 1
    """Number of threads that play the worlds."""

    @torch.inference_mode(False)
    def __init__(
        self,
        maker: Maker | BatchedWorlds,
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
        max_episode_steps: int | None = None,
        workers: int = 1,
        worker_timeout: float = 300.0,
    ) -> None:
        num_envs = check_value(env_id, "num_envs", num_envs, int, ge=1, le=MAX_INT)
        self.env_offset: int = check_value(env_id, "env_offset", env_offset, int, ge=0, le=MAX_INT - num_envs)
        choices = ("same_step", "next_step", "disabled")
        self.autoreset: str = check_value(env_id, "autoreset", autoreset, str, choices=choices)
        self.illegal_actions: str = check_value(
            env_id, "illegal_actions", illegal_actions, str, choices=("error", "saturate")
        )
        self.reuse_buffers: bool = check_value(env_id, "reuse_buffers", reuse_buffers, bool)
        self.id, self.config, self.num_envs, self.device = env_id, config, num_envs, device
        self.workers: int = min(check_value(env_id, "workers", workers, int, ge=1, le=MAX_INT), num_envs)
        timeout: float = check_value(env_id, "worker_timeout", worker_timeout, float, gt=0)
        worlds: list[World] = []
        self._finalizer = weakref.finalize(self, close_worlds, worlds)
        if isinstance(maker, tuple):
            worlds += make_worlds(maker, num_envs if self.workers == 1 else 1, env_id)
        definition = worlds[0].definition if isinstance(maker, tuple) else batched_definition(maker)
        limit = check_value(env_id, "max_episode_steps", max_episode_steps, int | None, ge=1, le=MAX_INT) or 0
        if limit and (not definition.max_episode_steps or limit < definition.max_episode_steps):
            definition = dataclasses.replace(definition, max_episode_steps=limit)
        self.definition: HostDefinition = definition
        self.possible_agents: tuple[str, ...] = definition.agents
        self.num_agents: int = len(definition.agents)
        self.groups: dict[str, tuple[int, ...]] = definition.groups
        self.observation_spaces: dict[str, spaces.Box] = definition.flat_spaces
        self.action_spaces: dict[str, spaces.Space[Any]] = definition.action_spaces
        self.render_fps: int = definition.render_fps
        self.domain_randomization: dict[str, tuple[float, float]] = {}
        self.obs_width: int = max(space.shape[0] for space in self.observation_spaces.values())
        self.action_kind: str = _action_kind(env_id, self.action_spaces)
        self._low, self._high, counts = _bounds(self.action_spaces)
        self.num_choices: torch.Tensor = torch.from_numpy(counts)
        self._columns = _unpadded_columns(self.observation_spaces, self.obs_width)

        layout, resets = self._layout(counts), self.autoreset == "same_step"
        self._arrays: dict[str, np.ndarray]
        self._worlds: WorldBatch | WorkerPool
        if self.workers == 1 or not isinstance(maker, tuple):
            arrays = {name: np.zeros(shape, dtype) for name, (shape, dtype) in layout.items()}
            self._arrays = arrays
            if isinstance(maker, tuple):
                self._worlds = WorldBatch(worlds, arrays, resets, limit, env_id)
            else:
                self._worlds = BatchedRun(maker, arrays, resets, limit, env_id)
        else:
            self._finalizer()  # one world was made for its definition
            share = Share(maker, shared_buffer(layout), layout, resets, limit, env_id, range(num_envs))
            self._arrays = share.arrays()
            self._worlds = WorkerPool(share, self.workers, timeout)
        self._finalizer.detach()
        self._finalizer = weakref.finalize(self, self._worlds.close)
        self._tensors = {name: torch.from_numpy(array).to(device) for name, array in self._arrays.items()}
        tensors = self._tensors
        self.obs: torch.Tensor = tensors["obs"]
        self.reward: torch.Tensor = tensors["reward"]
        self.terminated: torch.Tensor = tensors["terminated"]
        self.truncated: torch.Tensor = tensors["truncated"]
        self.alive: torch.Tensor = tensors["alive"]
        self.valid: torch.Tensor = tensors["valid"]
        self.final_obs: torch.Tensor = tensors["final_obs"]
        self.action_buffer: torch.Tensor = tensors["action"]
        self.elapsed_steps: torch.Tensor = tensors["elapsed"]
        self.episode_index: torch.Tensor = tensors["episode"]
        self.episode_results: torch.Tensor = torch.zeros((num_envs, self.num_agents, 0), device=device)
        self.action_mask: torch.Tensor | None = tensors["action_mask"] if definition.has_masks else None
        self.to_move: torch.Tensor | None = tensors["to_move"] if definition.turn_based else None
        names = [*_INFO, *(["action_mask"] if definition.has_masks else [])]
        names += ["to_move"] if definition.turn_based else []
        self._info = {name: tensors[name] for name in names}
        self._started = self._closed = False
        self._write_keys(int.from_bytes(os.urandom(8), "little") if seed is None else seed, None)

    def __getstate__(self) -> NoReturn:
        """Raise an error: the worlds cannot be copied."""
        raise CheckpointError(f"{self.id}: a core can be neither pickled nor copied; make another one")

    def _summary(self) -> Summary:
        definition: Any = self.definition
        return env_summary(self.id, definition, self.config, worlds=self.num_envs, device=self.device)

    def _layout(self, counts: np.ndarray) -> Layout:
        """Return shapes and dtypes of the arrays of the batch by name."""
        e, a, k = self.num_envs, self.num_agents, counts.shape[1]
        n = int(counts.sum(1).max()) if self.definition.has_masks else 0
        action_shape = (e, a) if self.action_kind == "discrete" else (e, a, k)
        return {
            **dict.fromkeys(("obs", "final_obs"), ((e, a, self.obs_width), np.float32)),
            **dict.fromkeys(("reward", "episode_return"), ((e, a), np.float32)),
            "running_return": ((e, a), np.float64),  # sums of many small rewards
            **dict.fromkeys(("terminated", "truncated", "alive", "valid", "to_move"), ((e, a), bool)),
            "action_mask": ((e, a, n), bool),
            "action": (action_shape, np.float32 if self.action_kind == "continuous" else np.int64),
            "episode_length": ((e, a), np.int32),
            "elapsed": ((e,), np.int32),
            "episode": ((e,), np.int32),
            **dict.fromkeys(("seed", "world", "next_seed"), ((e,), np.int64)),
            "over": ((e,), bool),
            "command": ((e,), np.int8),
            "playing": ((e,), np.int64),
        }

    # ---------------------------------------------------------------- episodes and steps

    def reset(
        self, seed: Any = None, reset_mask: torch.Tensor | None = None, *, elapsed_steps: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Start new episodes in all worlds, or only where a mask is True; see ``Core.reset``.

        Raises:
            ResetNeededError: The environment is closed, or a mask is given before the first full reset.
            ConfigError: A seed is not an int of 64 bits, their number is wrong, or step counts are given.
            ActionError: A mask of another shape, dtype or device.
            HostError: A world has raised an error.
        """
        self._check_open()
        if elapsed_steps is not None:
            raise self._cannot("start episodes in their middle", "leave elapsed_steps out")
        mask = np.ones(self.num_envs, bool)
        if reset_mask is not None:
            check_tensor(self.id, "reset_mask", reset_mask, (self.num_envs,), torch.bool, self.device)
            self._check_ready("reset(reset_mask=...)")
            mask = reset_mask.cpu().numpy()
        arrays = self._arrays
        self._worlds.settle()
        if seed is not None:
            self._write_keys(seed, mask)
        self._started = False
        arrays["command"][:] = np.where(mask, RESET, SKIP)
        self._run()
        mask = mask | arrays["over"]  # worlds of a worker that has died have started episodes, too
        arrays["valid"][mask] = False
        self._restart(mask)
        return self._finish()[0], self._results()

    def step(
        self, action: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        """Play one step in every world; see ``Core.step``.

        Raises:
            ActionError: A wrong shape, dtype, device or value; no world has stepped then.
            ResetNeededError: The environment was not reset, or is closed.
            HostError: A world has raised an error, or has left its spaces.
        """
        self._check_open()
        self._check_ready("step")
        buffer = self.action_buffer
        check_tensor(self.id, "action", action, tuple(buffer.shape), buffer.dtype, self.device)
        arrays = self._arrays
        arrays["action"][...] = action.detach().cpu().numpy()
        self._check_values()
        waits = np.asarray(~arrays["alive"].any(1))
        arrays["command"][:] = np.where(waits, RESET if self.autoreset == "next_step" else CLEAR, STEP)
        arrays["valid"][:] = arrays["alive"]
        self._started = False
        self._run()
        self._count(~waits)
        if self.autoreset == "same_step":
            self._restart(arrays["over"])
        elif self.autoreset == "next_step":
            self._restart(waits)
        return (*self._finish(), self._results())

    def random_rollout(self, num_steps: int) -> Any:
        """Play steps of random legal actions and return the results of the last one."""
        num_steps = check_value(self.id, "num_steps", num_steps, int, ge=1, le=MAX_INT)
        for _ in range(num_steps - 1):
            self.step(self.sample_actions())
        return self.step(self.sample_actions())

    def sample_actions(self) -> torch.Tensor:
        """Sample a uniformly random legal action for every agent, (E, A) or (E, A, K), see ``Core.sample_actions``.

        The sample follows from the seed of the world, its episode and its step.
        """
        self._check_open()
        arrays, buffer = self._arrays, self.action_buffer
        shape = (self.num_envs, self.num_agents, self._low.shape[1])
        keys = _mixed(arrays["next_seed"], arrays["elapsed"])[:, None, None]
        components = np.arange(shape[1] * shape[2], dtype=np.uint64).reshape(1, *shape[1:])
        uniform = (_mixed(keys, components) >> np.uint64(11)) * 2.0**-53
        if self.action_kind == "continuous":
            low, high = np.maximum(self._low, -1e3), np.minimum(self._high, 1e3)
            sample = (low + uniform * (high - low)).astype(np.float32)
        elif self.definition.has_masks and self.action_kind == "discrete":
            counts = arrays["action_mask"].cumsum(2)
            rank = uniform[..., 0] * counts[..., -1]
            sample = (counts <= np.floor(rank)[..., None]).sum(2).clip(max=counts.shape[2] - 1)
        else:
            sample = np.floor(uniform * self.num_choices.numpy()).astype(np.int64)
            sample = sample[..., 0] if self.action_kind == "discrete" else sample
        arrays["action"][...] = sample
        if self.device.type != "cpu":
            buffer.copy_(torch.from_numpy(arrays["action"]))
        return self._returned(buffer)

    def state(self) -> torch.Tensor:
        """Return the global state (E, S): all observations joined."""
        self._check_open()
        return self._joined(self.obs)

    def final_state(self) -> torch.Tensor:
        """Return the global state (E, S) after the last step and before an autoreset, see ``Core.final_state``."""
        self._check_open()
        done = (self.terminated | self.truncated).unsqueeze(-1)
        unreset = self.obs.masked_fill((self.elapsed_steps == 0)[:, None, None], 0.0)
        return self._joined(torch.where(done, self.final_obs, unreset))

    def keep_final_state(self) -> None:
        """Do nothing: the global state is made of observations, whose last ones are always kept."""

    # ---------------------------------------------------------------- state and parameters

    def get_state(self) -> dict[str, torch.Tensor]:
        """Return seeds, worlds and numbers of episodes, each (E,): the state inside the worlds cannot be saved."""
        return {f"io.{name}": torch.from_numpy(self._arrays[name].copy()) for name in ("seed", "world", "episode")}

    def set_state(self, state: Mapping[str, torch.Tensor]) -> None:
        """Start in every world the episode after the saved one, (E,), as the state inside the worlds is not saved.

        Raises:
            CheckpointError: An entry is missing or has a wrong shape or dtype.
        """
        self._check_open()
        self.check_state(state)
        warnings.warn(
            f"{self.id}: the state of host environments cannot be saved; its episodes start anew", stacklevel=2
        )
        for name in ("seed", "world", "episode"):
            self._arrays[name][:] = state[f"io.{name}"].cpu().numpy()
        self._keys = _mixed(self._arrays["seed"], self._arrays["world"])
        self._next_seeds(slice(None))
        self._started = True
        self.reset(reset_mask=torch.ones(self.num_envs, dtype=torch.bool, device=self.device))

    def check_state(self, state: Mapping[str, torch.Tensor]) -> None:
        """Raise the CheckpointError that :meth:`set_state` would raise for tensors (E,); change nothing."""
        for name in ("seed", "world", "episode"):
            value, like = state.get(f"io.{name}"), torch.from_numpy(self._arrays[name])
            if not isinstance(value, torch.Tensor) or value.shape != like.shape or value.dtype != like.dtype:
                expected = f"a {like.dtype} tensor {tuple(like.shape)}"
                raise CheckpointError(f"{self.id}: state: io.{name}: expected {expected}, got {shown(value)}")

    def set_params(self, **values: Any) -> None:
        """Raise a ConfigError if there are values: host environments have settings, and no parameters."""
        if values:
            raise self._cannot(f"change {next(iter(values))} while they run", "give it as a setting")

    def get_params(self, envs: Any = None) -> dict[str, torch.Tensor]:
        """Return {}, in place of parameters by name (1,): host environments have none."""
        return {}

    @property
    def world_state(self) -> dict[str, torch.Tensor]:
        """Return {}, in place of fields (E, ...): the state is inside the worlds."""
        return {}

    # ---------------------------------------------------------------- what only kernels can do

    def rollout(self, *arguments: Any, **named: Any) -> NoReturn:
        """Raise a ConfigError: policies cannot act inside kernels here."""
        raise self._cannot("play rollouts inside kernels", "use engine='auto' or 'torch'")

    def capture(self, play: Callable[[], Any], generators: Sequence[torch.Generator] = ()) -> NoReturn:
        """Raise a CaptureError."""
        raise CaptureError(f"{self.id}: host environments cannot be part of a CUDA graph; use cuda_graph=False")

    def record_episodes(self, envs: Any) -> NoReturn:
        """Raise a ConfigError."""
        raise self._cannot("record their state", "draw them with render_frames, and render_mode='rgb_array'")

    def check_episode(self, recorded: Any) -> NoReturn:
        """Raise a ConfigError."""
        raise self._cannot("play recorded states", "evaluate the policies instead")

    def render_frames(self, envs: int | Sequence[int] = (0,), size: int = 256) -> np.ndarray:
        """Draw worlds by their own ``render`` as frames (W, size, size, 3) uint8; pixels are repeated or left out.

        Raises:
            ConfigError: The worlds draw nothing; most need the setting ``render_mode="rgb_array"``.
        """
        self._check_open()
        self._check_ready("nothing to draw")
        worlds, side = check_frame(self.id, envs, self.num_envs, size)
        frames = []
        for world in worlds:
            frame = self._worlds.render(world)
            if frame is None:
                raise self._cannot("draw a frame", "give them render_mode='rgb_array' if they support it")
            largest = max(frame.shape[:2])
            padded = np.zeros((largest, largest, 3), np.uint8)
            padded[: frame.shape[0], : frame.shape[1]] = frame[..., :3]
            pixels = np.arange(side) * largest // side
            frames.append(padded[pixels][:, pixels])
        return np.stack(frames)

    # ---------------------------------------------------------------- errors and the end

    def raise_pending_errors(self) -> None:
        """Do nothing: every step raises its errors."""

    def close(self) -> None:
        """Close the worlds and refuse further use."""
        self._closed = True
        self._finalizer()

    # ---------------------------------------------------------------- private

    def _cannot(self, action: str, remedy: str) -> ConfigError:
        return ConfigError(f"{self.id}: host environments cannot {action}; {remedy}")

    def _check_open(self) -> None:
        if self._closed:
            raise ResetNeededError(f"{self.id}: this environment is closed; make a new one")

    def _check_ready(self, call: str) -> None:
        if not self._started:
            raise ResetNeededError(f"{self.id}: {call} before a reset, or after an error; call reset() first")

    def _check_values(self) -> None:
        """Check the values of actions of agents that decide; clip continuous ones with "saturate"."""
        arrays = self._arrays
        action = arrays["action"]
        acts = arrays["alive"] & arrays["to_move"]
        if self.action_kind == "continuous":
            if self.illegal_actions == "saturate":
                used = np.where(self._low <= self._high, action, 0.0)
                action[...] = np.clip(used, np.minimum(self._low, self._high), np.maximum(self._low, self._high))
            inside = (action >= self._low) & (action <= self._high) | (self._low > self._high)
            bad = acts & ~inside.all(2)
        else:
            parts = action.reshape(*action.shape[:2], -1)
            counts = self.num_choices.numpy()
            bad = acts & (((parts < 0) | (parts >= counts)) & (counts > 0)).any(2)
            if self.definition.has_masks and not bad.any():
                starts = counts.cumsum(1) - counts
                legal = np.take_along_axis(arrays["action_mask"], np.where(acts[..., None], parts, 0) + starts, 2)
                bad = acts & ~(legal | (counts == 0)).all(2)
        if bad.any():
            world, row = (int(index) for index in np.argwhere(bad)[0])
            agent, value = self.possible_agents[row], shown(action[world, row].tolist())
            expected = f"a legal action of {self.action_spaces[agent]}"
            raise ActionError(f"{self.id}: action of {agent} in world {world}: expected {expected}, got {value}")

    def _run(self) -> None:
        """Run the commands of the worlds, and check what they wrote."""
        arrays = self._arrays
        played = arrays["command"] != SKIP
        for name in ("reward", "terminated", "truncated"):
            arrays[name][played] = 0
        arrays["over"][:] = False
        self._worlds.run()
        for name in ("obs", "reward", *(["final_obs"] if arrays["over"].any() else [])):
            array = arrays[name]
            if np.isnan(array.sum()) and np.isnan(array).any():
                world, row = (int(index) for index in np.argwhere(np.isnan(array))[0][:2])
                agent = self.possible_agents[row]
                raise HostError(f"{self.id}: world {world}: {name} of {agent}: expected numbers, got NaN")

    def _count(self, stepped: np.ndarray) -> None:
        """Count the steps and returns of agents, and store those of agents that have left."""
        arrays = self._arrays
        arrays["elapsed"] += stepped
        arrays["running_return"] += arrays["reward"]
        done = arrays["terminated"] | arrays["truncated"]
        if done.any():
            np.copyto(arrays["episode_return"], arrays["running_return"], where=done)
            np.copyto(arrays["episode_length"], arrays["elapsed"][:, None], where=done)

    def _restart(self, mask: np.ndarray) -> None:
        """Reset the counters of worlds that have started an episode."""
        if mask.any():
            arrays = self._arrays
            arrays["elapsed"][mask] = 0
            arrays["running_return"][mask] = 0.0
            arrays["episode"][mask] += 1
            self._next_seeds(mask)

    def _write_keys(self, seed: Any, mask: np.ndarray | None) -> None:
        """Write seeds: one int for all worlds, which then differ by their index, or one per world."""
        several = isinstance(seed, list | tuple | np.ndarray | torch.Tensor)
        seeds = np.asarray(seed.cpu() if isinstance(seed, torch.Tensor) else seed).tolist() if several else [seed]
        if several and (not isinstance(seeds, list) or len(seeds) != self.num_envs):
            raise ConfigError(f"{self.id}: seed: expected an int or one int per world, {self.num_envs} of them")
        for value in seeds:
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or not -(2**63) <= value < 2**64:
                raise ConfigError(f"{self.id}: seed: expected an int of 64 bits, got {shown(value)}")
        arrays, rows = self._arrays, slice(None) if mask is None else mask
        keys = np.array([value % 2**64 for value in seeds], np.uint64).astype(np.int64)
        indices = np.arange(self.env_offset, self.env_offset + self.num_envs)
        arrays["seed"][rows] = np.broadcast_to(keys, (self.num_envs,))[rows]
        arrays["world"][rows] = 0 if several else indices[rows]
        arrays["episode"][rows] = -1
        self._keys = _mixed(arrays["seed"], arrays["world"])
        self._next_seeds(slice(None))

    def _next_seeds(self, rows: slice | np.ndarray) -> None:
        """Compute the seeds of the episodes after the present ones: 31 bits, which every library takes."""
        bits = _mixed(self._keys[rows], self._arrays["episode"][rows])
        self._arrays["next_seed"][rows] = bits >> np.uint64(33)

    def _finish(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Copy the arrays to the device, and return observations, rewards and flags."""
        if self.device.type != "cpu":
            for name, tensor in self._tensors.items():
                if name not in _HOST_ONLY:
                    tensor.copy_(torch.from_numpy(self._arrays[name]))
        self._started = True
        returned = self._returned
        return returned(self.obs), returned(self.reward), returned(self.terminated), returned(self.truncated)

    def _results(self) -> dict[str, torch.Tensor]:
        return {name: self._returned(tensor) for name, tensor in self._info.items()}

    def _returned(self, buffer: torch.Tensor) -> torch.Tensor:
        return buffer if self.reuse_buffers else buffer.clone()

    def _joined(self, obs: torch.Tensor) -> torch.Tensor:
        flat = obs.reshape(self.num_envs, -1)
        return flat.clone() if self._columns is None else flat[:, self._columns.to(self.device)]


def _mixed(key: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Return 64 well-mixed bits of a key and a number: two rounds of SplitMix64 (Steele et al., 2014)."""
    bits = key.astype(np.uint64)
    for word in (np.uint64(0), value.astype(np.uint64)):
        bits = (bits ^ word) + np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits = bits ^ (bits >> np.uint64(31))
    return bits


def _action_kind(env_id: str, action_spaces: Mapping[str, spaces.Space[Any]]) -> str:
    """Return the common kind of the action spaces; raise a ConfigError if they have several."""
    kinds = {_KINDS[type(space)] for space in action_spaces.values()}
    if len(kinds) > 1:
        raise ConfigError(f"{env_id}: expected action spaces of one kind, got {', '.join(sorted(kinds))}")
    return kinds.pop()


def _bounds(action_spaces: Mapping[str, spaces.Space[Any]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return bounds of continuous components, and sizes of discrete ones, each (A, K).

    Missing components have size 0, lower bound 1 and upper bound 0.
    """
    sizes = [(space.shape or (1,))[0] for space in action_spaces.values()]
    shape = (len(sizes), max(sizes))
    low, high, counts = np.ones(shape, np.float32), np.zeros(shape, np.float32), np.zeros(shape, np.int32)
    for row, space in enumerate(action_spaces.values()):
        if isinstance(space, spaces.Box):
            low[row, : sizes[row]], high[row, : sizes[row]] = space.low, space.high
        else:
            counts[row, : sizes[row]] = space.nvec if isinstance(space, spaces.MultiDiscrete) else spaces.flatdim(space)
    return low, high, counts


def _unpadded_columns(observation_spaces: Mapping[str, spaces.Box], width: int) -> torch.Tensor | None:
    """Return the columns of a flat row (A * D) that are not padding, None if there is no padding."""
    widths = [space.shape[0] for space in observation_spaces.values()]
    if min(widths) == width:
        return None
    return torch.tensor([row * width + column for row, size in enumerate(widths) for column in range(size)])
