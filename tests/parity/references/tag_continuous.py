"""Reference for TagContinuous: one world, float32 NumPy, no kernels.

Source of the rules: WarpDrive 2.7.1's continuous Tag (its CPU variant where CPU and GPU differ).
Departures: on the step it is tagged a runner sees its ordinary observation; on all later steps its row is zero
(WarpDrive keeps types and alive flags there when the observation is full). Events are per agent.

Float32 conventions, which decide exact ties and thresholds:

- distance: sqrt(dx * dx + dy * dy), dx = x[j] - x[i], every operation rounded to float32 (no fused multiply-add)
- margin: float32(tagging_distance * grid_length), the product rounded once from float64; tagged if distance < margin
- tables: float32(linspace(float32(min), float32(max), levels)), the linspace in float64, with a leading 0
- direction: floored modulo of a float32 sum by float32(2 pi): the exact fmod, plus float32(2 pi) if that is negative.
  Another table or another modulo may give 2 pi for 0, a full turn of difference in the observation.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

F = np.float32
TWO_PI = F(2.0 * np.pi)
FEATURES = 7  # dx, dy, d speed, d acceleration, d direction, type, alive

State = dict  # x, y, speed, acceleration, direction (N,) float32; alive, is_tagger (N,) bool; t int


@dataclass(frozen=True)
class Config:
    """WarpDrive's constructor parameters; defaults of its tutorial 5. Penalties are signed (<= 0) and ADDED."""

    num_taggers: int = 5
    num_runners: int = 100
    grid_length: float = 20.0  # side of the square
    episode_length: int = 500  # steps
    max_acceleration: float = 0.1  # speed per step
    min_acceleration: float = -0.1
    num_acceleration_levels: int = 10  # 0 leaves the no-op only
    max_turn: float = 2.35  # radians per step
    min_turn: float = -2.35
    num_turn_levels: int = 10
    max_speed: float = 1.0  # distance per step
    skill_level_tagger: float = 1.0  # multiplies max_speed in the speed cap, nothing else
    skill_level_runner: float = 1.0
    edge_hit_penalty: float = 0.0  # <= 0
    step_penalty_for_tagger: float = 0.0  # <= 0
    step_reward_for_runner: float = 0.0  # >= 0
    tag_reward_for_tagger: float = 10.0  # >= 0, once per tag
    tag_penalty_for_runner: float = -10.0  # <= 0
    end_of_game_reward_for_runner: float = 1.0  # >= 0
    use_full_observation: bool = False
    num_other_agents_observed: int = 10  # K, used only when the observation is partial
    tagging_distance: float = 0.02  # fraction of grid_length
    runner_exits_game_after_tagged: bool = True
    time_limit: str = "termination"  # or "truncation"; of gpu-envs, not of WarpDrive


class Step(NamedTuple):
    """Results of one step. `state` is a new dict; `terminated` and `truncated` are events."""

    state: State
    obs: np.ndarray  # (N, D) float32
    reward: np.ndarray  # (N,) float32
    terminated: np.ndarray  # (N,) bool
    truncated: np.ndarray  # (N,) bool


def obs_width(config) -> int:
    """D: 7 features of every other agent, or of the K nearest, and the time."""
    everyone_else = config.num_taggers + config.num_runners - 1
    return FEATURES * (everyone_else if config.use_full_observation else config.num_other_agents_observed) + 1


def initial(config, x, y, direction, speed=None, acceleration=None, alive=None, is_tagger=None, t=0) -> State:
    """Place agents by (N,) arrays; default: at rest, alive, taggers in the first rows."""
    n = config.num_taggers + config.num_runners

    def column(values, default, dtype):
        out = np.full(n, default, dtype) if values is None else np.array(values, dtype)
        if out.shape != (n,):
            raise ValueError(f"expected shape {(n,)}, got {out.shape}")
        return out

    rows = np.arange(n) < config.num_taggers
    return {
        "x": column(x, 0, F),
        "y": column(y, 0, F),
        "speed": column(speed, 0, F),
        "acceleration": column(acceleration, 0, F),
        "direction": column(direction, 0, F),
        "alive": column(alive, True, bool),
        "is_tagger": column(rows if is_tagger is None else is_tagger, False, bool),
        "t": int(t),
    }


