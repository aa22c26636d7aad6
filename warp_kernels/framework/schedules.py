"""Rules once, schedules many: one set of rules becomes *fused* and *phased* kernels.

Fused, a thread plays a whole world; phased, every phase is a kernel with a thread per world and agent. Both run the
same functions in the same order and agree bit for bit on the CPU: the law of phases in ``warp_kernels/episode.py``.
"""

import hashlib
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import warp as wp

from warp_kernels import episode
from warp_kernels.episode import IO
from warp_kernels.rules import AGENT, LAST, WORLD, Phase, Rules, agent_phase
from warp_kernels.step import Parts, step_phases

FUSED = "fused"  # all phases of a world
MANY = 128  # agents beyond which a call per phase and world costs nothing beside the loop over them


class Stage(NamedTuple):
    """A kernel, and how it is launched."""

    kernel: Any  # of Warp
    over: str | int  # what its threads are: FUSED or WORLD (worlds), or how many of them a world has
    more: tuple[int, ...] = ()  # what a fused kernel is told behind its worlds


@dataclass(frozen=True)
class Program:
    """Kernels of one schedule, run in order."""

    step: tuple[Stage, ...]  # plays, and starts episodes again
    reset: tuple[Stage, ...]  # starts episodes in some worlds
    sample: tuple[Stage, ...]  # draws legal actions
    global_state: tuple[Stage, ...]  # writes io.global_state
    module: Any  # Warp module that holds all of them


def build(rules: Rules, schedule: str, fuse_fp: bool) -> Program:
    """Build (not yet compile) the kernels of one schedule, "fused" or "phased"; one Warp module per specialisation.

    Args:
        rules: The environment's rules.
        schedule: "fused" or "phased".
        fuse_fp: Let the compiler contract a * b + c. Off, schedules agree bit for bit and so do devices, nearly.
    """
    name = _module(rules, schedule, fuse_fp)
    parts = step_phases(rules)
    if schedule == "fused":
        step, reset = _fused(rules, parts, name)
        sample: tuple[Stage, ...] = (_fused_sample(rules, name),)
    else:
        step = _phased(rules, (*parts.play, *parts.start), name, "step")
        reset = _phased(rules, (*parts.renew, *parts.start), name, "reset")
        sample = _phased(rules, (_sample(rules),), name, "sample")
    states = (agent_phase(rules.global_state),) if rules.global_state else ()
    return Program(step, reset, sample, _phased(rules, states, name, "state"), wp.get_module(name))


def build_play(rules: Rules, fuse_fp: bool) -> tuple[Any, Any]:
    """Build (not yet compile) the kernel of random play: draw actions and step, over and over, without leaving a world.

    Where rules give ``legal``, observations are left out but for the last one of an episode. A step of the ordinary
    kernels must follow, which writes all of ``io.obs`` again.

    Args:
        rules: The environment's rules.
        fuse_fp: As for :func:`build`.

    Returns:
        The kernel, launched as the fused ones are with the number of steps behind ``stride``, and its module.
    """
    name = _module(rules, "play", fuse_fp)
    Params, State, num_agents, num_choices = rules.params, rules.state, rules.num_agents, rules.num_choices
    parts = step_phases(rules, blind=rules.legal is not None)
    one_world = _one_world(rules, (_sample(rules), *parts.play), parts.start)

    # Launched over two dimensions, as the fused ones.
    @wp.kernel(module=name, name="play_fused")
    def play(first: int, end: int, stride: int, steps: int, params: wp.array(dtype=Params), state: State, io: IO):
        # Laid anew over the same memory, so that the compiler knows them to be dense. (To do so with the agents' flags
        # too is slower.)
        n = io.alive.shape[0]
        io.final_obs = wp.array(ptr=io.final_obs.ptr, shape=(n, num_agents, io.final_obs.shape[2]), dtype=float)
        if wp.static(num_choices > 0):
            io.action_mask = wp.array(ptr=io.action_mask.ptr, shape=(n, num_agents, num_choices), dtype=wp.bool)
        thread, _ = wp.tid()
        world = first + thread
        while world < end:
            step = int(0)
            while step < steps:
                one_world(params, state, io, world & LAST)
                step += 1
            world += stride

    return play, wp.get_module(name)


