"""Rules once, schedules many: one set of rules becomes *fused* and *phased* kernels.

Fused, a thread plays a whole world; phased, every phase is a kernel with a thread per world and agent. Both run the
same functions in the same order and agree bit for bit on the CPU: the law of phases in ``warp_kernels/episode.py``.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import warp as wp

from warp_kernels import episode
from warp_kernels.episode import IO

AGENT = "agent"
WORLD = "world"
FUSED = "fused"  # all phases of a world
FEW = 16  # agents up to which loops over them are worth unrolling
MANY = 128  # agents beyond which a call per phase and world costs nothing beside the loop over them
LAST = wp.constant(2**31 - 1)  # masked with it, an index is seen by the compiler not to count from the end


@dataclass(frozen=True)
class Phase:
    """One phase: a Warp function ``f(params, state, io, env[, index])`` and the index set it runs over."""

    over: str | int  # AGENT, WORLD, or how many of anything else a world has
    run: Any
    rare: bool = False  # of the runner's: where an episode starts, behind all others; not unrolled in a fused kernel


def agent_phase(run: Any) -> Phase:
    """A phase over agents, dead or alive, of active worlds: ``f(params, state, io, env, agent)``."""
    return Phase(AGENT, run)


def world_phase(run: Any) -> Phase:
    """A phase over worlds: ``f(params, state, io, env)``, run by every active world."""
    return Phase(WORLD, run)


def item_phase(count: int, run: Any) -> Phase:
    """A phase over ``count`` of anything else a world has, such as entities or cells, of active worlds.

    ``f(params, state, io, env, item)`` writes only what belongs to its item.
    """
    return Phase(count, run)


@dataclass(frozen=True)
class Rules:
    """What the author of an environment gives: Warp functions about one world or one agent, and the sizes they know.

    ``key`` names the specialisation (name and every size captured as a constant): same key, same kernels.
    """

    key: str
    params: type  # Warp struct of scalars; the runner may hold one per batch or one per world
    state: type  # Warp struct of arrays led by num_envs
    num_agents: int
    action_size: int  # K, components of an action
    continuous: bool
    phases: tuple[Phase, ...]
    observe: Any  # agent phase; writes the agent's row of io.obs (and io.action_mask, io.to_move), and its own memory
    legal: Any = None  # agent phase that writes io.action_mask and io.to_move; observe then writes io.obs and no more
    reset: Any = None  # f(params, state, env, rng) starts an episode
    reset_agent: Any = None  # f(params, state, env, agent, rng), after reset: what agents can start for themselves
    survey: tuple[Phase, ...] = ()  # what observe looks things up in; run after reset_agent, and among phases
    global_state: Any = None  # agent phase; writes its agent's part of io.global_state[env, :]
    masked: bool = False  # some actions are illegal at times; observe writes io.action_mask
    turn_based: bool = False  # agents take turns; observe writes io.to_move. Needs masked
    num_choices: int = 0  # size of every discrete component, where all are alike: loops over choices unroll then
    max_unroll: int = 16  # longest loop over a constant range that Warp unrolls


@dataclass(frozen=True)
class Program:
    """Kernels of one schedule. Each entry is a list of (kernel, FUSED, WORLD or indices per world), run in order."""

    step: tuple[tuple[Any, str | int], ...]
    reset: tuple[tuple[Any, str | int], ...]
    sample: tuple[tuple[Any, str | int], ...]
    global_state: tuple[tuple[Any, str | int], ...]
    module: Any  # Warp module that holds all of them


def step_phases(rules: Rules, blind: bool = False) -> tuple[list[Phase], list[Phase]]:
    """The whole step and the reset by mask as lists of phases: the runner's own around the author's.

    Args:
        rules: The environment's rules.
        blind: Observe nothing but the ends of episodes. Needs ``rules.legal``; for steps whose observations nobody
            reads, see :func:`build_play`.
    """
    Params, State = rules.params, rules.state
    if rules.continuous:
        check, clear = episode.continuous_check(rules.action_size)
    else:
        check, clear = episode.discrete_check(rules.action_size, rules.masked, rules.turn_based, rules.num_choices)
    num_agents, num_choices, masked, turn_based = rules.num_agents, rules.num_choices, rules.masked, rules.turn_based
    advance = episode.tick_in_turns if turn_based else episode.tick
    start, start_agent, look, legal = rules.reset, rules.reset_agent, rules.observe, rules.legal
    has_start, has_start_agent, has_legal = start is not None, start_agent is not None, legal is not None

    @wp.func(inline=True)
    def begin(params: Params, state: State, io: IO, env: int, agent: int):
        valid = io.alive[env, agent] and not io.over[env]
        io.valid[env, agent] = valid
        io.reward[env, agent] = 0.0
        io.terminated[env, agent] = False
        io.truncated[env, agent] = False
        asked = valid
        if wp.static(turn_based):
            io.refused[env, agent] = False
            asked = valid and io.to_move[env, agent]
        if asked:
            check(io, env, agent)
        else:
            clear(io, env, agent)

    @wp.func(inline=True)
    def tick(params: Params, state: State, io: IO, env: int):
        advance(io, env)

    @wp.func(inline=True)
    def rest(io: IO, env: int, agent: int):
        """Leave an agent that does not decide one legal action, the no-op."""
        n = int(io.action_mask.shape[2]) - 1
        if wp.static(num_choices > 0):
            n = num_choices - 1
        while n > 0:
            io.action_mask[env, agent, n] = False
            n -= 1
        io.action_mask[env, agent, 0] = True

    @wp.func(inline=True)
    def look_around(params: Params, state: State, io: IO, env: int, agent: int):
        if wp.static(has_legal):
            legal(params, state, io, env, agent)
        if wp.static(not blind):
            look(params, state, io, env, agent)
        if wp.static(turn_based):
            if not io.to_move[env, agent]:
                rest(io, env, agent)

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        if io.valid[env, agent]:
            look_around(params, state, io, env, agent)
        elif wp.static(not blind):  # an agent that has left sees nothing
            column = int(io.obs.shape[2]) - 1
            while column >= 0:
                io.obs[env, agent, column] = 0.0
                column -= 1

    @wp.func(inline=True)
    def at_limit(io: IO, env: int):
        return io.max_steps > 0 and io.step[env] >= io.max_steps

    @wp.func(inline=True)
    def look_last(params: Params, state: State, io: IO, env: int, agent: int):
        """Observe into io.final_obs."""
        io.obs = io.final_obs  # of this function's own copy
        look(params, state, io, env, agent)

    @wp.func(inline=True)
    def leave(params: Params, state: State, io: IO, env: int, agent: int):
        if wp.static(turn_based):
            if not io.active[env]:  # nothing has been played: the episode is over, or the mover is asked again
                io.valid[env, agent] = False
            elif io.forfeit[env] > 0:
                io.terminated[env, agent] = True
                share = 1.0 / float(wp.max(io.forfeit[env] - 1, 1))
                io.reward[env, agent] = wp.where(io.refused[env, agent], -1.0, share)
        if not io.valid[env, agent]:
            io.reward[env, agent] = 0.0
            io.terminated[env, agent] = False
            io.truncated[env, agent] = False
        else:
            terminated = io.terminated[env, agent]
            truncated = io.truncated[env, agent] and not terminated
            if not (terminated or truncated) and at_limit(io, env):
                terminated = io.limit_terminates == 1
                truncated = not terminated
            io.terminated[env, agent] = terminated
            io.truncated[env, agent] = truncated
            total = io.running_return[env, agent] + io.reward[env, agent]
            io.running_return[env, agent] = total
            if terminated or truncated:
                io.alive[env, agent] = False
                if wp.static(masked):
                    rest(io, env, agent)
                if wp.static(turn_based):
                    io.to_move[env, agent] = False
                io.episode_return[env, agent] = total
                io.episode_length[env, agent] = io.step[env]
                if wp.static(blind):  # nobody has looked yet
                    look_last(params, state, io, env, agent)
                else:
                    column = int(io.obs.shape[2]) - 1
                    while column >= 0:
                        io.final_obs[env, agent, column] = io.obs[env, agent, column]
                        column -= 1

    @wp.func(inline=True)
    def renew(io: IO, env: int):
        io.episode[env] = io.episode[env] + 1
        io.step[env] = 0
        io.over[env] = False
        episode.draw_params(io, env)

    @wp.func(inline=True)
    def anyone_alive(io: IO, env: int):
        anyone = bool(False)
        if wp.static(num_agents <= FEW):
            for agent in range(num_agents):
                anyone = anyone or io.alive[env, agent]
        else:
            agent = int(0)
            while agent < num_agents and not anyone:  # mostly the first one settles it
                anyone = io.alive[env, agent]
                agent += 1
        return anyone

    @wp.func(inline=True)
    def turn(params: Params, state: State, io: IO, env: int):
        if io.active[env]:
            if not anyone_alive(io, env):
                if io.autoreset == episode.SAME_STEP:
                    io.restart[env] = True
                else:
                    io.over[env] = True
        if io.restart[env]:
            renew(io, env)

    @wp.func(inline=True)
    def start_anew(params: Params, state: State, io: IO, env: int):
        if io.restart[env]:  # the mask, laid there by the runner
            renew(io, env)

    @wp.func(inline=True)
    def begin_world(params: Params, state: State, io: IO, env: int):
        if io.restart[env]:
            if wp.static(has_start):
                start(params, state, env, episode.stream(io, env))

    @wp.func(inline=True)
    def withdraw(params: Params, state: State, io: IO, env: int, agent: int):
        if io.restart[env]:  # no step led here
            io.valid[env, agent] = False

    @wp.func(inline=True)
    def rejoin(params: Params, state: State, io: IO, env: int, agent: int):
        if io.restart[env]:
            io.alive[env, agent] = True
            io.running_return[env, agent] = 0.0
            if wp.static(has_start_agent):
                start_agent(params, state, env, agent, episode.stream(io, env))

    @wp.func(inline=True)
    def reobserve(params: Params, state: State, io: IO, env: int, agent: int):
        if io.restart[env]:
            look_around(params, state, io, env, agent)

    @wp.func(inline=True)
    def restarts(io: IO, env: int):
        return io.restart[env]

    last = [Phase(WORLD, begin_world, rare=True)] if has_start else []
    last += [Phase(AGENT, rejoin, rare=True)]
    last += [replace(_where(rules, phase, restarts), rare=True) for phase in rules.survey]
    last += [Phase(AGENT, reobserve, rare=True)]
    step = [agent_phase(begin), world_phase(tick), *(_when_active(rules, phase) for phase in rules.phases)]
    step += [agent_phase(observe), agent_phase(leave), world_phase(turn), *last]
    return step, [world_phase(start_anew), Phase(AGENT, withdraw, rare=True), *last]


def _when_active(rules: Rules, phase: Phase) -> Phase:
    """Wrap an author's phase in "is this world active", so that autoreset modes never appear in rules."""
    turn_based = rules.turn_based

    @wp.func(inline=True)
    def plays(io: IO, env: int):
        played = io.active[env]
        if wp.static(turn_based):
            played = played and io.forfeit[env] == 0
        return played

    return _where(rules, phase, plays)


