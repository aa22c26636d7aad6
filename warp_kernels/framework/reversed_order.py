"""Rules whose phases run their siblings in reverse order, for checks of phase isolation."""

from dataclasses import replace

import warp as wp

from warp_kernels.episode import IO
from warp_kernels.rules import AGENT, WORLD, Phase, Rules

__all__ = ["reverse_order"]


def reverse_order(rules: Rules) -> Rules:
    """Return rules whose phases run their siblings in reverse order; isolated phases give equal results, bit for bit.

    A CPU runs the threads of a launch one after another, fused or phased. Only another order shows that a thread reads
    what a sibling writes in the same phase.
    """
    Params, State = rules.params, rules.state

    def reverse(phase: Phase) -> Phase:
        if phase.over == WORLD:
            return phase
        run, last = phase.run, (rules.num_agents if phase.over == AGENT else int(phase.over)) - 1

        @wp.func
        def reversed_phase(params: Params, state: State, io: IO, env: int, index: int):
            run(params, state, io, env, last - index)

        return replace(phase, run=reversed_phase)

    return replace(
        rules,
        key=f"{rules.key} mirrored",
        phases=tuple(map(reverse, rules.phases)),
        build_grid=tuple(map(reverse, rules.build_grid)),
    )
