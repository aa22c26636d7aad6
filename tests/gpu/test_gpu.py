"""Tests of a CUDA device: graphs equal eager steps, CPU and GPU agree, no host synchronization."""

import pytest
import torch
from small_environments import SMALL

from gpu_envs import errors
from gpu_envs.runtime import kernels
from gpu_envs.runtime.factory import make_core

pytestmark = pytest.mark.gpu
SCHEDULES = pytest.mark.parametrize("schedule", kernels.SCHEDULES)


def make(env_id, device="cuda", num_envs=64, **settings):
    """Return a small core without fused multiply-add, whose results differ between kernels and devices."""
    return make_core(env_id, num_envs, device, **{"seed": 0, "fuse_fp": False, **SMALL[env_id], **settings})


def assert_close(left, right):
    """Compare flags and counts exactly, floats up to the rounding of another math library."""
    for a, b in zip(left, right, strict=True):
        a, b = a.cpu(), b.cpu()
        if a.dtype.is_floating_point:
            torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)
        else:
            assert torch.equal(a, b)


def assert_devices_agree(cpu, gpu, steps=30):
    """Compare random play on both devices; copying the state before every step keeps rounding from adding up."""
    cpu.reset()
    gpu.reset()
    agree = total = 0
    for _ in range(steps):
        gpu.set_state({name: tensor.cuda() for name, tensor in cpu.get_state().items()})
        action = cpu.sample_actions()
        assert_close([action], [gpu.sample_actions()])
        left, right = cpu.step(action), gpu.step(action.cuda())
        near = [(a - b.cpu()).abs().flatten(1).amax(1) < 1e-4 for a, b in zip(left[:2], right[:2], strict=True)]
        same = [(a == b.cpu()).flatten(1).all(1) for a, b in zip(left[2:4], right[2:4], strict=True)]
        same += [(left[4][name] == right[4][name].cpu()).flatten(1).all(1) for name in ("alive", "valid")]
        agree += int(torch.stack(near + same).all(0).sum())
        total += cpu.num_envs
    assert agree >= 0.999 * total  # a distance at a threshold may fall on either side
    gpu.raise_pending_errors()


def assert_schedules_agree(*cores, steps=40):
    """Compare random play in some schedules bit for bit."""
    for core in cores:
        core.reset()
    for _ in range(steps):
        action = cores[0].sample_actions()
        expected, *results = (core.step(action)[:4] for core in cores)
        for result in results:
            assert all(map(torch.equal, expected, result))


def assert_play_is_steps(stepped, played):
    """Compare random play, eager and captured, with the same number of steps."""
    stepped.reset()
    played.reset()
    played.random_rollout(7)
    replay = played.capture(lambda: played.random_rollout(5))
    replay()
    for _ in range(12):
        stepped.step(stepped.sample_actions())
    left, right = stepped.get_state(), played.get_state()
    for name in left:
        assert torch.equal(left[name], right[name]), name


@SCHEDULES
def test_cpu_equals_gpu_step_by_step(env_id, schedule):
    assert_devices_agree(make(env_id, "cpu"), make(env_id, schedule=schedule))


def test_schedules_agree_on_the_gpu(env_id):
    assert_schedules_agree(*(make(env_id, schedule=schedule) for schedule in kernels.SCHEDULES))


@SCHEDULES
def test_graph_replay_equals_eager(env_id, schedule):
    """A step with its actions drawn, captured once and replayed, plays like eager steps."""
    eager, captured = (make(env_id, schedule=schedule, reuse_buffers=True) for _ in range(2))
    eager.reset()
    captured.reset()
    captured.set_state(eager.get_state())
    replay = captured.capture(lambda: captured.step(captured.sample_actions()))
    for _ in range(30):
        eager.step(eager.sample_actions())
        replay()
        for name in ("obs", "reward", "terminated", "truncated", "alive"):
            assert torch.equal(getattr(eager, name), getattr(captured, name)), name