def action_tables(config) -> tuple[np.ndarray, np.ndarray]:
    """Return accelerations (levels + 1,) and turns (levels + 1,); index 0 is the no-op."""

    def table(low, high, levels):
        return np.concatenate([[0.0], np.linspace(float(F(low)), float(F(high)), levels)]).astype(F)

    return (
        table(config.min_acceleration, config.max_acceleration, config.num_acceleration_levels),
        table(config.min_turn, config.max_turn, config.num_turn_levels),
    )


def distances(state: State, i: int) -> np.ndarray:
    """(N,) float32 distances from agent i to every agent."""
    dx = state["x"] - state["x"][i]
    dy = state["y"] - state["y"][i]
    return np.sqrt(dx * dx + dy * dy)


def tag_margin(config) -> np.float32:
    return F(float(config.tagging_distance) * float(config.grid_length))


def _drive(state: State, action, config) -> State:
    """Turn, accelerate and move, walls ignored."""
    acc_table, turn_table = action_tables(config)
    action = np.asarray(action)
    alive = state["alive"].astype(F)

    direction = np.mod(state["direction"] + turn_table[action[:, 1]], TWO_PI) * alive
    acceleration = state["acceleration"] + acc_table[action[:, 0]]
    skill = np.where(state["is_tagger"], F(config.skill_level_tagger), F(config.skill_level_runner))
    cap = F(config.max_speed) * skill
    speed = np.clip(state["speed"] + acceleration, F(0), cap) * alive
    acceleration = np.where((speed <= 0) | (speed >= cap), F(0), acceleration)
    x = state["x"] + speed * np.cos(direction)
    y = state["y"] + speed * np.sin(direction)
    moved = dict(x=x, y=y, speed=speed, acceleration=acceleration, direction=direction)
    return state | moved | {"t": state["t"] + 1}


def move(state: State, action, config) -> tuple[State, np.ndarray]:
    """Compute the part of a step before observation and tags.

    Returns:
        The moved state (alive flags still those of before the tags) and hit (N,) bool, who left the square.
    """
    moved = _drive(state, action, config)
    length = F(config.grid_length)
    x, y = moved["x"], moved["y"]
    hit = (x < 0) | (x > length) | (y < 0) | (y > length)
    return moved | {"x": np.clip(x, F(0), length), "y": np.clip(y, F(0), length)}, hit


def observe(state: State, config) -> np.ndarray:
    """(N, D) float32: seven blocks over the other agents, feature-major, then t / T. Rows of dead agents are zero."""
    n, width = len(state["x"]), obs_width(config)
    obs = np.zeros((n, width), F)
    slots = (width - 1) // FEATURES
    diagonal = F(np.sqrt(2.0) * config.grid_length)
    top_speed = F(config.max_speed) + F(1e-10)
    for i in range(n):
        if not state["alive"][i]:
            continue
        neighbors = [j for j in range(n) if j != i]
        if not config.use_full_observation:
            dist = distances(state, i)
            candidates = [j for j in neighbors if state["alive"][j]]
            neighbors = sorted(candidates, key=lambda j: (dist[j], j))[: config.num_other_agents_observed]
        blocks = np.zeros((FEATURES, slots), F)
        m = len(neighbors)
        blocks[0, :m] = (state["x"][neighbors] - state["x"][i]) / diagonal
        blocks[1, :m] = (state["y"][neighbors] - state["y"][i]) / diagonal
        blocks[2, :m] = (state["speed"][neighbors] - state["speed"][i]) / top_speed
        blocks[3, :m] = (state["acceleration"][neighbors] - state["acceleration"][i]) / top_speed
        blocks[4, :m] = (state["direction"][neighbors] - state["direction"][i]) / TWO_PI
        blocks[5, :m] = state["is_tagger"][neighbors]
        blocks[6, :m] = state["alive"][neighbors]
        obs[i, :-1] = blocks.reshape(-1)
        obs[i, -1] = F(state["t"]) / F(config.episode_length)
    return obs


