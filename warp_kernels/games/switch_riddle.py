"""SwitchRiddle: prisoners enter a room with a lamp one at a time, and one of them tells when all have been there.

The riddle of 100 prisoners and a light bulb, as in JaxMARL 0.2.0 and Foerster et al. 2016, "Learning to communicate to
solve riddles with deep distributed recurrent Q-networks".
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO, episode_key, keyed_stream
from warp_kernels.rules import Rules, agent_phase, world_phase

SWITCH: int = wp.constant(1)
"""Action that switches the lamp."""
TELL: int = wp.constant(2)
"""Action that tells that all have been in the room, and ends the episode."""
NUM_ACTIONS = 3
"""Number of actions; 0 does nothing."""
OBSERVATION = 2
"""Width of an observation."""


@wp.struct
class Params:
    """Environment parameters."""

    initial_bulb_state: int  # 1: the lamp is on at the start
    reward_all_die: float  # reward of every agent if one tells too early
    reward_all_live: float  # reward of every agent if one tells and all have been in the room


@wp.struct
class State:
    """State of E worlds, A agents."""

    bulb: wp.array(dtype=int)  # (E,) 1: the lamp is on
    room: wp.array(dtype=int)  # (E,) row of the agent in the room
    been: wp.array2d(dtype=int)  # (E, A) 1: the agent has acted in the room
    key: wp.array(dtype=wp.uint64)  # (E,) key of the random numbers of the episode
    claim: wp.array(dtype=int)  # (E,) last step: 0 no claim, 1 too early, 2 all had been in the room


@cache
def rules(num_agents: int) -> Rules:
    """Build the rules for a number of agents."""

    @wp.func(inline=True)
    def act(params: Params, state: State, io: IO, env: int):
        """Carry out the action of the agent in the room, then choose the next one at random."""
        room = state.room[env]
        choice = int(io.choice[env, room, 0])
        state.been[env, room] = 1
        if choice == SWITCH:
            state.bulb[env] = 1 - state.bulb[env]
        claim = int(0)
        if choice == TELL:
            claim = int(2)
            for agent in range(num_agents):
                if state.been[env, agent] == 0:
                    claim = 1
        state.claim[env] = claim
        word = philox.bits(keyed_stream(io, env, state.key[env]), 0, philox.STEP, 0)
        state.room[env] = philox.below(word[0], num_agents)

    @wp.func(inline=True)
    def score(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the shared reward and terminated."""
        claim = state.claim[env]
        if claim > 0:
            io.reward[env, agent] = wp.where(claim == 2, params.reward_all_live, params.reward_all_die)
            io.terminated[env, agent] = True

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write whether the agent is in the room, and whether it sees the lamp on."""
        in_room = state.room[env] == agent
        io.obs[env, agent, 0] = wp.where(in_room, 1.0, 0.0)
        io.obs[env, agent, 1] = wp.where(in_room and state.bulb[env] == 1, 1.0, 0.0)

    @wp.func(inline=True)
    def global_state(params: Params, state: State, io: IO, env: int, agent: int):
        """Write for every agent whether it is in the room and has been there, then the lamp and the time."""
        io.global_state[env, 2 * agent] = wp.where(state.room[env] == agent, 1.0, 0.0)
        io.global_state[env, 2 * agent + 1] = float(state.been[env, agent])
        if agent == 0:
            io.global_state[env, 2 * num_agents] = float(state.bulb[env])
            io.global_state[env, 2 * num_agents + 1] = float(io.step[env]) / float(wp.max(io.max_steps, 1))

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Choose the first agent in the room at random."""
        word = philox.bits(rng, 0, philox.RESET, 0)
        state.room[env] = philox.below(word[0], num_agents)
        state.bulb[env] = params.initial_bulb_state
        state.key[env] = episode_key(rng)
        state.claim[env] = 0
        for agent in range(num_agents):
            state.been[env, agent] = 0

    return Rules(
        key=f"switch_riddle {num_agents}",
        params=Params,
        state=State,
        num_agents=num_agents,
        action_size=1,
        continuous=False,
        phases=(
            world_phase(act, reads="bulb room been key io.choice io.step", writes="bulb room been claim"),
            agent_phase(score, reads="claim", writes="io.reward io.terminated"),
        ),
        observe=observe,
        reset=reset,
        global_state=global_state,
        num_choices=NUM_ACTIONS,
        max_unroll=2,
    )
