"""PPO, learning included, as a subject of an alternating run."""

import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from trainers.config import TrainConfig
from trainers.logs import read_rows
from trainers.loop import Trainer
from trainers.ppo import PPOConfig
from trainers.presets import PRESETS

ENDLESS = 10**9
"""Steps and iterations that no run reaches: no evaluation, no checkpoint while it is timed."""


class Training:
    """A training that goes on and on; a step is one of its batch of worlds.

    Args:
        env_id: Which environment.
        num_envs: Worlds; None takes those of the preset.
        threads: Of torch.
        ppo: Settings of PPO; None takes those of the preset.
    """

    pid: int | None = None

    def __init__(self, env_id: str, num_envs: int | None, threads: int, ppo: dict[str, Any] | None) -> None:
        preset = PRESETS.get((env_id, "cpu", "ppo"), {})
        config = TrainConfig(
            env_id,
            env=preset.get("env", {}),
            num_envs=num_envs or preset["num_envs"],
            total_steps=ENDLESS,
            checkpoint_every=ENDLESS,
            eval_episodes=0,
            threads=threads,
            learner=PPOConfig(**(preset["learner"] if ppo is None else ppo)),
        )
        self.config = config
        self._folder = tempfile.TemporaryDirectory()
        self._trainer = Trainer(self.config, out=Path(self._folder.name) / "run")
        self.num_envs, self.agents = config.num_envs, self._trainer.core.num_agents

    def turn(self, count: int) -> float:
        """Play and learn from so many steps, rounded up to whole rollouts; gives the seconds of one."""
        length = self.config.learner.rollout_length
        rollouts = -(-count // length)
        kept = torch.get_num_threads()
        self.config.use_threads()
        try:
            begin = time.perf_counter()
            for _ in range(rollouts):
                self._trainer.iterate()
            return (time.perf_counter() - begin) / (rollouts * length)
        finally:
            torch.set_num_threads(kept)

    def shares(self, turn: float) -> dict[str, float]:
        """Train for at least so many seconds; gives the share of every phase in the time of whole iterations."""
        first = self._trainer.iteration
        begin = time.perf_counter()
        while time.perf_counter() - begin < turn or self._trainer.iteration == first:
            self.turn(1)
        rows = [row for row in read_rows(self._trainer.log.path) if int(row["iteration"]) > first]
        phases = [name for name in rows[0] if name.startswith("time/")]
        lasted = sum(float(row[name]) for row in rows for name in phases)
        return {name.removeprefix("time/"): sum(float(row[name]) for row in rows) / lasted for name in phases}

    def close(self) -> None:
        """Remove what it wrote."""
        self._trainer.log.close()
        self._folder.cleanup()
