"""Whole rollouts as one CUDA graph: recorded once, replayed without Python."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

import warp_kernels

if TYPE_CHECKING:
    from gpu_envs.core import Core

WARM_UPS = 2
"""Runs before the recording: libraries choose their kernels and allocate their workspaces in the first ones."""


def capture(core: "Core", play: Callable[[], Any], generators: Sequence[torch.Generator]) -> Callable[[], Any]:
    """Record what ``play`` queues on the core's GPU; see :meth:`gpu_envs.core.Core.capture`."""
    with warp_kernels.building:  # the warm-up may compile
        return _captured(core, play, generators)


def _captured(core: "Core", play: Callable[[], Any], generators: Sequence[torch.Generator]) -> Callable[[], Any]:
    kept, drawn = core.get_state(), [generator.get_state() for generator in generators]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.device(core.device):
        here, aside = torch.cuda.current_stream(), torch.cuda.Stream()
        try:
            aside.wait_stream(here)
            try:
                with torch.cuda.stream(aside):
                    for _ in range(WARM_UPS):
                        play()
            finally:  # what a failed warm-up has queued must not run behind the state that is put back below
                here.wait_stream(aside)
            core.check()
            for generator in generators:
                graph.register_generator_state(generator)
            with torch.cuda.graph(graph, stream=aside):  # where kernels have run already, and Warp knows the stream
                play()
        finally:
            core._put_state(kept)
            for generator, state in zip(generators, drawn, strict=True):
                generator.set_state(state)
    return graph.replay
