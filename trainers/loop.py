"""The training loop: one environment, one learner per policy, rollouts and updates in turn."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import torch
from torch import Tensor

from gpu_envs.core import Core
from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError
from trainers import checkpoint, runs
from trainers.agents import members_of
from trainers.checkpoint import Checkpoint
from trainers.config import FIXED, CoreFactory, TrainConfig, make_core, make_eval_core
from trainers.evaluate import play
from trainers.files import write_json
from trainers.learner import State, part_of
from trainers.logs import Clock, Progress, RunLog
from trainers.seats import make_seats

EVAL_SEED = 271_828
"""Worlds of the evaluations; training worlds have the run's own seed."""


class Trainer:
    """Collects rollouts from one core, updates one learner per policy, and keeps the run's files.

    Inside a rollout nothing is read from the device and no Python runs per agent; metrics stay on the device and are
    read once per iteration.
    """

    def __init__(
        self,
        config: TrainConfig,
        out: Path | None = None,
        resume: Checkpoint | None = None,
        factory: CoreFactory = make_core,
        progress: Progress | None = None,
    ) -> None:
        """Builds environment and learners, and then opens the run's folder.

        Args:
            config: The run.
            out: Its folder, not that of another run; if None a new one below out/, or the run's own with `resume`.
            resume: Continue from here. Later checkpoints of the same run go aside, see `runs.set_aside`.
            factory: Makes cores, `make_core` unless a test has its own.
            progress: Called after every iteration.

        Raises:
            ConfigError: `out` holds another run or cannot be made, or `resume` has `total_steps` behind it.
            CheckpointError: `resume` does not fit `config`.
        """
        out = runs.choose(out, resume)
        self.config, self.factory, self.progress = config, factory, progress
        if resume is not None:
            _check_resume(config, resume)
        self.core = factory(config, config.num_envs, config.seed)
        self.device: torch.device = self.core.device
        self.obs, self.info = self.core.reset(seed=config.seed)
        self.seats = make_seats(config, self.core)
        self.action: Tensor = self.core.action_buffer
        self.iteration, self.steps, self.seconds = 0, 0, 0.0
        self.stopped_by: int | None = None
        self.saved: int | None = None
        self.aside: Path | None = None
        self.shown: dict[str, str] = {}
        self.eval_core: Core | None = None
        if resume is not None:
            self._restore(resume)
        self.out = runs.open_folder(out, config.env_id)
        if resume is not None and runs.belongs(resume, self.out):
            self.saved = resume.iteration
            self.aside = runs.set_aside(self.out, resume.iteration)
        elif resume is not None:  # a run in a folder of its own has its first checkpoint there
            self._save(resume.score)
        self.log = RunLog(self.out, after=self.iteration)
        write_json(self.out / "config.json", dataclasses.asdict(config))
        self.clock = Clock(self.device)

    def run(self) -> Path:
        """Trains to `total_steps`, or to the end of the iteration in which SIGINT or SIGTERM came.

        Returns:
            The last checkpoint, saved in either case. `stopped_by` holds the signal, if any.

        Raises:
            GpuEnvsError: Losses or gradients are no longer finite; the checkpoints are from before.
        """
        threads = torch.get_num_threads()
        self.config.use_threads()
        try:
            with _signals(self._stop):
                while self.iteration < self.config.iterations and self.stopped_by is None:
                    self.iterate()
            if self.saved != self.iteration:
                self._save(score=None)
        finally:
            self.log.close()
            torch.set_num_threads(threads)
        return checkpoint.find(self.out)

    def _stop(self, number: int) -> None:
        self.stopped_by = number

    def iterate(self) -> None:
        """One rollout, one update of every learner, one row of metrics, and a checkpoint when it is due."""
        begin = time.perf_counter()
        self.clock.start()
        episodes = self._collect()
        metrics: dict[str, Tensor] = {}
        for name, seat in self.seats.items():
            metrics |= {f"{name}/{key}": value for key, value in seat.learner.update().items()}
        self.clock.mark("learning")
        self.iteration += 1
        taken = self.config.rollout_steps
        self.steps += taken
        values = torch.stack([value.float() for value in metrics.values()]).tolist() if metrics else []
        self._check_finite(dict(zip(metrics, values, strict=True)))
        phases = self.clock.read()
        lasted = time.perf_counter() - begin
        self.seconds += lasted
        row = {"iteration": self.iteration, "steps": self.steps, "seconds": self.seconds}
        row |= {"steps_per_second": taken / lasted, **{f"time/{phase}": value for phase, value in phases.items()}}
        row |= self._episode_metrics(episodes.tolist()) | dict(zip(metrics, values, strict=True))
        due = self.iteration % self.config.checkpoint_every == 0 or self.iteration == self.config.iterations
        score = None
        if due and self.config.eval_episodes:
            against_random = self._evaluate()
            row |= against_random
            returns = [value for name, value in against_random.items() if name.endswith("/return")]
            score = sum(returns) / len(returns)
        self.log.write(row)
        if due:
            self._save(score)
        if self.progress is not None:
            for group in self.core.groups:  # the last known value: not every rollout sees the end of an episode
                value = row[f"{group}/return_per_agent"]
                self.shown[group] = self.shown.get(group, "-") if math.isnan(value) else f"{value:.2f}"
            text = "  ".join(f"{group} {value}" for group, value in self.shown.items())
            self.progress(self.steps, f"{row['steps_per_second']:,.0f} steps/s  return per agent: {text}")

    def _check_finite(self, metrics: dict[str, float]) -> None:
        """Ends a training that has come apart, before it is saved over what it was."""
        for name, value in metrics.items():
            if name.endswith(("loss", "grad_norm")) and not math.isfinite(value):
                kept = checkpoint.every(self.out / "checkpoints")
                where = f"the last checkpoint before is {kept[-1]}" if kept else "there is no checkpoint yet"
                raise GpuEnvsError(
                    f"iteration {self.iteration}: {name} is {value}: the training has diverged, or the environment "
                    f"gave what is not finite; {where}. Try a lower learner.learning_rate or learner.reward_scale"
                )

    @torch.no_grad()
    def _collect(self) -> Tensor:
        """Plays one rollout; returns (3, A): episodes of worlds that ended, their summed returns and lengths, by agent.

        An agent counts when its world ends, not when it leaves: else those who leave early would be over-represented.
        """
        core, clock = self.core, self.clock
        episodes = torch.zeros((3, core.num_agents), device=self.device)
        for _ in range(self.config.learner.rollout_length):
            for seat in self.seats.values():
                seat.act(core, self.info, self.action)
            clock.mark("policy")
            self.info = core.step(self.action)[4]
            clock.mark("environment")
            restarted = core.steps == 0  # after SAME_STEP's reset the clock stands at 0
            for seat in self.seats.values():
                seat.observe(core, self.info, self.action, restarted)
            going_on = ~restarted.unsqueeze(1)
            episodes[0] += (~going_on).sum(0)
            episodes[1] += self.info["episode_return"].masked_fill(going_on, 0.0).sum(0)
            episodes[2] += self.info["episode_length"].masked_fill(going_on, 0).sum(0)
            clock.mark("storage")
        core.check()
        return episodes

    def _episode_metrics(self, episodes: list[list[float]]) -> dict[str, float]:
        """By group: means over its agents in the worlds that ended in the rollout, NaN if none did."""
        row = {}
        for group, members in self.core.groups.items():
            count, returns, lengths = (sum(line[agent] for agent in members) for line in episodes)
            row[f"{group}/return_per_agent"] = returns / count if count else math.nan
            row[f"{group}/episode_length"] = lengths / count if count else math.nan
        return row

    def _evaluate(self) -> dict[str, float]:
        """Each policy against random ones, the same worlds every time; draws from no stream of the training."""
        if self.eval_core is None:
            self.eval_core = make_eval_core(self.config, self.config.eval_episodes, self.config.seed, self.factory)
        row = {}
        for name, seat in self.seats.items():
            policy = seat.learner.policy()
            outcome = play(self.eval_core, dict.fromkeys(seat.members, policy), seed=EVAL_SEED)
            rows = set(members_of(self.core, seat.members))
            own = [group for group, members in self.core.groups.items() if rows & set(members)]
            row[f"eval/{name}/return"] = sum(outcome.returns[group].mean for group in own)
            row[f"eval/{name}/episode_length"] = outcome.length.mean
        return row

    def _save(self, score: float | None) -> None:
        """Writes a checkpoint of everything the next iteration depends on."""
        state: State = {f"core.{name}": tensor for name, tensor in self.core.get_state().items()}
        for name, seat in self.seats.items():
            state |= {f"learner.{name}.{key}": value for key, value in seat.learner.state_dict().items()}
        state["trainer.seconds"] = self.seconds
        policies = {name: seat.learner.policy() for name, seat in self.seats.items()}
        folder, config = self.out / "checkpoints", dataclasses.asdict(self.config)
        checkpoint.save(folder, self.iteration, self.steps, config, state, policies, score, self.config.keep_last)
        self.saved = self.iteration

    def _restore(self, resume: Checkpoint) -> None:
        """Puts everything back."""
        self.core.set_state(part_of(resume.state, "core."))
        for name, seat in self.seats.items():
            seat.learner.load_state_dict(part_of(resume.state, f"learner.{name}."))
        seconds = resume.state.get("trainer.seconds")
        if not isinstance(seconds, int | float):
            raise CheckpointError(
                f"{resume.path / 'manifest.json'}: trainer.seconds: expected a number, got {seconds!r}"
            )
        self.seconds, self.iteration, self.steps = seconds, resume.iteration, resume.steps


def _check_resume(config: TrainConfig, resume: Checkpoint) -> None:
    """Sees that a checkpoint is of this run and that something is left to do."""
    recorded = TrainConfig.from_json(resume.config)
    for name in FIXED:
        expected, got = getattr(config, name), getattr(recorded, name)
        if expected != got:
            raise CheckpointError(f"{resume.path / 'manifest.json'}: {name}: expected {expected}, got {got}")
    if config.total_steps <= resume.steps:
        raise ConfigError(
            f"total_steps = {config.total_steps}: expected more than the {resume.steps} of {resume.path}; "
            "raise it, or see what was learned with gpu-envs eval"
        )


@contextlib.contextmanager
def _signals(stop: Callable[[int], None]) -> Iterator[None]:
    """Within the block the first SIGINT or SIGTERM calls `stop`; a second one acts as usual."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python delivers signals to the main thread only
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handle(number: int, frame: FrameType | None) -> None:
        stop(number)
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
