"""The pretended GPU raises where a GPU raises, counts waits of the host, and leaves nothing after itself.

Otherwise tests that use it would pass with faults of the product. Tests of trainings show where it raises too much.
"""

import copy
import threading

import pytest
import torch
import warp as wp
from torch import nn

from pretended_gpu import activate

CPU, FIRST, SECOND = torch.device("cpu"), torch.device("cuda", 0), torch.device("cuda", 1)
USES_GPU = pytest.mark.usefixtures("gpu")


def test_activation_is_undone_completely():
    with activate():  # starts Warp, and torch imports lazily
        torch.ones(2, device="cuda")
    runtime = wp._src.context.runtime
    patched = (torch, torch.cuda, torch.accelerator, torch.backends.cuda, torch._C, wp, runtime, threading.Thread)
    originals = [dict(vars(module)) for module in patched]
    with pytest.raises(RuntimeError, match="same device"), activate():
        torch.ones(2, device="cuda") + torch.ones(2)
    for module, attributes in zip(patched, originals, strict=True):
        changed = [name for name, value in vars(module).items() if attributes.get(name) is not value]
        assert not changed, module
    assert not torch.cuda.is_available()
    assert not torch.ones(2).is_cuda
    assert not any(str(name).startswith("cuda") for name in runtime.device_map)
    with pytest.raises((AssertionError, RuntimeError), match="CUDA"):
        torch.ones(2, device="cuda")


# ---------------------------------------------------------------- devices


@USES_GPU
def test_tensors_claim_the_device_they_were_made_on():
    x = torch.zeros(3, device="cuda:1", requires_grad=True)
    assert (x.device, x.is_cuda, x.is_cpu, x.get_device()) == (SECOND, True, False, 1)
    for y in (x[1:], x * 2, x.sum(), x.detach(), torch.zeros_like(x), x.new_tensor([1]), copy.deepcopy(x)):
        assert y.device == SECOND
    for y in (x.cpu(), x.to("cpu"), torch.zeros_like(x, device="cpu"), x.detach().type_as(torch.ones(1))):
        assert y.device == CPU
    devices = []
    thread = threading.Thread(target=lambda: devices.append(torch.ones(2, device="cuda").device))
    thread.start()
    thread.join()
    assert devices == [FIRST]


@USES_GPU
def test_current_device_is_where_cuda_without_an_index_is():
    with torch.cuda.device(1):
        assert torch.as_tensor([1], device="cuda").device == SECOND
        assert nn.Linear(2, 2).cuda().weight.device == SECOND
        assert torch.cuda.current_stream().device == SECOND
    assert torch.cuda.current_device() == 0
    with torch.cuda.stream(torch.cuda.Stream("cuda:1")):
        assert torch.cuda.current_device() == 1
    with pytest.raises(RuntimeError, match="invalid device ordinal 2"):
        torch.zeros(1, device="cuda:2")


@USES_GPU
@pytest.mark.parametrize("other", ["cpu", "cuda:1"])
def test_mixed_devices_raise(other):
    x, y = torch.ones(3, device="cuda:0"), torch.ones(3, device=other)
    rows = torch.zeros(3, dtype=torch.int64, device=other)
    for mix in (
        lambda: x + y,
        lambda: x.add_(y),
        lambda: torch.stack([x, y]),
        lambda: torch.where(x > 0, x, y),
        lambda: x.gather(0, rows),
        lambda: x.index_copy_(0, rows, x),
        lambda: x.addcmul_(x, y),
        lambda: torch.cat([x[0:1], y[0:1]]),
        lambda: nn.functional.linear(x, y.expand(3, 3)),
        lambda: torch._foreach_add_([x], [y]),
        lambda: torch.stack([x[0], y[0]]),
        lambda: y[x.long()],
    ):
        with pytest.raises(RuntimeError, match=f"same device, but found .*{other}"):
            mix()


@USES_GPU
def test_devices_are_checked_in_backward_passes():
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, device):
            ctx.device = device
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            assert gradient.is_cuda
            return gradient * torch.ones(3, device=ctx.device), None

    x = torch.ones(3, device="cuda", requires_grad=True)
    Scaled.apply(x, "cuda").sum().backward()
    assert x.grad.device == FIRST
    for wrong in ("cpu", None, "cuda:1"):
        with pytest.raises(RuntimeError, match="same device"):
            Scaled.apply(x, wrong).sum().backward()


