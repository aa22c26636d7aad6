"""Environments on two pretended GPUs: parts of a batch, recordings, frames, states that move between devices."""

import numpy as np
import pytest
import torch
from small_environments import SMALL

from gpu_envs.runtime.factory import make_core
from pretended_gpu.runs import DEVICES, assert_equal_states, on_host

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
