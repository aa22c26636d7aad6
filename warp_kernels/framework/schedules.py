"""Kernels of one set of rules in three schedules.

Fused, a thread plays a whole world. Phased, every phase is a kernel with a thread per world and agent. In the block
schedule, a block of threads plays a world in one kernel, with a barrier after every phase. All run the same functions
in the same order and agree bit for bit on a CPU, because phases are isolated: see ``warp_kernels/episode.py``.
"""

import hashlib
from dataclasses import dataclass, replace
from functools import cache, partial, reduce
from typing import Any, NamedTuple

import warp as wp

from warp_kernels import episode
from warp_kernels.episode import IO
from warp_kernels.framework.dense_arrays import dense_io
from warp_kernels.framework.step import Parts, step_phases
from warp_kernels.framework.thread_orders import permutation
from warp_kernels.framework.unrolling import affordable_unroll
from warp_kernels.framework.wide_words import aligned
from warp_kernels.rules import AGENT, LAST, WORLD, Phase, Rules, agent_phase

FUSED = "fused"  # all phases of a world
BLOCK = "block"  # all phases of a world, by the threads of a block, which are the last dimension of the launch
REORDERED = "reordered"  # the phased schedule with the order of siblings as arguments
MANY_AGENTS = 128  # with more agents, a call per phase and world costs nothing compared with the loop over them


class LaunchStage(NamedTuple):
    """A kernel and its launch arguments."""

    kernel: Any  # of Warp
    over: str | int  # index set of its threads: FUSED, BLOCK or WORLD for worlds, or the number of threads per world
    more: tuple[int, ...] = ()  # further integer arguments, after the worlds


@dataclass(frozen=True)
class Program:
    """Kernels of one schedule; the stages of each entry run in order."""

    step: tuple[LaunchStage, ...]  # play a step, and start the next episodes
    reset: tuple[LaunchStage, ...]  # start episodes in the worlds of a mask
    sample: tuple[LaunchStage, ...]  # sample legal actions
    global_state: tuple[LaunchStage, ...]  # write io.global_state
    module: Any  # Warp module of all kernels


def build(rules: Rules, schedule: str, fuse_fp: bool) -> Program:
    """Build the kernels of one schedule, without compiling them; one Warp module per specialization.

    Args:
        rules: The environment's rules.
        schedule: "fused", "block" or "phased".
        fuse_fp: Allow the compiler to contract a * b + c. Without it, schedules agree bit for bit, and devices nearly.

    Raises:
        ValueError: The schedule is not phased, and the rules have another order of siblings.
    """
    if rules.order:
        if schedule != "phased":
            raise ValueError(f"schedule: expected 'phased' for rules with order {rules.order!r}, got {schedule!r}")
        return _in_order(_build(replace(rules, order=""), REORDERED, fuse_fp), rules.order)
    return _build(rules, schedule, fuse_fp)


@cache
def _build(rules: Rules, schedule: str, fuse_fp: bool) -> Program:
    """Build the kernels of "fused", "block", "phased" or REORDERED."""
    name = module_of(rules, schedule, fuse_fp)
    parts = step_phases(rules, in_slots=schedule != "fused")
    phased = partial(_phased, rules, module=name, reorderable=schedule == REORDERED)
    if schedule == "fused":
        step, reset = _fused(rules, parts, name)
        sample: tuple[LaunchStage, ...] = (_fused_sample(rules, name),)
    else:
        if schedule == BLOCK:
            step, reset = _block(rules, parts, name)
        else:
            step = phased((*parts.play, *parts.start), name="step")
            reset = phased((*parts.renew, *parts.start), name="reset")
        sample = phased((sample_of(rules),), name="sample")
    states = (agent_phase(rules.global_state),) if rules.global_state else ()
    return Program(step, reset, sample, phased(states, name="state"), wp.get_module(name))