@USES_GPU
def test_tensors_of_a_gpu_are_no_arrays():
    for read in (torch.Tensor.numpy, torch.Tensor.__array__):
        with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
            read(torch.ones(3, device="cuda"))


@USES_GPU
def test_generator_of_another_device_raises():
    x = torch.ones(3, device="cuda:1")
    for device in ("cpu", "cuda:0"):
        with pytest.raises(RuntimeError, match=f"expected a generator of cuda:1, found one of {device}"):
            x.exponential_(generator=torch.Generator(device))
    with pytest.raises(RuntimeError, match="expected a generator of cpu, found one of cuda:0"):
        torch.randperm(3, generator=torch.Generator("cuda"))


# ---------------------------------------------------------------- synchronization


def test_waits_of_the_host_are_counted_and_raise_in_the_debug_mode(gpu):
    x = torch.ones(3, device="cuda")
    rows, mask = [0, 2], x > 0
    for kind, wait in (
        ("_local_scalar_dense", lambda: x.sum().item()),
        ("_local_scalar_dense", lambda: bool(x.sum() > 0)),
        ("copy from cuda:0 to cpu", x.cpu),
        ("copy from cpu to cuda:0", lambda: torch.ones(3).cuda()),
        ("copy from cpu to cuda:0", lambda: x[rows]),
        ("copy from cpu to cuda:0", lambda: torch.tensor([1, 2], device="cuda")),
        ("nonzero", x.nonzero),
        ("equal", lambda: torch.equal(x, x)),
        ("tolist", x.tolist),
        ("index with a mask", lambda: x[mask]),
        ("index_put_ with a mask", lambda: x.index_put_((mask,), x.clone())),
        ("Stream.synchronize", lambda: torch.cuda.current_stream().synchronize()),
    ):
        with gpu.observe() as events:
            wait()
        assert [event.kind for event in events.synchronizations] == [kind]
        assert "test_pretended_gpu.py" in events.synchronizations[0].location
        torch.cuda.set_sync_debug_mode("error")
        with pytest.raises(RuntimeError, match=f"called a synchronizing CUDA operation: {kind}"):
            wait()
        torch.cuda.set_sync_debug_mode("default")


def test_allocations_are_counted(gpu):
    x = torch.ones(3, device="cuda")
    with gpu.observe() as events:
        x[1:].mul_(2)
    assert events.allocations == 0
    with gpu.observe() as events:
        x * 2
        torch.zeros(3, device="cuda")
        torch.zeros(3)
    assert events.allocations == 2


@USES_GPU
def test_events_belong_to_a_device_and_have_no_time_in_a_graph():
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    with torch.cuda.device(1):
        end.record()
        with pytest.raises(RuntimeError, match="does not match"):
            begin.record()
    with pytest.raises(RuntimeError, match="events of cuda:0 and cuda:1"):
        begin.elapsed_time(end)
    event = torch.cuda.Event(enable_timing=True)
    captured(event.record).replay()
    with pytest.raises(RuntimeError, match="must be recorded"):
        begin.elapsed_time(event)


# ---------------------------------------------------------------- graphs


def captured(work, generators=()):
    """Return a graph of some work."""
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        work()
    return graph


def test_capture_runs_nothing_and_a_replay_runs_everything(gpu):
    x, tensors = torch.ones(3, device="cuda"), {}

    def work():
        x.add_(1)
        tensors["double"] = x * 2

    graph = captured(work)
    assert x.tolist() == [1.0, 1.0, 1.0]
    assert tensors["double"].isnan().all()
    with gpu.observe() as events:
        graph.replay()
        graph.replay()
    assert x.tolist() == [3.0, 3.0, 3.0]
    assert tensors["double"].tolist() == [6.0, 6.0, 6.0]
    assert len(events.graph_launches) == 2
    assert events.allocations == 0


@USES_GPU
def test_generator_that_a_graph_does_not_know_raises():
    x = torch.zeros(4, device="cuda")
    with pytest.raises(RuntimeError, match="the generator is not registered with the CUDA graph"):
        captured(lambda: x.exponential_(generator=torch.Generator("cuda")))
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator"):
        captured(lambda: None, [torch.Generator()])


