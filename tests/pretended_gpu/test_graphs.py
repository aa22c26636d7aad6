"""CUDA graphs of the pretended GPU: replays repeat the captured work in place, and misuse raises."""

import pytest
import torch
import warp as wp
from torch import nn

pytestmark = pytest.mark.usefixtures("gpu")


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
    double = tensors["double"]
    with gpu.observe() as events:
        graph.replay()
        graph.replay()
    assert x.tolist() == [3.0, 3.0, 3.0]
    assert double.tolist() == [6.0, 6.0, 6.0]
    assert len(events.graph_launches) == 2
    assert "test_graphs.py" in events.graph_launches[0].location
    x.fill_(10)
    graph.replay()
    assert double.tolist() == [22.0, 22.0, 22.0]


def test_registered_generators_advance_at_every_replay():
    generator, eager = (torch.Generator("cuda").manual_seed(1) for _ in range(2))
    x = torch.zeros(4, device="cuda")
    graph = captured(lambda: x.exponential_(generator=generator), [generator])
    for _ in range(3):
        graph.replay()
        assert torch.equal(x, torch.zeros(4, device="cuda").exponential_(generator=eager))
    with pytest.raises(RuntimeError, match="the generator is not registered with the CUDA graph"):
        captured(lambda: x.exponential_(generator=generator))
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator"):
        captured(lambda: None, [torch.Generator()])


def test_default_generator_advances_at_every_replay():
    torch.manual_seed(2)
    x = torch.zeros(4, device="cuda")
    graph = captured(lambda: x.copy_(torch.rand(4, device="cuda")))
    graph.replay()
    first = x.clone()
    graph.replay()
    assert not torch.equal(first, x)
    torch.manual_seed(2)
    assert torch.equal(first, torch.rand(4, device="cuda"))


def test_numbers_of_the_host_are_frozen():
    x, count, scalar = torch.zeros(2, device="cuda"), [1.0], torch.tensor(10.0)
    graph = captured(lambda: x.add_(count[0]).add_(scalar))
    count[0] = 5.0
    scalar.fill_(100.0)
    graph.replay()
    assert x.tolist() == [11.0, 11.0]


def test_every_scalar_of_the_host_is_frozen_with_its_own_value():
    """Memory of one scalar may be used again for the next one."""
    x = torch.zeros((), device="cuda")

    def work():
        for value in range(20):
            x.add_(torch.tensor(float(value)))

    captured(work).replay()
    assert x.item() == sum(range(20))


@pytest.mark.parametrize(
    "work",
    [
        lambda x: x.sum().item(),
        lambda x: x.cpu(),
        lambda x: torch.ones(3).cuda(),
        lambda x: x[[0, 1]],
        lambda x: x[x > 0],
        lambda x: torch.tensor([1.0], device="cuda"),
        lambda x: torch.cuda.synchronize(),
        lambda x: torch.cuda.current_stream().synchronize(),
        lambda x: x.to("cuda:1"),
        lambda x: torch.ones(3, device="cuda:1"),
        lambda x: torch.Generator("cuda").manual_seed(1),
    ],
)
def test_work_that_a_graph_cannot_hold_raises(work):
    x = torch.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match=r"capturing|not on the stream of the capture"):
        captured(lambda: work(x))
    assert not torch.cuda.is_current_stream_capturing()
    assert torch.cuda.current_device() == 0


def test_copies_of_pinned_memory_are_captured():
    x, pinned = torch.ones(3, device="cuda"), torch.zeros(3).pin_memory()
    graph = captured(lambda: pinned.copy_(x, non_blocking=True))
    assert pinned.tolist() == [0.0, 0.0, 0.0]
    x.fill_(7)
    graph.replay()
    assert pinned.tolist() == [7.0, 7.0, 7.0]


def test_capturing_is_asked_of_the_stream_of_the_current_device():
    x, answers = torch.ones(3, device="cuda:1"), []

    def work():
        answers.append(torch.cuda.is_current_stream_capturing())
        with torch.cuda.device(0):
            answers.append(torch.cuda.is_current_stream_capturing())
        x.add_(1)

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.device(1), torch.cuda.graph(graph):
        work()
    assert answers == [True, False]
    graph.replay()
    assert x.tolist() == [2.0, 2.0, 2.0]


def test_graph_does_not_keep_memory_from_before_the_capture():
    inputs, y = [torch.ones(3, device="cuda")], torch.zeros(3, device="cuda")
    graph = captured(lambda: y.copy_(inputs[0] * 2))
    graph.replay()
    inputs.clear()
    with pytest.raises(RuntimeError, match=r"the graph uses freed memory: torch.float32 \(3,\)"):
        graph.replay()


def test_memory_of_the_capture_is_kept_and_allocated_again_by_no_replay(gpu):
    x, tensors = torch.ones(3, device="cuda"), []
    graph = captured(lambda: tensors.append(torch.zeros(3, device="cuda").add_(x)))
    y = tensors.pop()
    with gpu.observe() as events:
        graph.replay()
        graph.replay()
    assert y.tolist() == [1.0, 1.0, 1.0]  # zeros() is part of the graph
    assert events.allocations == 0


def test_events_in_a_graph_have_a_time_if_they_are_external():
    events = [torch.cuda.Event(enable_timing=True, external=external) for external in (True, True, False)]
    graph = captured(lambda: [event.record() for event in events])
    for begin, end in ((events[0], events[1]), (events[0], events[2])):
        with pytest.raises(RuntimeError, match="must be recorded"):
            begin.elapsed_time(end)
    graph.replay()
    assert events[0].elapsed_time(events[1]) >= 0
    with pytest.raises(RuntimeError, match="must be recorded"):
        events[0].elapsed_time(events[2])


