"""SimpleCrypto: MPE's simple_crypto as in mpe2 1.1.1. Alice sends Bob a secret letter over a channel that Eve hears.

Agents: Eve, Bob, Alice. Nobody moves. mpe2 scatters its discs over a plane that nobody sees; there is none here.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.mpe import speech
from warp_kernels.rules import Rules, agent_phase

EVE = wp.constant(0)  # row of the one that listens in
BOB = wp.constant(1)  # row of the one that is spoken to
ALICE = wp.constant(2)  # row of the one that speaks
NUM_AGENTS = 3  # all of them
LETTERS = wp.constant(4)  # of the alphabet
SECRETS = wp.constant(2)  # of them, the first, goals and keys are drawn


@wp.struct
class Params:
    """Constants of a world."""

    bob_weight: float  # of Bob's squared error in his and Alice's reward
    eve_weight: float  # of Eve's squared error in everyone's reward


@wp.struct
class State:
    """E worlds, A agents, L letters."""

    goal: wp.array(dtype=int)  # (E,) letter that Alice shall tell
    key: wp.array(dtype=int)  # (E,) letter that Alice and Bob share
    said: wp.array3d(dtype=float)  # (E, A, L) loudness of each letter
    benchmark: wp.array3d(dtype=float)  # (E, A, 2 L) said, then the goal, one letter at 1; (E, A, 0) unless asked for


@cache
def rules(continuous: bool, benchmark: bool) -> Rules:
    """Build the rules for a kind of actions, with or without benchmark data."""
    speak, hear, hush = speech.channel(Params, State, NUM_AGENTS, LETTERS, continuous, moves=False)

    @wp.func(inline=True)
    def show(io: IO, env: int, agent: int, column: int, shown: int):
        """One letter at 1, in L columns of the observation."""
        for letter in range(LETTERS):
            io.obs[env, agent, column + letter] = wp.where(letter == shown, 1.0, 0.0)

    @wp.func(inline=True)
    def error(state: State, env: int, agent: int):
        """Squared distance of what an agent said from the goal; silence is no error."""
        total = float(0.0)
        loud = bool(False)
        for letter in range(LETTERS):
            said = state.said[env, agent, letter]
            gap = said - wp.where(letter == state.goal[env], 1.0, 0.0)
            total += gap * gap
            loud = loud or said != 0.0
        return wp.where(loud, total, 0.0)

    @wp.func(inline=True)
    def score(params: Params, state: State, io: IO, env: int, agent: int):
        """Eve pays for her error; Bob and Alice earn it, and pay for Bob's. Writes the reward, and benchmark data."""
        eve = params.eve_weight * error(state, env, EVE)
        if agent == EVE:
            io.reward[env, agent] = -eve
        else:
            io.reward[env, agent] = eve - params.bob_weight * error(state, env, BOB)
        if wp.static(benchmark):
            for letter in range(LETTERS):
                state.benchmark[env, agent, letter] = state.said[env, agent, letter]
                state.benchmark[env, agent, LETTERS + letter] = wp.where(letter == state.goal[env], 1.0, 0.0)

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Alice: goal and key. Bob: key and what Alice said. Eve: what Alice said."""
        if agent == ALICE:
            show(io, env, agent, 0, state.goal[env])
            show(io, env, agent, LETTERS, state.key[env])
        elif agent == BOB:
            show(io, env, agent, 0, state.key[env])
            hear(state, io, env, agent, ALICE, LETTERS)
        else:
            hear(state, io, env, agent, ALICE, 0)

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Any goal and key; silence."""
        word = philox.bits(rng, 0, philox.RESET, 0)
        state.goal[env] = philox.below(word[0], SECRETS)
        state.key[env] = philox.below(word[1], SECRETS)
        hush(state, env)

    return Rules(
        key=f"simple_crypto {continuous} {benchmark}",
        params=Params,
        state=State,
        num_agents=NUM_AGENTS,
        action_size=int(LETTERS) if continuous else 1,
        continuous=continuous,
        phases=(speak, agent_phase(score)),
        reset=reset,
        observe=observe,
        max_unroll=4,
    )
