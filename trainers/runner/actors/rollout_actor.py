"""An actor: its worlds, and copies of the learners' networks that act in them."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from typing import Any

import torch

from gpu_envs.utils.devices import resolve_device
from trainers.base.random_streams import derive_seed
from trainers.config.train_config import CoreFactory, TrainConfig, make_train_core
from trainers.runner.actors.trajectory_queue import Trajectory, Weights
from trainers.runner.collector import Collector
from trainers.runner.learner_group import LearnerGroup


class RolloutActor:
    """Sample rollouts in `config.num_envs` worlds. The worlds continue from one rollout to the next.

    On a GPU the work is on the actor's stream, beside the learner's.
    """

    def __init__(self, config: TrainConfig, number: int, factory: CoreFactory = make_train_core) -> None:
        """Create the worlds.

        Args:
            config: Configuration of the run.
            number: Number of the actor, unique in the run. Worlds and actions are seeded by it.
            factory: Creates the environments.
        """
        seed = derive_seed(derive_seed(config.seed, 499_979), number)
        device = str(resolve_device(config.actor_device or config.device))
        # on another kind of device than the learner's, whose engine is reported, PyTorch acts
        engine = config.engine if torch.device(device).type == torch.device(config.device).type else "torch"
        alone = {"num_actors": 0, "actor_device": None, "max_staleness": None}
        config = dataclasses.replace(config, seed=seed, device=device, engine=engine, **alone)
        self.config: TrainConfig = config
        self.stream: Any = torch.cuda.Stream(torch.device(device)) if device.startswith("cuda") else None
        with self._on_stream():
            core = factory(config, config.num_envs, config.seed)
            self.learners: LearnerGroup = LearnerGroup(config, core)
            self.collector: Collector = Collector(config, core, self.learners)

    def _on_stream(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    def sample(self, number: int, version: int, weights: Weights, ready: Any = None) -> Trajectory:
        """Play one rollout and return it.

        Args:
            number: Number of the rollout.
            version: Version of the weights.
            weights: Weights of all policies.
            ready: CUDA event after which the weights can be read, if they are on a GPU of this process.

        Raises:
            GpuEnvsError: The environment refused an action.
        """
        start = time.perf_counter()
        with self._on_stream():
            if ready is not None and self.stream is not None:
                self.stream.wait_event(ready)
            elif ready is not None:
                ready.synchronize()
            for name, assignment in self.learners.assignments.items():
                assignment.learner.net.load_state_dict(dict(weights[name]))
            self.collector.collect()
            self.collector.raise_pending_errors()
            rollouts = {
                name: assignment.learner.export_rollout()  # type: ignore[attr-defined]
                for name, assignment in self.learners.assignments.items()
            }
            statistics = self.collector.episodes
            episodes = {name: getattr(statistics, name).clone() for name in ("over", "returns", "lengths", "results")}
            written = None if self.stream is None else self.stream.record_event()
        seconds = time.perf_counter() - start
        return Trajectory(number, version, self.config.rollout_steps, rollouts, episodes, seconds, written)