# ---------------------------------------------------------------- training steps


def model(device, **settings):
    """Return a small network and its optimizer."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).to(device)
    return net, torch.optim.Adam(net.parameters(), lr=1e-2, **settings)


def step(net, optimizer, x, y, scale):
    """Take a gradient step with clipping."""
    optimizer.zero_grad(set_to_none=True)
    loss = ((net(x) - y) ** 2 * scale).mean()
    loss.backward()
    norm = nn.utils.get_total_norm([parameter.grad for parameter in net.parameters()])
    nn.utils.clip_grads_with_norm_(net.parameters(), 0.1, norm)
    optimizer.step()
    return loss.detach()


def trained(device, replays, **settings):
    """Return losses, weights and optimizer state after seven steps, the last five replayed or not."""
    net, optimizer = model(device, **settings)
    data = torch.randn(7, 5, 6, generator=torch.Generator().manual_seed(1))
    x, y, scale = torch.zeros(5, 4, device=device), torch.zeros(5, 2, device=device), torch.ones((), device=device)
    results, graph, loss = [], torch.cuda.CUDAGraph(), None
    for number, batch in enumerate(data):
        x.copy_(batch[:, :4])
        y.copy_(batch[:, 4:])
        scale.fill_(1.0 + number)
        if not replays or number < 2:
            loss = step(net, optimizer, x, y, scale)
        else:
            if number == 2:
                with torch.cuda.device(device), torch.cuda.graph(graph):
                    loss = step(net, optimizer, x, y, scale)
            graph.replay()
        results.append(loss.cpu())
    state = [value for slots in optimizer.state.values() for value in slots.values()]
    return [*results, *(tensor.detach().cpu() for tensor in (*net.parameters(), *state))]


def assert_equal(left, right):
    for a, b in zip(left, right, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


@pytest.mark.parametrize("device", ["cuda:0", "cuda:1"])
@pytest.mark.parametrize("settings", [{"fused": True}, {"foreach": True}, {"foreach": False}])
def test_captured_adam_steps_equal_eager_steps(device, settings):
    """Forward, backward, clipping and the optimizer; a replay computes new gradients."""
    captured_steps = trained(device, True, capturable=True, **settings)
    assert not any(tensor.isnan().any() for tensor in captured_steps)
    assert_equal(trained(device, False, capturable=True, **settings), captured_steps)
    if settings == {"fused": True}:  # the other two round differently if they are capturable
        assert_equal(trained("cpu", False, fused=True), captured_steps)


def test_eager_adam_steps_equal_the_host():
    assert_equal(trained("cpu", False), trained("cuda:0", False))


def test_optimizer_with_a_step_counter_on_the_host_is_not_captured():
    net, optimizer = model("cuda:0")
    x, y, factor = (torch.ones(size, device="cuda") for size in ((5, 4), (5, 2), ()))
    step(net, optimizer, x, y, factor)
    with pytest.raises(RuntimeError, match="capturable is False"):
        captured(lambda: step(net, optimizer, x, y, factor))


# ---------------------------------------------------------------- kernels of Warp


@wp.kernel(module="unique")
def add(out: wp.array(dtype=float), amount: float):
    row = wp.tid()
    out[row] = out[row] + amount


def launch_of(x, amount=1.0):
    return wp.launch(
        add, x.shape[0], [wp.from_torch(x), amount], device=wp.device_from_torch(x.device), record_cmd=True
    )


def stream():
    return wp.stream_from_torch(torch.cuda.current_stream())


def test_kernels_are_captured_with_their_arguments_of_that_moment(gpu):
    x = torch.zeros(3, device="cuda")
    command = launch_of(x)
    graph = captured(lambda: command.launch(stream()))
    assert x.tolist() == [0.0, 0.0, 0.0]
    command.set_param_at_index(1, 5.0)
    graph.replay()
    assert x.tolist() == [1.0, 1.0, 1.0]
    command.launch(stream())
    assert x.tolist() == [6.0, 6.0, 6.0]


def test_kernel_on_another_stream_raises():
    command = launch_of(torch.zeros(3, device="cuda"))
    for other in (None, torch.cuda.Stream()):
        with pytest.raises(RuntimeError, match="which is not the current stream of torch"):
            command.launch(other)


def test_kernel_with_an_array_of_another_device_raises():
    x = torch.zeros(3, device="cuda:1")
    for device in ("cuda:0", torch.device("cuda", 0)):
        with pytest.raises(RuntimeError, match="an array on cuda:1 in a launch on"):
            wp.launch(add, 3, [wp.from_torch(x), 1.0], device=wp.device_from_torch(device), record_cmd=True)


def test_launch_makes_its_gpu_the_current_one():
    command = launch_of(torch.zeros(3, device="cuda:1"))
    command.launch(wp.stream_from_torch(torch.cuda.current_stream("cuda:1")))
    assert torch.cuda.current_device() == 1


def test_graph_of_a_kernel_does_not_keep_its_arrays():
    commands = [launch_of(torch.zeros(3, device="cuda"))]
    graph = captured(lambda: commands[0].launch(stream()))
    graph.replay()
    commands.clear()
    with pytest.raises(RuntimeError, match="an array of the launch was freed"):
        graph.replay()