def _where(rules: Rules, phase: Phase, holds: Any) -> Phase:
    """Wrap an author's phase in a condition ``holds(io, env)``."""
    Params, State, run = rules.params, rules.state, phase.run

    @wp.func(inline=True)
    def guarded_world(params: Params, state: State, io: IO, env: int):
        if holds(io, env):
            run(params, state, io, env)

    @wp.func(inline=True)
    def guarded(params: Params, state: State, io: IO, env: int, index: int):
        if holds(io, env):
            run(params, state, io, env, index)

    return replace(phase, run=guarded_world if phase.over == WORLD else guarded)


def build(rules: Rules, schedule: str, fuse_fp: bool) -> Program:
    """Build (not yet compile) the kernels of one schedule, "fused" or "phased"; one Warp module per specialisation.

    Args:
        rules: The environment's rules.
        schedule: "fused" or "phased".
        fuse_fp: Let the compiler contract a * b + c. Off, schedules agree bit for bit and so do devices, nearly.
    """
    name = _module(rules, schedule, fuse_fp)
    step, reset = step_phases(rules)
    schedulers: dict[str, Callable] = {"fused": _fused, "phased": _phased}
    make = schedulers[schedule]
    return Program(
        step=make(rules, step, name, "step"),
        reset=make(rules, reset, name, "reset"),
        sample=make(rules, [_sample(rules)], name, "sample"),
        global_state=_phased(rules, [agent_phase(rules.global_state)], name, "state") if rules.global_state else (),
        module=wp.get_module(name),
    )


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
    one_world = _one_world(rules, [_sample(rules), *step_phases(rules, blind=rules.legal is not None)[0]])

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


