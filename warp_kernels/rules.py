"""Rules of an environment: its Warp functions, and the phases that order them."""

from dataclasses import dataclass
from typing import Any

import warp as wp

AGENT = "agent"  # phases over agents
WORLD = "world"  # phases over worlds
LAST: int = wp.constant(2**31 - 1)
"""Mask that shows the compiler that an index is not negative."""


@dataclass(frozen=True)
class Phase:
    """Warp function ``f(params, state, io, env[, index])`` and the index set it runs over.

    Attributes:
        over: AGENT, WORLD, or the number of items per world.
        run: Warp function.
        reads: Names of the arrays that it reads, separated by spaces: fields of State, and of IO as ``io.field``.
        writes: Names of the arrays that it writes.
        name: Name of the wrapped function.
    """

    over: str | int
    run: Any
    reads: str = ""
    writes: str = ""
    name: str = ""

    @property
    def called(self) -> str:
        """Name of the function in the environment's rules."""
        return self.name or self.run.key.rpartition("__")[2]


def agent_phase(run: Any, reads: str = "", writes: str = "") -> Phase:
    """Return a phase over the agents, dead or alive, of active worlds: ``f(params, state, io, env, agent)``."""
    return Phase(AGENT, run, reads, writes)


def world_phase(run: Any, reads: str = "", writes: str = "") -> Phase:
    """Return a phase over active worlds: ``f(params, state, io, env)``."""
    return Phase(WORLD, run, reads, writes)


def item_phase(count: int, run: Any, reads: str = "", writes: str = "") -> Phase:
    """Return a phase over ``count`` items per active world, such as entities or cells.

    ``f(params, state, io, env, item)`` writes only the data of its item.
    """
    return Phase(count, run, reads, writes)


@dataclass(frozen=True)
class Rules:
    """Warp functions of an environment for one world or one agent, and the sizes they use as constants.

    ``key`` identifies the specialization by name and constant sizes. Rules with equal keys share kernels.

    Attributes:
        key: Unique among all rules; it names every size that the functions capture.
        params: Warp struct of scalars; a batch has one, or one per world.
        state: Warp struct of arrays with a leading num_envs.
        num_agents: Number of agents A.
        action_size: Number of action components K.
        continuous: Actions are boxes (io.control), not choices (io.choice).
        phases: Phases of a step, in order.
        observe: Agent phase that writes the agent's row of io.obs, io.action_mask, io.to_move and its own memory.
        forget: f(params, state, env, agent): observe, which writes only changes, writes the next row in full.
        observe_slot: f(params, state, io, env, agent, slot): part of the row of observe; all parts equal it.
        observe_slots: Number of those parts S; part s writes the columns s, S + s, 2 S + s, ...
        legal: Agent phase that writes io.action_mask and io.to_move; observe then writes only io.obs.
        reset: f(params, state, env, rng): start an episode.
        reset_agent: f(params, state, env, agent, rng), after reset: per-agent part of the start.
        build_grid: Build lookup structures of observe; run after reset_agent, and among phases.
        global_state: Agent phase that writes its agent's part of io.global_state[env, :].
        masked: Some actions are illegal at times; observe writes io.action_mask.
        illegal_noop: The rules treat a masked choice as the no-op, as their original: it is no error.
        turn_based: Agents take turns; observe writes io.to_move. Needs masked.
        relayout: f(state, n) -> state with dense arrays of constant sizes.
        stake: f(params, state, env, agent): loss of an agent that forfeits by an illegal action; default 1.
        shared_stake: All players lose the stake, where they play together; otherwise the others share it.
        num_choices: Size of every discrete component, where all are equal; loops over choices then unroll.
        max_unroll: Length of the longest loop over a constant range, such as ``for other in range(num_agents)``, that
            Warp unrolls: it writes the body once per iteration. Nested loops multiply. Short loops run faster so; code
            of thousands of operations compiles for minutes and runs slower. Where a step would be so large, less is
            unrolled, and a warning names the loop.
        by_reference: Functions take State and IO as wp.ref[...]; copies of large ones compile for long.
        info: Fields of State by agent that info shows, with their further sizes; set by EnvDefinition, as results.
        results: Those among them that tell how an episode has ended, a number per agent.
        width: Observation width D; set by EnvDefinition.
        keeps_final_state: Steps write ``io.final_state``; set by the runtime where somebody reads it.
        order: Order of siblings in phased kernels, set by framework.thread_orders for checks; "" for production.
    """

    key: str
    params: type
    state: type
    num_agents: int
    action_size: int
    continuous: bool
    phases: tuple[Phase, ...]
    observe: Any
    forget: Any = None
    observe_slot: Any = None
    observe_slots: int = 0
    legal: Any = None
    reset: Any = None
    reset_agent: Any = None
    build_grid: tuple[Phase, ...] = ()
    global_state: Any = None
    masked: bool = False
    illegal_noop: bool = False
    turn_based: bool = False
    relayout: Any = None
    stake: Any = None
    shared_stake: bool = False
    num_choices: int = 0
    max_unroll: int = 16
    by_reference: bool = False
    info: tuple[tuple[str, tuple[int, ...]], ...] = ()
    results: tuple[str, ...] = ()
    width: int = 0
    keeps_final_state: bool = False
    order: str = ""

    def argument(self, struct: Any) -> Any:
        """Return the type of an argument of the functions: State or IO itself, or a reference to it."""
        return wp.ref[struct] if self.by_reference else struct
