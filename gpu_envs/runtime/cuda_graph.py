"""Capture of whole rollouts as CUDA graphs, which replay without Python."""

import contextlib
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

import warp_kernels

WARM_UPS = 2
"""Runs before the capture, in which libraries choose their kernels and allocate their workspaces."""


class CapturedFunction:
    """Replays the GPU work of a function when it is called; without a graph, on a CPU, it calls the function.

    A graph uses fixed addresses, and does not keep the tensors there. This object keeps their owners, so the caller may
    drop the core, the networks in ``play`` and the generators.

    Args:
        play: Function that was captured.
        generators: Generators that ``play`` draws from.
        owners: Other owners of memory that the graph uses.
        graph: The captured graph; None on a CPU.

    Attributes:
        graph: The captured graph; None on a CPU.
    """

    def __init__(
        self,
        play: Callable[[], Any],
        generators: Sequence[torch.Generator],
        owners: Sequence[Any],
        graph: torch.cuda.CUDAGraph | None,
    ) -> None:
        self.graph = graph
        self._references = (play, tuple(generators), tuple(owners))
        self._run = play if graph is None else graph.replay

    def __call__(self) -> Any:
        """Replay the graph, or call the function."""
        return self._run()


def capture(
    play: Callable[[], Any],
    generators: Sequence[torch.Generator],
    *,
    device: torch.device,
    get_state: Callable[[], Mapping[str, torch.Tensor]],
    set_state: Callable[[Mapping[str, torch.Tensor]], None],
    raise_pending_errors: Callable[[], None],
    pool: Any = None,
) -> torch.cuda.CUDAGraph:
    """Return a graph of the GPU work of ``play``; see :meth:`gpu_envs.runtime.core.Core.capture`.

    Args:
        play: Function to capture. It runs ``WARM_UPS`` times first.
        generators: Random generators that ``play`` draws from.
        device: GPU of the environment.
        get_state: Returns a copy of the environment's state.
        set_state: Restores such a copy after the capture.
        raise_pending_errors: Raises the error of an illegal action of the warm-up.
        pool: Memory pool of :func:`torch.cuda.graph_pool_handle`, shared by graphs that never run at the same time and
            need nothing of each other's; None: a new one.
    """
    with warp_kernels.building:  # the warm-up may compile kernels
        saved, generator_states = get_state(), [generator.get_state() for generator in generators]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(device):
            current, side = torch.cuda.current_stream(), _capture_stream(device)
            try:
                side.wait_stream(current)
                try:
                    with torch.cuda.stream(side):
                        for _ in range(WARM_UPS):
                            play()
                finally:  # the work of a failed warm-up must end before the state is restored below
                    current.wait_stream(side)
                raise_pending_errors()
                for generator in generators:
                    graph.register_generator_state(generator)
                # on the stream of the warm-up, which Warp knows already; other threads may use the GPU meanwhile
                graph_capture = torch.cuda.graph(graph, pool=pool, stream=side, capture_error_mode="thread_local")
                with _no_collection(), graph_capture:
                    play()
            finally:
                set_state(saved)
                for generator, state in zip(generators, generator_states, strict=True):
                    generator.set_state(state)
        return graph


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Collect garbage now, and none in this context: freeing a graph or pinned memory breaks a capture."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_streams: dict[torch.device, Any] = {}


def _capture_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream of all captures on the current GPU: libraries keep a workspace for each stream they work on."""
    if not isinstance(_streams.get(device), torch.cuda.Stream):
        _streams[device] = torch.cuda.Stream()
    return _streams[device]
