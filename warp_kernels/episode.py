"""Buffers of every environment, and the phases that open and close a step.

A step is a list of phases, with the environment's in the middle:

    begin  advance_clock  | the rules' phases |  observe  leave  turn  rejoin  reobserve
    agent  world |                   |  agent    agent  world agent   agent

A reset by mask is ``start_anew withdraw rejoin reobserve``. Phase isolation (``docs/internals.md``): a thread writes
only the data of its world (world phase) or of its agent (agent phase), and reads nothing that a sibling writes
in the same phase.
"""

import warp as wp

from warp_kernels import philox

# Gymnasium's AutoresetMode as kernel constants.
SAME_STEP: int = wp.constant(0)
NEXT_STEP: int = wp.constant(1)
DISABLED: int = wp.constant(2)

# Reasons why an action is illegal; the number is part of IO.error.
OUT_OF_RANGE: int = wp.constant(1)
NOT_FINITE: int = wp.constant(2)
ILLEGAL: int = wp.constant(3)

# IO.world of a world that has a seed to itself; it plays as world 0 of that seed.
OWN_SEED: int = wp.constant(-1)

_WEYL = wp.constant(wp.uint64(0x9E3779B97F4A7C15))  # odd, so that multiples of it are a bijection

NO_ERROR = (1 << 63) - 1  # IO.error where no action was illegal: larger than every code


@wp.struct
class IO:
    """Buffers, settings and clocks of a batch: E worlds, A agents, K action components, observation width D.

    Attributes:
        choice: (E, A, K) discrete actions; empty where actions are continuous.
        control: (E, A, K) continuous actions; empty where actions are discrete.
        num_choices: (A, K) size of each discrete component; 0 pads; empty where continuous.
        low: (A, K) lower bounds of continuous actions; low > high pads; empty where discrete.
        high: (A, K) upper bounds.
        action_mask: (E, A, n) legal choices, component by component; empty where all are legal.
        to_move: (E, A) decides on the next step; empty unless agents take turns.
        refused: (E, A) this action was refused; empty unless agents take turns.
        obs: (E, A, D) observations.
        final_obs: (E, A, D) last observation of an agent's episode.
        reward: (E, A) rewards of this step.
        terminated: (E, A) event: the rules end this agent's episode.
        truncated: (E, A) event: a limit outside the rules ends it.
        alive: (E, A) acts on the next step.
        valid: (E, A) was alive before this step.
        running_return: (E, A) sum of rewards since the episode's start.
        episode_return: (E, A) of the agent's last finished episode.
        episode_length: (E, A) [steps] of the agent's last finished episode.
        episode_results: (E, A, R) declared results of the agent's last finished episode.
        info: (F,) addresses of the tensors that show declared fields of State.
        global_state: (E, S) written on request.
        final_state: (E, S) before autoreset, where an agent was cut or all have left; empty unless it is kept.
        ends: (E,) this step writes the final state; empty unless it is kept.
        seed: (E,) key of the world's random stream.
        world: (E,) number of the world among the worlds of its seed, or OWN_SEED.
        episode: (E,) episodes started before this one.
        step: (E,) steps taken in this episode.
        active: (E,) the world plays in this step.
        over: (E,) the episode has ended and waits for its reset.
        restart: (E,) a new episode starts in this launch.
        forfeit: (E,) players of a game that an illegal action has lost, else 0; empty without turns.
        params: (1 or E, F) parameters, an int by its bits; written where ranges are given.
        range_column: (R,) columns of parameters that every episode samples.
        range_whole: (R,) the parameter is an int.
        range_low: (R,) lowest value.
        range_high: (R,) highest value, inclusive for ints.
        error: (1,) lowest illegal action: world << 32 | agent << 8 | reason.
        max_steps: Time limit [steps]; 0 for none.
        limit_terminates: 1: the limit is part of the rules, 0: it truncates.
        autoreset: SAME_STEP, NEXT_STEP or DISABLED.
        illegal_loses: 1: where agents take turns, an illegal action loses; 0: it is an error, and the world waits.
        saturates: 1: the rules receive continuous actions beyond their bounds; 0: such actions are illegal.
    """

    choice: wp.array3d(dtype=wp.int64)
    control: wp.array3d(dtype=float)
    num_choices: wp.array2d(dtype=int)
    low: wp.array2d(dtype=float)
    high: wp.array2d(dtype=float)
    action_mask: wp.array3d(dtype=wp.bool)
    to_move: wp.array2d(dtype=wp.bool)
    refused: wp.array2d(dtype=wp.bool)
    obs: wp.array3d(dtype=float)
    final_obs: wp.array3d(dtype=float)
    reward: wp.array2d(dtype=float)
    terminated: wp.array2d(dtype=wp.bool)
    truncated: wp.array2d(dtype=wp.bool)
    alive: wp.array2d(dtype=wp.bool)
    valid: wp.array2d(dtype=wp.bool)
    running_return: wp.array2d(dtype=wp.float64)
    episode_return: wp.array2d(dtype=float)
    episode_length: wp.array2d(dtype=int)
    episode_results: wp.array3d(dtype=float)
    info: wp.array(dtype=wp.uint64)
    global_state: wp.array2d(dtype=float)
    final_state: wp.array2d(dtype=float)
    ends: wp.array(dtype=wp.bool)
    seed: wp.array(dtype=wp.uint64)
    world: wp.array(dtype=int)
    episode: wp.array(dtype=int)
    step: wp.array(dtype=int)
    active: wp.array(dtype=wp.bool)
    over: wp.array(dtype=wp.bool)
    restart: wp.array(dtype=wp.bool)
    forfeit: wp.array(dtype=int)
    params: wp.array2d(dtype=float)
    range_column: wp.array(dtype=int)
    range_whole: wp.array(dtype=wp.bool)
    range_low: wp.array(dtype=wp.float64)
    range_high: wp.array(dtype=wp.float64)
    error: wp.array(dtype=wp.int64)
    max_steps: int
    limit_terminates: int
    autoreset: int
    illegal_loses: int
    saturates: int