def _module(rules: Rules, what: str, fuse_fp: bool) -> str:
    """Name of the Warp module of a specialisation, its options set."""
    digest = hashlib.sha256(f"{rules.key} {what} {fuse_fp}".encode()).hexdigest()[:12]
    name = f"warp_kernels.{rules.key.split(' ')[0]}.{what}_{digest}"
    wp.set_module_options(
        {"enable_backward": False, "fuse_fp": fuse_fp, "max_unroll": rules.max_unroll}, module=wp.get_module(name)
    )
    return name


def _sample(rules: Rules) -> Phase:
    """The phase that draws random legal actions."""
    return agent_phase(
        episode.sample_phase(
            rules.params,
            rules.state,
            rules.action_size,
            rules.masked,
            rules.continuous,
            rules.turn_based,
            rules.num_choices,
        )
    )


def _one_world(rules: Rules, play: tuple[Phase, ...], start: tuple[Phase, ...]) -> Any:
    """Build the function that runs all phases of a world in turn, those of a start only where an episode starts."""
    Params, State = rules.params, rules.state
    steps, starts = _chain(rules, play, unroll=True), _chain(rules, start, unroll=False)

    @wp.func(inline=True)
    def whole(params: wp.array(dtype=Params), state: State, io: IO, env: int):
        row = wp.min(env, params.shape[0] - 1)
        steps(params[row], state, io, env)
        if io.restart[env]:
            starts(params[row], state, io, env)  # read again: the new episode may have new constants

    return whole


def _chain(rules: Rules, phases: tuple[Phase, ...], unroll: bool) -> Any:
    """Build the function ``f(params, state, io, env)`` that runs phases of a world one after the other.

    With many agents every phase is a function of its own: small functions compile in half the time. And what runs
    rarely is not unrolled, for the compiler's sake.
    """
    Params, State, num_agents = rules.params, rules.state, rules.num_agents
    together = num_agents <= MANY

    def over_all(phase: Phase) -> Any:
        run = phase.run
        if phase.over == WORLD:
            return run
        count = num_agents if phase.over == AGENT else phase.over

        @wp.func(inline=together)
        def in_a_loop(params: Params, state: State, io: IO, env: int):
            index = int(0)
            while index < count:
                run(params, state, io, env, index)
                index += 1

        @wp.func(inline=together)
        def every(params: Params, state: State, io: IO, env: int):
            for index in range(count):
                run(params, state, io, env, index)

        return every if unroll else in_a_loop

    def then(first: Any, second: Any) -> Any:
        @wp.func(inline=True)
        def both(params: Params, state: State, io: IO, env: int):
            first(params, state, io, env)
            second(params, state, io, env)

        return both

    return reduce(then, map(over_all, phases))


