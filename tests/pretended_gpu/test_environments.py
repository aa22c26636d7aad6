"""Environments on two pretended GPUs: parts of a batch, recordings, frames, states that move between devices."""

import numpy as np
import pytest
import torch
import warp as wp
from small_environments import SMALL

from gpu_envs.errors import ActionError
from gpu_envs.runtime.factory import make_core
from gpu_envs.utils import devices
from pretended_gpu.runs import DEVICES, assert_equal_states, on_host
from trainers.base.transition import Transition
from trainers.buffers.rollout_buffer import RolloutBuffer

IDS = ("SimpleTag-v0", "TagContinuous-v0", "ConnectFour-v0", "Pendulum-v1")
ENVS = pytest.mark.parametrize("env_id", IDS)
pytestmark = pytest.mark.usefixtures("gpu")


def make(env_id, device, num_envs=6, **settings):
    return make_core(env_id, num_envs, device, **{"seed": 0, **SMALL[env_id], **settings})


@ENVS
def test_worlds_of_two_gpus_equal_those_of_the_cpu(env_id):
    reference = make(env_id, "cpu")
    parts = [make(env_id, device, 3, env_offset=3 * index) for index, device in enumerate(DEVICES)]
    assert torch.equal(reference.reset()[0], torch.cat([part.reset()[0].cpu() for part in parts]))
    for _ in range(12):
        expected = reference.step(reference.sample_actions())
        results = [part.step(part.sample_actions()) for part in parts]
        assert [part.obs.device for part in parts] == [torch.device(device) for device in DEVICES]
        for tensor, *halves in zip(expected[:4], *(result[:4] for result in results), strict=True):
            assert torch.equal(tensor, torch.cat([half.cpu() for half in halves]))
    assert torch.cuda.current_device() == 0


@ENVS
@pytest.mark.parametrize("schedule", ["fused", "phased"])
def test_state_moves_between_devices(env_id, schedule, gpu):
    cores = [make(env_id, device, schedule=schedule) for device in ("cpu", *DEVICES)]
    for core in cores:
        core.reset()
    for core, following in zip(cores, [*cores[1:], cores[0]], strict=True):
        for _ in range(5):
            core.step(core.sample_actions())
        following.set_state({name: tensor.to(following.device) for name, tensor in core.get_state().items()})
    alone = make(env_id, "cpu", schedule=schedule)
    alone.reset()
    for _ in range(15):
        alone.step(alone.sample_actions())
    assert_equal_states(on_host(alone.get_state()), on_host(cores[0].get_state()))
    assert gpu.current_device == 0


@pytest.mark.variations(quick=2)
@ENVS
def test_recorded_episodes_and_their_frames_equal_the_cpu(env_id):
    recorded = []
    for device in ("cpu", *DEVICES):
        core = make(env_id, device)
        core.reset()
        with core.record_episodes([0, 4]) as recorder:
            for _ in range(20):
                core.step(core.sample_actions())
            episodes = recorder.take()
        assert len(episodes) >= 2
        recorded.append(([on_host(episode.tensors()) for episode in episodes], core.render_frames((1, 3), 32)))
    for episodes, frames in recorded[1:]:
        for left, right in zip(recorded[0][0], episodes, strict=True):
            assert_equal_states(left, right)
        assert np.array_equal(recorded[0][1], frames)


def test_captured_steps_on_the_second_gpu_leave_the_first_one_current(gpu):
    eager, captured = (make("SimpleTag-v0", "cuda:1", reuse_buffers=True) for _ in range(2))
    eager.reset()
    captured.reset()
    replay = captured.capture(lambda: captured.step(captured.sample_actions()))
    with gpu.observe() as events:
        for _ in range(3):
            eager.step(eager.sample_actions())
            replay()
    assert gpu.current_device == 0
    assert len(events.graph_launches) == 3
    assert not events.synchronizations
    assert torch.equal(eager.obs, captured.obs)


