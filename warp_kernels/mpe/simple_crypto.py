"""SimpleCrypto: MPE's simple_crypto as in mpe2 1.1.1. Alice sends Bob a secret letter over a channel that Eve hears.

Agents: Eve, Bob, Alice. No agent moves. mpe2 places its discs on a plane that is not observed; it is omitted here.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.mpe import communication
from warp_kernels.rules import Rules, agent_phase

EVE: int = wp.constant(0)  # row of the eavesdropper
BOB: int = wp.constant(1)  # row of the receiver
ALICE: int = wp.constant(2)  # row of the sender
NUM_AGENTS = 3  # Eve, Bob and Alice
LETTERS: int = wp.constant(4)  # size of the alphabet
SECRETS: int = wp.constant(2)  # goals and keys are sampled from the first letters


@wp.struct
class Params:
    """Environment parameters."""

    bob_weight: float  # weight of Bob's squared error in his and Alice's reward
    eve_weight: float  # weight of Eve's squared error in the reward of all agents


@wp.struct
class State:
    """State of E worlds, A agents, L letters."""

    goal: wp.array(dtype=int)  # (E,) letter that Alice sends
    key: wp.array(dtype=int)  # (E,) letter that Alice and Bob share
    said: wp.array3d(dtype=float)  # (E, A, L) loudness of each letter
    benchmark: wp.array3d(dtype=float)  # (E, A, 2 L) messages, then the goal, one-hot; (E, A, 0) if disabled


@cache
def rules(continuous: bool, benchmark: bool) -> Rules:
    """Build the rules for a kind of actions, with or without benchmark data."""
    speak, hear, hush = communication.channel(Params, State, NUM_AGENTS, LETTERS, continuous, moves=False)

    @wp.func(inline=True)
    def show(io: IO, env: int, agent: int, column: int, symbol: int):
        """Write a letter, one-hot, into L columns of the observation."""
        for letter in range(LETTERS):
            io.obs[env, agent, column + letter] = wp.where(letter == symbol, 1.0, 0.0)

    @wp.func(inline=True)
    def error(state: State, env: int, agent: int):
        """Return the squared distance of an agent's message from the goal; 0 for silence."""
        total = float(0.0)
        loud = bool(False)
        for letter in range(LETTERS):
            loudness = state.said[env, agent, letter]
            gap = loudness - wp.where(letter == state.goal[env], 1.0, 0.0)
            total += gap * gap
            loud = loud or loudness != 0.0
        return wp.where(loud, total, 0.0)

    @wp.func(inline=True)
    def score(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the rewards by the errors of Eve and Bob, and benchmark data."""
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
        """Write goal and key (Alice), key and Alice's message (Bob), or Alice's message (Eve)."""
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
        """Sample goal and key, and set silence."""
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
        phases=(speak, agent_phase(score, reads="goal said", writes="benchmark io.reward")),
        reset=reset,
        observe=observe,
        max_unroll=4,
    )
