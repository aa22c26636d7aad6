"""TagContinuous: WarpDrive 2.7.1's continuous Tag (its CPU variant), free of races. Taggers chase runners on a square.

Rows: taggers first, then runners. Observed before tags take effect, so fresh victims still show as alive.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.rules import Rules, agent_phase
from warp_kernels.spatial import cell_grid
from warp_kernels.spatial.brute_force_knn import distance, distance_of, row_of
from warp_kernels.tag.tag_observation import TWO_PI, nearest_phase, observation

HALF_PI: float = wp.constant(1.5707964)  # [rad]


@wp.struct
class Params:
    """Environment parameters. The unit of time is one step."""

    grid_length: float  # side of the square [m]
    episode_length: int  # T [steps]; observations contain t / T
    tagging_margin: float  # a runner closer than this to a tagger is tagged [m]
    max_speed: float  # [m/step]
    skill_level_tagger: float  # factor of a tagger's speed cap
    skill_level_runner: float  # factor of a runner's speed cap
    min_acceleration: float  # smallest selectable acceleration [m/step^2]
    max_acceleration: float  # largest [m/step^2]
    min_turn: float  # smallest selectable turn [rad/step]
    max_turn: float  # largest [rad/step]
    edge_hit_penalty: float  # <= 0
    step_penalty_for_tagger: float  # <= 0
    step_reward_for_runner: float  # >= 0
    tag_reward_for_tagger: float  # >= 0, per tag
    tag_penalty_for_runner: float  # <= 0
    end_of_game_reward_for_runner: float  # >= 0
    exits: int  # 1: a tagged runner leaves the game


@wp.struct
class State:
    """State of E worlds, A agents."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, A) [m]
    speed: wp.array2d(dtype=float)  # (E, A) [m/step]
    acceleration: wp.array2d(dtype=float)  # (E, A) [m/step^2]
    direction: wp.array2d(dtype=float)  # (E, A) [rad] in [0, 2 pi)
    shown: wp.array2d(dtype=wp.bool)  # (E, A) alive before this step's tags, as observed
    caught_by: wp.array2d(dtype=int)  # (E, A) row of the tagger that tags this runner in this step, or -1
    tags: wp.array2d(dtype=int)  # (E, number of taggers) runners that a tagger tags in this step
    left: wp.array(dtype=int)  # (E,) 1: a runner stays in the game after this step
    survived: wp.array2d(dtype=wp.bool)  # (E, A) no tagger has tagged the agent in this episode
    near: wp.array3d(dtype=int)  # (E, A, K) nearest shown agents, nearest first, -1 for none; empty if all are observed
    cells: wp.array2d(dtype=int)  # (E, cells) grid of spatial/cell_grid.py; empty without, as the next three
    slot: wp.array2d(dtype=int)  # (E, A) index of an agent in its cell
    who: wp.array2d(dtype=int)  # (E, A) rows in the order of cells
    spot: wp.array2d(dtype=wp.vec2)  # (E, A) positions in the order of cells [m]
    start: wp.array2d(dtype=wp.vec3)  # (E, A) fixed start x [m], y [m], direction [rad]; empty for random starts


def global_state_width(num_agents: int) -> int:
    """Return the width of the global state: seven numbers per agent, and the time."""
    return 7 * num_agents + 1


