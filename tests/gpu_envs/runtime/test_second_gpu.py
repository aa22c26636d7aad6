"""Torch's current GPU is the same before and after work on another one, with stand-ins for torch.cuda and Warp."""

import contextlib
from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import warp as wp

from gpu_envs.rendering import scene
from gpu_envs.runtime.factory import make_core
from gpu_envs.utils import devices
from gpu_envs.utils.devices import current_device_kept

ONE = torch.device("cuda", 1)


@pytest.fixture
def gpus(monkeypatch):
    """Pretend two GPUs; `current` is torch's current GPU, `entered` lists the contexts of torch."""
    state = SimpleNamespace(current=0, entered=[], launched_on=deque())

    @contextlib.contextmanager
    def device(target):
        previous, state.current = state.current, target.index
        state.entered.append(target.index)
        try:
            yield
        finally:
            state.current = previous

    monkeypatch.setattr(torch.cuda, "current_device", lambda: state.current)
    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: SimpleNamespace(cuda_stream=device.index))
    monkeypatch.setattr(devices, "_streams", {})
    monkeypatch.setattr(wp, "stream_from_torch", lambda stream: stream.cuda_stream)
    properties = SimpleNamespace(multi_processor_count=132)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    return state


class Command:
    """A recorded launch, after which the GPU of the launch is the current one, as with Warp."""

    def __init__(self, gpus):
        self.gpus = gpus

    def launch(self, stream):
        self.gpus.launched_on.append((self.gpus.current, stream))
        self.gpus.current = 1

    def set_param_at_index(self, index, value):
        pass


def on_second_gpu(gpus, schedule="fused"):
    """Return a launcher whose device is the second GPU and whose launches are stand-ins."""
    gpu_launcher = make_core("SimpleTag-v0", 2, "cpu", schedule=schedule)._launcher
    gpu_launcher.device = SimpleNamespace(is_cuda=True, is_cpu=False)
    gpu_launcher._torch_device = ONE
    gpu_launcher._record = lambda name: [[Command(gpus)]]
    return gpu_launcher


@pytest.mark.parametrize("schedule", ["fused", "phased"])
def test_launches_keep_the_current_gpu(gpus, schedule):
    gpu_launcher = on_second_gpu(gpus, schedule)
    gpu_launcher.run("step")
    gpu_launcher.run("reset")
    gpu_launcher.play(3)
    assert gpus.current == 0
    assert set(gpus.launched_on) == {(1, 1)}


def test_step_keeps_the_current_gpu(gpus):
    gpu_launcher = on_second_gpu(gpus)
    gpu_launcher.step(gpu_launcher._buffer, reuse=True)
    gpu_launcher.step(gpu_launcher._buffer.clone(), reuse=False)
    assert gpus.current == 0
    assert list(gpus.launched_on) == [(1, 1)] * 2


def test_recording_keeps_the_current_gpu(gpus, monkeypatch):
    """Recording a launch loads its kernels, which makes their GPU the current one."""

    def record(*args, **kwargs):
        gpus.current = 1
        return Command(gpus)

    gpu_launcher = on_second_gpu(gpus)
    del gpu_launcher._record
    monkeypatch.setattr(wp, "launch", record)
    gpu_launcher.launches("step")
    gpu_launcher.launches("play")
    assert gpus.current == 0


def test_launch_on_the_current_gpu_enters_no_context(gpus):
    gpus.current = 1
    on_second_gpu(gpus).run("step")
    assert gpus.entered == []
    assert list(gpus.launched_on) == [(1, 1)]


def test_cpu_needs_no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: pytest.fail("CUDA was started"))
    with current_device_kept(torch.device("cpu")):
        core = make_core("SimpleTag-v0", 2, "cpu")
        core.reset()
        core.step(core.sample_actions())
        assert core.render_frames(size=16).dtype == np.uint8


def test_frames_keep_the_current_gpu(gpus, monkeypatch):
    """The rasterizer launches outside of the environment's launcher."""
    core = make_core("SimpleTag-v0", 2, "cpu")
    core.reset()
    drawn = core.definition.draw(core, torch.tensor([0]))
    original = current_device_kept
    monkeypatch.setattr(scene, "current_device_kept", lambda device: original(ONE))
    monkeypatch.setattr(wp, "launch", lambda *args, **kwargs: SimpleNamespace(launch=Command(gpus).launch))
    scene.rasterize(drawn, 16)
    assert gpus.current == 0
    assert list(gpus.launched_on) == [(1, None)]
