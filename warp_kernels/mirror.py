"""The same rules with the agents of every phase taken in the opposite order, for checks of the law of phases."""

from dataclasses import replace
from typing import Any

import warp as wp

from warp_kernels.episode import IO
from warp_kernels.schedules import AGENT, Phase, Rules


def mirror(rules: Rules) -> Rules:
    """Turn the order of siblings round; rules that keep the law play the same, bit for bit.

    A CPU runs the threads of a launch one after another, fused or phased: only another order shows who reads what a
    sibling writes in the same phase.
    """
    Params, State, last = rules.params, rules.state, rules.num_agents - 1

    def turned(run: Any) -> Any:
        @wp.func
        def from_the_end(params: Params, state: State, io: IO, env: int, agent: int):
            run(params, state, io, env, last - agent)

        return from_the_end

    phases = tuple(Phase(AGENT, turned(phase.run)) if phase.over == AGENT else phase for phase in rules.phases)
    return replace(rules, key=f"{rules.key} mirrored", phases=phases)
