"""Communication of the multi-agent particle environments (MPE), as in mpe2 1.1.1 ``_mpe_utils/``.

A message has a loudness per letter. It is set by the action of a step and is part of the next observation. An episode
starts with silence, all letters at 0.
"""

from typing import Any

import warp as wp

from warp_kernels.episode import IO
from warp_kernels.rules import Phase, agent_phase

PUSHES: int = wp.constant(5)  # number of actions, or components, that move an agent; letters follow


def channel(
    Params: type, State: type, num_speakers: int, num_letters: int, continuous: bool, moves: bool
) -> tuple[Phase, Any, Any]:
    """Build the phase and functions of speakers.

    Args:
        Params: Params of the scenario.
        State: State of the scenario, with ``said`` (E, S, L) float, the loudness of each letter.
        num_speakers: Number of speakers S, which are the first agents.
        num_letters: Size of the alphabet L.
        continuous: Continuous actions, with a component per letter for its loudness; discrete actions are one letter
            at loudness 1.
        moves: Speakers also push: a discrete action is letter * 5 + push, a continuous action has five pushes first.
            If False, the action is the message only.

    Returns:
        The phase that sets messages; ``hear(state, io, env, agent, speaker, column)``, which writes a message into L
        columns of an observation; and ``hush(state, env)``, which sets silence at the start of an episode.
    """
    first = int(PUSHES) if moves else 0

    @wp.func(inline=True)
    def speak(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the message of the agent."""
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
        for speaker in range(state.said.shape[1]):  # not unrolled, as it runs rarely
            for letter in range(state.said.shape[2]):
                state.said[env, speaker, letter] = 0.0

    return agent_phase(speak, reads="io.choice io.control", writes="said"), hear, hush
