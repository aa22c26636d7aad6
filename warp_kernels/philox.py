"""Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).

A random number is a pure function of key = 64-bit seed and counter = (world, episode, step, agent | purpose | draw).
The trajectory of a world does not depend on batch size, schedule or shard, and a checkpoint needs no generator state.
``tests/warp_kernels/test_philox.py`` compares with the published Random123 vectors.
"""

import warp as wp

# Purposes of random numbers; different purposes never share a counter.
RESET: int = wp.constant(0)
STEP: int = wp.constant(1)
SAMPLE: int = wp.constant(2)
RANGE: int = wp.constant(3)
POLICY: int = wp.constant(4)  # actions of policies, with the key of the policy
MATCHUP: int = wp.constant(5)  # policies of an episode, with the key of their sampler

# Bits of the last counter word: 20 agent, 4 purpose, 8 draw.
MAX_AGENTS = 1 << 20
MAX_DRAWS = 1 << 8

_MULTIPLIER_0 = wp.constant(wp.uint64(0xD2511F53))
_MULTIPLIER_1 = wp.constant(wp.uint64(0xCD9E8D57))
_WEYL_0 = wp.constant(wp.uint32(0x9E3779B9))
_WEYL_1 = wp.constant(wp.uint32(0xBB67AE85))


@wp.struct
class Stream:
    """Random stream of one world at one step."""

    seed: wp.uint64  # key
    world: wp.uint32  # number of the world among the worlds of its seed
    episode: wp.uint32  # number of earlier episodes of the world
    step: wp.uint32  # steps taken in this episode


@wp.func
def philox4x32(counter: wp.vec4ui, key_0: wp.uint32, key_1: wp.uint32) -> wp.vec4ui:
    """Return 128 random bits for a 128-bit counter and a 64-bit key, by ten rounds of Philox."""
    c0 = counter[0]
    c1 = counter[1]
    c2 = counter[2]
    c3 = counter[3]
    k0 = key_0
    k1 = key_1
    for _round in range(10):
        product_0 = _MULTIPLIER_0 * wp.uint64(c0)
        product_1 = _MULTIPLIER_1 * wp.uint64(c2)
        c0 = wp.uint32(product_1 >> wp.uint64(32)) ^ c1 ^ k0
        c2 = wp.uint32(product_0 >> wp.uint64(32)) ^ c3 ^ k1
        c1 = wp.uint32(product_1)
        c3 = wp.uint32(product_0)
        k0 = k0 + _WEYL_0
        k1 = k1 + _WEYL_1
    return wp.vec4ui(c0, c1, c2, c3)


@wp.func
def bits(rng: Stream, agent: int, purpose: int, draw: int) -> wp.vec4ui:
    """Return four random 32-bit words for an agent, purpose and draw (0 to 255) at the stream's step."""
    last = (wp.uint32(agent) << wp.uint32(12)) | (wp.uint32(purpose) << wp.uint32(8)) | wp.uint32(draw)
    counter = wp.vec4ui(rng.world, rng.episode, rng.step, last)
    return philox4x32(counter, wp.uint32(rng.seed), wp.uint32(rng.seed >> wp.uint64(32)))


@wp.func
def unit(word: wp.uint32) -> float:
    """Return a random word as a uniform float32 in [0, 1), from its upper 24 bits."""
    return float(word >> wp.uint32(8)) * 5.9604644775390625e-8


@wp.func
def uniform4(rng: Stream, agent: int, purpose: int, draw: int) -> wp.vec4:
    """Return four independent uniform numbers in [0, 1)."""
    word = bits(rng, agent, purpose, draw)
    return wp.vec4(unit(word[0]), unit(word[1]), unit(word[2]), unit(word[3]))


@wp.func
def below(word: wp.uint32, bound: int) -> int:
    """Return a random word as an integer in 0 .. bound - 1 (multiply and shift; bias below bound / 2^32)."""
    return int((wp.uint64(word) * wp.uint64(bound)) >> wp.uint64(32))