def _in_order(program: Program, order: str) -> Program:
    """Set the order of siblings of reorderable kernels."""

    def ordered(stages: tuple[LaunchStage, ...]) -> tuple[LaunchStage, ...]:
        return tuple(
            stage if stage.over == WORLD else stage._replace(more=permutation(order, int(stage.over)))
            for stage in stages
        )

    step, reset, sample, states = map(ordered, (program.step, program.reset, program.sample, program.global_state))
    return Program(step, reset, sample, states, program.module)


def build_play(rules: Rules, fuse_fp: bool) -> tuple[Any, Any]:
    """Build the kernel of random rollouts, without compiling it: sample actions and step repeatedly within one world.

    Where rules have ``legal``, only the last observation of an episode is computed. A step of the ordinary kernels must
    follow, which writes all of ``io.obs``.

    Args:
        rules: The environment's rules.
        fuse_fp: As for :func:`build`.

    Returns:
        The kernel and its module. It is launched like the fused kernels, with the number of steps after ``stride``.
    """
    name = module_of(rules, "play", fuse_fp)
    Params, State, num_agents, num_choices = rules.params, rules.state, rules.num_agents, rules.num_choices
    parts = step_phases(rules, without_observation=rules.legal is not None)
    play_world = one_world(rules, (sample_of(rules), *parts.play), parts.start)

    dense_fields = ("final_obs", "action_mask") if num_choices > 0 else ("final_obs",)
    dense = dense_io(dense_fields, num_agents, {"action_mask": num_choices * rules.action_size})

    # Launched over two dimensions, as the fused ones.
    @wp.kernel(module=name, name="play_fused")
    def play(first: int, end: int, stride: int, steps: int, params: wp.array(dtype=Params), state: State, io: IO):
        # Arrays with constant sizes. (It is slower to do so with the agents' flags too.)
        io = dense(io, io.alive.shape[0])
        thread, _ = wp.tid()
        world = first + thread
        while world < end:
            step = int(0)
            while step < steps:
                play_world(params, state, io, world & LAST)
                step += 1
            world += stride

    return play, wp.get_module(name)


def module_of(rules: Rules, kind: str, fuse_fp: bool, details: str = "") -> str:
    """Set the options of the Warp module of a specialization, and return its name.

    ``details`` are sizes that the rules do not have.
    """
    more = f" {rules.info} {rules.results}" if rules.info else ""
    more += " keeps the final state" if rules.keeps_final_state else ""
    more += f" {rules.width} wide"
    digest = hashlib.sha256(f"{rules.key} {kind} {fuse_fp}{details}{more}".encode()).hexdigest()[:12]
    name = f"warp_kernels.{rules.key.split(' ')[0]}.{kind}_{digest}"
    wp.set_module_options(
        {"enable_backward": False, "fuse_fp": fuse_fp, "max_unroll": affordable_unroll(rules)},
        module=wp.get_module(name),
    )
    return name


def sample_of(rules: Rules) -> Phase:
    """Return the phase that samples random legal actions."""
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


def one_world(rules: Rules, play: tuple[Phase, ...], start: tuple[Phase, ...]) -> Any:
    """Build the function that runs all phases of a world in order; start phases run only where an episode starts."""
    Params, State, IO = rules.params, rules.argument(rules.state), rules.argument(episode.IO)
    steps, starts = _chain(rules, play, unroll=True), _chain(rules, start, unroll=False)

    @wp.func(inline=True)
    def run_world(params: wp.array(dtype=Params), state: State, io: IO, env: int):
        row = wp.min(env, params.shape[0] - 1)
        steps(params[row], state, io, env)
        if io.restart[env]:
            starts(params[row], state, io, env)  # read again: the new episode may have new parameters

    return run_world


