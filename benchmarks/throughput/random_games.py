"""Full random games of ours, in a batch."""

from benchmarks.origin import THREADS
from gpu_envs.factory import make_core

SPIEL = {"LeducPoker-v0": "leduc_poker", "ConnectFour-v0": "connect_four"}
"""OpenSpiel's name of a game."""
STEPS = 200
"""Steps that a call of random play plays."""


class Batch:
    """Worlds that play on and on; a call is a step, or many in one kernel.

    Args:
        env_id: Which game.
        num_envs: Worlds.
        fused: Play many steps in one kernel, instead of one with its observations and masks.
    """

    def __init__(self, env_id: str, num_envs: int, fused: bool) -> None:
        self.core = make_core(env_id, num_envs, "cpu", seed=1, threads=THREADS, reuse_buffers=True)
        self.core.reset()
        self.play = self.playout if fused else self.step
        self.calls = 0

    def step(self) -> None:
        """One step of every world."""
        self.calls += 1
        self.core.step(self.core.sample_actions())

    def playout(self) -> None:
        """Many steps of every world."""
        self.calls += 1
        self.core.play_random(STEPS)

    def games_per_call(self) -> float:
        """Finished games, on the average of all calls so far."""
        return int(self.core.episodes.sum()) / self.calls
