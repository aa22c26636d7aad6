"""Plays rollouts: the inside of every training loop, ours and Lightning's."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gpu_envs.core import Core
from trainers.config import TrainConfig
from trainers.learner import State, part_of
from trainers.logs import Clock
from trainers.seats import make_seats


class Collector:
    """A core, one seat per policy, and what stands between two steps.

    Inside a rollout nothing is read from the device and no Python runs per agent.
    """

    def __init__(self, config: TrainConfig, core: Core) -> None:
        """Resets the core with the run's seed and builds the learners."""
        self.core, self.length = core, config.learner.rollout_length
        self.info = core.reset(seed=config.seed)[1]
        self.seats = make_seats(config, core)
        self.action: Tensor = core.action_buffer
        self.clock = Clock(core.device)

    @torch.no_grad()
    def collect(self) -> Tensor:
        """Plays one rollout; returns (3, A): episodes of worlds that ended, their summed returns and lengths, by agent.

        An agent counts when its world ends, not when it leaves: else those who leave early would be over-represented.
        """
        core, clock = self.core, self.clock
        clock.start()
        episodes = torch.zeros((3, core.num_agents), device=core.device)
        for _ in range(self.length):
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

    def update(self) -> dict[str, Tensor]:
        """Every learner learns from the rollout; returns their metrics as "policy/metric", one element each."""
        self.clock.start()
        metrics = {}
        for name, seat in self.seats.items():
            metrics |= {f"{name}/{key}": value for key, value in seat.learner.update().items()}
        self.clock.mark("learning")
        return metrics

    def episode_metrics(self, episodes: Tensor) -> dict[str, float]:
        """By group: means over its agents in the worlds that ended in the rollout, NaN if none did."""
        row, lines = {}, episodes.tolist()
        for group, members in self.core.groups.items():
            count, returns, lengths = (sum(line[agent] for agent in members) for line in lines)
            row[f"{group}/return_per_agent"] = returns / count if count else math.nan
            row[f"{group}/episode_length"] = lengths / count if count else math.nan
        return row

    def state_dict(self) -> State:
        """All that the next rollout and update depend on."""
        state: State = {f"core.{name}": tensor for name, tensor in self.core.get_state().items()}
        for name, seat in self.seats.items():
            state |= {f"learner.{name}.{key}": value for key, value in seat.learner.state_dict().items()}
        return state

    def load_state_dict(self, state: State) -> None:
        """Continues from `state_dict`; raises CheckpointError where it does not fit."""
        self.core.set_state(part_of(state, "core."))
        for name, seat in self.seats.items():
            seat.learner.load_state_dict(part_of(state, f"learner.{name}."))
