"""Reference for TagGridworld: one world, NumPy, no kernels.

Source of the rules: WarpDrive 2.7.1's grid-world Tag. Taggers are agents 0..G-1 (type 0), the runner is agent G
(type 1; the opposite of continuous Tag). Cells are integers 0..grid_length INCLUSIVE. Departure: after the end rows
are zero.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

F = np.float32
MOVES = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))  # stay, +x, -x, +y, -y

State = dict  # x, y (N,) int32; alive (N,) bool; t int


@dataclass(frozen=True)
class Config:
    """WarpDrive's constructor parameters and defaults. Penalties and costs are magnitudes (>= 0) and SUBTRACTED."""

    num_taggers: int = 10
    grid_length: int = 10  # largest coordinate; there are grid_length + 1 cells a side
    episode_length: int = 100  # steps
    wall_hit_penalty: float = 0.1
    tag_reward_for_tagger: float = 10.0
    tag_penalty_for_runner: float = 2.0
    step_cost_for_tagger: float = 0.01  # the runner earns the same amount
    use_full_observation: bool = True
    time_limit: str = "termination"  # or "truncation"; of gpu-envs, not of WarpDrive


class Step(NamedTuple):
    """Results of one step. `state` is a new dict; `terminated` and `truncated` are events."""

    state: State
    obs: np.ndarray  # (N, D) float32
    reward: np.ndarray  # (N,) float32
    terminated: np.ndarray  # (N,) bool
    truncated: np.ndarray  # (N,) bool


def obs_width(config) -> int:
    """D: 4 (num_taggers + 1) + 1, or 6 when the observation is partial."""
    return 4 * (config.num_taggers + 1) + 1 if config.use_full_observation else 6


def initial(config, x=None, y=None, t=0) -> State:
    """Place agents on (N,) integer cells; by default taggers in the center and the runner in the corner (0, 0)."""
    n = config.num_taggers + 1
    fixed = np.full(n, config.grid_length // 2, np.int32)
    fixed[-1] = 0
    x = fixed.copy() if x is None else np.array(x, np.int32)
    y = fixed.copy() if y is None else np.array(y, np.int32)
    if x.shape != (n,) or y.shape != (n,):
        raise ValueError(f"expected shapes {(n,)}, got {x.shape} and {y.shape}")
    return {"x": x, "y": y, "alive": np.ones(n, bool), "t": int(t)}


def observe(state: State, config) -> np.ndarray:
    """(N, D) float32.

    Full (4 N + 1): x / L of all, y / L of all, types of all, one-hot of oneself, t / T.
    Partial (6): own x, y; the runner's x, y (for the runner: those of its nearest tagger, ties to the lowest id);
    own type; t / T.
    """
    n = config.num_taggers + 1
    runner = n - 1
    x = state["x"].astype(F) / F(config.grid_length)
    y = state["y"].astype(F) / F(config.grid_length)
    time = F(state["t"]) / F(config.episode_length)
    types = [0] * config.num_taggers + [1]
    obs = np.zeros((n, obs_width(config)), F)
    for i in range(n):
        if not state["alive"][i]:
            continue
        if config.use_full_observation:
            one_hot = [int(j == i) for j in range(n)]
            obs[i] = [*x, *y, *types, *one_hot, time]
        else:
            target = _nearest_tagger(state, config) if i == runner else runner
            obs[i] = [x[i], y[i], x[target], y[target], types[i], time]
    return obs


def _nearest_tagger(state: State, config) -> int:
    x, y = [int(v) for v in state["x"]], [int(v) for v in state["y"]]
    return min(range(config.num_taggers), key=lambda j: ((x[j] - x[-1]) ** 2 + (y[j] - y[-1]) ** 2, j))


def step(state: State, action, config) -> Step:
    """Compute one step of the world.

    Args:
        state: as `initial` gives it; not modified.
        action: (N,) integers in 0..4. After the end they have no effect.
        config: a `Config`, or any object with its fields.
    """
    n = config.num_taggers + 1
    runner = n - 1
    alive = state["alive"]
    x, y = state["x"].copy(), state["y"].copy()
    reward = np.zeros(n, F)
    for i in np.flatnonzero(alive):
        dx, dy = MOVES[action[i]]
        to_x, to_y = x[i] + dx, y[i] + dy
        x[i] = min(max(to_x, 0), config.grid_length)
        y[i] = min(max(to_y, 0), config.grid_length)
        if x[i] != to_x or y[i] != to_y:
            reward[i] -= F(config.wall_hit_penalty)

    # cells are compared after all have moved, so agents that swap cells pass through each other
    tagged = any(x[j] == x[runner] and y[j] == y[runner] for j in range(runner))
    for i in np.flatnonzero(alive):
        if tagged:
            reward[i] += -F(config.tag_penalty_for_runner) if i == runner else F(config.tag_reward_for_tagger)
        else:
            reward[i] += F(config.step_cost_for_tagger) if i == runner else -F(config.step_cost_for_tagger)

    t = state["t"] + 1
    moved = {"x": x, "y": y, "alive": alive, "t": t}
    obs = observe(moved, config)
    time_up = t >= config.episode_length
    terminated = alive & (tagged or (time_up and config.time_limit != "truncation"))
    truncated = alive & time_up & ~terminated
    return Step(moved | {"alive": alive & ~terminated & ~truncated}, obs, reward, terminated, truncated)