DENSE_FIELDS = (
    "choice",
    "control",
    "obs",
    "reward",
    "terminated",
    "truncated",
    "alive",
    "valid",
    "running_return",
    "step",
    "active",
    "over",
    "restart",
)
"""Arrays of IO that fused kernels rebuild with constant sizes, see :mod:`warp_kernels.framework.dense_arrays`."""


@wp.func(inline=True)
def stream(io: IO, env: int) -> philox.Stream:
    """Return the random stream of a world at its current episode and step."""
    rng = philox.Stream()
    rng.seed = io.seed[env]
    rng.world = wp.uint32(wp.max(io.world[env], 0))
    rng.episode = wp.uint32(io.episode[env])
    rng.step = wp.uint32(io.step[env])
    return rng


@wp.func(inline=True)
def start_stream(io: IO, env: int) -> philox.Stream:
    """Return the random stream of a world's start: the stream of step 0, whatever step count the episode starts at."""
    rng = stream(io, env)
    rng.step = wp.uint32(0)
    return rng


@wp.func(inline=True)
def episode_key(rng: philox.Stream) -> wp.uint64:
    """Return a random key for the draws within an episode, from the stream of its start; State keeps it.

    With the key in State, a copied or permuted world draws the same numbers as before.
    """
    word = philox.bits(rng, philox.MAX_AGENTS - 1, philox.RESET, philox.MAX_DRAWS - 1)
    return (wp.uint64(word[0]) << wp.uint64(32)) | wp.uint64(word[1])


@wp.func(inline=True)
def keyed_stream(io: IO, env: int, key: wp.uint64) -> philox.Stream:
    """Return the random stream of an episode's key at the current step."""
    rng = philox.Stream()
    rng.seed = key
    rng.world = wp.uint32(0)
    rng.episode = wp.uint32(0)
    rng.step = wp.uint32(io.step[env])
    return rng


@wp.func(inline=True)
def foreign_stream(io: IO, env: int, key: wp.uint64) -> philox.Stream:
    """Return the random stream of another key than the world's, such as a policy's, for the world's draws.

    Worlds of one seed differ by their numbers. A world with its own seed mixes it into the key, so that worlds of
    different seeds differ and streams of equal seeds agree.
    """
    rng = stream(io, env)
    rng.seed = key
    if io.world[env] == OWN_SEED:
        rng.seed = key ^ (io.seed[env] * _WEYL)
    return rng


@wp.func(inline=True)
def report(io: IO, env: int, agent: int, fault: int):
    """Keep the lowest illegal action. The atomics on this flag are an exception to phase isolation."""
    key = (wp.int64(env) << wp.int64(32)) | (wp.int64(agent) << wp.int64(8)) | wp.int64(fault)
    wp.atomic_min(io.error, 0, key)


def discrete_check(num_components: int, masked: bool, turn_based: bool, num_choices: int):
    """Build the check of one agent's discrete action.

    An illegal action becomes choice 0, the no-op, and so does padding. Where agents take turns, an illegal action is
    also marked in ``io.refused``, and only the action of the agent to move is checked.

    Args:
        num_components: Number of action components K.
        masked: Some choices are illegal at times.
        turn_based: Agents take turns.
        num_choices: Number of choices of every component; 0 reads it from ``io.num_choices``.
    """
    is_fixed = num_choices > 0

    @wp.func(inline=True)
    def refuse(io: IO, env: int, agent: int, k: int, fault: int):
        io.choice[env, agent, k] = wp.int64(0)
        if wp.static(turn_based):
            io.refused[env, agent] = True
        if io.illegal_loses == 0:  # otherwise the agent loses the game
            report(io, env, agent, fault)

    @wp.func(inline=True)
    def check(io: IO, env: int, agent: int):
        first = int(0)  # place of the component's choices in the mask
        for k in range(num_components):
            choice = io.choice[env, agent, k]
            count = io.num_choices[agent, k]
            if wp.static(is_fixed):
                count = num_choices
            if choice < wp.int64(0) or choice >= wp.int64(count):
                if count == 0:  # padding
                    io.choice[env, agent, k] = wp.int64(0)
                else:
                    refuse(io, env, agent, k, OUT_OF_RANGE)
            elif wp.static(masked):
                if not io.action_mask[env, agent, first + int(choice)]:
                    refuse(io, env, agent, k, ILLEGAL)
            first += count

    @wp.func(inline=True)
    def clear(io: IO, env: int, agent: int):
        for k in range(num_components):
            io.choice[env, agent, k] = wp.int64(0)

    return check, clear


