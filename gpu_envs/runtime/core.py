"""The stacked-tensor environment that every view wraps: E worlds, A agents, one device, one call per step."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, cast

import numpy as np
import torch
from gymnasium import spaces

import warp_kernels
from gpu_envs.definition.environment import EnvDefinition, changed_settings, env_summary
from gpu_envs.errors import CaptureError, CheckpointError, ConfigError, ResetNeededError, shown
from gpu_envs.runtime import cuda_graph, parameters, state_validation
from gpu_envs.runtime.buffers import AUTORESET, EnvBuffers
from gpu_envs.runtime.cuda_graph import CapturedFunction
from gpu_envs.runtime.episode_recorder import Episode, EpisodeRecorder
from gpu_envs.runtime.illegal_actions import IllegalActions
from gpu_envs.runtime.kernels import BLOCK_DIMS, SCHEDULES, available_cores, choose_schedule, choose_threads
from gpu_envs.runtime.launcher import KernelLauncher
from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from gpu_envs.runtime.rollout.policy_rollout import PolicyRollout
from gpu_envs.runtime.rollout.trace import RolloutTrace
from gpu_envs.runtime.seeding import check_elapsed, int_key, seed_keys, write_keys
from gpu_envs.utils.devices import current_device_kept, host_view
from gpu_envs.utils.settings import MAX_INT, check_value
from gpu_envs.utils.summaries import Summarized, Summary
from gpu_envs.utils.tensor_checks import check_frame, check_tensor, check_worlds, plain
from warp_kernels import episode, philox
from warp_kernels.rules import Rules

Seed = int | Sequence[int] | torch.Tensor
"""An int for all worlds, or one int per world."""
StepResult = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]
"""Observations (E, A, D), rewards, terminated and truncated (E, A), and ``info``."""
REUSE = "a step allocates its results; make(..., reuse_buffers=True) to put it into a CUDA graph"
"""Reason of a `CaptureError`."""
INTERRUPTED = "after an exception has interrupted a call, which may be half done"
"""Reason of a `ResetNeededError`."""


def observations_before_autoreset(core: Any) -> torch.Tensor:
    """Return the observations (E, A, D) of a core after its last step, before SAME_STEP has reset a world.

    Agents that left before this step observe zeros.
    """
    done = (core.terminated | core.truncated).unsqueeze(-1)
    unreset = core.obs.masked_fill((core.elapsed_steps == 0)[:, None, None], 0.0)
    return torch.where(done, core.final_obs, unreset)


def _check_rules(env_id: str, rules: Rules) -> None:
    """Raise a ConfigError if properties of the rules contradict each other, or a size exceeds the random streams'."""
    turns, agents, components = rules.turn_based, rules.num_agents, rules.action_size
    for is_valid, name, expected, value in (
        (rules.masked or not turns, "rules.masked", "True where agents take turns", rules.masked),
        (not rules.illegal_noop or (rules.masked and not turns), "rules.illegal_noop",
         "False without masks or with turns", True),
        (turns or not rules.shared_stake, "rules.shared_stake", "False unless agents take turns", True),
        (agents > 1 or not turns, "the number of agents", ">= 2 where agents take turns", agents),
        (agents <= philox.MAX_AGENTS, "the number of agents", f"<= {philox.MAX_AGENTS}", agents),
        (components <= philox.MAX_DRAWS, "the number of action components", f"<= {philox.MAX_DRAWS}", components),
    ):  # fmt: skip
        if not is_valid:
            raise ConfigError(f"{env_id}: {name}: expected {expected}, got {value}")


