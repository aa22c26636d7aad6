"""TagGridworld: WarpDrive 2.7.1's gridworld Tag. Taggers chase one runner over the cells 0 .. grid_length of a square.

Rows: taggers first (type 0), the runner last (type 1), the opposite of TagContinuous, as in WarpDrive.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.rules import Rules, agent_phase


@wp.struct
class Params:
    """Environment parameters; penalties and costs are magnitudes that are subtracted."""

    grid_length: int  # largest coordinate [cells]; a side has grid_length + 1 cells
    episode_length: int  # T [steps]; observations contain t / T
    wall_hit_penalty: float  # for running into the wall
    tag_reward_for_tagger: float  # for every tagger, when the runner is tagged
    tag_penalty_for_runner: float  # for the runner, when it is tagged
    step_cost_for_tagger: float  # per step without a tag; the runner gets the same as reward


@wp.struct
class State:
    """State of E worlds, A agents."""

    cell: wp.array2d(dtype=wp.vec2i)  # (E, A) [cells]
    survived: wp.array2d(dtype=wp.bool)  # (E, A) no tagger has tagged the agent in this episode
    start: wp.array2d(dtype=wp.vec2i)  # (E, A) fixed start [cells]; empty for random starts


def observation_width(num_agents: int, full: bool) -> int:
    """Return the width of an observation: all agents and the time, or own cell, opposing cell, type and time."""
    return 4 * num_agents + 1 if full else 6


@cache
def rules(num_taggers: int, full: bool, start: str) -> Rules:
    """Build the rules.

    Args:
        num_taggers: Number of taggers, the first rows; the runner is the last row.
        full: Observe all agents.
        start: "random" (per world and episode) or "given" (State.start).
    """
    num_agents = num_taggers + 1
    runner = num_taggers

    @wp.func(inline=True)
    def move(params: Params, state: State, io: IO, env: int, agent: int):
        """Stay or move +x, -x, +y, -y up to the wall; write the agent's cell and the first part of its reward."""
        choice = int(io.choice[env, agent, 0])
        cell = state.cell[env, agent]
        x = cell[0] + wp.where(choice == 1, 1, 0) - wp.where(choice == 2, 1, 0)
        y = cell[1] + wp.where(choice == 3, 1, 0) - wp.where(choice == 4, 1, 0)
        inside_x = wp.clamp(x, 0, params.grid_length)
        inside_y = wp.clamp(y, 0, params.grid_length)
        if x != inside_x or y != inside_y:
            io.reward[env, agent] = -params.wall_hit_penalty
        state.cell[env, agent] = wp.vec2i(inside_x, inside_y)

    @wp.func(inline=True)
    def tag(params: Params, state: State, io: IO, env: int, agent: int):
        """End the game if a tagger is on the runner's cell after all moves; write reward, terminated and survived."""
        target = state.cell[env, runner]
        tagged = bool(False)
        for tagger in range(num_taggers):
            cell = state.cell[env, tagger]
            tagged = tagged or (cell[0] == target[0] and cell[1] == target[1])
        gain = float(0.0)
        if agent == runner:
            gain = wp.where(tagged, -params.tag_penalty_for_runner, params.step_cost_for_tagger)
        else:
            gain = wp.where(tagged, params.tag_reward_for_tagger, -params.step_cost_for_tagger)
        io.reward[env, agent] = io.reward[env, agent] + gain
        io.terminated[env, agent] = tagged
        state.survived[env, agent] = agent != runner or not tagged

    @wp.func(inline=True)
    def observe_all(params: Params, state: State, io: IO, env: int, agent: int):
        """Write x, y and type of all agents, the own row as one-hot, and the time."""
        size = float(params.grid_length)
        for other in range(num_agents):
            cell = state.cell[env, other]
            io.obs[env, agent, other] = float(cell[0]) / size
            io.obs[env, agent, num_agents + other] = float(cell[1]) / size
            io.obs[env, agent, 2 * num_agents + other] = wp.where(other == runner, 1.0, 0.0)
            io.obs[env, agent, 3 * num_agents + other] = wp.where(other == agent, 1.0, 0.0)
        io.obs[env, agent, 4 * num_agents] = float(io.step[env]) / float(params.episode_length)

    @wp.func(inline=True)
    def observe_prey(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the own cell, the runner's (for the runner: the nearest tagger's, lowest row first), type and time."""
        size = float(params.grid_length)
        position = state.cell[env, agent]
        target = state.cell[env, runner]
        if agent == runner:
            nearest = int(2147483647)
            for tagger in range(num_taggers):
                cell = state.cell[env, tagger]
                dx = cell[0] - position[0]
                dy = cell[1] - position[1]
                squared = dx * dx + dy * dy
                if squared < nearest:
                    nearest = squared
                    target = cell
        io.obs[env, agent, 0] = float(position[0]) / size
        io.obs[env, agent, 1] = float(position[1]) / size
        io.obs[env, agent, 2] = float(target[0]) / size
        io.obs[env, agent, 3] = float(target[1]) / size
        io.obs[env, agent, 4] = wp.where(agent == runner, 1.0, 0.0)
        io.obs[env, agent, 5] = float(io.step[env]) / float(params.episode_length)

    @wp.func(inline=True)
    def reset_agent(params: Params, state: State, env: int, agent: int, rng: philox.Stream):
        """Place an agent on a random cell or its fixed start."""
        state.survived[env, agent] = True
        if wp.static(start == "given"):
            state.cell[env, agent] = state.start[env, agent]
        else:
            word = philox.bits(rng, agent, philox.RESET, 0)
            cells = params.grid_length + 1
            state.cell[env, agent] = wp.vec2i(philox.below(word[0], cells), philox.below(word[1], cells))

    return Rules(
        key=f"tag_gridworld {num_taggers} {full} {start}",
        params=Params,
        state=State,
        num_agents=num_agents,
        action_size=1,
        continuous=False,
        phases=(
            agent_phase(move, reads="cell io.choice", writes="cell io.reward"),
            agent_phase(tag, reads="cell io.reward", writes="survived io.reward io.terminated"),
        ),
        reset_agent=reset_agent,
        observe=observe_all if full else observe_prey,
        max_unroll=16 if num_agents <= 6 else 4,
    )