def _chain(rules: Rules, phases: tuple[Phase, ...], unroll: bool) -> Any:
    """Build the function ``f(params, state, io, env)`` that runs phases of a world in order.

    With many agents every phase is a separate function, because small functions compile in half the time. Phases that
    run rarely are not unrolled, which shortens compilation.
    """
    Params, State, IO = rules.params, rules.argument(rules.state), rules.argument(episode.IO)
    num_agents = rules.num_agents
    together = num_agents <= MANY_AGENTS

    def over_all(phase: Phase) -> Any:
        run = phase.run
        if phase.over == WORLD:
            return run
        count = num_agents if phase.over == AGENT else phase.over

        @wp.func(inline=together)
        def looped(params: Params, state: State, io: IO, env: int):
            index = int(0)
            while index < count:
                run(params, state, io, env, index)
                index += 1

        @wp.func(inline=together)
        def unrolled(params: Params, state: State, io: IO, env: int):
            for index in range(count):
                run(params, state, io, env, index)

        return unrolled if unroll else looped

    return reduce(partial(_then, rules), map(over_all, phases))


def _then(rules: Rules, first: Any, second: Any) -> Any:
    """Build the function that calls one function of a world after another."""
    Params, State, IO = rules.params, rules.argument(rules.state), rules.argument(episode.IO)

    @wp.func(inline=True)
    def chained(params: Params, state: State, io: IO, env: int):
        first(params, state, io, env)
        second(params, state, io, env)

    return chained


def _fused(rules: Rules, parts: Parts, module: str) -> tuple[tuple[LaunchStage, ...], tuple[LaunchStage, ...]]:
    """Build one kernel for steps and resets, in which a thread runs all phases of a world in order.

    On a GPU every world has its own thread. A CPU thread loops over its worlds, which avoids copying the structs per
    world.
    """
    Params, State, num_agents, size = rules.params, rules.state, rules.num_agents, rules.action_size
    lay, has_lay = rules.relayout, rules.relayout is not None
    align_state, align_io = aligned(State), aligned(IO, {"obs": rules.width})
    step, renew = (_chain(rules, part, unroll) for part, unroll in ((parts.play, True), (parts.renew, False)))
    start = _chain(rules, parts.start, unroll=False)
    dense = dense_io(episode.DENSE_FIELDS, num_agents, {"choice": size, "control": size})

    # Launched over two dimensions, although one is enough: Warp compiles a kernel over one dimension twice for the CPU.
    @wp.kernel(module=module, name="fused")
    def fused(first: int, end: int, stride: int, resets: int, params: wp.array(dtype=Params), state: State, io: IO):
        n = io.alive.shape[0]
        if wp.static(has_lay):
            state = align_state(lay(state, n))
        io = dense(align_io(io), n)
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
                start(params[row], state, io, env)  # read again: the new episode may have new parameters
            world += stride

    return (LaunchStage(fused, FUSED, (0,)),), (LaunchStage(fused, FUSED, (1,)),)


def _fused_sample(rules: Rules, module: str) -> LaunchStage:
    """Build the kernel that samples actions, with one thread per world."""
    Params, State = rules.params, rules.state
    sample = _chain(rules, (sample_of(rules),), unroll=False)

    @wp.kernel(module=module, name="sample_fused")
    def fused(first: int, end: int, stride: int, params: wp.array(dtype=Params), state: State, io: IO):
        thread, _ = wp.tid()
        world = first + thread
        while world < end:
            env = world & LAST
            sample(params[wp.min(env, params.shape[0] - 1)], state, io, env)
            world += stride

    return LaunchStage(fused, FUSED)


@wp.func_native("""
#if defined(__CUDA_ARCH__)
return threadIdx.x;
#else
return 0;
#endif
""")
def _lane() -> int:
    """Return the index of the thread in its block."""
    ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
return blockDim.x;
#else
return 1;
#endif
""")
def _lanes() -> int:
    """Return the number of threads of the block; 1 on a CPU."""
    ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
__syncthreads();
#endif
""")
def _barrier():
    """Wait for all threads of the block, whose writes are then visible to all of them."""
    ...