class Core(Summarized):
    """A batch of worlds of one environment. Build it with :func:`gpu_envs.make` and take ``env.core``.

    Shapes: observations (E, A, D) float32, zero-padded to the widest agent; reward (E, A) float32; flags (E, A) bool;
    actions (E, A) int64 (discrete), (E, A, K) int64 (multi-discrete) or (E, A, K) float32 (continuous).

    ``terminated`` and ``truncated`` are events: True once per agent and episode, on the agent's last step. ``alive``
    marks the agents that act on the next step, ``valid`` those that were alive before this one. The episode of a world
    ends when all its agents have left.

    Args:
        definition: Configured environment.
        env_id: ID of the environment, for messages.
        config: Settings of the environment.
        num_envs: Number of worlds E.
        device: Device of all tensors and kernels.
        autoreset: "same_step", "next_step" or "disabled", as Gymnasium's ``AutoresetMode``.
        reuse_buffers: Return the same buffers from every step, valid until the next one, instead of clones.
        seed: Key of all random streams until ``reset(seed=)``; None takes one from the operating system.
        env_offset: Global index of world 0, where this batch is one shard of a larger one.
        illegal_actions: Effect of an illegal action. "error" raises `ActionError`; where agents take turns, the world
            then waits for another action of the same agent. "loss", where agents take turns: that agent loses the game
            (reward -1; the other players share 1), or what the environment's page says. "saturate" is "error", but
            continuous actions outside their bounds are saturated where the reference environment does so. Gymnasium's
            views use "saturate"; single turn-based environments use "loss".
        schedule: "fused" (one thread per world), "block" (one block of threads per world), "phased" (one kernel per
            phase) or None to choose by agents and device.
        threads: Maximum number of CPU threads; None chooses by the size of the batch, and all cores for rollouts with
            policies. Steps of a few microseconds use one thread.
        block_dim: Threads per block of GPU kernels: 32, 64, 128 or 256. None chooses by the size of each launch and the
            number of multiprocessors. Ignored on a CPU; it does not change results.
        fuse_fp: Allow the compiler to contract multiply-adds. None allows it on a GPU only, so that CPU schedules agree
            bit for bit.
        domain_randomization: Environment parameters that every world samples uniformly at the start of each episode:
            name -> (lowest, highest), such as {"good_max_speed": (1.0, 1.6)}. The samples come from the world's own
            random stream.
    """

    captures = True
    """A step can be part of a CUDA graph."""
    resumes_episodes = True
    """A restored state continues its episodes."""
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
        domain_randomization: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        rules = definition.rules
        _check_rules(env_id, rules)

        def checked(name: str, value: Any, hint: Any, **bounds: Any) -> Any:
            return check_value(env_id, name, value, hint, **bounds)

        reuse_buffers = checked("reuse_buffers", reuse_buffers, bool)
        fuse_fp = checked("fuse_fp", fuse_fp, bool | None)
        num_envs = checked("num_envs", num_envs, int, ge=1, le=MAX_INT)
        env_offset = checked("env_offset", env_offset, int, ge=0, le=MAX_INT - num_envs)
        autoreset = checked("autoreset", autoreset, str, choices=tuple(AUTORESET))
        illegal_actions = checked("illegal_actions", illegal_actions, str, choices=("error", "saturate", "loss"))
        if illegal_actions == "loss" and not rules.turn_based:
            words = "illegal_actions='loss' needs agents that take turns; use 'error' or 'saturate'"
            raise ConfigError(f"{env_id}: {words}")
        schedule = checked("schedule", schedule, str | None, choices=SCHEDULES)
        threads = checked("threads", threads, int | None, ge=1, le=MAX_INT)
        block_dim = checked("block_dim", block_dim, int | None, choices=BLOCK_DIMS)
        self.domain_randomization: dict[str, tuple[float, float]] = parameters.check_ranges(
            env_id, definition, config, domain_randomization
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
            buffers = self._buffers = EnvBuffers(definition, num_envs, slots, device, ranges)
        except ConfigError as error:
            settings = ", ".join(filter(None, (f"num_envs={num_envs}", changed_settings(config))))
            raise ConfigError(f"{env_id}: {error}; the settings are {settings}") from error
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

    # ---------------------------------------------------------------- episodes and steps

    def reset(
        self,
        seed: Seed | None = None,
        reset_mask: torch.Tensor | None = None,
        *,
        elapsed_steps: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Start new episodes in all worlds, or only where a mask is True.

        Args:
            seed: Key of the random streams from now on. An int is the key of all worlds, which differ by their index.
                A list or an int64 tensor (E,) has one seed per world: a world plays as world 0 of its seed, whatever
                its index and the number of worlds, so that equal seeds give equal worlds. Episode counters restart at
                0. None starts the next episode of the current streams.
            reset_mask: (E,) bool, which worlds to reset; None resets all.
            elapsed_steps: (E,) int64 or int32, the step counts at which these episodes start, below the time limit.
                The initial state is sampled as at step 0. An episode that starts at step ``n`` of a limit ``T`` is cut
                after ``T - n`` steps; observations of the time and ``episode_length`` count from ``n``; the next
                episode starts at 0. Use it to spread the ends of a batch evenly. Values of worlds that are not reset
                are ignored. On a GPU it waits for the device. None starts at 0.

        Returns:
            Observations (E, A, D) and info ("alive", "valid", ... see :meth:`step`). "valid" is False in the worlds
            that were reset. "final_obs", "episode_return" and "episode_length" keep the values of the last ends.

        Raises:
            ResetNeededError: The environment is closed, or a mask is given before the first full reset, or after an
                exception has interrupted a call.
            ConfigError: A seed is not an int of 64 bits, their number is wrong, or a step count is outside
                [0, time limit).
            ActionError: A mask of another shape, dtype or device, or a pending error of an earlier action on a GPU.
            CaptureError: A reset without a mask, or with step counts, inside a CUDA graph.
        """
        self._check_open()
        waits = "reset()" if reset_mask is None else "reset(elapsed_steps=...)"
        if self._on_gpu and (reset_mask is None or elapsed_steps is not None) and self._is_capturing():
            raise CaptureError(f"{self.id}: {waits} waits for the device; put reset(reset_mask=...) into a CUDA graph")
        if reset_mask is not None:  # part of a rollout where autoreset is disabled, so it must not wait
            self._look_for_errors()
            check_tensor(self.id, "reset_mask", reset_mask, (self.num_envs,), torch.bool, self.device)
            self._check_ready("reset(reset_mask=...)")
        else:
            self.raise_pending_errors()
        io = self._io
        keys = None if seed is None else seed_keys(self.id, seed, io["seed"])
        clock = check_elapsed(self.id, elapsed_steps, reset_mask, self.definition.max_episode_steps, io["step"])
        self._begin_change()
        if reset_mask is None:
            self._mark_reset(keys, clock)
        else:
            io["restart"].copy_(reset_mask)
            io["step"].copy_(torch.where(reset_mask, clock, io["step"]))
            if keys is not None:
                write_keys(io, keys, self._indices, reset_mask)
        self._launcher.run("reset")
        for recorder in self._open_recorders():
            recorder.after_reset()
        self._started = True
        info = {name: self._returned(tensor) for name, tensor in self._buffers.info.items()}
        return self._returned(self.obs), info

    def step(self, action: torch.Tensor) -> StepResult:
        """Play one step in every world.

        Args:
            action: (E, A) int64, (E, A, K) int64 or (E, A, K) float32 on the core's device, see ``action_kind``.
                Rows of agents that are not alive, or not to move, are ignored, as is padding beyond an agent's own
                components.

        Returns:
            ``obs, reward, terminated, truncated, info``. ``info`` holds "valid" and "alive" (E, A), "final_obs"
            (E, A, D), the last observation of a finished episode, and "episode_return" and "episode_length" (E, A) of
            the episode an agent has just finished. Environments with illegal actions add "action_mask" (E, A, n) for
            the next step. Turn-based environments add "to_move" (E, A), the agents that decide on the next step; the
            other agents have one legal action, 0. Entries that an environment declares (`EnvDefinition.info`) are those
            after the step, before autoreset; an agent that has left keeps the entries of its end until its world
            starts an episode.

        Raises:
            ActionError: A wrong shape, dtype or device, before anything runs; or a value that is out of range, illegal
                or not finite, on a CPU from this call, on a GPU from a later one. An illegal action counts as the
                no-op; where agents take turns the world does not advance and waits for another action of the same
                agent.
            ResetNeededError: The environment was not reset, or is closed; or an exception, as of a signal handler, has
                interrupted a step, reset or rollout, which may be half done.
        """
        if not self._started or self._closed or self._on_gpu:
            self._prepare_step()
        try:
            if (
                not isinstance(action, torch.Tensor)
                or action.shape != self._action_shape
                or action.dtype != self._action_dtype
                or action.device != self.device
            ):
                self._check_action(action)
            return self._step_unchecked(action)
        except (RuntimeError, TypeError):  # sparse and nested tensors; checking for them in every step is slow
            self._started = self._started or not plain(action)  # no kernel has run
            self._check_action(action)
            raise

    def step_in_place(self) -> None:
        """Play one step with the actions in ``action_buffer``; read the live tensors for its results.

        It is :meth:`step` without its checks of the tensor and without a result, for views of a single world, where
        these take longer than the kernel.

        Raises:
            ResetNeededError, ActionError: See :meth:`step`.
        """
        if not self._started or self._closed or self._on_gpu:
            self._prepare_step()
        self._begin_change()
        self._launcher.run("step")
        self._finish_step(None)

    def random_rollout(self, num_steps: int) -> StepResult:
        """Play steps of random legal actions without returning to Python, for random baselines and rollouts.

        The result equals ``step(sample_actions())`` as many times: bit for bit on a CPU, and on a GPU with
        ``fuse_fp=False``. ``episode_index`` counts the episodes that started meanwhile. With the fused schedule the
        steps are one kernel, compiled at the first call with more than one step. While episodes are recorded, every
        step returns to Python.

        Args:
            num_steps: Number of steps, at least 1.

        Returns:
            Results of the last step, see :meth:`step`.

        Raises:
            ConfigError: ``num_steps`` is not an int >= 1.
            ResetNeededError, ActionError: See :meth:`step`.
        """
        num_steps = check_value(self.id, "num_steps", num_steps, int, ge=1, le=MAX_INT)
        self._prepare_step()
        if self.is_recording:
            for _ in range(num_steps - 1):
                self._launcher.run("sample")
                self._step_unchecked(self._buffers.action)
        elif num_steps > 1:
            self._begin_change()
            self._launcher.play(num_steps - 1)
        self._launcher.run("sample")
        return self._step_unchecked(self._buffers.action)

    def rollout(
        self,
        policies: Mapping[str, KernelPolicy | None] | PolicyRollout,
        num_steps: int,
        trace: RolloutTrace | None = None,
        greedy: bool = False,
    ) -> RolloutTrace:
        """Play steps in which policies act inside the kernels, without returning to Python.

        The random streams of the worlds do not change, and a world acts the same in batches of any size. While
        episodes are recorded, every step returns to Python.

        Args:
            policies: Policy of each group or agent by its name; agents without one take random legal actions. Or
                prepared launches.
            num_steps: Number of steps T, at least 1.
            trace: Buffers of at least T steps to fill; None allocates some. Pass the same buffers and policies again to
                keep the recorded launches.
            greedy: Take the most probable actions instead of samples.

        Returns:
            The filled buffers; with prepared launches, their buffers.

        Raises:
            ConfigError: ``num_steps`` is out of range, or a policy or the buffers do not fit.
            ResetNeededError, ActionError: See :meth:`step`.
        """
        self._prepare_step()
        if type(num_steps) is not int or not 1 <= num_steps <= MAX_INT:  # the check takes longer than short rollouts
            num_steps = check_value(self.id, "num_steps", num_steps, int, ge=1, le=MAX_INT)
        plan = PolicyRollout.of(self, policies, num_steps, trace, self._last_rollout)
        self._last_rollout = self._last_rollout if trace is None else plan
        if self.is_recording:
            for t in range(num_steps):
                plan.run(1, t, greedy)
                self._begin_change()
                self._record_step()
                self._started = True
        else:
            plan.run(num_steps, 0, greedy)
        if self._on_gpu:
            self._illegal.copy_to_host(wait=False)
        else:
            self.raise_pending_errors()
        return cast(RolloutTrace, plan.trace)

    def sample_actions(self) -> torch.Tensor:
        """Sample a uniformly random legal action for every agent, (E, A) or (E, A, K), from the worlds' own streams.

        The sample belongs to the current step: a second call before the next step returns the same actions.
        """
        self._check_open()
        self._launcher.run("sample")
        return self._returned(self._buffers.action)

    # ---------------------------------------------------------------- global state

    def state(self) -> torch.Tensor:
        """Return the global state (E, S) for centralized critics: the environment's own, or all observations joined."""
        self._check_open()
        if self._launcher.program.global_state:
            self._launcher.run("global_state")
            return self._returned(self._io["global_state"])
        return self._joined(self.obs)

    def final_state(self) -> torch.Tensor:
        """Return the global state (E, S) after the last step and before an autoreset, for centralized critics.

        It is defined in worlds where the last step cut an agent or ended the episode. An agent that was cut in this
        step is alive in it: its value is the value of going on. Call `keep_final_state` once before the steps.

        Raises:
            ConfigError: `keep_final_state` was not called, and the environment has its own global state.
        """
        self._check_open()
        if self._launcher.rules.keeps_final_state:
            return self._returned(self._io["final_state"])
        if self._launcher.program.global_state:
            raise ConfigError(
                f"{self.id}: final_state: final global states are not kept; call keep_final_state() first"
            )
        return self._joined(observations_before_autoreset(self))

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

    def set_params(self, **values: float | torch.Tensor) -> None:
        """Change environment parameters for the whole batch (a number) or per world (a tensor (E,)).

        The first per-world value moves the parameters to new memory: captured CUDA graphs must be captured again.

        Raises:
            ConfigError: An unknown or fixed name, a tensor of another shape, or a value that is not finite, not an
                int where one is needed, or outside the limits of the setting of this name.
        """
        self._check_open()
        table = parameters.changed(
            self.id,
            self.definition,
            self.config,
            self._buffers.params,
            values,
            num_envs=self.num_envs,
            randomized=self.domain_randomization,
        )
        self._load_params(table)

    def get_params(self, envs: int | Sequence[int] | torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """Return the environment parameters by name, each (1,) or (E,); of the worlds ``envs`` (indices), each (W,).

        Raises:
            ConfigError: An index is out of range.
        """
        rows = None if envs is None else torch.tensor(check_worlds(self.id, envs, self.num_envs), device=self.device)
        return parameters.read(self.definition, self._buffers.params, self.num_envs, rows)

    # ---------------------------------------------------------------- CUDA graphs and recordings

    def capture(self, play: Callable[[], Any], generators: Sequence[torch.Generator] = ()) -> CapturedFunction:
        """Record the GPU work of a function as one CUDA graph: a step, or a whole rollout with the policy in it.

        Args:
            play: Function that steps this core any number of times. It must always do the same work on the same
                tensors, without reading from the device. It runs twice to warm up; the worlds and the generators are
                restored afterwards, other tensors that it writes are not.
            generators: Generators of the core's device that ``play`` draws from.

        Returns:
            A function that replays the graph; on a CPU nothing is recorded and it calls ``play``. It keeps the core,
            ``play`` and the generators alive, because a replay uses their memory.

        Raises:
            CaptureError: ``reuse_buffers`` is False: a step would allocate its results.
            ResetNeededError: The environment was not reset.
            ConfigError: ``play`` is not callable, or ``generators`` holds something else.
        """
        self._check_open()
        if not callable(play):
            raise ConfigError(f"{self.id}: capture takes a function that steps this core, got {shown(play)}")
        if not isinstance(generators, list | tuple) or not all(isinstance(g, torch.Generator) for g in generators):
            raise ConfigError(f"{self.id}: generators: expected a list of torch.Generator, got {shown(generators)}")
        self._check_ready("capture")
        if not self.reuse_buffers:
            raise CaptureError(f"{self.id}: {REUSE}")

        def play_and_report() -> None:
            with self._illegal.defer_copies():
                play()

        graph = None
        if self._on_gpu:
            graph = cuda_graph.capture(
                play_and_report,
                generators,
                device=self.device,
                get_state=self.get_state,
                set_state=self._load_state,
                raise_pending_errors=self.raise_pending_errors,
            )
        return CapturedFunction(play, generators, (self, self._launcher.arguments), graph)

    def record_episodes(self, envs: int | Sequence[int]) -> EpisodeRecorder:
        """Record whole episodes of some worlds from now on: state, observation, action, reward and ends of every step.

        ::

            with core.record_episodes([0, 7]) as recorder:
                ...  # step and reset as usual
            for episode in recorder.take():
                print(episode.world, episode.reward.sum(0))

        See :class:`gpu_envs.runtime.episode_recorder.EpisodeRecorder`, which also draws them.
        """
        self._check_open()

        def make_core(num_envs: int) -> Core:
            cpu = torch.device("cpu")
            return Core(self.definition, env_id=self.id, config=self.config, num_envs=num_envs, device=cpu)

        worlds = check_worlds(self.id, envs, self.num_envs)
        recorder = EpisodeRecorder(self.id, self._buffers, worlds, self.env_offset, make_core)
        self._recorders = [*self._open_recorders(), recorder]
        return recorder

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

    # ---------------------------------------------------------------- private

    def _check_action(self, action: Any) -> None:
        """Raise the ActionError of an action with a wrong type, shape, dtype or device."""
        check_tensor(self.id, "action", action, tuple(self._action_shape), self._action_dtype, self.device)

    def _prepare_step(self) -> None:
        """Raise an error if the environment was not reset, is closed, or has reported an illegal action on a GPU."""
        self._check_open()
        self._check_ready("step")
        self._look_for_errors()

    def _step_unchecked(self, action: torch.Tensor) -> StepResult:
        """Play a step with actions of the right shape; on a CPU, raise the error of illegal values afterwards."""
        self._begin_change()
        results = self._launcher.step(action, self.reuse_buffers)
        self._finish_step(action)
        info = dict(zip(self._buffers.info, results[4:], strict=True))
        return results[0], results[1], results[2], results[3], info

    def _finish_step(self, action: torch.Tensor | None) -> None:
        """Record the step; on a CPU raise the error of an illegal action, whose value the message shows if known."""
        if self._recorders:
            self._record_step()
        self._started = True
        if self._on_gpu:
            self._illegal.copy_to_host(wait=False)
        elif min(self._error_slots) != episode.NO_ERROR:
            self._illegal.raise_error(action)

    def _load_state(self, state: Mapping[str, torch.Tensor]) -> None:
        """Copy a state that has been checked."""
        self._begin_change()
        state = state_validation.upgraded(state, self._indices)
        for name, tensor in self._buffers.saved_tensors().items():
            if name in state or name not in self._buffers.shows_results:
                tensor.copy_(state[name])
        self._load_params(state["params"].to(self.device))
        self._started = True

    @torch.inference_mode(False)
    def _load_params(self, table: torch.Tensor) -> None:
        """Copy a table of parameters (1, F) or (E, F)."""
        if table.shape == self._buffers.params.shape:
            self._buffers.params.copy_(table)
        else:
            self._buffers.params = table.clone(memory_format=torch.contiguous_format)
            self._record_launches()

    def _joined(self, obs: torch.Tensor) -> torch.Tensor:
        """Return a copy of observations (E, A, D) without padding, joined, (E, S)."""
        flat, columns = obs.reshape(self.num_envs, -1), self._buffers.obs_columns
        return flat.clone() if columns is None else flat[:, columns]

    def _record_launches(self) -> None:
        """Record the launches; needed again only when the memory of an argument moves."""
        with warp_kernels.building, current_device_kept(self.device):
            structs = self._buffers.structs(self.autoreset, self.illegal_actions)
            self._launcher.set_arguments(*structs)

    def _open_recorders(self) -> Sequence[EpisodeRecorder]:
        """Return the recorders that are not closed, and forget the others."""
        self._recorders = [recorder for recorder in self._recorders if not recorder.closed]
        return self._recorders

    def _record_step(self) -> None:
        """Record a step; CaptureError inside a CUDA graph."""
        recorders = self._open_recorders()
        if recorders and self._on_gpu and self._is_capturing():
            raise CaptureError(f"{self.id}: recording allocates; close the recorder before a CUDA graph is captured")
        for recorder in recorders:
            recorder.after_step()

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