def _one_world(rules: Rules, phases: list[Phase]) -> Any:
    """Build the function that runs all phases of a world in turn: the rare ones, behind, where an episode starts.

    With many agents every phase is a function of its own: small functions compile in half the time.
    """
    Params, State, num_agents = rules.params, rules.state, rules.num_agents
    together = num_agents <= MANY

    def over_all(phase: Phase) -> Any:
        run = phase.run
        count = num_agents if phase.over == AGENT else phase.over

        @wp.func(inline=together)
        def in_a_loop(params: Params, state: State, io: IO, env: int):
            index = int(0)
            while index < count:  # not unrolled, for the compiler's sake
                run(params, state, io, env, index)
                index += 1

        if phase.rare:
            return in_a_loop

        @wp.func(inline=together)
        def every(params: Params, state: State, io: IO, env: int):
            for index in range(count):
                run(params, state, io, env, index)

        return every

    def then(first: Any, second: Any) -> Any:
        @wp.func(inline=True)
        def both(params: Params, state: State, io: IO, env: int):
            first(params, state, io, env)
            second(params, state, io, env)

        return both

    def chained(rare: bool) -> Any:
        runs = [p.run if p.over == WORLD else over_all(p) for p in phases if p.rare == rare]
        return reduce(then, runs) if runs else None

    play, start = chained(rare=False), chained(rare=True)
    has_start = start is not None

    @wp.func(inline=True)
    def whole(params: wp.array(dtype=Params), state: State, io: IO, env: int):
        row = wp.min(env, params.shape[0] - 1)
        play(params[row], state, io, env)
        if wp.static(has_start):
            if io.restart[env]:
                start(params[row], state, io, env)  # read again: the new episode may have new constants

    return whole


