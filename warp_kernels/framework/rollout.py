"""Rollouts with policies in the kernels: agents act, worlds step, and results are stored, without Python in between.

A policy is a dense network of :mod:`warp_kernels.networks`. Acting and storing are agent phases around a step's phases.
Fused, a thread plays all steps of its worlds. Phased, every phase is a kernel, and the host launches the steps in turn.
"""

from functools import cache
from typing import Any

import warp as wp

from warp_kernels.episode import IO
from warp_kernels.framework.acting import act_all, act_one
from warp_kernels.framework.actions import keep_inputs
from warp_kernels.framework.dense_arrays import dense_io
from warp_kernels.framework.policies import Acting, Policies, Trace, draw_matchup
from warp_kernels.framework.schedules import LaunchStage, module_of, one_world
from warp_kernels.framework.step import step_phases
from warp_kernels.framework.wide_words import aligned
from warp_kernels.rules import LAST, Rules

_OF_SHORT_EPISODES = (
    *("final_obs", "alive", "valid", "to_move", "action_mask", "refused"),
    *("terminated", "truncated", "running_return", "reward"),
)
"""Arrays of IO that also have constant sizes where networks have a memo, so that the rules take most of the time."""


@cache
def build_rollout(rules: Rules, acting: Acting, together: int, fuse_fp: bool):
    """Build the fused kernel of a rollout, without compiling it.

    Launched like the other fused kernels, with the first step, the number of steps, whether actions are greedy, and
    whether worlds are reset first after ``stride``, and policies and buffers after ``io``. Only kernels with a memo
    reset worlds: those with ``io.restart``. Unless every step is stored, worlds stop after their first episode.

    Args:
        rules: The environment's rules.
        acting: Kinds of policies, and what is stored.
        together: Number of worlds that a thread plays side by side.
        fuse_fp: Allow the compiler to contract a * b + c.

    Returns:
        The kernel.
    """
    Params, State, num_agents = rules.params, rules.state, rules.num_agents
    lay, has_lay = rules.relayout, rules.relayout is not None
    align_state, align_io = aligned(State), aligned(IO, {"obs": rules.width})
    parts = step_phases(rules)
    run_world, reset = one_world(rules, parts.play, parts.start), one_world(rules, parts.renew, parts.start)
    traced = acting.traced
    act = act_all(rules, acting, together)
    store, store_world, store_last = _storage(rules, acting)
    fields = ("obs", "choice", "control", *(_OF_SHORT_EPISODES if acting.memo else ()))
    dense = dense_io(fields, num_agents, {"choice": rules.action_size, "control": rules.action_size})

    @wp.func
    def plays(trace: Trace, env: int):
        is_playing = bool(False)
        agent = int(0)
        while agent < num_agents and not is_playing:
            is_playing = not trace.finished[env, agent]
            agent += 1
        return is_playing

    @wp.kernel(module=_module(rules, "rollout", f"{acting} {together}", fuse_fp), name="rollout_fused")
    def rollout(
        first: int,
        end: int,
        stride: int,
        first_step: int,
        steps: int,
        greedy: int,
        restart: int,
        params: wp.array(dtype=Params),
        state: State,
        io: IO,
        policies: Policies,
        trace: Trace,
    ):
        n = io.alive.shape[0]
        if wp.static(has_lay):
            state = align_state(lay(state, n))
        io = dense(align_io(io), n)
        thread, _ = wp.tid()
        world = first + thread * together
        while world < end:
            last = wp.min(world + together, end)
            if wp.static(acting.memo):
                if restart == 1:
                    env = int(world)
                    while env < last:
                        reset(params, state, io, env & LAST)
                        env += 1
            t = int(first_step)
            going = bool(True)
            if wp.static(not traced):
                going = bool(False)
                env = int(world)
                while env < last:
                    going = going or plays(trace, env)
                    env += 1
            while t < first_step + steps and going:
                act(params, state, io, policies, trace, t, greedy, world & LAST, last & LAST)
                if wp.static(not traced):
                    going = bool(False)
                env = int(world)
                while env < last:
                    stepped = bool(True)
                    if wp.static(not traced):
                        stepped = plays(trace, env)
                    if stepped:
                        run_world(params, state, io, env & LAST)
                        agent = int(0)
                        while agent < num_agents:
                            store(io, trace, t, env & LAST, agent)
                            agent += 1
                        store_world(io, policies, trace, t, env & LAST)
                        if wp.static(not traced):
                            going = going or plays(trace, env)
                    env += 1
                t += 1
            if wp.static(traced):
                env = int(world)
                while env < last:
                    agent = int(0)
                    while agent < num_agents:
                        store_last(io, trace, t, env & LAST, agent)
                        agent += 1
                    env += 1
            world += stride * together

    return rollout


