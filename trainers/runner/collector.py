"""Collect rollouts: the inner loop of every training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from gpu_envs.runtime.core import Core
from trainers.base.phase_timer import PhaseTimer
from trainers.base.state import State, select_prefix
from trainers.base.weak_methods import weak_method
from trainers.config.train_config import TrainConfig, autocast
from trainers.runner.agent_assignment import ActingGroup, acting_groups
from trainers.runner.episode_statistics import EpisodeStatistics
from trainers.runner.kernel_rollout import KernelRollout, make_kernel_rollout
from trainers.runner.learner_group import LearnerGroup
from trainers.runner.opponents import Opponents


class Collector:
    """Step the environments with the learners' actions and store the transitions in their rollout buffers.

    Inside a rollout there is no host synchronization and no Python code per agent. On a GPU the rollout, including the
    policies, is captured once as a CUDA graph and then replayed, if `config.cuda_graph` is set.
    """

    def __init__(
        self, config: TrainConfig, core: Core, learners: LearnerGroup, opponents: Opponents | None = None
    ) -> None:
        """Reset the environments with the seed of the run.

        Args:
            config: Configuration of the run.
            core: The environments; their buffers must be reused.
            learners: Learners that act and store transitions.
            opponents: Other policies in the environments of the learners, if any.
        """
        self.config = config
        self.core: Core = core
        self.learners: LearnerGroup = learners
        self.opponents: Opponents | None = opponents
        self.info: Mapping[str, Tensor] = core.reset(seed=config.seed)[1]
        self.groups: list[ActingGroup] = acting_groups(learners.assignments, core)
        self.rollout_length: int = config.learner.rollout_length
        self.action: Tensor = core.action_buffer
        self.episodes: EpisodeStatistics = EpisodeStatistics(core, self.rollout_length)
        self.timer: PhaseTimer = PhaseTimer(core.device)
        self.uses_cuda_graph: bool = config.cuda_graph and core.device.type == "cuda" and core.captures
        self.kernels: KernelRollout | None = make_kernel_rollout(config, core, learners.assignments, opponents)
        if self.kernels is not None:
            self.kernels.share(self.episodes)
        self._replay: Callable[[], Any] | None = None
        self._uses_kernels = False
        self._captured_version = (0, 0)  # versions of the opponents and of the kernels in the captured rollout

    def collect(self) -> bool:
        """Collect one rollout, without host synchronization if it is replayed; see `raise_pending_errors`.

        Returns:
            True: there is a rollout, see `AsyncCollector.collect`.
        """
        self._uses_kernels = self.kernels is not None and self.kernels.prepare()
        waits = self.opponents is not None and not self._uses_kernels and self.opponents.prepare()
        if not self.uses_cuda_graph or waits:
            self._rollout()
        else:
            version = (
                0 if self.opponents is None else self.opponents.version,
                0 if self.kernels is None else self.kernels.version,
            )
            if self._replay is None or self._captured_version != version:
                self._replay, self._captured_version = self._capture(), version
            self._replay()
            self.timer.replayed()
        return True

    def raise_pending_errors(self) -> None:
        """Wait for the device, and raise an error if the environment refused an action since the last call.

        Raises:
            GpuEnvsError: The environment refused an action.
        """
        self.core.raise_pending_errors()

    def _rollout(self) -> None:
        with torch.no_grad(), autocast(self.config):
            self._play()

    def _rewound_rollout(self) -> None:
        for assignment in self.learners.assignments.values():
            assignment.learner.rollout.rewind()
        self._rollout()

    def _play(self) -> None:
        core, timer, opponents = self.core, self.timer, self.opponents
        timer.start()
        if self.kernels is not None and self._uses_kernels:
            self.kernels.play()
            timer.mark("rollout")
            return
        for group in self.groups:
            group.start()
        for t in range(self.rollout_length):
            for group in self.groups:
                group.act(core, self.info, self.action)
            if opponents is not None:
                opponents.act(core, self.info, self.action)
            timer.mark("inference")
            self.info = core.step(self.action)[4]
            timer.mark("env_step")
            restarted = core.elapsed_steps == 0  # autoreset "same_step" has set the counter to 0
            valid = core.valid if opponents is None else core.valid & opponents.learns
            for group in self.groups:
                group.observe(core, self.info, self.action, restarted, valid)
            if opponents is not None:
                opponents.observe(core, self.info, restarted)
            self.episodes.store(t, restarted, self.info, core.episode_results)
            timer.mark("storage")

    def _capture(self) -> Callable[[], Any]:
        """Capture a rollout as a CUDA graph; the rollouts this needs are undone afterwards."""
        learners = {name: assignment.learner for name, assignment in self.learners.assignments.items()}
        states = {name: _copy(learner.state_dict()) for name, learner in learners.items()}
        clocks = [a.clock for a in self.learners.assignments.values() if a.clock is not None]
        actions = [clock.held.clone() for clock in clocks]
        generators = [learner.generator for learner in learners.values()]
        opponents_before: State = {}
        if self.opponents is not None:
            opponents_before = _copy(self.opponents.state_dict())
            generators += self.opponents.generators

        replay = self.core.capture(weak_method(self._rewound_rollout), generators)
        for name, learner in learners.items():
            learner.load_state_dict(states[name])
        for clock, action in zip(clocks, actions, strict=True):
            clock.held.copy_(action)
        if self.opponents is not None:
            self.opponents.load_state_dict(opponents_before)
        if self.kernels is not None:
            self.kernels.prepare()  # the matchups that were just restored
        self.timer.read()  # rollouts before the capture do not count
        return replay

    def state_dict(self) -> State:
        """Return the state of the environments, the opponents and the episode statistics."""
        state: State = {f"core.{name}": tensor for name, tensor in self.core.get_state().items()}
        if self.opponents is not None:
            state |= {f"opponents.{key}": value for key, value in self.opponents.state_dict().items()}
        return {**state, "episodes.recent": self.episodes.recent}

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned; other entries are ignored.

        Raises:
            CheckpointError: The state does not fit the environments or the opponents.
        """
        self.core.set_state(select_prefix(state, "core."))
        if self.opponents is not None:
            self.opponents.load_state_dict(select_prefix(state, "opponents."))
        self.episodes.load_recent(state.get("episodes.recent"))

    def metrics(self) -> dict[str, float]:
        """Return {}: the trainer measures everything itself."""
        return {}

    def stop(self) -> None:
        """Do nothing: a rollout waits for nothing."""

    def close(self) -> None:
        """Do nothing: nothing runs between rollouts."""


def _copy(state: State) -> State:
    """Return a copy of the entries that a rollout can change: all but the replay, which only updates change."""
    return {
        name: value.clone() if isinstance(value, Tensor) and not name.startswith("replay.") else value
        for name, value in state.items()
    }
