"""Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).

A draw is a pure function of key = 64-bit seed and counter = (world, episode, step, agent | purpose | draw). So a world
plays the same whatever the batch size, schedule or shard, and a checkpoint needs no generator state.
Checked against the published Random123 vectors in ``tests/test_philox.py``.
"""

import warp as wp

# What a draw is for; draws of different purposes never share a counter.
RESET = wp.constant(0)
STEP = wp.constant(1)
SAMPLE = wp.constant(2)
RANGE = wp.constant(3)

# Bits of the last counter word: 20 agent, 4 purpose, 8 draw.
MAX_AGENTS = 1 << 20
MAX_DRAWS = 1 << 8

_MULTIPLIER_0 = wp.constant(wp.uint64(0xD2511F53))
_MULTIPLIER_1 = wp.constant(wp.uint64(0xCD9E8D57))
_WEYL_0 = wp.constant(wp.uint32(0x9E3779B9))
_WEYL_1 = wp.constant(wp.uint32(0xBB67AE85))


@wp.struct
class Stream:
    """The random stream of one world at one step."""

    seed: wp.uint64  # key
    world: wp.uint32  # global index of the world, env_offset included
    episode: wp.uint32  # episodes the world has started before
    step: wp.uint32  # steps taken in this episode


@wp.func
def philox4x32(counter: wp.vec4ui, key_0: wp.uint32, key_1: wp.uint32) -> wp.vec4ui:
    """Ten rounds of Philox: 128 random bits for a 128-bit counter and a 64-bit key."""
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
    """Four random 32-bit words for this agent, purpose and draw (0 to 255) at the stream's step."""
    last = (wp.uint32(agent) << wp.uint32(12)) | (wp.uint32(purpose) << wp.uint32(8)) | wp.uint32(draw)
    counter = wp.vec4ui(rng.world, rng.episode, rng.step, last)
    return philox4x32(counter, wp.uint32(rng.seed), wp.uint32(rng.seed >> wp.uint64(32)))


@wp.func
def unit(word: wp.uint32) -> float:
    """A random word as a uniform float32 in [0, 1): its upper 24 bits, so that 1 is never reached."""
    return float(word >> wp.uint32(8)) * 5.9604644775390625e-8


@wp.func
def uniform4(rng: Stream, agent: int, purpose: int, draw: int) -> wp.vec4:
    """Four independent uniforms in [0, 1)."""
    word = bits(rng, agent, purpose, draw)
    return wp.vec4(unit(word[0]), unit(word[1]), unit(word[2]), unit(word[3]))


@wp.func
def below(word: wp.uint32, bound: int) -> int:
    """A random word as an integer in 0 .. bound - 1 (multiply and shift; bias below bound / 2^32)."""
    return int((wp.uint64(word) * wp.uint64(bound)) >> wp.uint64(32))
