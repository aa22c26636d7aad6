"""The same rules with the siblings of every phase taken in the opposite order, for checks of the law of phases."""

from dataclasses import replace

import warp as wp

from warp_kernels.episode import IO
from warp_kernels.rules import AGENT, WORLD, Phase, Rules


def mirror(rules: Rules) -> Rules:
    """Turn the order of siblings round; rules that keep the law play the same, bit for bit.

    A CPU runs the threads of a launch one after another, fused or phased: only another order shows who reads what a
    sibling writes in the same phase.
    """
    Params, State = rules.params, rules.state

    def turned(phase: Phase) -> Phase:
        if phase.over == WORLD:
            return phase
        run, last = phase.run, (rules.num_agents if phase.over == AGENT else int(phase.over)) - 1

        @wp.func
        def from_the_end(params: Params, state: State, io: IO, env: int, index: int):
            run(params, state, io, env, last - index)

        return replace(phase, run=from_the_end)

    return replace(
        rules,
        key=f"{rules.key} mirrored",
        phases=tuple(map(turned, rules.phases)),
        survey=tuple(map(turned, rules.survey)),
    )
