"""A captured function keeps all memory that its replays use, on a CPU and with a stand-in for a CUDA graph."""

import contextlib
import gc
import weakref

import pytest
import torch

from gpu_envs.runtime.cuda_graph import WARM_UPS
from gpu_envs.runtime.factory import make_core


class Graph:
    """Stand-in for torch.cuda.CUDAGraph that counts."""

    def __init__(self):
        self.replays = 0
        self.generators = 0

    def register_generator_state(self, generator):
        self.generators += 1

    def replay(self):
        self.replays += 1


class Stream:
    def wait_stream(self, other):
        pass


@pytest.fixture
def pretended_graphs(monkeypatch):
    @contextlib.contextmanager
    def nothing(*args, **kwargs):
        yield

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: Stream())
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    for name in ("device", "graph", "stream"):
        monkeypatch.setattr(torch.cuda, name, nothing)


def captured(on_gpu):
    """Return a captured function, weak references to what it needs, and its number of calls."""
    core = make_core("SimpleTag-v0", 2, "cpu", seed=0, reuse_buffers=True)
    core.reset()
    core._on_gpu = on_gpu
    net = torch.nn.Linear(core.obs_width, 5).requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    calls = []

    def play():
        core.action_buffer.copy_(net(core.obs).argmax(-1))
        core.step(core.action_buffer)
        calls.append(int(torch.randint(9, (), generator=generator)))

    replay = core.capture(play, [generator])
    params = core._buffers.params
    core.set_params(good_size=torch.tensor([0.05, 0.06]))  # moves the parameters; the graph still reads the old ones
    assert core._buffers.params is not params
    owned = {"core": core, "play": play, "net": net, "weight": net.weight, "obs": core.obs, "params": params}
    return replay, {name: weakref.ref(tensor) for name, tensor in owned.items()}, calls


def dead(references):
    gc.collect()
    return {name for name, reference in references.items() if reference() is None}


def test_captured_function_keeps_what_it_needs_on_a_cpu():
    replay, references, calls = captured(on_gpu=False)
    assert not dead(references)
    replay()
    assert len(calls) == 1
    assert replay.graph is None
    del replay
    assert dead(references) == set(references)


@pytest.mark.usefixtures("pretended_graphs")
def test_captured_graph_keeps_what_it_needs():
    replay, references, calls = captured(on_gpu=True)
    assert len(calls) == WARM_UPS + 1
    references["graph"] = weakref.ref(replay.graph)
    assert not dead(references)
    replay()
    replay()
    assert replay.graph.replays == 2
    assert replay.graph.generators == 1
    assert len(calls) == WARM_UPS + 1
    del replay
    assert dead(references) == set(references)


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.usefixtures("pretended_graphs")
def test_captured_function_keeps_core_and_generators_that_the_function_does_not_name(on_gpu):
    core = make_core("SimpleTag-v0", 2, "cpu", seed=0, reuse_buffers=True)
    core.reset()
    core._on_gpu = on_gpu
    generator = torch.Generator()
    references = {"core": weakref.ref(core), "generator": weakref.ref(generator)}
    replay = core.capture(lambda: None, [generator])
    del core, generator
    assert not dead(references)
    del replay
    assert dead(references) == set(references)


@pytest.mark.usefixtures("pretended_graphs")
def test_no_garbage_is_collected_inside_a_capture():
    """A graph or pinned memory that is freed inside a capture breaks it."""

    class Cycle:
        def __init__(self):
            self.itself = self

    core = make_core("SimpleTag-v0", 2, "cpu", seed=0, reuse_buffers=True)
    core.reset()
    core._on_gpu = True
    was_enabled, calls = gc.isenabled(), []
    cycle = Cycle()
    gc.collect()  # it is of the oldest generation now, which is hardly ever collected
    garbage = weakref.ref(cycle)
    del cycle
    core.capture(lambda: calls.append((gc.isenabled(), garbage() is None)), [])
    assert calls[-1] == (False, True)
    assert calls[0][0] == gc.isenabled() == was_enabled
