"""Training with Lightning: every environment and algorithm with Lightning's loop, callbacks, loggers and processes.

    module = LearnerModule(preset("TagContinuous-v0", "cpu"))
    lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp").fit(module)

A batch is a rollout; an epoch is `checkpoint_interval` rollouts. Learners take their own gradient steps (manual
optimization), each through Lightning: `max_steps` counts them, and callbacks and profilers see them.
"""
# Lightning is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, nullcontext
from typing import Any

import torch
from torch import Tensor, distributed, nn

from gpu_envs.errors import CheckpointError, ConfigError, missing_extra, packages
from trainers.base.phase_timer import LEARNING_PHASES
from trainers.base.random_streams import derive_seed
from trainers.base.state import State, to_device
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.distributed.sharded_reducer import AllReduceReducer
from trainers.models.policy import Policy
from trainers.runner.agent_assignment import PolicyAssignment
from trainers.runner.collector import Collector
from trainers.runner.learner_group import LearnerGroup
from trainers.runner.training_evaluator import TrainingEvaluator

try:
    from lightning.pytorch import LightningModule
    from lightning.pytorch.strategies import DDPStrategy, DeepSpeedStrategy, SingleDeviceStrategy
except ModuleNotFoundError as error:
    raise missing_extra(error, "trainers.integrations.lightning", ("lightning",), packages("lightning")) from None

LIGHTNING_COUNTERPARTS = {
    "patience": "EarlyStopping('eval/score', mode='max', patience=...)",
    "max_seconds": "Timer(...)",
    "until_return": "EarlyStopping('<group>/episode_return_mean', mode='max', stopping_threshold=...)",
    "keep_last_checkpoints": "ModelCheckpoint(save_top_k=...)",
}
"""Callbacks of Lightning that replace settings of `trainers.runner.trainer.Trainer`, by setting."""


