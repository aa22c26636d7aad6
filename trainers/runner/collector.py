"""Plays rollouts and learns from them: the inside of every training loop, ours and Lightning's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from gpu_envs.core import Core
from gpu_envs.errors import CheckpointError
from trainers.config import TrainConfig
from trainers.episodes import Episodes
from trainers.learner import ALONE, Descent, State, part_of
from trainers.logs import Clock
from trainers.opposition import Opposition
from trainers.seats import make_parts, make_seats
from trainers.sharding import Shard
from trainers.stopping import check_finite, largest

OF_WORLDS = {"memory": 0, "pending": 0, "carried": 0, "replay": 1}
"""Of learners' states, what holds something of each world, and along which axis."""


class Collector:
    """A core, one seat per policy, the parts in which they are asked for actions, and what stands between two steps.

    Inside a rollout nothing is read from the device and no Python runs per agent. On a GPU a rollout, policies
    included, is recorded once as one CUDA graph and then replayed, unless `config.capture` is off.
    """

    descent: Descent = ALONE
    """Makes the learners' gradient steps, see `Learner.descent`."""

    def __init__(
        self, config: TrainConfig, core: Core, opposition: Opposition | None = None, shard: Shard | None = None
    ) -> None:
        """Resets the core, which reuses its buffers, with the run's seed and builds the learners.

        With an opposition only the policies that it names have learners. With a shard the core has its worlds.
        """
        self.core, self.opposition = core, opposition
        self.info: Mapping[str, Tensor] = core.reset(seed=config.seed)[1]
        self.seats = make_seats(config, core, None if opposition is None else opposition.learners, shard)
        if shard is not None:
            self.follow(shard.descent)
        self.parts = make_parts(self.seats, core)
        self.length: int = config.learner.rollout_length
        self.action: Tensor = core.action_buffer
        self.episodes, self.clock = Episodes(core, self.length), Clock(core.device)
        self.captures = config.capture and core.device.type == "cuda"
        self.replay: Callable[[], Any] | None = None
        self.recorded = 0  # version of the opposition

    def follow(self, descent: Descent) -> None:
        """Has all learners make their gradient steps by this, with other ranks."""
        self.descent = descent
        for seat in self.seats.values():
            seat.learner.descent = descent

    def collect(self) -> None:
        """Plays one rollout. At its end the host waits for the device, to hear of refused actions."""
        if not self.captures or (self.opposition is not None and self.opposition.waits):
            self._play()
        else:
            version = 0 if self.opposition is None else self.opposition.version
            if self.replay is None or self.recorded != version:
                self.replay, self.recorded = self._record(), version
            self.replay()
            self.clock.replayed()
        self.core.check()

    @torch.no_grad()
    def _play(self) -> None:
        core, clock, opposition = self.core, self.clock, self.opposition
        clock.start()
        for part in self.parts:
            part.start()
        for t in range(self.length):
            for part in self.parts:
                part.act(core, self.info, self.action)
            if opposition is not None:
                opposition.act(core, self.info, self.action)
            clock.mark("policy")
            self.info = core.step(self.action)[4]
            clock.mark("environment")
            restarted = core.steps == 0  # after SAME_STEP's reset the clock stands at 0
            valid = core.valid if opposition is None else core.valid & opposition.learns
            for part in self.parts:
                part.observe(core, self.info, self.action, restarted, valid)
            if opposition is not None:
                opposition.observe(core, self.info, restarted)
            self.episodes.store(t, restarted, self.info)
            clock.mark("storage")

    def _record(self) -> Callable[[], Any]:
        """Records a rollout as a CUDA graph. It is played for that, so everything goes back to where it was."""
        learners = {name: seat.learner for name, seat in self.seats.items()}
        before = {name: _kept(learner.state_dict()) for name, learner in learners.items()}
        generators = [learner.generator for learner in learners.values()]
        seated: State = {}
        if self.opposition is not None:
            seated = _kept(self.opposition.state_dict())
            generators += self.opposition.generators

        def play() -> None:
            for learner in learners.values():
                learner.rollout.rewind()
            self._play()

        replay = self.core.capture(play, generators)
        for name, learner in learners.items():
            learner.load_state_dict(before[name])
        if self.opposition is not None:
            self.opposition.load_state_dict(seated)
        self.clock.read()  # the plays before the recording count for nothing
        return replay

    def update(self, iteration: int, where: Callable[[], str]) -> dict[str, float]:
        """Every learner learns from the rollout; returns their metrics as "policy/metric", read at once.

        Args:
            iteration: Number of the update, for messages.
            where: Says what of the run is saved, likewise.

        Raises:
            GpuEnvsError: Metrics or networks are not finite, see `check_finite`.
        """
        self.clock.start()
        metrics: dict[str, Tensor] = {}
        for name, seat in self.seats.items():
            metrics |= {f"{name}/{key}": value for key, value in seat.learner.update().items()}
        self.clock.mark("learning")
        nets = {name: seat.learner.net for name, seat in self.seats.items()}
        sizes = [largest(net).to(self.core.device) for net in nets.values()]
        values = torch.stack([*sizes, *(value.float() for value in metrics.values())])
        values = self.descent.mean(values).tolist()
        sizes, values = values[: len(sizes)], values[len(sizes) :]
        row = dict(zip(metrics, values, strict=True))
        check_finite(iteration, row, nets, sizes, where)
        return row

    @property
    def axes(self) -> dict[str, int]:
        """The axis of worlds in what of `state_dict` is the learners' and of worlds, by what names begin with."""
        return {f"learner.{name}.{kind}.": axis for name in self.seats for kind, axis in OF_WORLDS.items()}

    def state_dict(self) -> State:
        """All that the next rollout and update depend on."""
        state: State = {f"core.{name}": tensor for name, tensor in self.core.get_state().items()}
        for name, seat in self.seats.items():
            state |= {f"learner.{name}.{key}": value for key, value in seat.learner.state_dict().items()}
        if self.opposition is not None:
            state |= {f"opposition.{key}": value for key, value in self.opposition.state_dict().items()}
        return {**state, "episodes.recent": self.episodes.recent}

    def load_state_dict(self, state: State) -> None:
        """Continues from `state_dict`; raises CheckpointError where it does not fit."""
        self.core.set_state(part_of(state, "core."))
        for name, seat in self.seats.items():
            seat.learner.load_state_dict(part_of(state, f"learner.{name}."))
        if self.opposition is not None:
            self.opposition.load_state_dict(part_of(state, "opposition."))
        recent = state.get("episodes.recent")
        if not isinstance(recent, Tensor) or recent.shape[1:] != self.episodes.recent.shape[1:]:
            wanted = f"a tensor (N, {len(self.core.groups)})"
            raise CheckpointError(f"episodes.recent: expected {wanted}, got {recent!r:.80}")
        self.episodes.recent = recent.cpu()


def _kept(state: State) -> State:
    """A copy of what a rollout may change: all but the replay, which only updates do."""
    return {
        name: value.clone() if isinstance(value, Tensor) and not name.startswith("replay.") else value
        for name, value in state.items()
    }