@cache
def rules(
    num_taggers: int,
    num_runners: int,
    num_acceleration_levels: int,
    num_turn_levels: int,
    num_observed: int,
    full: bool,
    start: str,
    grid: bool,
) -> Rules:
    """Build the rules.

    Args:
        num_taggers: Number of taggers, rows 0 .. num_taggers - 1.
        num_runners: Number of runners, the next rows.
        num_acceleration_levels: Number of accelerations, in addition to none.
        num_turn_levels: Number of turns, in addition to none.
        num_observed: Number of neighbors K in a partial observation.
        full: Observe all other agents in row order instead.
        start: "random" (per world and episode), "fixed" (one sample for all) or "given" (State.start).
        grid: Search neighbors in a grid of cells instead of among all agents; results are equal.
    """
    num_agents = num_taggers + num_runners
    nearest_tagger = cell_grid.search(num_agents, num_observed, 1)

    # Structs travel by value into a function that is not inlined; helpers of hot loops are.
    @wp.func(inline=True)
    def level(choice: int, low: float, high: float, levels: int):
        """Return an entry of the table [0] + linspace(low, high, levels), in float64 as in NumPy."""
        value = float(0.0)
        if choice == levels and levels > 1:
            value = high
        elif choice > 0:
            step = (wp.float64(high) - wp.float64(low)) / wp.float64(wp.max(levels - 1, 1))
            value = float(wp.float64(choice - 1) * step + wp.float64(low))
        return value

    @wp.func(inline=True)
    def move(params: Params, state: State, io: IO, env: int, agent: int):
        """Turn, accelerate, move, stop at the wall; write the agent's kinematics and the first part of its reward."""
        if agent < num_taggers:
            state.tags[env, agent] = 0
        if agent == 0:
            state.left[env] = 0
        alive = io.valid[env, agent]
        state.shown[env, agent] = alive
        if alive:
            acceleration = state.acceleration[env, agent] + level(
                int(io.choice[env, agent, 0]), params.min_acceleration, params.max_acceleration, num_acceleration_levels
            )
            turn = level(int(io.choice[env, agent, 1]), params.min_turn, params.max_turn, num_turn_levels)
            direction = state.direction[env, agent] + turn
            if direction <= -TWO_PI or direction >= 2.0 * TWO_PI:
                direction = wp.mod(direction, TWO_PI)  # C's fmod: with the sign of the dividend
            elif direction >= TWO_PI:
                direction -= TWO_PI  # equally exact, and faster
            if direction < 0.0:
                direction += TWO_PI
            is_tagger = agent < num_taggers
            cap = params.max_speed * wp.where(is_tagger, params.skill_level_tagger, params.skill_level_runner)
            speed = wp.clamp(state.speed[env, agent] + acceleration, 0.0, cap)
            if speed <= 0.0 or speed >= cap:
                acceleration = 0.0
            x = state.pos[env, agent][0] + speed * wp.cos(direction)
            y = state.pos[env, agent][1] + speed * wp.sin(direction)
            size = params.grid_length
            reward = wp.where(is_tagger, params.step_penalty_for_tagger, params.step_reward_for_runner)
            if x < 0.0 or x > size or y < 0.0 or y > size:
                reward += params.edge_hit_penalty
            state.pos[env, agent] = wp.vec2(wp.clamp(x, 0.0, size), wp.clamp(y, 0.0, size))
            state.speed[env, agent] = speed
            state.acceleration[env, agent] = acceleration
            state.direction[env, agent] = direction
            io.reward[env, agent] = reward
        else:
            state.speed[env, agent] = 0.0
            state.acceleration[env, agent] = 0.0
            state.direction[env, agent] = 0.0

    @wp.func(inline=True)
    def seek(params: Params, state: State, io: IO, env: int, agent: int):
        """Find the nearest tagger within the tagging distance, the lowest row of several; write caught_by."""
        caught_by = int(-1)
        if agent >= num_taggers and io.valid[env, agent]:
            position = state.pos[env, agent]
            nearest = params.tagging_margin
            near = 1.00001 * nearest * nearest  # avoids most square roots
            for tagger in range(num_taggers):
                way = state.pos[env, tagger] - position
                if wp.length_sq(way) <= near:
                    dist = distance(state.pos[env, tagger], position)
                    if dist < nearest:
                        nearest = dist
                        caught_by = tagger
        state.caught_by[env, agent] = caught_by

    @wp.func(inline=True)
    def seek_in_cells(params: Params, state: State, io: IO, env: int, agent: int):
        """Search the same tagger in the cells within the tagging distance; write caught_by."""
        caught_by = int(-1)
        if agent >= num_taggers and io.valid[env, agent]:
            nearest = nearest_tagger(
                state.cells,
                state.who,
                state.spot,
                env,
                agent,
                state.pos[env, agent],
                params.grid_length,
                num_taggers,
                params.tagging_margin,
            )[0]
            if distance_of(nearest) < params.tagging_margin:
                caught_by = row_of(nearest)
        state.caught_by[env, agent] = caught_by

    @wp.func(inline=True)
    def tally(params: Params, state: State, io: IO, env: int, agent: int):
        """Count the tags of every tagger and set whether a runner is left; add to tags, write left.

        Atomic additions, and the equal values that runners write, are exceptions to phase isolation: neither depends on
        the order of agents.
        """
        if agent >= num_taggers and io.valid[env, agent]:
            caught_by = state.caught_by[env, agent]
            if caught_by >= 0:
                wp.atomic_add(state.tags, env, caught_by, 1)
            if caught_by < 0 or params.exits == 0:
                state.left[env] = 1

    @wp.func(inline=True)
    def tag(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the agent's reward for tags, survived, and terminated if a runner leaves or no runner is left."""
        if io.valid[env, agent]:
            reward = io.reward[env, agent]
            if agent < num_taggers:
                for _ in range(state.tags[env, agent]):
                    reward += params.tag_reward_for_tagger
                if state.left[env] == 0:
                    io.terminated[env, agent] = True
            else:
                caught = state.caught_by[env, agent] >= 0
                if caught:
                    reward += params.tag_penalty_for_runner
                    state.survived[env, agent] = False
                if caught and params.exits == 1:
                    io.terminated[env, agent] = True
                elif io.step[env] == params.episode_length:
                    reward += params.end_of_game_reward_for_runner
            io.reward[env, agent] = reward

    @wp.func(inline=True)
    def reset_agent(params: Params, state: State, env: int, agent: int, rng: philox.Stream):
        """Place an agent uniformly on the square, facing along an axis, at rest."""
        if wp.static(start == "given"):
            placement = state.start[env, agent]
            state.pos[env, agent] = wp.vec2(placement[0], placement[1])
            state.direction[env, agent] = placement[2]
        else:
            if wp.static(start == "fixed"):  # one sample for all worlds and episodes of a seed
                rng.world = wp.uint32(0)
                rng.episode = wp.uint32(0)
            word = philox.bits(rng, agent, philox.RESET, 0)
            x = philox.unit(word[0]) * params.grid_length
            y = philox.unit(word[1]) * params.grid_length
            state.pos[env, agent] = wp.vec2(x, y)
            state.direction[env, agent] = float(philox.below(word[2], 4)) * HALF_PI
        state.speed[env, agent] = 0.0
        state.acceleration[env, agent] = 0.0
        state.shown[env, agent] = True
        state.survived[env, agent] = True
        for slot in range(state.near.shape[2]):
            state.near[env, agent, slot] = -1

    @wp.func(inline=True)
    def global_state(params: Params, state: State, io: IO, env: int, agent: int):
        """Write position, motion, type and alive flag of every agent, about 0 to 1, then the time."""
        column = 7 * agent
        position = state.pos[env, agent]
        io.global_state[env, column] = position[0] / params.grid_length
        io.global_state[env, column + 1] = position[1] / params.grid_length
        io.global_state[env, column + 2] = state.speed[env, agent] / (params.max_speed + 1.0e-10)
        io.global_state[env, column + 3] = state.acceleration[env, agent] / (params.max_speed + 1.0e-10)
        io.global_state[env, column + 4] = state.direction[env, agent] / TWO_PI
        io.global_state[env, column + 5] = wp.where(agent < num_taggers, 1.0, 0.0)
        io.global_state[env, column + 6] = wp.where(io.alive[env, agent], 1.0, 0.0)
        if agent == 0:
            io.global_state[env, 7 * num_agents] = float(io.step[env]) / float(params.episode_length)

    sizes = (
        f"{num_taggers} {num_runners} {num_acceleration_levels} {num_turn_levels} {num_observed} {full} {start} {grid}"
    )
    survey = cell_grid.build_grid(Params, State, num_agents, num_observed) if grid else ()
    if not full:
        survey = (*survey, nearest_phase(Params, State, num_agents, num_observed, grid))
    observe, observe_slot = observation(Params, State, num_agents, num_taggers, num_observed, full)
    few_taggers = (
        num_taggers * num_taggers <= num_agents
    )  # search all of them: with few taggers the cell search visits many cells
    if grid and not few_taggers:
        hunt = agent_phase(seek_in_cells, reads="pos cells who spot io.valid", writes="caught_by")
    else:
        hunt = agent_phase(seek, reads="pos io.valid", writes="caught_by")
    return Rules(
        key=f"tag_continuous {sizes}",
        params=Params,
        state=State,
        num_agents=num_agents,
        action_size=2,
        continuous=False,
        phases=(
            agent_phase(
                move,
                reads="pos speed acceleration direction io.choice io.valid",
                writes="pos speed acceleration direction shown tags left io.reward",
            ),
            *survey,
            hunt,
            agent_phase(tally, reads="caught_by tags io.valid", writes="tags left"),
            agent_phase(
                tag, reads="caught_by tags left io.reward io.step io.valid", writes="survived io.reward io.terminated"
            ),
        ),
        build_grid=survey,
        reset_agent=reset_agent,
        observe=observe,
        observe_slot=observe_slot,
        observe_slots=num_agents - 1 if full else num_observed,
        global_state=global_state,
        max_unroll=16 if num_agents > 16 else 1,
    )