def step(state: State, action, config) -> Step:
    """Compute one step of the world.

    Args:
        state: as `initial` gives it; not modified.
        action: (N, 2) integers, (acceleration index, turn index). Those of dead agents have no effect.
        config: a `Config`, or any object with its fields.
    """
    moved, hit = move(state, action, config)
    obs = observe(moved, config)
    alive, is_tagger, t = moved["alive"], moved["is_tagger"], moved["t"]

    reward = np.zeros(len(alive), F)
    for i in np.flatnonzero(alive):
        reward[i] += F(config.edge_hit_penalty) * F(hit[i])
        reward[i] += F(config.step_penalty_for_tagger if is_tagger[i] else config.step_reward_for_runner)

    exited = np.zeros(len(alive), bool)
    taggers = np.flatnonzero(alive & is_tagger)
    for runner in np.flatnonzero(alive & ~is_tagger):
        dist = distances(moved, runner)[taggers]
        nearest = np.argmin(dist)  # the first of equals: the lowest id
        if dist[nearest] < tag_margin(config):
            reward[runner] += F(config.tag_penalty_for_runner)
            reward[taggers[nearest]] += F(config.tag_reward_for_tagger)
            exited[runner] = config.runner_exits_game_after_tagged

    runners_left = alive & ~is_tagger & ~exited
    if t == config.episode_length:
        reward[runners_left] += F(config.end_of_game_reward_for_runner)

    terminated = exited | alive if not runners_left.any() else exited
    truncated = np.zeros_like(terminated)
    if t >= config.episode_length:
        if config.time_limit == "truncation":
            truncated = alive & ~terminated
        else:
            terminated = alive.copy()
    return Step(moved | {"alive": alive & ~terminated & ~truncated}, obs, reward, terminated, truncated)


class Near(NamedTuple):
    """How many outcomes of a step hang on rounding."""

    tag: int  # alive runners whose nearest tagger is within the tolerance of the tagging margin
    tagger: int  # tagged runners whose two nearest taggers are equally far, within the tolerance
    rank: int  # alive observers with two neighbors equally far among the first K + 1 (partial observation only)


def near_threshold(moved: State, config, tolerance: float = 1e-6) -> Near:
    """Counts, on a state from `move`, the decisions that another rounding could turn.

    Neighbors on one and the same spot (a corner, say) are an exact tie by id and not counted. One float32 ulp of a
    coordinate in [16, 32) is 1.9e-6: pass a larger tolerance for large squares.
    """
    alive, is_tagger = moved["alive"], moved["is_tagger"]
    taggers = np.flatnonzero(alive & is_tagger)
    margin = tag_margin(config)
    tag = tagger = rank = 0
    for runner in np.flatnonzero(alive & ~is_tagger):
        order = _nearest_first(moved, runner, taggers)
        nearest = distances(moved, runner)[order[0]] if order else np.inf
        tag += bool(abs(nearest - margin) <= tolerance)
        tagger += bool(nearest < margin + tolerance and _has_near_tie(moved, runner, order[:2], tolerance))
    if not config.use_full_observation:
        for i in np.flatnonzero(alive):
            order = _nearest_first(moved, i, [j for j in np.flatnonzero(alive) if j != i])
            rank += _has_near_tie(moved, i, order[: config.num_other_agents_observed + 1], tolerance)
    return Near(tag, tagger, rank)


def near_wall(state: State, action, config, tolerance: float = 1e-6) -> int:
    """Number of alive moving agents whose unclipped coordinate ends within the tolerance of a wall.

    Matters where edge_hit_penalty is not 0. Unlike `near_threshold` it takes the state from before the step.
    """
    raw = _drive(state, action, config)
    length = F(config.grid_length)
    count = 0
    for i in np.flatnonzero(state["alive"] & (raw["speed"] > 0)):
        gaps = [abs(c - wall) for c in (raw["x"][i], raw["y"][i]) for wall in (F(0), length)]
        count += bool(min(gaps) <= tolerance)
    return count


def _nearest_first(state: State, i: int, candidates) -> list[int]:
    dist = distances(state, i)
    return sorted(candidates, key=lambda j: (dist[j], j))


def _has_near_tie(state: State, i: int, order: list[int], tolerance: float) -> bool:
    dist = distances(state, i)
    for a, b in pairwise(order):
        same_spot = state["x"][a] == state["x"][b] and state["y"][a] == state["y"][b]
        if dist[b] - dist[a] <= tolerance and not same_spot:
            return True
    return False
