"""What training must reach: tasks with a known value, the command that learns each, and how it is judged."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    """One task. Each of its seeds is one run of ``gpu-envs train``, judged by episodes of its last policies."""

    name: str
    """Also that of its entry in the model zoo."""
    options: str
    """Of ``gpu-envs train``, beside --seed, --out and what keeps a run short (no video)."""
    of: str
    """What is judged: "return GROUP" (mean over episodes of the sum over the group's agents), or "seconds" (from the
    start of the process)."""
    bound: float | None
    """The lower end of the 95 % interval, or with "seconds" the value, must not be worse; None: only recorded."""
    source: str
    """Where the bound comes from."""
    seeds: int = 3
    versus: tuple[str, ...] = ()
    """Policies that play in the judged episodes, the others being random; () for all that were trained."""
    greedy: bool = True
    """Judge the most probable actions instead of samples."""
    below: bool = False
    """A better value is a smaller one, and `bound` the largest allowed."""
    zoo: bool = True
    """Keep the policies of the first seed in the model zoo."""


SPREAD = -19.9 * 3
"""Per episode, summed over 3 agents: what JaxMARL's settings reach, see `jaxmarl_learning`; replaced when measured."""

BARS: Sequence[Bar] = (
    Bar(
        "cartpole-ppo",
        "CartPole-v1 --until-return 475 --eval-episodes 0",
        "seconds",
        10.0,
        "PureJaxRL about 5 s, Stable-Baselines3 about 42 s to the same mean of 100 episodes",
        below=True,
    ),
    Bar(
        "simple-spread-ippo",
        "SimpleSpread-v0 --algorithm ippo --total-steps 1000000",
        "return agent",
        SPREAD,
        "IPPO in JAX on JaxMARL 0.2.0 with its published settings, as many steps, the better of its learning rates "
        "(2.5e-3 and 2.5e-4), mean of its seeds",
        greedy=False,
    ),
    Bar(
        "simple-spread-mappo",
        "SimpleSpread-v0 --algorithm mappo --total-steps 1000000",
        "return agent",
        SPREAD,
        "as for IPPO",
        greedy=False,
    ),
)
