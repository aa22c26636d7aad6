"""A whole step as a list of phases: the framework's around the environment's."""

from dataclasses import dataclass, replace
from typing import Any

import warp as wp

from warp_kernels import episode
from warp_kernels.framework.wide_words import copy_of, observe_in_words
from warp_kernels.generated_source import compiled
from warp_kernels.rules import WORLD, Phase, Rules, agent_phase, world_phase

MAX_UNROLLED_AGENTS = 16  # most agents for which unrolling a loop over them pays


@dataclass(frozen=True)
class Parts:
    """Phases of a step (``play`` and ``start``) and of a reset by mask (``renew`` and ``start``)."""

    play: tuple[Phase, ...]  # actions, rewards, ends
    renew: tuple[Phase, ...]  # phases of a reset before episodes start
    start: tuple[Phase, ...]  # phases of worlds where an episode starts


def step_phases(rules: Rules, without_observation: bool = False, in_slots: bool = False) -> Parts:
    """Return the phases of a whole step and of a reset by mask.

    Args:
        rules: The environment's rules.
        without_observation: Observe only the ends of episodes, and do not check actions. Needs ``rules.legal``. For
            steps whose observations are not read and whose actions were sampled, see
            :func:`~warp_kernels.framework.schedules.build_play`.
        in_slots: Observe by a thread per agent and slot, where rules have ``observe_slot`` and no action masks.
    """
    Params, State, IO = rules.params, rules.argument(rules.state), rules.argument(episode.IO)
    slots, look_at_slot = rules.observe_slots, rules.observe_slot
    in_slots = in_slots and look_at_slot is not None and not rules.masked
    if rules.continuous:
        check, clear = episode.continuous_check(rules.action_size)
    else:
        refuses = rules.masked and not rules.illegal_noop
        check, clear = episode.discrete_check(rules.action_size, refuses, rules.turn_based, rules.num_choices)
    num_agents, num_choices, masked, turn_based = rules.num_agents, rules.num_choices, rules.masked, rules.turn_based
    num_components = rules.action_size
    allow_illegal = turn_based and not without_observation  # illegal actions can occur
    advance = episode.advance_clock_in_turns if allow_illegal else episode.advance_clock
    start, start_agent, legal, stake = rules.reset, rules.reset_agent, rules.legal, rules.stake
    look, copy_row = observe_in_words(rules), copy_of(rules.width)
    has_start, has_start_agent = start is not None, start_agent is not None
    forget, has_forget = rules.forget, rules.forget is not None
    show, keep, has_info, has_results = _show_info(rules), _keep_results(rules), bool(rules.info), bool(rules.results)
    write_state = rules.global_state
    has_legal, has_stake, shared_stake = legal is not None, stake is not None, rules.shared_stake

    @wp.func(inline=True)
    def begin(params: Params, state: State, io: IO, env: int, agent: int):
        valid = io.alive[env, agent] and not io.over[env]
        io.valid[env, agent] = valid
        io.reward[env, agent] = 0.0
        io.terminated[env, agent] = False
        io.truncated[env, agent] = False
        decides = valid
        if wp.static(allow_illegal):
            io.refused[env, agent] = False
            decides = valid and io.to_move[env, agent]
        if not decides:
            clear(io, env, agent)
        elif wp.static(not without_observation):
            check(io, env, agent)

    @wp.func(inline=True)
    def advance_clock(params: Params, state: State, io: IO, env: int):
        advance(io, env)

    @wp.func(inline=True)
    def allow_noop(io: IO, env: int, agent: int):
        """Leave one legal action, the no-op, to an agent that does not decide."""
        n = int(io.action_mask.shape[2]) - 1
        if wp.static(num_choices > 0):
            n = num_choices * num_components - 1
        while n > 0:
            io.action_mask[env, agent, n] = False
            n -= 1
        io.action_mask[env, agent, 0] = True
        if wp.static(num_components > 1):
            for k in range(1, num_components):
                n += io.num_choices[agent, k - 1]
                if io.num_choices[agent, k] > 0:
                    io.action_mask[env, agent, n] = True

    @wp.func(inline=True)
    def look_around(params: Params, state: State, io: IO, env: int, agent: int):
        if wp.static(has_legal):
            legal(params, state, io, env, agent)
        if wp.static(not without_observation):
            look(params, state, io, env, agent)
        if wp.static(allow_illegal):  # otherwise nothing reads the mask before the next ordinary step
            if not io.to_move[env, agent]:
                allow_noop(io, env, agent)

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        if io.valid[env, agent]:
            look_around(params, state, io, env, agent)
        elif wp.static(not without_observation):  # an agent that has left observes zeros
            column = int(io.obs.shape[2]) - 1
            while column >= 0:
                io.obs[env, agent, column] = 0.0
                column -= 1

    @wp.func(inline=True)
    def observe_slots(params: Params, state: State, io: IO, env: int, item: int):
        agent = item // slots
        slot = item - agent * slots
        if io.valid[env, agent]:
            look_at_slot(params, state, io, env, agent, slot)
        else:
            column = int(slot)
            while column < int(io.obs.shape[2]):
                io.obs[env, agent, column] = 0.0
                column += slots

    @wp.func(inline=True)
    def at_limit(io: IO, env: int):
        return io.max_steps > 0 and io.step[env] >= io.max_steps

    @wp.func(inline=True)
    def look_last(params: Params, state: State, io: IO, env: int, agent: int):
        """Observe into io.final_obs."""
        io.obs = io.final_obs  # in this function's copy of the struct
        if wp.static(has_forget):
            forget(params, state, env, agent)
        look(params, state, io, env, agent)

    @wp.func(inline=True)
    def stake_of(params: Params, state: State, env: int, agent: int):
        if wp.static(has_stake):
            return float(stake(params, state, env, agent))
        return 1.0

    @wp.func(inline=True)
    def leave(params: Params, state: State, io: IO, env: int, agent: int):
        if wp.static(allow_illegal):
            if not io.active[env]:  # no step was played: the episode is over, or the world waits for another action
                io.valid[env, agent] = False
            elif io.forfeit[env] > 0:
                io.terminated[env, agent] = True
                lost = float(0.0)
                player = int(0)
                while player < num_agents:
                    if io.refused[env, player]:
                        lost += stake_of(params, state, env, player)
                    player += 1
                share = lost / float(wp.max(io.forfeit[env] - 1, 1))
                if wp.static(shared_stake):
                    share = -lost
                io.reward[env, agent] = wp.where(io.refused[env, agent], -lost, share)
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
            total = io.running_return[env, agent] + wp.float64(io.reward[env, agent])
            io.running_return[env, agent] = total
            if terminated or truncated:
                io.terminated[env, agent] = terminated
                io.truncated[env, agent] = truncated
                io.alive[env, agent] = False
                if wp.static(masked):
                    allow_noop(io, env, agent)
                if wp.static(turn_based):
                    io.to_move[env, agent] = False
                io.episode_return[env, agent] = float(total)
                io.episode_length[env, agent] = io.step[env]
                if wp.static(without_observation):  # not observed in this step
                    look_last(params, state, io, env, agent)
                else:
                    width = io.obs.shape[2]
                    start = wp.uint64(4) * wp.uint64(env * num_agents + agent) * wp.uint64(width)
                    copy_row(io.obs.ptr + start, io.final_obs.ptr + start, width)
                if wp.static(has_results):
                    keep(state, io, env, agent)
            if wp.static(has_info):  # an agent that has left keeps the entries of its end
                show(state, io, env, agent)

    @wp.func(inline=True)
    def renew(io: IO, env: int):
        io.episode[env] = io.episode[env] + 1
        io.step[env] = 0
        io.over[env] = False
        episode.draw_params(io, env)

    @wp.func(inline=True)
    def anyone_alive(io: IO, env: int):
        anyone = bool(False)
        if wp.static(num_agents <= MAX_UNROLLED_AGENTS):
            for agent in range(num_agents):
                anyone = anyone or io.alive[env, agent]
        else:
            agent = int(0)
            while agent < num_agents and not anyone:  # mostly the first agent is alive
                anyone = io.alive[env, agent]
                agent += 1
        return anyone

    @wp.func(inline=True)
    def find_ends(params: Params, state: State, io: IO, env: int):
        """Find the worlds that need a final state. An agent that was cut is alive in it, as critics value it on."""
        ends = io.active[env] and not anyone_alive(io, env)
        agent = int(0)
        while agent < num_agents:
            if io.truncated[env, agent]:
                io.alive[env, agent] = True
                ends = True
            agent += 1
        io.ends[env] = ends

    @wp.func(inline=True)
    def keep_state(params: Params, state: State, io: IO, env: int, agent: int):
        if io.ends[env]:
            io.global_state = io.final_state  # nothing else in a step uses the global state
            write_state(params, state, io, env, agent)

    @wp.func(inline=True)
    def leave_at_last(params: Params, state: State, io: IO, env: int):
        agent = int(0)
        while agent < num_agents and io.ends[env]:
            io.alive[env, agent] = io.alive[env, agent] and not io.truncated[env, agent]
            agent += 1

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
        if io.restart[env]:  # the host has written the mask and the step counts to start at
            elapsed = io.step[env]
            io.active[env] = False
            renew(io, env)
            io.step[env] = elapsed

    @wp.func(inline=True)
    def begin_world(params: Params, state: State, io: IO, env: int):
        if io.restart[env]:
            if wp.static(has_start):
                start(params, state, env, episode.start_stream(io, env))

    @wp.func(inline=True)
    def withdraw(params: Params, state: State, io: IO, env: int, agent: int):
        if io.restart[env]:  # no step led to this observation
            io.valid[env, agent] = False

    @wp.func(inline=True)
    def rejoin(params: Params, state: State, io: IO, env: int, agent: int):
        if io.restart[env]:
            io.alive[env, agent] = True
            io.running_return[env, agent] = wp.float64(0.0)
            if wp.static(has_forget):
                forget(params, state, env, agent)
            if wp.static(has_start_agent):
                start_agent(params, state, env, agent, episode.start_stream(io, env))

    @wp.func(inline=True)
    def reobserve(params: Params, state: State, io: IO, env: int, agent: int):
        if io.restart[env]:
            look_around(params, state, io, env, agent)

    @wp.func(inline=True)
    def reobserve_slots(params: Params, state: State, io: IO, env: int, item: int):
        if io.restart[env]:
            agent = item // slots
            look_at_slot(params, state, io, env, agent, item - agent * slots)

    @wp.func(inline=True)
    def show_start(params: Params, state: State, io: IO, env: int, agent: int):
        if io.restart[env] and not io.active[env]:  # otherwise info is of the step that has ended the episode
            show(state, io, env, agent)

    @wp.func(inline=True)
    def restarts(io: IO, env: int):
        return io.restart[env]

    rule_phases = [_when_active(rules, phase, allow_illegal) for phase in rules.phases]
    survey = [_restrict(rules, phase, restarts) for phase in rules.build_grid]
    begins = [world_phase(begin_world)] if has_start else []
    final: tuple[Phase, ...] = ()
    if rules.keeps_final_state and write_state is not None:
        final = (world_phase(find_ends), agent_phase(keep_state), world_phase(leave_at_last))
    observes, reobserves = agent_phase(observe), agent_phase(reobserve)
    if in_slots:
        items = rules.num_agents * slots
        observes = Phase(items, observe_slots, name="observe")
        reobserves = Phase(items, reobserve_slots, name="reobserve")
    return Parts(
        play=(
            agent_phase(begin),
            world_phase(advance_clock),
            *rule_phases,
            observes,
            agent_phase(leave),
            *final,
            world_phase(turn),
        ),
        renew=(world_phase(start_anew), agent_phase(withdraw)),
        start=(
            *begins,
            agent_phase(rejoin),
            *survey,
            reobserves,
            *([agent_phase(show_start)] if has_info else []),
        ),
    )