def continuous_check(num_components: int):
    """Build the check of one agent's continuous action; illegal components and padding become 0, the no-op."""

    @wp.func(inline=True)
    def check(io: IO, env: int, agent: int):
        for k in range(num_components):
            control = io.control[env, agent, k]
            if io.low[agent, k] > io.high[agent, k]:
                io.control[env, agent, k] = 0.0
            elif not wp.isfinite(control):
                report(io, env, agent, NOT_FINITE)
                io.control[env, agent, k] = 0.0
            elif io.saturates == 0 and (control < io.low[agent, k] or control > io.high[agent, k]):
                report(io, env, agent, OUT_OF_RANGE)
                io.control[env, agent, k] = 0.0

    @wp.func(inline=True)
    def clear(io: IO, env: int, agent: int):
        for k in range(num_components):
            io.control[env, agent, k] = 0.0

    return check, clear


@wp.func(inline=True)
def advance_clock(io: IO, env: int):
    """Set whether the world plays this step, and advance its clock."""
    plays = not io.over[env]
    io.active[env] = plays
    io.restart[env] = (not plays) and io.autoreset == NEXT_STEP
    if plays:
        io.step[env] = io.step[env] + 1


@wp.func(inline=True)
def advance_clock_in_turns(io: IO, env: int):
    """Advance the clock where agents take turns: after an illegal action the world waits, or the game is lost."""
    refused = bool(False)
    players = int(0)
    agent = int(io.refused.shape[1]) - 1
    while agent >= 0:  # a loop over a constant range would be unrolled, which is slower
        refused = refused or io.refused[env, agent]
        players += int(io.valid[env, agent])
        agent -= 1
    plays = not io.over[env]
    io.forfeit[env] = wp.where(plays and refused and io.illegal_loses == 1, players, 0)
    io.active[env] = plays and (not refused or io.illegal_loses == 1)
    io.restart[env] = (not plays) and io.autoreset == NEXT_STEP
    if io.active[env]:
        io.step[env] = io.step[env] + 1


@wp.func(inline=True)
def draw_params(io: IO, env: int):
    """Sample the parameters that have a range, for the episode that starts."""
    for row in range(io.range_column.shape[0]):
        column = io.range_column[row]
        word = philox.bits(stream(io, env), column, philox.RANGE, 0)[0]
        low = io.range_low[row]
        high = io.range_high[row]
        if io.range_whole[row]:
            value = int(low) + philox.below(word, int(high - low) + 1)
            io.params[env, column] = wp.cast(value, float)
        else:
            io.params[env, column] = float(low + wp.float64(philox.unit(word)) * (high - low))


def sample_phase(
    params_type: type,
    state_type: type,
    num_components: int,
    masked: bool,
    continuous: bool,
    turn_based: bool,
    num_choices: int,
):
    """Build the agent phase that writes a uniformly random legal action into the action buffer."""
    is_fixed = num_choices > 0

    @wp.func(inline=True)
    def draw(io: IO, env: int, agent: int):
        rng = stream(io, env)
        first = int(0)
        for k in range(num_components):
            word = philox.bits(rng, agent, philox.SAMPLE, k)[0]
            if wp.static(continuous):
                low = io.low[agent, k]
                high = io.high[agent, k]
                # clamped: the product may round up past the bound
                value = wp.clamp(low + philox.unit(word) * (high - low), low, high)
                io.control[env, agent, k] = wp.where(low > high, 0.0, value)
            elif wp.static(masked):
                count = io.num_choices[agent, k]
                if wp.static(is_fixed):
                    count = num_choices
                legal = int(0)
                n = int(0)
                while n < count:  # faster than Warp's range, whose iterator is not a plain number
                    legal += int(io.action_mask[env, agent, first + n])
                    n += 1
                skip = philox.below(word, wp.max(legal, 1))
                pick = int(0)
                n = int(0)
                while n < count:
                    allowed = io.action_mask[env, agent, first + n]
                    pick = wp.where(allowed and skip == 0, n, pick)
                    skip -= int(allowed)
                    n += 1
                io.choice[env, agent, k] = wp.int64(pick)
                first += count
            else:
                io.choice[env, agent, k] = wp.int64(philox.below(word, io.num_choices[agent, k]))

    @wp.func(inline=True)
    def sample(params: params_type, state: state_type, io: IO, env: int, agent: int):
        decides = bool(True)
        if wp.static(turn_based):  # the other agents have one choice, the no-op
            decides = io.to_move[env, agent]
        if decides:
            draw(io, env, agent)
        else:
            for k in range(num_components):
                io.choice[env, agent, k] = wp.int64(0)

    return sample
