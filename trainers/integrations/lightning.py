"""Training under Lightning: any environment, any algorithm, with Lightning's loop, callbacks, loggers and processes.

    module = LearnerModule(preset("TagContinuous-v0", "cpu"))
    lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp").fit(module)

A batch is a rollout, an epoch `checkpoint_every` of them. Learners make their own gradient steps (Lightning's manual
optimisation), every one through Lightning: `max_steps` counts them, callbacks and profilers see them.
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

from gpu_envs.errors import CheckpointError, ConfigError, missing
from trainers.collector import Collector
from trainers.config import TrainConfig, make_core
from trainers.judge import Judge
from trainers.learner import State
from trainers.policy import Policy
from trainers.settings import derived_seed
from trainers.sharding import AmongRanks

try:
    from lightning.pytorch import LightningModule
    from lightning.pytorch.strategies import DDPStrategy, DeepSpeedStrategy, SingleDeviceStrategy
except ModuleNotFoundError as error:
    raise missing(error, "trainers.lightning", ("lightning",), "'gpu-envs[lightning]'") from None


INSTEAD = {
    "patience": "EarlyStopping('eval/score', mode='max', patience=...)",
    "until_return": "EarlyStopping('<group>/return_per_agent', mode='max', stopping_threshold=...)",
    "keep_last": "ModelCheckpoint(save_top_k=...)",
}
"""Of settings of our own loop."""


class LearnerModule(LightningModule):
    """The learners of a run, one per policy, and the worlds they play in.

    Each of R processes simulates `config.num_envs` worlds of its own, all different; gradients and the statistics of
    normalisers are averaged over them, so that the learners stay equal. Training ends after `config.total_steps` steps
    of all processes' worlds, if nothing ends it earlier. Where it runs Lightning decides, not `config.device`.

    Logged, besides the metrics of learners: "steps", "steps_per_second", "time/<phase>" in seconds, and by group
    "return_per_agent" and "episode_length" of the last rollout in which episodes ended. At the end of every epoch, if
    `config.eval_episodes` is not 0, what `trainers.judge.Judge` finds: follow "eval/score" with `ModelCheckpoint` and
    `EarlyStopping`, both with mode="max". All processes play the same episodes then, and find the same.
    """

    seats: Mapping[str, Any] = {}
    """By policy, from `setup` on; see `trainers.seats.Seat`."""

    def __init__(self, config: TrainConfig | Mapping[str, Any]) -> None:
        """`config` is the run, or its JSON, as it stands in Lightning's checkpoints."""
        super().__init__()
        self.config = config if isinstance(config, TrainConfig) else TrainConfig.from_json(dict(config))
        self._check_has_effect()
        self.save_hyperparameters({"config": json.loads(json.dumps(dataclasses.asdict(self.config)))})
        self.automatic_optimization = False
        self.iteration = 0
        self.max_norm: float | None = None
        self.nets = nn.ModuleList()
        self.known: dict[str, float] = {}

    def _check_has_effect(self) -> None:
        """Raises ConfigError where settings of our own loop are not as by default: Lightning has its own for that."""
        for name, instead in INSTEAD.items():
            value, default = getattr(self.config, name), getattr(TrainConfig, name)
            if value != default:
                raise ConfigError(f"{name} = {value!r}: has no effect under Lightning; use {instead}, or leave it out")

    def policies(self) -> dict[str, Policy]:
        """Frozen copies of what has been learned so far, by name."""
        return {name: seat.learner.policy() for name, seat in self.seats.items()}

    # Before the training

    def configure_callbacks(self) -> list[Any]:
        """None; it is the first that Lightning asks, and what cannot work is refused here.

        Raises:
            ConfigError: Gradient clipping, precision or strategy.
        """
        trainer = self.trainer
        if trainer.gradient_clip_val:
            if trainer.gradient_clip_algorithm not in (None, "norm"):
                got = trainer.gradient_clip_algorithm
                raise ConfigError(f"Trainer(gradient_clip_algorithm={got!r}): learners clip by the norm, 'norm'")
            # Lightning cannot clip what it does not optimise itself: the learners do, after averaging over processes
            self.max_norm, trainer.gradient_clip_val = float(trainer.gradient_clip_val), None
        if trainer.precision != "32-true":
            raise ConfigError(f"Trainer(precision={trainer.precision!r}): learners compute in float32, '32-true'")
        known = isinstance(trainer.strategy, (SingleDeviceStrategy, DDPStrategy))
        if not known or isinstance(trainer.strategy, DeepSpeedStrategy):
            got = type(trainer.strategy).__name__
            raise ConfigError(f"Trainer(strategy=...): expected one device or 'ddp', got {got}")
        return []

    def setup(self, stage: str) -> None:
        """Makes this process's worlds, and the learners, unless they are there from an earlier fit.

        Raises:
            ConfigError: It has learned in other processes, or on another device.
        """
        device, ranks = self.trainer.strategy.root_device, self.trainer.world_size
        if not self.seats:
            self._build(device, self.global_rank, ranks)
            config = dataclasses.replace(self.config, device=str(device))
            self.judge = Judge(config, self.collector.core, self.seats) if config.eval_episodes else None
        elif self.ranks != ranks or self.collector.core.device != device:
            raise ConfigError(
                f"this module has learned in {self.ranks} process(es) on {self.collector.core.device}, Trainer has "
                f"{ranks} on {device}: go on with a new LearnerModule and fit(..., ckpt_path=...)"
            )

    def _build(self, device: torch.device, rank: int, ranks: int) -> None:
        c = dataclasses.replace(self.config, device=str(device), total_steps=-(-self.config.total_steps // ranks))
        core = make_core(c, c.num_envs, c.seed, env_offset=rank * c.num_envs)
        self.ranks, self.iterations = ranks, c.iterations
        self.collector = Collector(c, core)
        self.seats = self.collector.seats
        self.descent = LightningDescent(self)
        self.collector.follow(self.descent)
        for index, seat in enumerate(self.seats.values()):
            if rank > 0:  # all begin with the same weights; their actions and minibatches are their own
                seat.learner.generator.manual_seed(derived_seed(derived_seed(c.seed, index), rank))
            self.nets.append(seat.learner.net)

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        """All optimisers of all learners, which Lightning counts and saves."""
        return [each for seat in self.seats.values() for each in seat.learner.optimizers.values()]

    def train_dataloader(self) -> Rollouts:
        """Rollouts of this process."""
        return Rollouts(self.collector, self.config.checkpoint_every)

    def on_fit_start(self) -> None:
        """Threads and determinism as configured."""
        self.inside = ExitStack()
        self.inside.enter_context(self.config.in_force())
        self.began = time.perf_counter()

    def on_fit_end(self) -> None:
        """Threads and determinism as they were."""
        self.inside.close()

    # The training

    def training_step(self, _: Tensor) -> None:
        """Every learner learns from the rollout that the data loader has just played; the batch is a scalar."""
        self.iteration += 1
        saved = "what Lightning has saved is from before"
        row = self.collector.update(self.iteration, lambda: saved)
        episodes = self.collector.episodes.read(self.descent)
        self.known |= {name: value for name, value in episodes.items() if not math.isnan(value)}
        row |= {f"time/{phase}": value for phase, value in self.collector.clock.read().items()}
        now = time.perf_counter()
        taken = self.config.rollout_steps * self.ranks
        row |= {"steps": float(self.iteration * taken), "steps_per_second": taken / (now - self.began)}
        self.began = now
        self.log_dict(row)
        self.log_dict(self.known, prog_bar=True)
        self.trainer.should_stop |= self.iteration >= self.iterations

    def on_train_epoch_end(self) -> None:
        """Evaluates what has been learned, before callbacks look at it."""
        if self.judge is not None:
            self.log_dict(self.judge.scores(), sync_dist=self.ranks > 1)
            self.collector.clock.mark("evaluation")

    # Checkpoints

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Adds what Lightning does not know of: worlds, random streams, counters, replays, of every process."""
        state = {name: _on_cpu(value) for name, value in self.collector.state_dict().items()}
        states: list[State] = [state]
        if self.ranks > 1:  # one file for all; the first process writes it
            states = [state] * self.ranks if self.global_rank == 0 else []
            distributed.gather_object(state, states or None)
        checkpoint["gpu_envs"] = {"iteration": self.iteration, "known": dict(self.known), "states": states}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Puts it back, so that training goes on bit for bit; without a trainer, only what has been learned.

        Raises:
            CheckpointError: It is of another run, of another number of processes, or there is nothing left to do.
        """
        config = checkpoint.get("hyper_parameters", {}).get("config")
        saved = checkpoint.get("gpu_envs")
        if not isinstance(config, dict) or not isinstance(saved, dict):
            raise CheckpointError("expected a checkpoint of a LearnerModule, got another one")
        self.config.check_same_run(config, "Lightning's checkpoint")
        if not self.seats:  # LearnerModule.load_from_checkpoint
            self._build(torch.device("cpu"), rank=0, ranks=1)
        elif len(saved["states"]) != self.ranks:
            raise CheckpointError(
                f"Lightning's checkpoint: expected one of {self.ranks} processes, got one of {len(saved['states'])}: "
                "go on with as many devices as before"
            )
        else:
            if saved["iteration"] >= self.iterations:
                raise CheckpointError(
                    f"Lightning's checkpoint: expected one with steps left of total_steps = {self.config.total_steps}, "
                    f"got one after {saved['iteration']} of {self.iterations} rollouts; raise total_steps"
                )
            self.collector.load_state_dict(saved["states"][self.global_rank])
        self.iteration, self.known = saved["iteration"], dict(saved["known"])


class Rollouts:
    """The data of a training, played while Lightning asks for it; an item is nothing but the sign that one is there.

    The learners hold the rollout itself. This has a length because, without one, Lightning asks for the next rollout
    before the policies have learned from the last.
    """

    def __init__(self, collector: Collector, length: int) -> None:
        """Plays with the collector's seats."""
        self.collector, self.length = collector, length

    def __len__(self) -> int:
        """Rollouts in an epoch."""
        return self.length

    def __iter__(self) -> Iterator[Tensor]:
        """Goes on where the worlds stand."""
        while True:
            self.collector.collect()
            yield torch.zeros(())

    def state_dict(self) -> dict[str, Any]:
        """Nothing: the worlds of all processes are in the module's checkpoint. Lightning asks whether one can go on."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing, likewise."""


class LightningDescent(AmongRanks):
    """Gradient steps through Lightning, averaged over its processes."""

    def __init__(self, module: LearnerModule) -> None:
        """For the learners of a module."""
        super().__init__(module.ranks)
        self.module = module
        self.wrapped: dict[int, Any] = {}

    def __call__(self, optimizer: torch.optim.Optimizer, loss: Tensor, max_norm: float | None = None) -> Tensor:
        """As `Descent`, with the Trainer's `gradient_clip_val`, if there is one, in place of the learner's own."""
        return super().__call__(optimizer, loss, self.module.max_norm or max_norm)

    def backward(self, loss: Tensor) -> None:
        """Lightning's, of a scalar. DDP's own averaging keeps out: it wants a fixed set of parameters in every loss."""
        wrapper = self.module.trainer.strategy.model
        with wrapper.no_sync() if isinstance(wrapper, nn.parallel.DistributedDataParallel) else nullcontext():
            self.module.manual_backward(loss)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Lightning's step, which counts it and calls the hooks."""
        if id(optimizer) not in self.wrapped:
            every = self.module.optimizers()
            self.wrapped = {id(each.optimizer): each for each in (every if isinstance(every, list) else [every])}
        self.wrapped[id(optimizer)].step()

    def least(self, count: int) -> int:
        """Of all processes."""
        if self.ranks > 1:
            smallest = torch.tensor(count, device=self.module.device)
            distributed.all_reduce(smallest, distributed.ReduceOp.MIN)
            count = int(smallest)
        return count


def _on_cpu(value: Tensor | int | float | str) -> Tensor | int | float | str:
    return value.cpu() if isinstance(value, Tensor) else value