@cache
def build_phased_rollout(rules: Rules, acting: Acting, fuse_fp: bool) -> tuple[LaunchStage, ...]:
    """Build the kernels of one step of a phased rollout: act, store, and store what follows the last step.

    The last one is missing unless every step is stored.

    The stages of an ordinary step run between the first two. Arguments: the first world, the step, whether actions are
    greedy, params, state, io, policies and buffers. Other arguments as for :func:`build_rollout`.
    """
    Params, State, num_agents = rules.params, rules.state, rules.num_agents
    name = _module(rules, "rollout_phased", str(acting), fuse_fp)
    act = act_one(rules, acting)
    store, store_world, store_last = _storage(rules, acting)

    @wp.kernel(module=name, name="act")
    def act_kernel(
        first: int,
        t: int,
        greedy: int,
        params: wp.array(dtype=Params),
        state: State,
        io: IO,
        policies: Policies,
        trace: Trace,
    ):
        row, agent = wp.tid()
        env = first + row
        act(params[wp.min(env, params.shape[0] - 1)], state, io, policies, trace, t, greedy, env, agent)

    @wp.kernel(module=name, name="store")
    def store_kernel(
        first: int,
        t: int,
        greedy: int,
        params: wp.array(dtype=Params),
        state: State,
        io: IO,
        policies: Policies,
        trace: Trace,
    ):
        row, agent = wp.tid()
        env = first + row
        store(io, trace, t, env, agent)
        if agent == 0:
            store_world(io, policies, trace, t, env)

    @wp.kernel(module=name, name="store_last")
    def last_kernel(
        first: int,
        t: int,
        greedy: int,
        params: wp.array(dtype=Params),
        state: State,
        io: IO,
        policies: Policies,
        trace: Trace,
    ):
        row, agent = wp.tid()
        store_last(io, trace, t, first + row, agent)

    kernels = (act_kernel, store_kernel, last_kernel) if acting.traced else (act_kernel, store_kernel)
    return tuple(LaunchStage(kernel, num_agents) for kernel in kernels)


def _module(rules: Rules, kind: str, details: str, fuse_fp: bool) -> str:
    return module_of(rules, kind, fuse_fp, f" {details}")


def _storage(rules: Rules, acting: Acting) -> tuple[Any, Any, Any]:
    """Build the functions that store the results of a step, of an agent and of a world, and what follows the last."""
    turn_based, draws, num_results = rules.turn_based, acting.draws, len(rules.results)

    @wp.func
    def store_results(io: IO, trace: Trace, t: int, env: int, agent: int):
        for number in range(num_results):
            trace.episode_results[t, env, agent, number] = io.episode_results[env, agent, number]

    @wp.func
    def store_first_episode(io: IO, trace: Trace, t: int, env: int, agent: int):
        terminated = io.terminated[env, agent]
        if (terminated or io.truncated[env, agent]) and not trace.finished[env, agent]:
            trace.finished[env, agent] = True
            trace.terminated[0, env, agent] = terminated
            trace.episode_return[0, env, agent] = io.episode_return[env, agent]
            trace.episode_length[0, env, agent] = io.episode_length[env, agent]
            store_results(io, trace, 0, env, agent)

    @wp.func
    def store_nothing(io: IO, policies: Policies, trace: Trace, t: int, env: int):
        return

    if not acting.traced:
        return store_first_episode, store_nothing, keep_inputs(rules)

    @wp.func
    def store(io: IO, trace: Trace, t: int, env: int, agent: int):
        terminated = io.terminated[env, agent]
        truncated = io.truncated[env, agent]
        valid = io.valid[env, agent]
        trace.reward[t, env, agent] = io.reward[env, agent]
        trace.terminated[t, env, agent] = terminated
        trace.truncated[t, env, agent] = truncated
        trace.valid[t, env, agent] = valid
        trace.episode_return[t, env, agent] = io.episode_return[env, agent]
        trace.episode_length[t, env, agent] = io.episode_length[env, agent]
        store_results(io, trace, t, env, agent)
        if wp.static(not turn_based):
            none = int(trace.final_obs.shape[0]) - 1
            capacity = none // (io.alive.shape[0] * io.alive.shape[1])
            slot = int(none)
            if t == 0:
                trace.final_count[env, agent] = 0
            if truncated and valid and not terminated:
                count = trace.final_count[env, agent]
                trace.final_count[env, agent] = count + 1
                if count < capacity:
                    slot = (env * int(io.alive.shape[1]) + agent) * capacity + count
                    column = int(io.obs.shape[2]) - 1
                    while column >= 0:
                        trace.final_obs[slot, column] = io.final_obs[env, agent, column]
                        column -= 1
            trace.final_slot[t, env, agent] = wp.int64(slot)

    @wp.func
    def store_world(io: IO, policies: Policies, trace: Trace, t: int, env: int):
        trace.restarted[t, env] = io.step[env] == 0  # an autoreset in the same step sets the clock to 0
        if wp.static(draws):
            trace.matchup[t, env] = policies.matchup[env]
            if io.restart[env]:
                draw_matchup(io, policies, env)

    return store, store_world, keep_inputs(rules)
