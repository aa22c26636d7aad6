"""Complete random games in a batch."""

from benchmarks.hardware.provenance import THREADS
from gpu_envs.runtime.factory import make_core

SPIEL = {"LeducPoker-v0": "leduc_poker", "ConnectFour-v0": "connect_four"}
"""OpenSpiel names of the games."""
STEPS = 200
"""Steps per call of a random rollout."""


class GameBatch:
    """Worlds with autoreset; a call is one step, or many steps in one kernel.

    Args:
        env_id: ID of the game.
        num_envs: Number of worlds.
        fused: True for many steps in one kernel, False for one step with observations and masks.
    """

    def __init__(self, env_id: str, num_envs: int, fused: bool) -> None:
        self.core = make_core(env_id, num_envs, "cpu", seed=1, threads=THREADS, reuse_buffers=True)
        self.core.reset()
        self.play = self.playout if fused else self.step
        self.calls = 0

    def step(self) -> None:
        """Run one step of every world."""
        self.calls += 1
        self.core.step(self.core.sample_actions())

    def playout(self) -> None:
        """Run many steps of every world."""
        self.calls += 1
        self.core.random_rollout(STEPS)

    def games_per_call(self) -> float:
        """Return the mean number of finished games per call."""
        return int(self.core.episode_index.sum()) / self.calls
