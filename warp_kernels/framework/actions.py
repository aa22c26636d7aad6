"""Functions of an agent that acts: store its inputs, wait, and sample an action from the outputs of a network."""

from typing import Any

import warp as wp

from warp_kernels import episode
from warp_kernels.episode import IO
from warp_kernels.framework.policies import Acting, Policies, PolicyKind, Trace
from warp_kernels.framework.wide_words import copy_of
from warp_kernels.networks.activations import vector
from warp_kernels.networks.distributions import distribution_of
from warp_kernels.rules import Rules


@wp.func
def step_address(start: wp.uint64, t: int, num_rows: int, row_size: int):
    """Return the address of step t in an array (T, rows, ...) with rows of `row_size` bytes, beyond 2^31 rows too."""
    return start + wp.uint64(t) * wp.uint64(num_rows) * wp.uint64(row_size)


def keep_inputs(rules: Rules) -> Any:
    """Build the function that stores what an agent sees before a step."""
    masked, turn_based, copy_row = rules.masked, rules.turn_based, copy_of(rules.width)

    @wp.func
    def keep(io: IO, trace: Trace, t: int, env: int, agent: int):
        width = io.obs.shape[2]
        offset = wp.uint64(4) * wp.uint64(env * io.obs.shape[1] + agent) * wp.uint64(width)
        step = step_address(trace.obs.ptr, t, io.obs.shape[0] * io.obs.shape[1], 4 * width)
        copy_row(io.obs.ptr + offset, step + offset, width)
        if wp.static(masked):
            n = int(io.action_mask.shape[2]) - 1
            while n >= 0:
                trace.mask[t, env, agent, n] = io.action_mask[env, agent, n]
                n -= 1
        if wp.static(turn_based):
            trace.to_move[t, env, agent] = io.to_move[env, agent]

    return keep


def wait_of(rules: Rules, acting: Acting) -> Any:
    """Build the function in which an agent takes the no-op."""
    continuous, size, traced = rules.continuous, rules.action_size, acting.traced

    @wp.func
    def wait(io: IO, trace: Trace, t: int, env: int, agent: int):
        for k in range(size):
            if wp.static(continuous):
                io.control[env, agent, k] = 0.0
            else:
                io.choice[env, agent, k] = wp.int64(0)
            if wp.static(traced and continuous):
                trace.control[t, env, agent, k] = 0.0
            if wp.static(traced and not continuous):
                trace.choice[t, env, agent, k] = wp.int64(0)
        if wp.static(traced):
            trace.log_prob[t, env, agent] = 0.0

    return wait


def prepare_of(rules: Rules, kind: PolicyKind) -> Any:
    """Build ``prepare(io, o, row)``, which returns the parameters of a distribution from the outputs of a network."""
    num_agents, V = rules.num_agents, vector(kind.mlp.head_width)
    prepare = distribution_of(kind.head, kind.sizes, kind.mlp, rules.masked, kind.explores).prepare

    @wp.func(inline=True)
    def prepared(io: IO, o: V, row: int):
        mask = wp.array(
            ptr=io.action_mask.ptr, shape=(io.alive.shape[0] * num_agents, io.action_mask.shape[2]), dtype=wp.bool
        )
        return prepare(o, mask, row)

    return prepared


def write_of(rules: Rules, acting: Acting, kind: PolicyKind) -> Any:
    """Build the function that samples an action, and writes it for the environment.

    It takes the parameters of the distribution, see `prepare_of`.

    Unless every step is stored, it is sampled where the environment reads it.
    """
    num_agents, continuous, traced = rules.num_agents, rules.continuous, acting.traced
    distribution = distribution_of(kind.head, kind.sizes, kind.mlp, rules.masked, kind.explores)
    sample, log_prob = distribution.sample, distribution.log_prob
    size, bounded, explores = len(kind.sizes), kind.bounded, kind.explores
    squashed = not explores and kind.head in ("tanh_gaussian", "tanh")
    if continuous:
        size = kind.sizes[0]
    V = vector(kind.mlp.head_width)

    @wp.func
    def write(io: IO, policies: Policies, trace: Trace, t: int, greedy: int, env: int, agent: int, policy: int, v: V):
        num_rows = io.alive.shape[0] * num_agents
        row = env * num_agents + agent
        rng = episode.foreign_stream(io, env, policies.seeds[policy])
        controls = io.control.ptr
        choices = io.choice.ptr
        if wp.static(traced):
            controls = step_address(trace.control.ptr, t, num_rows, 4 * io.control.shape[2])
            choices = step_address(trace.choice.ptr, t, num_rows, 8 * io.choice.shape[2])
        control = wp.array(ptr=controls, shape=(num_rows, io.control.shape[2]), dtype=float)
        choice = wp.array(ptr=choices, shape=(num_rows, io.choice.shape[2]), dtype=wp.int64)
        sample(v, rng, agent, greedy, choice, control, row)
        if wp.static(traced):
            trace.log_prob[t, env, agent] = log_prob(v, choice, control, row)
        for k in range(size):
            if wp.static(continuous):
                code = control[row, k]
                if wp.static(squashed):
                    code = wp.tanh(code)
                low = io.low[agent, k]
                high = io.high[agent, k]
                if wp.static(bounded):
                    code = low + (code + 1.0) * 0.5 * (high - low)
                code = wp.min(wp.max(code, low), high)
                io.control[env, agent, k] = code
                if wp.static(explores):
                    control[row, k] = code
            elif wp.static(traced):
                io.choice[env, agent, k] = choice[row, k]

    return write
