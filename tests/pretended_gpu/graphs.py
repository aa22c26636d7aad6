"""CUDA graphs as lists of recorded calls.

A capture records the operations below autograd, so a backward pass and the step of an optimizer are recorded like a
forward pass. As on a GPU the captured work does not take effect: memory from before the capture is restored at its end,
and memory that was allocated meanwhile holds NaN until the first replay.

A replay repeats the calls on the same memory. A graph keeps what was allocated during its capture, and nothing else: a
replay after other memory was freed raises an error, where a GPU would read and write whatever is there now.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import _disable_current_modes

from pretended_gpu.claims import alias, device_of, layout_of, view_of
from pretended_gpu.generators import RealGenerator, default_generator_in_use, device_of_generator, known_generator
from pretended_gpu.state import Event, GPUState, call_site
from pretended_gpu.streams import Stream

if TYPE_CHECKING:
    from pretended_gpu.operations import Operation


class WeakMemory(NamedTuple):
    """Memory that a graph uses without keeping it."""

    storage: StorageWeakRef
    dtype: torch.dtype
    layout: tuple[int, tuple[int, ...], tuple[int, ...]]
    recorded_at: str

    @classmethod
    def of(cls, tensor: Tensor) -> WeakMemory:
        """Return the memory of a tensor."""
        return cls(StorageWeakRef(tensor.untyped_storage()), tensor.dtype, layout_of(tensor), call_site())

    def tensor(self) -> Tensor:
        """Return a tensor over the memory.

        Raises:
            RuntimeError: The memory was freed.
        """
        storage = torch.UntypedStorage._new_with_weak_ptr(self.storage.cdata)
        if storage is None:
            size = tuple(self.layout[1])
            raise RuntimeError(f"CUDA error: the graph uses freed memory: {self.dtype} {size} of {self.recorded_at}")
        return view_of(storage, self.dtype, *self.layout)


class Operand(NamedTuple):
    """Place of a tensor in the list of all operands of a graph."""

    index: int


class RecordedCall(NamedTuple):
    """An operation of torch in a graph."""

    func: Callable[..., Any]
    args: Any
    kwargs: Any
    outputs: tuple[Operand, ...]
    """Memory that the results are copied to, because it was allocated by the call."""
    default_generator: RealGenerator | None
    """Generator of an operation that draws random numbers and names none."""

    def run(self, tensors: Sequence[Tensor]) -> None:
        """Repeat the call on the operands of the graph."""
        args, kwargs = replaced(self.args, Operand, lambda o: tensors[o.index]), dict(self.kwargs)
        for name, value in kwargs.items():
            kwargs[name] = replaced(value, Operand, lambda o: tensors[o.index])
        in_use = (
            default_generator_in_use(self.default_generator) if self.default_generator else contextlib.nullcontext()
        )
        with in_use:
            results = self.func(*args, **kwargs)
        for output, result in zip(self.outputs, tensors_in(results), strict=bool(self.outputs)):
            tensors[output.index].copy_(result)


class HostFunction(NamedTuple):
    """Work in a graph that is no operation of torch: a kernel of Warp, or the record of an event."""

    function: Callable[[], Any]

    def run(self, tensors: Sequence[Tensor]) -> None:
        """Call the function."""
        self.function()


class Graph:
    """Stand-in for torch.cuda.CUDAGraph."""

    gpu: ClassVar[GPUState]

    def __init__(self, keep_graph: bool = False) -> None:
        self.generators: list[RealGenerator] = []
        self.calls: list[RecordedCall | HostFunction] | None = None
        self.operands: list[Tensor | WeakMemory] = []

    def register_generator_state(self, generator: RealGenerator) -> None:
        """Allow a generator in the capture.

        Raises:
            RuntimeError: It is a generator of the CPU.
        """
        if device_of_generator(generator).type != "cuda":
            raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
        self.generators.append(generator)

    def replay(self) -> None:
        """Repeat the recorded calls.

        Raises:
            RuntimeError: Nothing was captured, another capture is in progress, or the graph uses freed memory.
        """
        if self.calls is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        if self.gpu.capture is not None:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing: replay of another graph")
        self.gpu.graph_launches.append(Event("graph launch", call_site()))
        with below_torch():
            tensors = [operand.tensor() if isinstance(operand, WeakMemory) else operand for operand in self.operands]
            for call in self.calls:
                call.run(tensors)


class Capture:
    """A capture in progress: records operations on one stream.

    Args:
        gpu: State of the GPUs.
        graph: The graph that gets the recorded calls.
        stream: Stream of the capture.
    """

    def __init__(self, gpu: GPUState, graph: Graph, stream: Stream) -> None:
        self.gpu, self.graph, self.stream = gpu, graph, stream
        self._calls: list[RecordedCall | HostFunction] = []
        self._operands: list[Tensor | WeakMemory] = []
        self._places: dict[Any, int] = {}
        self._pool: dict[int, torch.UntypedStorage] = {}  # allocated during the capture, by address
        self._scalars: list[torch.UntypedStorage] = []  # kept, so that no later memory gets their address
        self._contents: dict[int, tuple[WeakMemory, Tensor]] = {}  # contents of other memory that was written
        generators = [*graph.generators, gpu.default_generators[stream.device.index]]
        self._generators = [(generator, generator.get_state()) for generator in generators]

    def check_stream(self, subject: str, device: torch.device) -> None:
        """Raise an error for work of a GPU that is not on the stream of the capture."""
        if self.gpu.current_stream(device) is not self.stream:
            raise RuntimeError(
                f"{subject} on {device} is not on the stream of the capture on {self.stream.device} at {call_site()}"
            )

    def check_generator(self, name: str, generator: RealGenerator) -> None:
        """Raise an error for a generator that the graph does not know."""
        if not any(known_generator(generator) is recorded for recorded, _ in self._generators):
            raise RuntimeError(
                f"{name}: the generator is not registered with the CUDA graph, call register_generator_state: "
                f"{call_site()}"
            )

    def run(self, operation: Operation, args: Any, kwargs: Any, default_generator: RealGenerator | None) -> Any:
        """Run and record an operation."""
        for tensor in operation.written(args, kwargs):
            self._save(tensor)
        operand = self._operand if operation.name == "copy_" else self._operand_or_value
        own_args = replaced(args, Tensor, operand)
        own_kwargs = {name: replaced(value, Tensor, operand) for name, value in kwargs.items()}
        results = operation.func(*args, **kwargs)
        outputs: tuple[Operand, ...] = ()
        if operation.allocates:
            for tensor in tensors_in(results):
                storage = tensor.untyped_storage()
                self._pool[storage._cdata] = storage
            outputs = tuple(self._operand(tensor) for tensor in tensors_in(results))
        if not operation.is_view:
            call = RecordedCall(operation.func, own_args, own_kwargs, outputs, default_generator)
            self._calls.append(call)
        return results

    def record_host_function(self, function: Callable[[], Any]) -> None:
        """Record work that is no operation of torch, without running it."""
        self._calls.append(HostFunction(function))

    def end(self) -> None:
        """Restore memory and generators, and invalidate what was computed during the capture."""
        with below_torch():
            for memory, contents in self._contents.values():
                memory.tensor().copy_(contents)
            for operand in self._operands:
                if isinstance(operand, Tensor) and operand.dtype.is_floating_point and operand.dim():
                    operand.fill_(torch.nan)
        for generator, state in self._generators:
            RealGenerator.set_state(generator, state)
        self.graph.calls, self.graph.operands = self._calls, self._operands

    def _operand(self, tensor: Tensor) -> Operand:
        """Return the place of a tensor among the operands of the graph."""
        storage = tensor.untyped_storage()
        key = (storage._cdata, tensor.dtype, layout_of(tensor))
        if key not in self._places:
            self._places[key] = len(self._operands)
            self._operands.append(alias(tensor) if storage._cdata in self._pool else WeakMemory.of(tensor))
        return Operand(self._places[key])

    def _operand_or_value(self, tensor: Tensor) -> Operand:
        """Return the place of a tensor, or of the present value of a scalar of the CPU: kernels get the value."""
        if device_of(tensor).type == "cuda" or tensor.dim():
            return self._operand(tensor)
        self._operands.append(alias(tensor).clone())
        return Operand(len(self._operands) - 1)

    def _save(self, tensor: Tensor) -> None:
        """Keep the contents of memory from before the capture."""
        storage = tensor.untyped_storage()
        if storage._cdata not in self._pool and storage._cdata not in self._contents:
            memory = view_of(storage, torch.uint8, 0, (storage.nbytes(),), (1,))
            self._contents[storage._cdata] = WeakMemory.of(memory), memory.clone()


def graph_classes(gpu: GPUState) -> tuple[type[Graph], Callable[..., contextlib.AbstractContextManager[None]]]:
    """Return the stand-ins for torch.cuda.CUDAGraph and torch.cuda.graph."""
    Graph.gpu = gpu

    @contextlib.contextmanager
    def graph(cuda_graph: Graph, pool: Any = None, stream: Stream | None = None, **_: Any) -> Iterator[None]:
        if gpu.capture is not None:
            raise RuntimeError("CUDA error: a capture is in progress already")
        gpu.synchronize("capture of a CUDA graph", flagged=False)
        stream = stream or Stream()
        if stream in gpu.default_streams:
            raise RuntimeError("CUDA graphs must be captured on a non-default stream.")
        device, previous = gpu.current_device, gpu.current_stream(stream.device)
        gpu.current_device = stream.device.index
        gpu.set_stream(stream)
        capture = gpu.capture = Capture(gpu, cuda_graph, stream)
        try:
            yield
        finally:
            gpu.capture = None
            capture.end()
            gpu.set_stream(previous)
            gpu.current_device = device

    return Graph, graph


def replaced(value: Any, kind: type, new: Callable[[Any], Any]) -> Any:
    """Return arguments of an operation with all values of a type replaced, also in lists."""
    if isinstance(value, kind):
        return new(value)
    if type(value) in (list, tuple):
        return type(value)(replaced(item, kind, new) for item in value)
    return value


def tensors_in(results: Any) -> list[Tensor]:
    """Return the tensors in the results or arguments of an operation."""
    if isinstance(results, Tensor):
        return [results]
    if isinstance(results, list | tuple):
        return [tensor for result in results for tensor in tensors_in(result)]
    return []


@contextlib.contextmanager
def below_torch() -> Iterator[None]:
    """Run operations without the checks of the pretended GPU and without autograd."""
    with torch._C.DisableTorchFunction(), _disable_current_modes(), torch.inference_mode(False), torch.no_grad():
        yield
