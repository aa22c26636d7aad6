"""The stacked-tensor environment every view stands on: E worlds, A agents, one device, one call a step."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch

import warp_kernels
from gpu_envs import constants, restoring
from gpu_envs.checks import check_elapsed, check_frame, check_settings, check_tensor, check_worlds
from gpu_envs.config import MAX_INT, check_value
from gpu_envs.definition import Definition
from gpu_envs.errors import ActionError, CaptureError, CheckpointError, ConfigError, ResetNeededError, shown
from gpu_envs.layout import Layout
from gpu_envs.runner import Runner, choose_schedule, choose_threads
from warp_kernels import episode

if TYPE_CHECKING:
    from gpu_envs.recording import Recorder

_WRONG = {
    episode.OUT_OF_RANGE: "is out of range",
    episode.NOT_FINITE: "is not finite",
    episode.ILLEGAL: "is illegal here (see info['action_mask'])",
}
_REUSE = "a step allocates its results; make(..., reuse_buffers=True) to put it into a CUDA graph"


class Core:
    """A batch of worlds of one environment. Build it with :func:`gpu_envs.make` and take ``env.core``.

    Shapes: observations (E, A, D) float32, zero-padded to the widest agent; reward (E, A) float32; flags (E, A) bool;
    actions (E, A) int64 (discrete), (E, A, K) int64 (multi-discrete) or (E, A, K) float32 (continuous).

    ``terminated`` and ``truncated`` are events, True once per agent and episode, on the step it leaves. ``alive``
    says who acts on the next step, ``valid`` who was alive before this one. A world's episode ends when all its
    agents have left.

    Args:
        definition: The configured environment.
        env_id: Its id, for messages.
        config: Its settings.
        num_envs: Number of worlds E.
        device: Where everything lives.
        autoreset: "same_step", "next_step" or "disabled", as Gymnasium's ``AutoresetMode``.
        reuse_buffers: Return the runner's own buffers, valid until the next step, instead of clones.
        seed: Key of all random streams until ``reset(seed=)``; None draws one from the operating system.
        env_offset: Global index of world 0, where a batch is one shard of a larger one.
        illegal: What a bad action does: "error" is raised, and where agents take turns the world waits for another
            action of the same agent. "loss", where agents take turns: that agent loses the game (reward -1, the others
            still in it share 1). "original" is "error" but where the environment's original saturates continuous
            actions beyond their bounds, which are then taken. Gymnasium's views use "original", and single worlds where
            agents take turns "loss".
        schedule: "fused", "phased" or None to choose by agents and device.
        threads: CPU threads at most; None to choose by the size of the batch. Steps of a few microseconds take one.
        fuse_fp: Contract multiply-adds; None: on a GPU only, so that CPU schedules agree bit for bit.
        env_minor: Lay State out with the worlds fastest.
        randomise: Constants of the rules that every world draws anew for every episode, uniformly: name -> (lowest,
            highest), such as {"good_max_speed": (1.0, 1.6)}. Domain randomisation; the draws are the world's own.
    """

    @torch.inference_mode(False)  # buffers that are made inside could not be written to outside
    def __init__(
        self,
        definition: Definition,
        *,
        env_id: str,
        config: Any,
        num_envs: int,
        device: torch.device,
        autoreset: str = "same_step",
        reuse_buffers: bool = False,
        seed: int | None = None,
        env_offset: int = 0,
        illegal: str = "error",
        schedule: str | None = None,
        threads: int | None = None,
        fuse_fp: bool | None = None,
        env_minor: bool = False,
        randomise: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        rules = definition.rules
        reuse_buffers = check_value(env_id, "reuse_buffers", reuse_buffers, bool)
        env_minor = check_value(env_id, "env_minor", env_minor, bool)
        fuse_fp = check_value(env_id, "fuse_fp", fuse_fp, bool | None)
        self.randomise = constants.check_ranges(env_id, definition, config, randomise)
        check_settings(env_id, rules, num_envs, autoreset, env_offset, illegal, schedule, threads)
        self.id = env_id
        self.config = config
        self.definition = definition
        self.num_envs = num_envs
        self.num_agents = rules.num_agents
        self.device = device
        self.autoreset = autoreset
        self.reuse_buffers = reuse_buffers
        self.env_offset = env_offset
        self.illegal = illegal
        self.possible_agents = definition.agents
        self.groups = definition.groups
        self.observation_spaces = definition.observation_spaces
        self.action_spaces = definition.action_spaces
        self.render_fps = definition.render_fps
        self.schedule = schedule or choose_schedule(self.num_agents, device)
        self.threads = (threads or choose_threads(num_envs, self.num_agents, device)) if device.type == "cpu" else 1
        self.threads = min(self.threads, num_envs)
        fuse = device.type == "cuda" if fuse_fp is None else fuse_fp
        self._runner = Runner(rules, self.schedule, fuse, num_envs, self.threads, device)
        shards = len(self._runner.shards)
        try:
            layout = self._layout = Layout(definition, num_envs, shards, device, env_minor, self.randomise)
        except ConfigError as error:
            raise ConfigError(f"{env_id}: {error}") from error
        io = self._io = layout.io
        self.obs_width = layout.width
        self.action_kind = layout.action_kind
        self.num_choices = layout.num_choices
        self.obs, self.reward, self.terminated, self.truncated = layout.results[:4]
        self.alive, self.valid, self.final_obs = io["alive"], io["valid"], io["final_obs"]
        self.action_mask, self.to_move = layout.info.get("action_mask"), layout.info.get("to_move")
        # On a GPU the error flag is read from a pinned copy, so that looking at it never waits.
        self._on_gpu = device.type == "cuda"
        self._error_seen = io["error"].cpu().pin_memory() if self._on_gpu else io["error"]
        self._error_slots = memoryview(self._error_seen.numpy())  # type: ignore[arg-type]  # quicker to read than an array
        self._action_shape, self._action_dtype = layout.action.shape, layout.action.dtype
        self._runner.bind(layout.action, layout.results)
        self._record()
        self._recorders: list[Recorder] = []
        self._started = False
        self._closed = False
        self._lay_keys(self._keys(int.from_bytes(os.urandom(8), "little") if seed is None else seed), None)

    def __getstate__(self) -> NoReturn:
        """A core is bound to its device's memory and launches: neither pickled nor copied."""
        raise CheckpointError(
            f"{self.id}: a core can be neither pickled nor copied; make another with the same settings, "
            "then set_state(core.get_state())"
        )

    def _record(self) -> None:
        """Record the launches; again only when the memory behind an argument moves."""
        with warp_kernels.building:
            self._runner.record(*self._layout.structs(self.env_offset, self.autoreset, self.illegal))

    # ---------------------------------------------------------------- episodes

    def reset(
        self,
        seed: int | torch.Tensor | None = None,
        reset_mask: torch.Tensor | None = None,
        *,
        elapsed_steps: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Start new episodes in all worlds, or in those of a mask.

        Args:
            seed: Key of the random streams from now on: an int for all, or (E,) int64, one per world. The worlds'
                episode counters start again at 0. None goes on with the next episode of the present streams.
            reset_mask: (E,) bool, which worlds to reset; None resets all.
            elapsed_steps: (E,) int64 or int32, the step counts at which these episodes start, below the time limit.
                The start itself is drawn as at step 0. An episode that starts at step ``n`` of a limit ``T`` is cut
                after ``T - n`` steps, observations of the time and ``episode_length`` count from ``n``, and the next
                episode starts at 0. Use it to spread the ends of a batch evenly. Values of worlds that are not reset
                are ignored. On a GPU it waits for the device. None starts at 0.

        Returns:
            Observations (E, A, D) and info ("alive", "valid", ... see :meth:`step`). "valid" is False in the worlds
            that were reset; "final_obs" and the episodes' figures stay those of the last ends.

        Raises:
            ResetNeededError: Closed; or a mask before the first full reset.
            ConfigError: A seed that is none, or a step count outside [0, time limit).
            ActionError: A mask of another shape, dtype or device, or an earlier bad action on a GPU.
            CaptureError: Without a mask, or with step counts, inside a CUDA graph.
        """
        self._check_open()
        waits = "reset()" if reset_mask is None else "reset(elapsed_steps=...)"
        if self._on_gpu and (reset_mask is None or elapsed_steps is not None) and self._is_capturing():
            raise CaptureError(f"{self.id}: {waits} waits for the device; put reset(reset_mask=...) into a CUDA graph")
        if reset_mask is not None:  # part of a rollout where autoreset is disabled: no waiting
            self._look_for_errors()
            check_tensor(self.id, "reset_mask", reset_mask, (self.num_envs,), torch.bool, self.device)
            if not self._started:
                raise ResetNeededError(f"{self.id}: reset(reset_mask=...) before the first full reset; call reset()")
        else:
            self.check()
        keys = None if seed is None else self._keys(seed)
        clock = check_elapsed(self.id, elapsed_steps, reset_mask, self.definition.max_steps, self._io["step"])
        if reset_mask is None:
            self._io["restart"].fill_(True)
            self._io["step"][:] = clock
        else:
            self._io["restart"].copy_(reset_mask)
            self._io["step"].copy_(torch.where(reset_mask, clock, self._io["step"]))
        if keys is not None:
            self._lay_keys(keys, reset_mask)
        self._runner.run("reset")
        self._started = True
        for recorder in self._recorders:
            recorder.after_reset()
        return self._out(self.obs), self._infos()

    def step(
        self, action: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        """Play one step in every world.

        Args:
            action: (E, A) int64, (E, A, K) int64 or (E, A, K) float32 on the core's device, see ``action_kind``.
                Rows of agents that are not alive, or not on the move, are ignored, and so is what lies beyond an
                agent's own components.

        Returns:
            ``obs, reward, terminated, truncated, info``. ``info`` holds "valid", "alive", "final_obs" (E, A, D) (the
            true last observation, where done), "episode_return" and "episode_length" (E, A) (of the episode an agent
            just finished, where done); where some actions are illegal, "action_mask" (E, A, n) for the next step; and
            where agents take turns, "to_move" (E, A): who decides on the next step; the others have one legal action,
            0.

        Raises:
            ActionError: Wrong shape, dtype or device before anything runs; a value out of range, illegal or not finite:
                on a CPU from this call, on a GPU from a later one. A refused action counts as the no-op; where agents
                take turns the world does not move and waits for another action of the same agent.
        """
        if not self._started or self._closed or self._on_gpu:
            self._prepare()
        try:
            if (
                not isinstance(action, torch.Tensor)
                or action.shape != self._action_shape
                or action.dtype != self._action_dtype
                or action.device != self.device
            ):
                self._check_action(action)
            return self._play(action)
        except (RuntimeError, TypeError):  # sparse and nested tensors have no memory to read; to look costs every step
            self._check_action(action)
            raise

    def _check_action(self, action: Any) -> None:
        """Raise the ActionError of an action that does not fit."""
        check_tensor(self.id, "action", action, tuple(self._action_shape), self._action_dtype, self.device)

    def _prepare(self) -> None:
        """Raise what speaks against a step: nothing to step, or an earlier action that a GPU has found bad."""
        self._check_open()
        if not self._started:
            raise ResetNeededError(f"{self.id}: step before the first reset; call reset() first")
        self._look_for_errors()

    def _play(self, action: torch.Tensor) -> Any:
        """Run a step with an action that fits; what it finds wrong on a CPU is raised behind it."""
        results = self._runner.step(action, self.reuse_buffers)
        for recorder in self._recorders:
            recorder.after_step()
        if self._on_gpu:
            self._error_seen.copy_(self._io["error"], non_blocking=True)
        elif min(self._error_slots) != episode.NO_ERROR:
            self._raise_action_error(action)
        info = dict(zip(self._layout.info, results[4:], strict=True))
        return results[0], results[1], results[2], results[3], info

    def play_random(
        self, steps: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        """Play random legal actions for some steps without coming back to Python: random baselines and playouts.

        The worlds are the same as after ``step(sample_actions())`` so many times: bit for bit on a CPU, and on a GPU
        with ``fuse_fp=False``. ``episodes`` counts what was begun meanwhile. Fused, the steps are one kernel, compiled
        at the first call with more than one step; on a GPU a world stays in its thread for all of them. Where
        episodes are recorded, steps come back to Python one by one.

        Args:
            steps: How many, at least 1.

        Returns:
            What the last of these steps returned, see :meth:`step`.

        Raises:
            ConfigError: Not an int >= 1.
            ResetNeededError, ActionError: As :meth:`step`.
        """
        steps = check_value(self.id, "steps", steps, int, low=1, high=MAX_INT)
        self._prepare()
        if self._recorders:  # they look at every step
            for _ in range(steps - 1):
                self.step(self.sample_actions())
        elif steps > 1:
            self._runner.play(steps - 1)
        return self.step(self.sample_actions())

    def capture(self, play: Callable[[], Any], generators: Sequence[torch.Generator] = ()) -> Callable[[], Any]:
        """Record what a function queues on the GPU as one CUDA graph: a step, or a whole rollout with the policy in it.

        Args:
            play: Steps this core any number of times. It must always do the same, on tensors that stay where they are:
                no reading from the device, no branching on results. It runs twice to warm up; the worlds and the
                generators are then put back where they were, other tensors that it writes are not.
            generators: Generators of the core's device that it draws from.

        Returns:
            A function that replays it. On a CPU there is nothing to record and it is ``play`` itself.

        Raises:
            CaptureError: Without ``reuse_buffers=True``: a step would allocate its results.
            ResetNeededError: Before the first reset.
            ConfigError: No function, or generators that are none.
        """
        self._check_open()
        if not callable(play):
            raise ConfigError(f"{self.id}: capture takes a function that steps this core, got {shown(play)}")
        if not isinstance(generators, list | tuple) or not all(isinstance(g, torch.Generator) for g in generators):
            raise ConfigError(f"{self.id}: generators must be a list of torch.Generator, got {shown(generators)}")
        if not self._started:
            raise ResetNeededError(f"{self.id}: capture before the first reset; call reset() first")
        if not self.reuse_buffers:
            raise CaptureError(f"{self.id}: {_REUSE}")
        if not self._on_gpu:
            return play
        from gpu_envs.capture import capture

        return capture(self, play, generators)

    def record(self, envs: int | Sequence[int]) -> "Recorder":
        """Keep whole episodes of some worlds from now on: state, observation, action, reward and ends of every step.

        ::

            with core.record([0, 7]) as recorder:
                ...  # step and reset as usual
            for episode in recorder.take():
                print(episode.world, episode.reward.sum(0))

        See :class:`gpu_envs.recording.Recorder`, which also draws them.
        """
        self._check_open()
        from gpu_envs.recording import Recorder

        return Recorder(self, envs)

    def sample_actions(self) -> torch.Tensor:
        """Draw a uniformly random legal action for every agent, (E, A) or (E, A, K), from the worlds' own streams.

        The draw belongs to the present step: calling twice without a step between gives the same actions.
        """
        self._check_open()
        self._runner.run("sample")
        return self._out(self._layout.action)

    def state(self) -> torch.Tensor:
        """Global state (E, S) for centralised critics: the environment's own, or all agents' observations joined."""
        self._check_open()
        if self._runner.program.global_state:
            self._runner.run("global_state")
            return self._out(self._io["global_state"])
        flat = self.obs.reshape(self.num_envs, -1)
        columns = self._layout.obs_columns
        return flat.clone() if columns is None else flat[:, columns]

    # ---------------------------------------------------------------- whole state and constants

    def get_state(self) -> dict[str, torch.Tensor]:
        """Copy all that a continuation depends on: worlds, clocks, seeds, flags, running returns, constants.

        By name: "params" (1, F) or (E, F), "state.*" (E, ...), and "io.*" of the shapes in ``warp_kernels.episode.IO``.
        """
        state = {name: tensor.clone() for name, tensor in self._layout.everything().items()}
        return state | {"params": self._layout.params.clone()}

    def set_state(self, state: dict[str, torch.Tensor]) -> None:
        """Put back what :meth:`get_state` gave, from this or an equally configured core.

        Raises:
            CheckpointError: Naming the entry whose presence, shape, dtype or value does not fit; nothing has changed
                then.
            ResetNeededError: Closed.
        """
        self._check_open()
        self.check_state(state)
        self._put_state(state)

    def check_state(self, state: dict[str, torch.Tensor]) -> None:
        """Raise the CheckpointError that :meth:`set_state` would, see there; changes nothing."""
        restoring.check(self.id, self._layout, self.config, state)

    def _put_state(self, state: dict[str, torch.Tensor]) -> None:
        """Copy a state that has been checked."""
        for name, tensor in self._layout.everything().items():
            tensor.copy_(state[name])
        self._set_params(state["params"].to(self.device))
        self._started = True

    def set_params(self, **values: float | torch.Tensor) -> None:
        """Change constants of the rules, for the whole batch (a number) or world by world (a tensor (E,)).

        The first per-world value moves the constants to new memory: captured CUDA graphs must be captured again.

        Raises:
            ConfigError: An unknown name, one that buffers and clocks are built by, a tensor of another shape, or a
                value that is not finite, not whole where it must be, or outside what the setting of this name allows.
        """
        self._check_open()
        self._set_params(constants.changed(self, self._layout.params, values))

    def get_params(self, envs: int | Sequence[int] | torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """Present constants of the rules by name, each (1,) or (E,); of the worlds ``envs`` (indices), each (W,).

        Raises:
            ConfigError: A world that is not there.
        """
        rows = None if envs is None else torch.tensor(check_worlds(self.id, envs, self.num_envs), device=self.device)
        return constants.read(self.definition, self._layout.params, self.num_envs, rows)

    @torch.inference_mode(False)
    def _set_params(self, table: torch.Tensor) -> None:
        if table.shape == self._layout.params.shape:
            self._layout.params.copy_(table)
        else:
            self._layout.params = table.clone(memory_format=torch.contiguous_format)
            self._record()

    def _keys(self, seed: Any) -> torch.Tensor:
        """A seed as one key per world, (E,) int64."""
        if isinstance(seed, torch.Tensor):
            check_tensor(self.id, "seed", seed, (self.num_envs,), torch.int64, self.device)
            return seed
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            wanted = f"an int, an int64 tensor ({self.num_envs},) or None"
            raise ConfigError(f"{self.id}: seed must be {wanted}, got {shown(seed)}")
        low = int(seed) & (2**64 - 1)
        return torch.full_like(self._io["seed"], low - 2**64 if low >= 2**63 else low)

    def _lay_keys(self, keys: torch.Tensor, mask: torch.Tensor | None) -> None:
        """Write new keys and start the episode counters again, where the mask says so."""
        fresh = torch.full_like(self._io["episode"], -1)  # the reset that follows makes it episode 0
        if mask is None:
            self._io["seed"].copy_(keys)
            self._io["episode"].copy_(fresh)
        else:
            self._io["seed"].copy_(torch.where(mask, keys, self._io["seed"]))
            self._io["episode"].copy_(torch.where(mask, fresh, self._io["episode"]))

    # ---------------------------------------------------------------- pictures and the end

    def frame(self, envs: int | Sequence[int] = (0,), size: int = 256) -> np.ndarray:
        """Draw some worlds (indices, or one), frames of ``size`` pixels a side: uint8 (W, size, size, 3).

        Raises:
            ConfigError: A world that is not there, a size below 1, or frames of more than 2 GiB.
            ResetNeededError: Before the first reset, or closed.
        """
        from gpu_envs.rendering import rasterise

        self._check_open()
        if not self._started:
            raise ResetNeededError(f"{self.id}: nothing to draw before the first reset; call reset() first")
        worlds, side = check_frame(self.id, envs, self.num_envs, size)
        rows = torch.as_tensor(worlds, device=self.device)
        return rasterise(self.definition.draw(self, rows), side).cpu().numpy()

    @property
    def world_state(self) -> dict[str, torch.Tensor]:
        """The rules' State by field, live: (E, ...). For drawing, scripted agents and tests."""
        return self._layout.state

    @property
    def action_buffer(self) -> torch.Tensor:
        """Where the kernels read actions, (E, A) or (E, A, K); what :meth:`step` is given is copied there.

        A policy may write here and pass it to :meth:`step`, which saves that copy.
        """
        return self._layout.action

    @property
    def steps(self) -> torch.Tensor:
        """Steps taken in the present episodes, live: (E,) int32. ``reset(elapsed_steps=)`` sets them."""
        return self._io["step"]

    @property
    def episodes(self) -> torch.Tensor:
        """Number of the present episodes in their random streams, from 0; live: (E,) int32."""
        return self._io["episode"]

    def check(self) -> None:
        """Raise the error of an earlier action that a GPU found meanwhile (waits for the device)."""
        if self._on_gpu:
            self._error_seen.copy_(self._io["error"])
        if min(self._error_slots) != episode.NO_ERROR:
            self._raise_action_error(None)

    def close(self) -> None:
        """Report what is still to report, and refuse further use."""
        if not self._closed:
            self._closed = True
            self.check()

    # ---------------------------------------------------------------- inside

    def _out(self, buffer: torch.Tensor) -> torch.Tensor:
        return buffer if self.reuse_buffers else buffer.clone()

    def _infos(self) -> dict[str, torch.Tensor]:
        return {name: self._out(tensor) for name, tensor in self._layout.info.items()}

    def _check_open(self) -> None:
        if self._closed:
            raise ResetNeededError(f"{self.id}: this environment is closed; make a new one")

    def _look_for_errors(self) -> None:
        """Raise what an earlier step has reported so far, without waiting for the device."""
        if self._on_gpu and self._is_capturing():
            if not self.reuse_buffers:
                raise CaptureError(f"{self.id}: {_REUSE}")
        elif min(self._error_slots) != episode.NO_ERROR:
            self._raise_action_error(None)

    def _is_capturing(self) -> bool:
        with torch.cuda.device(self.device):  # torch asks the current device's stream
            return torch.cuda.is_current_stream_capturing()

    def _raise_action_error(self, action: torch.Tensor | None) -> None:
        """Turn the flag into words, and clear it."""
        if self._on_gpu:
            torch.cuda.current_stream(self.device).synchronize()  # a copy under way must not bring the old flag back
        key = min(self._error_slots)
        self._io["error"].fill_(episode.NO_ERROR)
        self._error_seen.fill_(episode.NO_ERROR)
        env, row, what = key >> 32, (key >> 8) & 0xFFFFFF, key & 0xFF
        agent = self.possible_agents[row]
        shown = ""  # the kernel has put the no-op into its own buffer
        if action is not None and action.data_ptr() != self._layout.action.data_ptr():
            shown = f" {action[env, row].tolist()}"
        raise ActionError(
            f"{self.id}: action{shown} of {agent} in world {env + self.env_offset} {_WRONG[what]}; "
            f"expected {self.action_spaces[agent]}"
        )
