"""The pretended GPU raises where a GPU raises, counts waits of the host, and leaves nothing behind."""

import copy
import threading

import pytest
import torch
import warp as wp
from torch import nn

from pretended_gpu import activate

CPU, FIRST, SECOND = torch.device("cpu"), torch.device("cuda", 0), torch.device("cuda", 1)


def test_activation_is_undone_completely():
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


def test_streams_and_generators_outlive_an_activation():
    """The product caches environments, with the streams of their launches."""
    streams = []
    for _ in range(2):
        with activate() as gpu:
            assert gpu.synchronizations == []
            assert not torch.cuda.is_initialized()
            streams.append(torch.cuda.current_stream("cuda:1"))
            torch.ones(1, device="cuda").item()
            torch.cuda.set_device(1)
            with pytest.raises(RuntimeError, match="active already"), activate():
                pass
    assert streams[0] is streams[1]


@pytest.mark.usefixtures("gpu")
class TestDevices:
    def test_tensors_claim_the_device_they_were_made_on(self):
        x = torch.zeros(3, device="cuda:1", requires_grad=True)
        assert (x.device, x.is_cuda, x.is_cpu, x.get_device()) == (SECOND, True, False, 1)
        assert x.sum().device == SECOND
        for y in (x[1:], x * 2, x.detach(), x.double(), torch.zeros_like(x), x.new_ones(2), copy.deepcopy(x)):
            assert y.device == SECOND
        for y in (x.cpu(), x.to("cpu"), torch.zeros_like(x, device="cpu"), x.detach().type_as(torch.ones(1))):
            assert y.device == CPU
        assert torch.zeros(3).cuda().device == FIRST
        assert x.new_tensor([1, 2]).device == SECOND

    def test_gradients_have_the_device_of_their_parameters(self):
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).cuda()
        net(torch.ones(2, 3, device="cuda")).sum().backward()
        assert {parameter.grad.device for parameter in net.parameters()} == {FIRST}
        x = torch.ones(3, requires_grad=True)
        (x.cuda() * 2).sum().backward()
        assert x.grad.device == CPU
        assert torch.equal(x.grad, torch.full((3,), 2.0))

    def test_current_device_is_where_cuda_without_an_index_is(self):
        with torch.cuda.device(1):
            assert torch.as_tensor([1], device="cuda").device == SECOND
            assert nn.Linear(2, 2).cuda().weight.device == SECOND
            assert torch.cuda.current_stream().device == SECOND
        assert torch.cuda.current_device() == 0
        with torch.cuda.stream(torch.cuda.Stream("cuda:1")):
            assert torch.cuda.current_device() == 1
        with pytest.raises(RuntimeError, match="invalid device ordinal 2"):
            torch.zeros(1, device="cuda:2")

    def test_meta_tensors_have_no_memory_until_they_get_some(self):
        with torch.device("meta"):
            net = nn.Linear(3, 2)
        assert net.weight.is_meta
        assert net.to_empty(device="cuda:1").weight.device == SECOND

    def test_torch_allocates_where_the_arguments_are(self):
        assert torch.combinations(torch.arange(4, device="cuda:1"), 2).device == SECOND
        assert nn.functional.one_hot(torch.arange(4, device="cuda:1")).device == SECOND

    @pytest.mark.parametrize("other", ["cpu", "cuda:1"])
    def test_mixed_devices_raise(self, other):
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
        ):
            with pytest.raises(RuntimeError, match=f"same device, but found .*{other}"):
                mix()

    def test_devices_are_checked_in_backward_passes(self):
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

    def test_zeros_for_missing_gradients_have_the_device_of_the_others(self):
        x = torch.ones(3, 4, device="cuda", requires_grad=True)
        first, _ = x.split([2, 2], dim=1)
        torch.cat([first, first * 2], dim=1).sum().backward()
        assert x.grad.device == FIRST
        assert x.grad[:, 2:].sum() == 0

    def test_scalars_of_the_host_are_accepted_by_elementwise_operations_only(self):
        x, scalar = torch.ones(3, device="cuda"), torch.tensor(2.0)
        assert (x * scalar).device == FIRST
        assert x.fill_(scalar).device == FIRST
        assert torch.where(x > 0, scalar, x).device == FIRST
        with pytest.raises(RuntimeError, match="same device"):
            torch.stack([x[0], scalar])
        with pytest.raises(RuntimeError, match="same device"):
            torch.ones(3) * torch.tensor(2.0, device="cuda")

    def test_index_of_a_gpu_in_a_tensor_of_the_host_raises(self):
        with pytest.raises(RuntimeError, match="same device"):
            torch.ones(3)[torch.zeros(1, dtype=torch.int64, device="cuda")]

    def test_tensors_of_a_gpu_are_no_arrays(self):
        for read in (torch.Tensor.numpy, torch.Tensor.__array__):
            with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
                read(torch.ones(3, device="cuda"))

    def test_threads_use_the_pretended_gpu(self):
        devices = []
        thread = threading.Thread(target=lambda: devices.append(torch.ones(2, device="cuda").device))
        thread.start()
        thread.join()
        assert devices == [FIRST]