def _fused(rules: Rules, parts: Parts, module: str) -> tuple[tuple[Stage, ...], tuple[Stage, ...]]:
    """One kernel for steps and resets, all phases of a world in turn, by one thread; what starts an episode is in both.

    On a GPU every world has its thread; a CPU thread loops over its share, which saves copying the structs per world.
    """
    Params, State, num_agents, size = rules.params, rules.state, rules.num_agents, rules.action_size
    lay, has_lay = rules.lay, rules.lay is not None
    step, renew = (_chain(rules, part, unroll) for part, unroll in ((parts.play, True), (parts.renew, False)))
    start = _chain(rules, parts.start, unroll=False)

    # Launched over two dimensions, though one is enough: of a kernel over one, Warp compiles two versions for the CPU.
    @wp.kernel(module=module, name="fused")
    def fused(first: int, end: int, stride: int, resets: int, params: wp.array(dtype=Params), state: State, io: IO):
        # Laid anew over the same memory, with sizes that are constants, these arrays are read and written without a
        # multiplication by strides known at run time only.
        n = io.alive.shape[0]
        if wp.static(has_lay):
            state = lay(state, n)
        io.choice = wp.array(ptr=io.choice.ptr, shape=(n, num_agents, size), dtype=wp.int64)
        io.control = wp.array(ptr=io.control.ptr, shape=(n, num_agents, size), dtype=float)
        io.obs = wp.array(ptr=io.obs.ptr, shape=(n, num_agents, io.obs.shape[2]), dtype=float)
        io.reward = wp.array(ptr=io.reward.ptr, shape=(n, num_agents), dtype=float)
        io.terminated = wp.array(ptr=io.terminated.ptr, shape=(n, num_agents), dtype=wp.bool)
        io.truncated = wp.array(ptr=io.truncated.ptr, shape=(n, num_agents), dtype=wp.bool)
        io.alive = wp.array(ptr=io.alive.ptr, shape=(n, num_agents), dtype=wp.bool)
        io.valid = wp.array(ptr=io.valid.ptr, shape=(n, num_agents), dtype=wp.bool)
        io.running_return = wp.array(ptr=io.running_return.ptr, shape=(n, num_agents), dtype=float)
        io.step = wp.array(ptr=io.step.ptr, shape=(n,), dtype=int)
        io.active = wp.array(ptr=io.active.ptr, shape=(n,), dtype=wp.bool)
        io.over = wp.array(ptr=io.over.ptr, shape=(n,), dtype=wp.bool)
        io.restart = wp.array(ptr=io.restart.ptr, shape=(n,), dtype=wp.bool)
        thread, _ = wp.tid()
        world = first + thread
        while world < end:
            env = world & LAST
            row = wp.min(env, params.shape[0] - 1)
            if resets == 0:
                step(params[row], state, io, env)
            else:
                renew(params[row], state, io, env)
            if io.restart[env]:
                start(params[row], state, io, env)  # read again: the new episode may have new constants
            world += stride

    return (Stage(fused, FUSED, (0,)),), (Stage(fused, FUSED, (1,)),)


def _fused_sample(rules: Rules, module: str) -> Stage:
    """One kernel that draws actions, a thread per world."""
    Params, State = rules.params, rules.state
    sample = _chain(rules, (_sample(rules),), unroll=False)

    @wp.kernel(module=module, name="sample_fused")
    def fused(first: int, end: int, stride: int, params: wp.array(dtype=Params), state: State, io: IO):
        thread, _ = wp.tid()
        world = first + thread
        while world < end:
            env = world & LAST
            sample(params[wp.min(env, params.shape[0] - 1)], state, io, env)
            world += stride

    return Stage(fused, FUSED)


def _phased(rules: Rules, phases: tuple[Phase, ...], module: str, name: str) -> tuple[Stage, ...]:
    """One kernel per phase; a thread per world, or per world and index."""
    Params, State = rules.params, rules.state

    def kernel(number: int, phase: Phase) -> Any:
        run = phase.run
        if phase.over == WORLD:

            @wp.kernel(module=module, name=f"{name}_{number}_world")
            def of_world(first: int, params: wp.array(dtype=Params), state: State, io: IO):
                row, _ = wp.tid()  # two dimensions, as above
                env = first + row
                run(params[wp.min(env, params.shape[0] - 1)], state, io, env)

            return of_world

        @wp.kernel(module=module, name=f"{name}_{number}_{'agent' if phase.over == AGENT else 'item'}")
        def of_index(first: int, params: wp.array(dtype=Params), state: State, io: IO):
            row, index = wp.tid()
            env = first + row
            run(params[wp.min(env, params.shape[0] - 1)], state, io, env, index)

        return of_index

    sizes = [rules.num_agents if phase.over == AGENT else phase.over for phase in phases]
    return tuple(Stage(kernel(n, phase), size) for n, (phase, size) in enumerate(zip(phases, sizes, strict=True)))