class LearnerModule(LightningModule):
    """The learners of a run, one per policy, and the environments of this process.

    Each of R processes simulates `config.num_envs` environments with different random streams. Gradients and the
    statistics of normalizers are averaged over all processes, so all have the same networks. Training ends after
    `config.total_steps` environment steps of all processes together. Lightning selects the device, not `config.device`.

    Logged are the metrics of the learners, "env_steps", "env_steps_per_second", "time/<phase>" [s], and by group
    "episode_return_mean" and "episode_length_mean" of the last rollout in which an episode ended. With
    `config.eval_episodes` > 0 an evaluation at the end of every epoch logs the scores of
    `trainers.runner.training_evaluator.TrainingEvaluator`. Monitor "eval/score" with `ModelCheckpoint` and
    `EarlyStopping`, both with mode="max". All processes play the same evaluation episodes.
    """

    assignments: Mapping[str, PolicyAssignment] = {}
    """Agents and learner of each policy, by its name; empty before `setup`."""

    def __init__(self, config: TrainConfig | Mapping[str, Any]) -> None:
        """Create a module without environments; `setup` creates them.

        Args:
            config: Configuration of the run, or its JSON form from a checkpoint of Lightning.

        Raises:
            ConfigError: A setting has no effect under Lightning.
        """
        super().__init__()
        self.config: TrainConfig = config if isinstance(config, TrainConfig) else TrainConfig.from_json(dict(config))
        self._check_has_effect()
        if not torch.cuda.is_initialized():  # Lightning starts CUDA before it asks for the environments
            dataclasses.replace(self.config, device="cuda").prepare()
        self.save_hyperparameters({"config": json.loads(json.dumps(dataclasses.asdict(self.config)))})
        self.automatic_optimization = False
        self.iteration = 0
        self.max_norm: float | None = None
        self.nets: torch.nn.ModuleList = nn.ModuleList()
        self.latest_metrics: dict[str, float] = {}

    def _check_has_effect(self) -> None:
        """Raise ConfigError if a setting that Lightning replaces differs from its default."""
        for name, instead in LIGHTNING_COUNTERPARTS.items():
            value, default = getattr(self.config, name), getattr(TrainConfig, name)
            if value != default:
                raise ConfigError(f"{name} = {value!r}: has no effect under Lightning; use {instead}, or leave it out")

    def policies(self) -> dict[str, Policy]:
        """Return frozen copies of the current policies by name."""
        return {name: assignment.policy() for name, assignment in self.assignments.items()}

    def training_state(self) -> State:
        """Return the state of environments and learners of this process."""
        return {**self.collector.state_dict(), **self.learners.state_dict()}

    # Before the training

    def configure_callbacks(self) -> list[Any]:
        """Check the Trainer's settings; this is the first hook that Lightning calls.

        Returns:
            An empty list.

        Raises:
            ConfigError: Gradient clipping, precision or strategy is not supported.
        """
        trainer = self.trainer
        if trainer.gradient_clip_val:
            if trainer.gradient_clip_algorithm not in (None, "norm"):
                actual = trainer.gradient_clip_algorithm
                raise ConfigError(f"Trainer(gradient_clip_algorithm={actual!r}): learners clip by the norm, 'norm'")
            # Lightning does not clip in manual optimization: learners do, after averaging over processes
            self.max_norm, trainer.gradient_clip_val = float(trainer.gradient_clip_val), None
        if trainer.precision != "32-true":
            raise ConfigError(f"Trainer(precision={trainer.precision!r}): learners compute in float32, '32-true'")
        is_supported = isinstance(trainer.strategy, (SingleDeviceStrategy, DDPStrategy))
        if not is_supported or isinstance(trainer.strategy, DeepSpeedStrategy):
            actual = type(trainer.strategy).__name__
            raise ConfigError(f"Trainer(strategy=...): expected one device or 'ddp', got {actual}")
        return []

    def setup(self, stage: str) -> None:
        """Create the environments and learners of this process, unless an earlier fit has created them.

        Raises:
            ConfigError: The module was trained before in other processes or on another device.
        """
        device, ranks = self.trainer.strategy.root_device, self.trainer.world_size
        if not self.assignments:
            self._build(device, self.global_rank, ranks)
            config = dataclasses.replace(self.config, device=str(device))
            members = {name: assignment.members for name, assignment in self.assignments.items()}
            self.evaluator: TrainingEvaluator | None = (
                TrainingEvaluator(config, self.collector.core, members) if config.eval_episodes else None
            )
        elif self.ranks != ranks or self.collector.core.device != device:
            raise ConfigError(
                f"this module was trained in {self.ranks} process(es) on {self.collector.core.device}, Trainer has "
                f"{ranks} on {device}; continue with a new LearnerModule and fit(..., ckpt_path=...)"
            )

    def _build(self, device: torch.device, rank: int, ranks: int) -> None:
        c = dataclasses.replace(self.config, device=str(device), total_steps=-(-self.config.total_steps // ranks))
        c.prepare()
        core = make_train_core(c, c.num_envs, c.seed, env_offset=rank * c.num_envs)
        self.ranks: int = ranks
        self.iterations: int = c.iterations
        self.learners: LearnerGroup = LearnerGroup(c, core)
        self.collector: Collector = Collector(c, core, self.learners)
        self.assignments = self.learners.assignments
        self.learners.set_reducer(LightningReducer(self))
        for index, assignment in enumerate(self.assignments.values()):
            if rank > 0:  # equal initial weights, but own streams for actions and minibatches
                assignment.learner.generator.manual_seed(derive_seed(derive_seed(c.seed, index), rank))
            self.nets.append(assignment.learner.net)

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        """Return the optimizers of all learners, which Lightning counts and saves."""
        return [optimizer for a in self.assignments.values() for optimizer in a.learner.optimizers.values()]

    def train_dataloader(self) -> RolloutDataLoader:
        """Return the rollouts of this process."""
        return RolloutDataLoader(self.collector, self.config.checkpoint_interval)

    def on_fit_start(self) -> None:
        """Apply the number of threads and the determinism of the configuration."""
        self.torch_settings: ExitStack[bool | None] = ExitStack()
        self.torch_settings.enter_context(self.config.in_force(self.learners.use_kernels))
        self.last_step_end = time.perf_counter()

    def on_fit_end(self) -> None:
        """Restore the previous number of threads and determinism."""
        self.torch_settings.close()

    # The training

    def training_step(self, _: Tensor) -> None:
        """Update every learner from the rollout that the data loader has collected; the batch itself is a scalar."""
        self.iteration += 1
        timer = self.collector.timer
        timer.start()
        row = self.learners.update(self.iteration, lambda: "Lightning's checkpoints are from before")
        timer.mark("update")
        self.collector.raise_pending_errors()
        episodes = self.collector.episodes.read(self.learners.reducer)
        self.latest_metrics |= {name: value for name, value in episodes.items() if not math.isnan(value)}
        phases = timer.read()
        row |= {f"time/{phase}": phases.get(phase, 0.0) for phase in LEARNING_PHASES}
        now = time.perf_counter()
        steps = self.config.rollout_steps * self.ranks
        row |= {"env_steps": float(self.iteration * steps), "env_steps_per_second": steps / (now - self.last_step_end)}
        self.last_step_end: float = now
        self.log_dict(row)
        self.log_dict(self.latest_metrics, prog_bar=True)
        self.trainer.should_stop |= self.iteration >= self.iterations

    def on_train_epoch_end(self) -> None:
        """Evaluate the current policies, before callbacks read the metrics."""
        if self.evaluator is not None:
            self.log_dict(
                self.evaluator.scores({name: a.policy() for name, a in self.assignments.items()}),
                sync_dist=self.ranks > 1,
            )
            self.collector.timer.mark("evaluation")

    # Checkpoints

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add environments, random streams, counters and replay buffers of all processes to Lightning's checkpoint."""
        state = to_device(self.training_state(), "cpu")
        states: list[State] = [state]
        if self.ranks > 1:  # one file for all processes, written by the first
            states = [state] * self.ranks if self.global_rank == 0 else []
            distributed.gather_object(state, states or None)
        checkpoint["gpu_envs"] = {"iteration": self.iteration, "known": dict(self.latest_metrics), "states": states}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore the state that `on_save_checkpoint` added, bit for bit; without a Trainer, the networks only.

        Raises:
            CheckpointError: The checkpoint is of another run or number of processes, or no steps are left.
        """
        config = checkpoint.get("hyper_parameters", {}).get("config")
        saved = checkpoint.get("gpu_envs")
        if not isinstance(config, dict) or not isinstance(saved, dict):
            raise CheckpointError("expected a checkpoint of a LearnerModule, got another one")
        self.config.check_same_run(config, "Lightning's checkpoint")
        if not self.assignments:  # LearnerModule.load_from_checkpoint
            self._build(torch.device("cpu"), rank=0, ranks=1)
        elif len(saved["states"]) != self.ranks:
            raise CheckpointError(
                f"Lightning's checkpoint: expected one of {self.ranks} processes, got one of {len(saved['states'])}; "
                "continue with as many devices as before"
            )
        else:
            if saved["iteration"] >= self.iterations:
                raise CheckpointError(
                    f"Lightning's checkpoint: expected one with steps left of total_steps = {self.config.total_steps}, "
                    f"got one after {saved['iteration']} of {self.iterations} rollouts; raise total_steps"
                )
            state = saved["states"][self.global_rank]
            self.collector.load_state_dict(state)
            self.learners.load_state_dict(state)
        self.iteration: int = saved["iteration"]
        self.latest_metrics = dict(saved["known"])


class RolloutDataLoader:
    """Collect a rollout whenever Lightning requests a batch; the batch is an empty signal.

    The learners store the rollout itself. The loader has a length because Lightning otherwise requests the next
    rollout before the learners have used the last one.
    """

    def __init__(self, collector: Collector, length: int) -> None:
        """Collect `length` rollouts per epoch with a collector."""
        self.collector: Collector = collector
        self.length: int = length

    def __len__(self) -> int:
        """Return the number of rollouts in an epoch."""
        return self.length

    def __iter__(self) -> Iterator[Tensor]:
        """Yield a scalar per rollout; environments continue where the previous rollout ended."""
        while True:
            self.collector.collect()
            yield torch.zeros(())

    def state_dict(self) -> dict[str, Any]:
        """Return an empty state: the module's checkpoint holds all environments. Lightning requires the method."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Ignore the empty state."""


class LightningReducer(AllReduceReducer):
    """Take gradient steps through Lightning, averaged over its processes."""

    def __init__(self, module: LearnerModule) -> None:
        """Create the reducer of a module's learners."""
        super().__init__(module.ranks)
        self.can_capture = False  # Lightning calls its callbacks at every gradient step
        self.module = module
        self.wrapped: dict[int, Any] = {}

    def step(
        self,
        optimizer: torch.optim.Optimizer,
        loss: Tensor | None,
        max_norm: float | None = None,
        active: Tensor | None = None,
    ) -> Tensor:
        """Take a gradient step by Lightning's wrapper of the optimizer, which counts steps and calls hooks.

        The Trainer's `gradient_clip_val`, if set, replaces `max_norm`.
        """
        return super().step(self._wrapped(optimizer), loss, self.module.max_norm or max_norm, active)

    def _backward(self, loss: Tensor) -> None:
        """Compute gradients of a scalar by Lightning, without DDP's averaging: it needs all parameters in each loss."""
        wrapper = self.module.trainer.strategy.model
        with wrapper.no_sync() if isinstance(wrapper, nn.parallel.DistributedDataParallel) else nullcontext():
            self.module.manual_backward(loss)

    def _wrapped(self, optimizer: torch.optim.Optimizer) -> Any:
        """Return Lightning's wrapper of an optimizer, which forwards all other attributes to it."""
        if id(optimizer) not in self.wrapped:
            optimizers = self.module.optimizers()
            wrappers = optimizers if isinstance(optimizers, list) else [optimizers]
            self.wrapped = {id(wrapper.optimizer): wrapper for wrapper in wrappers}
        return self.wrapped[id(optimizer)]

    def all_reduce_min(self, count: int) -> int:
        """Return the smallest count of all processes."""
        if self.ranks > 1:
            smallest = torch.tensor(count, device=self.module.device)
            distributed.all_reduce(smallest, distributed.ReduceOp.MIN)
            count = int(smallest)
        return count
