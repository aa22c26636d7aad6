"""What the author of an environment gives: phases, which are Warp functions and what they run over, and rules."""

from dataclasses import dataclass
from typing import Any

import warp as wp

AGENT = "agent"  # phases over agents
WORLD = "world"  # phases over worlds
LAST = wp.constant(2**31 - 1)
"""Masked with it, an index is seen by the compiler not to count from the end."""


@dataclass(frozen=True)
class Phase:
    """One phase: a Warp function ``f(params, state, io, env[, index])`` and the index set it runs over."""

    over: str | int  # AGENT, WORLD, or how many of anything else a world has
    run: Any  # the Warp function
    name: str = ""  # of the function that was wrapped

    @property
    def called(self) -> str:
        """What its author calls it."""
        return self.name or self.run.key.rpartition("__")[2]


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

    key: str  # unique among all rules
    params: type  # Warp struct of scalars; the runner may hold one per batch or one per world
    state: type  # Warp struct of arrays led by num_envs
    num_agents: int  # A, the size of the roster
    action_size: int  # K, components of an action
    continuous: bool  # actions are boxes (io.control), not choices (io.choice)
    phases: tuple[Phase, ...]  # of a step, in order
    observe: Any  # agent phase; writes the agent's row of io.obs (and io.action_mask, io.to_move), and its own memory
    legal: Any = None  # agent phase that writes io.action_mask and io.to_move; observe then writes io.obs and no more
    reset: Any = None  # f(params, state, env, rng) starts an episode
    reset_agent: Any = None  # f(params, state, env, agent, rng), after reset: what agents can start for themselves
    survey: tuple[Phase, ...] = ()  # what observe looks things up in; run after reset_agent, and among phases
    global_state: Any = None  # agent phase; writes its agent's part of io.global_state[env, :]
    masked: bool = False  # some actions are illegal at times; observe writes io.action_mask
    turn_based: bool = False  # agents take turns; observe writes io.to_move. Needs masked
    lay: Any = None  # f(state, n) -> state: arrays laid anew over n worlds at constant sizes; Definition.dense has them
    stake: Any = None  # f(params, state, env, agent): what a foul costs where it loses the game; 1 without
    num_choices: int = 0  # size of every discrete component, where all are alike: loops over choices unroll then
    max_unroll: int = 16  # longest loop over a constant range that Warp unrolls