def test_function_that_names_the_wrong_gpu_is_not_captured():
    core = make("SimpleTag-v0", "cuda:1", reuse_buffers=True)
    core.reset()
    other = torch.zeros(3, device="cuda:0")
    with pytest.raises(RuntimeError, match="on cuda:0 is not on the stream of the capture on cuda:1"):
        core.capture(lambda: (core.step(core.sample_actions()), other.add_(1)))


def test_captured_steps_report_illegal_actions_by_one_copy_per_replay():
    core = make("SimpleTag-v0", "cuda:0", reuse_buffers=True)
    core.reset()
    actions = torch.zeros((3, *core.action_buffer.shape), dtype=torch.int64, device=core.device)
    copies, host_copy = [], core._illegal._host_copy
    host_copy.copy_ = lambda source, **options: (
        copies.append(source) or torch.Tensor.copy_(host_copy, source, **options)
    )

    def play():
        copies.clear()
        for action in actions:
            core.step(action)

    replay = core.capture(play)
    assert len(copies) == 1
    replay()
    core.step(actions[0])
    actions[1, 0, 0] = 99  # of three steps, the second
    replay()
    torch.cuda.synchronize()
    with pytest.raises(ActionError, match="out of range"):
        core.step(actions[0])


def test_raising_the_error_of_an_illegal_action_waits_for_all_streams(monkeypatch):
    core = make("SimpleTag-v0", "cuda:0")
    core.reset()
    waits, synchronize = [], torch.cuda.synchronize
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: waits.append(device) or synchronize(device))
    core.step(torch.full_like(core.action_buffer, 99))
    torch.cuda.current_stream().synchronize()
    with pytest.raises(ActionError, match="out of range"):
        core.step(core.action_buffer)
    assert waits == [core.device]


def test_final_observations_of_agents_that_go_on_do_not_share_a_row():
    """On a GPU writes to one row wait for each other."""
    buffer = RolloutBuffer(4, (5, 2), 3, (), torch.int64, 20, torch.device("cuda", 0))
    written = []
    keep = buffer._keep_final
    buffer._keep_final = lambda slot, final_obs: written.append(slot.cpu()) or keep(slot, final_obs)
    cut = torch.zeros((5, 2), dtype=torch.bool, device="cuda")
    cut[1, 0] = cut[3, 1] = True
    final_obs = torch.arange(30.0, device="cuda").view(5, 2, 3)
    never, always = torch.zeros_like(cut), torch.ones_like(cut)
    for truncated in (cut, never, cut, always):
        transition = Transition(
            reward=torch.zeros((5, 2), device="cuda"), terminated=never, truncated=truncated, valid=always,
            next_obs=final_obs, final_obs=final_obs,
        )  # fmt: skip
        buffer.begin_step(final_obs)
        buffer.end_step(transition)
    for slots in written:
        assert slots.unique().numel() == slots.numel()
    assert int(buffer.check()) == 14
    rows = buffer.final_slot[buffer.truncated]
    assert rows.cpu().tolist() == list(range(14))
    assert torch.equal(buffer.final_obs[rows], final_obs.expand(4, 5, 2, 3)[buffer.truncated])


def test_streams_are_wrapped_for_warp_once(monkeypatch):
    """Warp keeps streams in a map without a lock, and threads launch at once."""
    wrapped, wrap = [], wp.stream_from_torch
    monkeypatch.setattr(wp, "stream_from_torch", lambda stream: wrapped.append(stream) or wrap(stream))
    monkeypatch.setattr(devices, "_streams", {})
    for _ in range(2):
        core = make("SimpleTag-v0", "cuda:0")
        core.reset()
        core.step(core.sample_actions())
        core.rollout({}, 2)
        core.render_frames((0,), 32)
    assert len(wrapped) == 1
    with torch.cuda.stream(torch.cuda.Stream()):
        core.step(core.action_buffer)
        core.step(core.action_buffer)
    assert len(wrapped) == 2