@USES_GPU
def test_numbers_of_the_host_are_frozen():
    x, count, scalar = torch.zeros(2, device="cuda"), [1.0], torch.tensor(10.0)
    graph = captured(lambda: x.add_(count[0]).add_(scalar))
    count[0] = 5.0
    scalar.fill_(100.0)
    graph.replay()
    assert x.tolist() == [11.0, 11.0]


CANNOT_CAPTURE = {
    "read": lambda x: x.sum().item(),
    "copy to the host": lambda x: x.cpu(),
    "copy from the host": lambda x: torch.ones(3).cuda(),
    "list as index": lambda x: x[[0, 1]],
    "mask as index": lambda x: x[x > 0],
    "tensor of a list": lambda x: torch.tensor([1.0], device="cuda"),
    "synchronization": lambda x: torch.cuda.synchronize(),
    "synchronization of the stream": lambda x: torch.cuda.current_stream().synchronize(),
    "copy to another GPU": lambda x: x.to("cuda:1"),
    "allocation on another GPU": lambda x: torch.ones(3, device="cuda:1"),
    "new seed": lambda x: torch.Generator("cuda").manual_seed(1),
}


@USES_GPU
@pytest.mark.parametrize("work", CANNOT_CAPTURE)
def test_work_that_a_graph_cannot_hold_raises(work):
    x = torch.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match=r"capturing|not on the stream of the capture"):
        captured(lambda: CANNOT_CAPTURE[work](x))
    assert not torch.cuda.is_current_stream_capturing()
    assert torch.cuda.current_device() == 0


@USES_GPU
def test_optimizer_with_a_step_counter_on_the_host_is_not_captured():
    net = nn.Linear(4, 2).cuda()
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(5, 4, device="cuda")).sum().backward()
    optimizer.step()
    with pytest.raises(RuntimeError, match="capturable is False"):
        captured(optimizer.step)


@USES_GPU
def test_graph_does_not_keep_memory_from_before_the_capture():
    inputs, y = [torch.ones(3, device="cuda")], torch.zeros(3, device="cuda")
    graph = captured(lambda: y.copy_(inputs[0] * 2))
    graph.replay()
    inputs.clear()
    with pytest.raises(RuntimeError, match=r"the graph uses freed memory: torch.float32 \(3,\)"):
        graph.replay()


# ---------------------------------------------------------------- kernels of Warp


@wp.kernel(module="unique")
def add(out: wp.array(dtype=float), amount: float):
    row = wp.tid()
    out[row] = out[row] + amount


def launch_of(x, device=None):
    return wp.launch(add, 3, [wp.from_torch(x), 1.0], device=device or f"{x.device}", record_cmd=True)


@USES_GPU
def test_kernels_are_captured_with_their_arguments_of_that_moment():
    x = torch.zeros(3, device="cuda:0")
    command = launch_of(x)
    graph = captured(lambda: command.launch(wp.stream_from_torch(torch.cuda.current_stream())))
    assert x.tolist() == [0.0, 0.0, 0.0]
    command.set_param_at_index(1, 5.0)
    graph.replay()
    assert x.tolist() == [1.0, 1.0, 1.0]


@USES_GPU
def test_kernel_on_another_stream_or_device_raises():
    command = launch_of(torch.zeros(3, device="cuda:0"))
    for other in (None, torch.cuda.Stream()):
        with pytest.raises(RuntimeError, match="which is not the current stream of torch"):
            command.launch(other)
    with pytest.raises(RuntimeError, match="an array on cuda:1 in a launch on"):
        launch_of(torch.zeros(3, device="cuda:1"), "cuda:0")


@USES_GPU
def test_launch_makes_its_gpu_the_current_one():
    command = launch_of(torch.zeros(3, device="cuda:1"))
    command.launch(wp.stream_from_torch(torch.cuda.current_stream("cuda:1")))
    assert torch.cuda.current_device() == 1


@USES_GPU
def test_graph_of_a_kernel_does_not_keep_its_arrays():
    commands = [launch_of(torch.zeros(3, device="cuda:0"))]
    graph = captured(lambda: commands[0].launch(wp.stream_from_torch(torch.cuda.current_stream())))
    graph.replay()
    commands.clear()
    with pytest.raises(RuntimeError, match="an array of the launch was freed"):
        graph.replay()