def _when_active(rules: Rules, phase: Phase, allow_illegal: bool) -> Phase:
    """Restrict a phase of the environment to active worlds, so that rules need not know autoreset modes."""
    IO = rules.argument(episode.IO)

    @wp.func(inline=True)
    def plays(io: IO, env: int):
        played = io.active[env]
        if wp.static(allow_illegal):
            played = played and io.forfeit[env] == 0
        return played

    return _restrict(rules, phase, plays)


def _restrict(rules: Rules, phase: Phase, holds: Any) -> Phase:
    """Restrict a phase of the environment to worlds with ``holds(io, env)``."""
    Params, State, IO, run = rules.params, rules.argument(rules.state), rules.argument(episode.IO), phase.run

    @wp.func(inline=True)
    def guarded_world(params: Params, state: State, io: IO, env: int):
        if holds(io, env):
            run(params, state, io, env)

    @wp.func(inline=True)
    def guarded(params: Params, state: State, io: IO, env: int, index: int):
        if holds(io, env):
            run(params, state, io, env, index)

    return replace(phase, run=guarded_world if phase.over == WORLD else guarded, name=phase.called)


def _show_info(rules: Rules) -> Any:
    """Build ``show(state, io, env, agent)``, which copies ``Rules.info`` of an agent to the tensors of ``info``.

    The addresses of these tensors are in ``io.info``, because fields of any dtype and shape can be declared.
    """
    lines = ["worlds = io.alive.shape[0]"]
    dtypes: dict[str, Any] = {}
    for number, (field, shape) in enumerate(rules.info):
        dtypes[f"type_{number}"] = rules.state.vars[field].type.dtype
        sizes = ", ".join(map(str, ("worlds", rules.num_agents, *shape)))
        lines.append(f"array_{number} = wp.array(ptr=io.info[{number}], shape=({sizes},), dtype=type_{number})")
        names = [f"index_{number}_{axis}" for axis in range(len(shape))]
        for depth, (name, size) in enumerate(zip(names, shape, strict=True)):
            lines += [f"{'    ' * depth}{name} = int(0)", f"{'    ' * depth}while {name} < {size}:"]
        entry = ", ".join(("env", "agent", *names))
        lines.append(f"{'    ' * len(shape)}array_{number}[{entry}] = state.{field}[{entry}]")
        lines += [f"{'    ' * (depth + 1)}{name} += 1" for depth, name in reversed(list(enumerate(names)))]
    constants = {"State": rules.argument(rules.state), "IO": rules.argument(episode.IO), **dtypes}
    return compiled("show", "state: State, io: IO, env: int, agent: int", lines, constants)


def _keep_results(rules: Rules) -> Any:
    """Build ``keep(state, io, env, agent)``, which copies ``Rules.results`` of an agent to ``io.episode_results``."""
    lines = ["worlds = io.alive.shape[0]"]  # a function of Warp has at least one line
    for column, field in enumerate(rules.results):
        lines.append(f"io.episode_results[env, agent, {column}] = float(state.{field}[env, agent])")
    constants = {"State": rules.argument(rules.state), "IO": rules.argument(episode.IO)}
    return compiled("keep", "state: State, io: IO, env: int, agent: int", lines, constants)
