"""A whole step as a list of phases: the runner's own around the author's."""

from dataclasses import dataclass, replace
from typing import Any

import warp as wp

from warp_kernels import episode
from warp_kernels.episode import IO
from warp_kernels.rules import WORLD, Phase, Rules, agent_phase, world_phase

FEW = 16  # agents up to which a loop over them is worth unrolling


@dataclass(frozen=True)
class Parts:
    """A step is ``play`` and ``start``; a reset by mask is ``renew`` and ``start``."""

    play: tuple[Phase, ...]  # moves, rewards, ends
    renew: tuple[Phase, ...]  # what a reset does before episodes start
    start: tuple[Phase, ...]  # in worlds where an episode starts


def step_phases(rules: Rules, blind: bool = False) -> Parts:
    """The whole step and the reset by mask as phases: the runner's own around the author's.

    Args:
        rules: The environment's rules.
        blind: Observe nothing but the ends of episodes, and trust actions. Needs ``rules.legal``; for steps whose
            observations nobody reads and whose actions were drawn, see :func:`warp_kernels.schedules.build_play`.
    """
    Params, State = rules.params, rules.state
    if rules.continuous:
        check, clear = episode.continuous_check(rules.action_size)
    else:
        check, clear = episode.discrete_check(rules.action_size, rules.masked, rules.turn_based, rules.num_choices)
    num_agents, num_choices, masked, turn_based = rules.num_agents, rules.num_choices, rules.masked, rules.turn_based
    fouls = turn_based and not blind  # may happen
    advance = episode.tick_in_turns if fouls else episode.tick
    start, start_agent, look, legal, stake = rules.reset, rules.reset_agent, rules.observe, rules.legal, rules.stake
    has_start, has_start_agent = start is not None, start_agent is not None
    has_legal, has_stake = legal is not None, stake is not None

    @wp.func(inline=True)
    def begin(params: Params, state: State, io: IO, env: int, agent: int):
        valid = io.alive[env, agent] and not io.over[env]
        io.valid[env, agent] = valid
        io.reward[env, agent] = 0.0
        io.terminated[env, agent] = False
        io.truncated[env, agent] = False
        asked = valid
        if wp.static(fouls):
            io.refused[env, agent] = False
            asked = valid and io.to_move[env, agent]
        if not asked:
            clear(io, env, agent)
        elif wp.static(not blind):
            check(io, env, agent)

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
        if wp.static(fouls):  # else nobody asks before the next ordinary step
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
    def stake_of(params: Params, state: State, env: int, agent: int):
        if wp.static(has_stake):
            return float(stake(params, state, env, agent))
        return 1.0

    @wp.func(inline=True)
    def leave(params: Params, state: State, io: IO, env: int, agent: int):
        if wp.static(fouls):
            if not io.active[env]:  # nothing has been played: the episode is over, or the mover is asked again
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
            total = io.running_return[env, agent] + io.reward[env, agent]
            io.running_return[env, agent] = total
            if terminated or truncated:
                io.terminated[env, agent] = terminated
                io.truncated[env, agent] = truncated
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
        if io.restart[env]:  # the runner has written the mask, and the step counts to start at
            elapsed = io.step[env]
            renew(io, env)
            io.step[env] = elapsed

    @wp.func(inline=True)
    def begin_world(params: Params, state: State, io: IO, env: int):
        if io.restart[env]:
            if wp.static(has_start):
                start(params, state, env, episode.start_stream(io, env))

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
                start_agent(params, state, env, agent, episode.start_stream(io, env))

    @wp.func(inline=True)
    def reobserve(params: Params, state: State, io: IO, env: int, agent: int):
        if io.restart[env]:
            look_around(params, state, io, env, agent)

    @wp.func(inline=True)
    def restarts(io: IO, env: int):
        return io.restart[env]

    own = [_when_active(rules, phase, fouls) for phase in rules.phases]
    survey = [_where(rules, phase, restarts) for phase in rules.survey]
    begun = [world_phase(begin_world)] if has_start else []
    return Parts(
        play=(agent_phase(begin), world_phase(tick), *own, agent_phase(observe), agent_phase(leave), world_phase(turn)),
        renew=(world_phase(start_anew), agent_phase(withdraw)),
        start=(*begun, agent_phase(rejoin), *survey, agent_phase(reobserve)),
    )


def _when_active(rules: Rules, phase: Phase, fouls: bool) -> Phase:
    """Wrap an author's phase in "is this world active", so that autoreset modes never appear in rules."""

    @wp.func(inline=True)
    def plays(io: IO, env: int):
        played = io.active[env]
        if wp.static(fouls):
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

    return replace(phase, run=guarded_world if phase.over == WORLD else guarded, name=phase.called)
