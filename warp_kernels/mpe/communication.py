"""What agents of the multi-agent particle environments (MPE) say, as in mpe2 1.1.1 ``_mpe_utils/``.

An utterance has a loudness per letter. It comes from the present step's action, is there once bodies have moved, and is
heard in the observation that follows; an episode starts in silence.
"""

from typing import Any

import warp as wp

from warp_kernels.episode import IO
from warp_kernels.rules import Phase, agent_phase

PUSHES = wp.constant(5)  # choices, or components, that move an agent; its words come behind


def channel(
    Params: type, State: type, num_speakers: int, num_letters: int, continuous: bool, moves: bool
) -> tuple[Phase, Any, Any]:
    """Build what speakers need.

    Args:
        Params: The scenario's.
        State: The scenario's, with ``said`` (E, S, L) float, the loudness of each letter.
        num_speakers: S; the speakers are the first agents.
        num_letters: L.
        continuous: Kind of the actions. Discrete: one letter, at loudness 1. Continuous: every letter, as loud as the
            action's component for it.
        moves: Speakers also push: discrete choice = letter * 5 + push, continuous words behind five pushes. Else the
            action is the word alone.

    Returns:
        The phase that speaks; ``hear(state, io, env, agent, speaker, column)``, which writes an utterance into L
        columns of an observation; and ``hush(state, env)``, the silence at the start of an episode.
    """
    first = int(PUSHES) if moves else 0

    @wp.func(inline=True)
    def speak(params: Params, state: State, io: IO, env: int, agent: int):
        """Writes what the agent has said."""
        if agent < num_speakers:
            if wp.static(continuous):
                for letter in range(num_letters):
                    state.said[env, agent, letter] = io.control[env, agent, first + letter]
            else:
                chosen = int(io.choice[env, agent, 0])
                if wp.static(moves):
                    chosen = chosen // PUSHES
                for letter in range(num_letters):
                    state.said[env, agent, letter] = wp.where(letter == chosen, 1.0, 0.0)

    @wp.func(inline=True)
    def hear(state: State, io: IO, env: int, agent: int, speaker: int, column: int):
        for letter in range(num_letters):
            io.obs[env, agent, column + letter] = state.said[env, speaker, letter]

    @wp.func(inline=True)
    def hush(state: State, env: int):
        for speaker in range(state.said.shape[1]):  # rare, so not unrolled
            for letter in range(state.said.shape[2]):
                state.said[env, speaker, letter] = 0.0

    return agent_phase(speak), hear, hush