@pytest.mark.usefixtures("gpu")
class TestGenerators:
    def test_generator_of_another_device_raises(self):
        assert torch.Generator("cuda").device == FIRST
        assert isinstance(torch.default_generator, torch.Generator)
        x = torch.ones(3, device="cuda:1")
        for device in ("cpu", "cuda:0"):
            with pytest.raises(RuntimeError, match=f"expected a generator of cuda:1, found one of {device}"):
                x.exponential_(generator=torch.Generator(device))
        with pytest.raises(RuntimeError, match="expected a generator of cpu, found one of cuda:0"):
            torch.randperm(3, generator=torch.Generator("cuda"))

    def test_generator_gives_the_numbers_of_the_host(self):
        host, device = (torch.Generator(name).manual_seed(3) for name in ("cpu", "cuda"))
        x = torch.rand(5, generator=device, device="cuda")
        assert torch.equal(torch.rand(5, generator=host), x.cpu())

    def test_devices_have_default_generators_of_their_own(self):
        torch.manual_seed(5)
        first, host = torch.rand(3, device="cuda"), torch.rand(3)
        repeated = torch.rand(3, device="cuda:1")
        assert torch.equal(first.cpu(), host)
        assert torch.equal(repeated.cpu(), host)
        assert not torch.equal(torch.rand(3, device="cuda").cpu(), host)


class TestSynchronizations:
    def test_waits_of_the_host_are_counted_and_raise_in_the_debug_mode(self, gpu):
        x = torch.ones(3, device="cuda")
        rows, mask = [0, 2], x > 0
        waits = {
            "_local_scalar_dense": lambda: x.sum().item(),
            "copy from cuda:0 to cpu": x.cpu,
            "copy from cpu to cuda:0": lambda: torch.ones(3).cuda(),
            "nonzero": x.nonzero,
            "equal": lambda: torch.equal(x, x),
            "tolist": x.tolist,
            "index with a mask": lambda: x[mask],
            "index_put_ with a mask": lambda: x.index_put_((mask,), x.clone()),
            "Stream.synchronize": lambda: torch.cuda.current_stream().synchronize(),
        }
        other_waits = {
            "_local_scalar_dense ": lambda: bool(x.sum() > 0),
            "copy from cpu to cuda:0 ": lambda: x[rows],
            " copy from cpu to cuda:0": lambda: torch.tensor([1, 2], device="cuda"),
        }
        for kind, wait in [*waits.items(), *other_waits.items()]:
            with gpu.observe() as events:
                wait()
            assert [event.kind for event in events.synchronizations] == [kind.strip()]
            assert "test_pretended_gpu.py" in events.synchronizations[0].location
            torch.cuda.set_sync_debug_mode("error")
            with pytest.raises(RuntimeError, match=f"called a synchronizing CUDA operation: {kind.strip()}"):
                wait()
            torch.cuda.set_sync_debug_mode("default")

    def test_work_of_the_device_does_not_wait(self, gpu):
        x, mask = torch.ones(3, device="cuda"), torch.tensor([True, False, True], device="cuda")
        pinned = torch.zeros(3).pin_memory()
        assert pinned.is_pinned()
        torch.cuda.set_sync_debug_mode("error")
        with gpu.observe() as events:
            x[mask] = 2.0
            x[torch.zeros(2, dtype=torch.int64, device="cuda")] = 3.0 * x[:2]
            x[1:] = 4.0
            x.masked_fill_(mask, 0.0).clamp_(0, 1)
            torch.where(mask, x, 0.0)
            pinned.copy_(x, non_blocking=True)
            x.copy_(pinned, non_blocking=True)
            x.to("cuda:1", non_blocking=True)
            torch.full((2,), 1.0, device="cuda")
            torch.cuda.current_stream().wait_stream(torch.cuda.Stream())
        assert events.synchronizations == []
        assert events.kernel_launches > 8
        torch.cuda.set_sync_debug_mode("default")
        assert x.tolist() == [0.0, 1.0, 0.0]
        assert torch.equal(pinned, torch.tensor([0.0, 1.0, 0.0]))

    def test_allocations_are_counted(self, gpu):
        x = torch.ones(3, device="cuda")
        with gpu.observe() as events:
            x.add_(1)
            x[1:].mul_(2)
        assert events.allocations == 0
        with gpu.observe() as events:
            x * 2
            torch.zeros(3, device="cuda")
            torch.zeros(3)
        assert events.allocations == 2


def test_events_measure_time_and_belong_to_a_device():
    with activate():
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        end.record()
        assert begin.elapsed_time(end) >= 0
        other = torch.cuda.Event(enable_timing=True)
        with torch.cuda.device(1):
            other.record()
            with pytest.raises(RuntimeError, match="does not match"):
                end.record()
        with pytest.raises(RuntimeError, match="events of cuda:0 and cuda:1"):
            begin.elapsed_time(other)