@SCHEDULES
def test_random_play_is_step_after_step(env_id, schedule):
    """One kernel for many steps."""
    assert_play_is_steps(*(make(env_id, schedule=schedule, reuse_buffers=True) for _ in range(2)))


@SCHEDULES
def test_block_size_changes_no_result(schedule):
    small, large = (make("SimpleTag-v0", num_envs=3000, schedule=schedule, block_dim=size) for size in (32, 256))
    assert {size for sizes in small.block_dims.values() for size in sizes} == {32}
    assert_schedules_agree(small, large)


@pytest.mark.parametrize(("message", "call"), [("reuse_buffers", "step"), ("reset_mask", "reset")])
def test_calls_that_a_graph_cannot_hold_raise(message, call):
    core = make("SimpleTag-v0", reuse_buffers=call == "reset")
    core.reset()
    arguments = (core.sample_actions(),) if call == "step" else ()
    core.step(core.sample_actions())
    with pytest.raises(errors.CaptureError, match=message), torch.cuda.graph(torch.cuda.CUDAGraph()):
        getattr(core, call)(*arguments)


def test_steps_do_not_wait_or_allocate(env_id):
    core = make(env_id, reuse_buffers=True)
    core.reset()
    action = core.sample_actions()
    core.step(action)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    allocated = torch.cuda.memory_stats()["allocation.all.allocated"]
    try:
        for _ in range(5):
            core.step(core.sample_actions())
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == allocated


def test_works_on_any_stream(env_id):
    """Kernels follow torch's current stream, so results are ordered with the tensors around them."""
    first, second = make(env_id), make(env_id)
    first.reset()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        second.reset()
        for _ in range(20):
            right = second.step(second.sample_actions() * 1)
    stream.synchronize()
    for _ in range(20):
        left = first.step(first.sample_actions())
    assert_close(left[:4], right[:4])


def test_invalid_action_raises_in_a_later_call():
    core = make("SimpleTag-v0")
    core.reset()
    action = core.sample_actions()
    action[5, 1] = 9
    core.step(action)
    with pytest.raises(errors.ActionError, match="adversary_1 in world 5"):
        core.raise_pending_errors()
    core.step(core.sample_actions())
    action[5, 1] = -1
    core.step(action)
    torch.cuda.synchronize()
    with pytest.raises(errors.ActionError, match="world 5"):
        core.step(core.sample_actions())


def test_captured_rollout_with_policy_equals_eager_steps():
    """The graph holds the network, sampling and eight steps."""

    def rollout(seed):
        core = make("SimpleTag-v0", reuse_buffers=True)
        core.reset()
        torch.manual_seed(0)
        net = torch.nn.Linear(core.obs_width, 5).cuda().requires_grad_(False)
        generator = torch.Generator("cuda").manual_seed(seed)
        total = torch.zeros(core.num_envs, core.num_agents, device="cuda")

        def play():
            for _ in range(8):
                noise = torch.rand((core.num_envs, core.num_agents, 5), generator=generator, device="cuda")
                core.action_buffer.copy_((net(core.obs) - (-noise.log()).log()).argmax(-1))
                core.step(core.action_buffer)
                total.add_(core.reward)

        return core, play, generator, total

    eager, play, _, expected = rollout(3)
    captured, record, generator, total = rollout(3)
    replay = captured.capture(record, [generator])
    total.zero_()  # the warm-up wrote there
    for _ in range(5):
        play()
        replay()
    assert torch.equal(eager.obs, captured.obs)
    assert torch.equal(expected, total)
    captured.raise_pending_errors()


def test_failed_capture_leaves_worlds_unchanged():
    core = make("SimpleTag-v0", reuse_buffers=True)
    core.reset()
    state = core.get_state()

    def play():
        core.step(core.sample_actions())
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        core.capture(play)
    assert all(torch.equal(state[name], tensor) for name, tensor in core.get_state().items())