def _fused(rules: Rules, phases: list[Phase], module: str, name: str) -> tuple[tuple[Any, str | int], ...]:
    """One kernel, all phases of a world in turn, by one thread.

    On a GPU every world has its thread; a CPU thread loops over its share, which saves copying the structs per world.
    """
    Params, State, one_world = rules.params, rules.state, _one_world(rules, phases)
    num_agents, size = rules.num_agents, rules.action_size

    # Launched over two dimensions, though one is enough: of a kernel over one, Warp compiles two versions for the CPU.
    @wp.kernel(module=module, name=f"{name}_fused")
    def fused(first: int, end: int, stride: int, params: wp.array(dtype=Params), state: State, io: IO):
        if wp.static(num_agents == 1):
            # A step of a small world is mostly bookkeeping. Laid anew over the same memory, with sizes that are
            # constants, these arrays are read and written without a multiplication by strides known at run time only.
            n = io.alive.shape[0]
            io.choice = wp.array(ptr=io.choice.ptr, shape=(n, 1, size), dtype=wp.int64)
            io.control = wp.array(ptr=io.control.ptr, shape=(n, 1, size), dtype=float)
            io.obs = wp.array(ptr=io.obs.ptr, shape=(n, 1, io.obs.shape[2]), dtype=float)
            io.reward = wp.array(ptr=io.reward.ptr, shape=(n, 1), dtype=float)
            io.terminated = wp.array(ptr=io.terminated.ptr, shape=(n, 1), dtype=wp.bool)
            io.truncated = wp.array(ptr=io.truncated.ptr, shape=(n, 1), dtype=wp.bool)
            io.alive = wp.array(ptr=io.alive.ptr, shape=(n, 1), dtype=wp.bool)
            io.valid = wp.array(ptr=io.valid.ptr, shape=(n, 1), dtype=wp.bool)
            io.running_return = wp.array(ptr=io.running_return.ptr, shape=(n, 1), dtype=float)
            io.step = wp.array(ptr=io.step.ptr, shape=(n,), dtype=int)
            io.active = wp.array(ptr=io.active.ptr, shape=(n,), dtype=wp.bool)
            io.over = wp.array(ptr=io.over.ptr, shape=(n,), dtype=wp.bool)
            io.restart = wp.array(ptr=io.restart.ptr, shape=(n,), dtype=wp.bool)
        thread, _ = wp.tid()
        world = first + thread
        while world < end:
            one_world(params, state, io, world & LAST)
            world += stride

    return ((fused, FUSED),)


def _phased(rules: Rules, phases: list[Phase], module: str, name: str) -> tuple[tuple[Any, str | int], ...]:
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
    return tuple((kernel(number, phase), size) for number, (phase, size) in enumerate(zip(phases, sizes, strict=True)))
