"""MultiCartPole: several independent CartPoles, each balanced by an agent, as in RLlib's MultiAgentCartPole.

Every agent plays CartPole of Gymnasium 1.4.0, with the functions of ``warp_kernels/classic/cartpole.py``.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.classic.cartpole import Params, fallen, sample_motion, step_motion
from warp_kernels.episode import IO
from warp_kernels.rules import Rules, agent_phase


@wp.struct
class State:
    """State of E worlds, A agents."""

    motion: wp.array2d(dtype=wp.vec4)  # (E, A) cart's position [m], speed [m/s]; pole's angle [rad], speed [rad/s]


@cache
def rules(num_agents: int) -> Rules:
    """Build the rules for a number of agents."""

    @wp.func(inline=True)
    def push(params: Params, state: State, io: IO, env: int, agent: int):
        """Integrate one step of an agent whose pole has not fallen; write the motion, the reward and terminated."""
        if io.valid[env, agent]:
            motion = step_motion(params, state.motion[env, agent], io.choice[env, agent, 0])
            state.motion[env, agent] = motion
            if fallen(params, motion):
                io.reward[env, agent] = params.fall_reward
                io.terminated[env, agent] = True
            else:
                io.reward[env, agent] = params.step_reward

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the agent's own motion."""
        motion = state.motion[env, agent]
        for column in range(4):
            io.obs[env, agent, column] = motion[column]

    @wp.func(inline=True)
    def reset_agent(params: Params, state: State, env: int, agent: int, rng: philox.Stream):
        """Sample every component of the motion uniformly in the start range."""
        state.motion[env, agent] = sample_motion(params, rng, agent)

    return Rules(
        key=f"multi_cartpole {num_agents}",
        params=Params,
        state=State,
        num_agents=num_agents,
        action_size=1,
        continuous=False,
        phases=(agent_phase(push, reads="motion io.choice io.valid", writes="motion io.reward io.terminated"),),
        reset_agent=reset_agent,
        observe=observe,
    )