def _block(rules: Rules, parts: Parts, module: str) -> tuple[tuple[LaunchStage, ...], tuple[LaunchStage, ...]]:
    """Build one kernel for steps and resets, in which the threads of a block share the agents of a world.

    It is launched over worlds and the threads of a block, so that all threads of a block have the same world. They
    take the same branches around barriers: nobody writes ``io.restart`` after the barrier that ends ``turn``.
    """
    Params, State = rules.params, rules.state
    step, renew, start = (_chain_in_block(rules, phases) for phases in (parts.play, parts.renew, parts.start))

    @wp.kernel(module=module, name="block")
    def block(first: int, resets: int, params: wp.array(dtype=Params), state: State, io: IO):
        row, _ = wp.tid()
        env = first + row
        if resets == 0:
            step(params[wp.min(env, params.shape[0] - 1)], state, io, env)
        else:
            renew(params[wp.min(env, params.shape[0] - 1)], state, io, env)
        if io.restart[env]:
            start(params[wp.min(env, params.shape[0] - 1)], state, io, env)  # read again, as above

    return (LaunchStage(block, BLOCK, (0,)),), (LaunchStage(block, BLOCK, (1,)),)


def _chain_in_block(rules: Rules, phases: tuple[Phase, ...]) -> Any:
    """Build the function ``f(params, state, io, env)`` in which a block runs phases, with a barrier after each."""
    Params, State, IO = rules.params, rules.argument(rules.state), rules.argument(episode.IO)

    def over_lanes(phase: Phase) -> Any:
        run, count = phase.run, rules.num_agents if phase.over == AGENT else phase.over

        @wp.func(inline=True)
        def in_first_lane(params: Params, state: State, io: IO, env: int):
            if _lane() == 0:
                run(params, state, io, env)
            _barrier()

        @wp.func(inline=True)
        def in_all_lanes(params: Params, state: State, io: IO, env: int):
            index = _lane()
            while index < count:
                run(params, state, io, env, index)
                index += _lanes()
            _barrier()

        return in_first_lane if phase.over == WORLD else in_all_lanes

    return reduce(partial(_then, rules), map(over_lanes, phases))


def _phased(
    rules: Rules, phases: tuple[Phase, ...], module: str, name: str, reorderable: bool
) -> tuple[LaunchStage, ...]:
    """Build one kernel per phase, with a thread per world, or per world and index.

    Reorderable kernels take factor and shift of :func:`~warp_kernels.framework.thread_orders.permutation`.
    """
    Params, State = rules.params, rules.state

    def kernel(number: int, phase: Phase, count: Any) -> Any:
        run = phase.run
        if phase.over == WORLD:

            @wp.kernel(module=module, name=f"{name}_{number}_world")
            def world_kernel(first: int, params: wp.array(dtype=Params), state: State, io: IO):
                row, _ = wp.tid()  # two dimensions, as above
                env = first + row
                run(params[wp.min(env, params.shape[0] - 1)], state, io, env)

            return world_kernel

        of = "agent" if phase.over == AGENT else "item"

        if reorderable:

            @wp.kernel(module=module, name=f"{name}_{number}_{of}")
            def reorderable_kernel(
                first: int, factor: int, shift: int, params: wp.array(dtype=Params), state: State, io: IO
            ):
                row, thread = wp.tid()
                env = first + row
                index = int((wp.int64(thread) * wp.int64(factor) + wp.int64(shift)) % wp.int64(count))
                run(params[wp.min(env, params.shape[0] - 1)], state, io, env, index)

            return reorderable_kernel

        @wp.kernel(module=module, name=f"{name}_{number}_{of}")
        def index_kernel(first: int, params: wp.array(dtype=Params), state: State, io: IO):
            row, index = wp.tid()
            env = first + row
            run(params[wp.min(env, params.shape[0] - 1)], state, io, env, index)

        return index_kernel

    sizes = [rules.num_agents if phase.over == AGENT else phase.over for phase in phases]
    return tuple(
        LaunchStage(kernel(n, phase, size), size) for n, (phase, size) in enumerate(zip(phases, sizes, strict=True))
    )
