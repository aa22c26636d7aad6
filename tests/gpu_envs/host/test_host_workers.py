"""Host environments in worker processes."""

import pytest
import torch
from host_worlds import Broken, Countdown, Splitting

import gpu_envs
from gpu_envs.errors import ConfigError, HostError
from gpu_envs.host.worlds import STEP


def _play(core, steps=9):
    """Return all results of a reset and of steps with random actions."""
    results = [core.reset(seed=11)]
    results += [core.step(core.sample_actions()) for _ in range(steps)]
    return torch.utils._pytree.tree_leaves(results)


def test_results_are_those_of_one_process():
    settings = {"masks": True}
    bare = _play(gpu_envs.from_pettingzoo(Countdown, 5, settings=settings))
    core = gpu_envs.from_pettingzoo(Countdown, 5, settings=settings, workers=2)
    assert all(torch.equal(a, b) for a, b in zip(bare, _play(core), strict=True))
    core.close()
    assert not any(worker._process.is_alive() for worker in core._worlds._workers)


def test_frames_and_resets_by_mask_reach_the_worlds_of_every_process():
    core = gpu_envs.from_pettingzoo(
        Countdown, 3, settings={"render_mode": "rgb_array"}, workers=2, autoreset="disabled"
    )
    core.reset(seed=1)
    for _ in range(4):
        core.step(core.sample_actions())
    core.reset(reset_mask=torch.tensor([False, False, True]))
    assert core.alive.any(1).tolist() == [False, False, True]
    assert core.render_frames((0, 2), 16).shape == (2, 16, 16, 3)
    core.close()


def test_an_error_in_a_process_is_that_of_the_first_world_with_its_traceback():
    core = gpu_envs.from_pettingzoo(Broken, 4, settings={"fault": "raise"}, workers=2)
    core.reset()
    with pytest.raises(HostError, match="world 0: RuntimeError: the gripper broke") as caught:
        core.step(torch.full_like(core.action_buffer, 2))
    assert "host_worlds.py" in str(caught.value.__cause__)
    core.reset()
    core.close()


def test_what_other_processes_cannot_import_is_one_line():
    with pytest.raises(ConfigError, match=r"workers: expected a function of a module.*use workers=1"):
        gpu_envs.from_pettingzoo(lambda limit=3: Countdown(limit), 2, workers=2)
    with pytest.raises(ConfigError, match=r"CartPole-v77: Environment version"):
        gpu_envs.from_gymnasium("CartPole-v77", 2, workers=2)
    with pytest.raises(HostError, match=r"world 0: its process has ended with exit code 3 before it was ready; put"):
        gpu_envs.from_pettingzoo(Broken, 2, settings={"fault": "start"}, workers=2)


def _fatal_step(core, world):
    """Play a step whose action ends the process of a world, or lets it hang."""
    action = torch.zeros_like(core.action_buffer)
    action[world, 0] = 2
    return core.step(action)


def test_worlds_of_a_process_that_dies_are_truncated_and_go_on_once():
    core = gpu_envs.from_pettingzoo(Broken, 4, settings={"fault": "die"}, workers=2)
    core.reset(seed=1)
    core.step(torch.zeros_like(core.action_buffer))
    with pytest.warns(UserWarning, match="world 1: its process has ended with exit code 3; agents of its worlds are"):
        obs, reward, terminated, truncated, info = _fatal_step(core, 1)
    assert truncated.tolist() == [[True] * 3] * 2 + [[False] * 3] * 2
    assert terminated.tolist() == [[False] * 3] * 2 + [[True, False, False]] * 2
    assert reward[:, 1].tolist() == [0, 0, 2, 2]
    assert info["final_obs"][:2, :, 0].tolist() == [[2] * 3, [1] * 3]  # world 0 had played its step
    assert obs[:, 1, 0].tolist() == [0, 0, 2, 2]
    assert info["episode_length"][:2].tolist() == [[2] * 3] * 2
    assert core.episode_index.tolist() == [1, 1, 0, 0]
    with pytest.raises(HostError, match="world 1: its process has ended with exit code 3"):
        _fatal_step(core, 1)
    core.close()


def test_worlds_of_a_process_that_died_between_two_episodes_start_anew_without_autoreset():
    core = gpu_envs.from_pettingzoo(Broken, 4, settings={"fault": "die"}, workers=2, autoreset="disabled")
    core.reset(seed=1)
    core._worlds._workers[1]._process.kill()
    core._worlds._workers[1]._process.join()
    with pytest.warns(UserWarning, match="its process has ended with exit code -9"):
        core.reset(reset_mask=torch.tensor([False, False, False, True]))
    assert core.episode_index.tolist() == [0, 0, 1, 1]
    assert core.step(torch.zeros_like(core.action_buffer))[0][:, 1, 0].tolist() == [1] * 4
    core.close()


class Watched:
    """A pipe that notes how long it was waited for."""

    def __init__(self, pipe):
        self.pipe, self.waits = pipe, []

    def poll(self, seconds):
        self.waits.append(seconds)
        return self.pipe.poll(seconds)

    def __getattr__(self, name):
        return getattr(self.pipe, name)


def test_a_world_that_hangs_is_one_line_and_a_traceback(capfd):
    core = gpu_envs.from_pettingzoo(Broken, 4, settings={"fault": "hang"}, workers=2)
    core.reset(seed=1)
    for worker in core._worlds._workers:
        worker.timeout = 1.0  # which is less than processes take to start
    pipe = core._worlds._workers[0]._pipe = Watched(core._worlds._workers[0]._pipe)
    with pytest.raises(HostError, match="world 1: expected an answer within 1 s, got none"):
        _fatal_step(core, 1)
    assert "host_worlds.py" in capfd.readouterr().err
    assert 1.0 < sum(pipe.waits) < 1.5
    for worker in core._worlds._workers:
        worker.timeout = 300.0
    with pytest.warns(UserWarning, match="its process has ended with exit code"):
        core.reset()
    core.close()


def test_environments_in_workers_can_start_processes():
    core = gpu_envs.from_pettingzoo(Splitting, 2, workers=2)
    core.reset(seed=1)
    workers = core._worlds._workers
    core.close()
    assert not any(worker._process.is_alive() for worker in workers)


def test_a_reset_after_an_interrupt_waits_for_the_step_that_goes_on():
    bare, core = (gpu_envs.from_pettingzoo(Broken, 4, settings={"fault": "raise"}, workers=n) for n in (1, 2))
    core.reset(seed=1)
    core._arrays["command"][:] = STEP
    core._arrays["action"][:] = 2
    for worker in core._worlds._workers:  # as an interrupt leaves them, with an error to come
        worker.call("run")
        assert worker._pipe.poll(60.0)
    assert core.reset(seed=1)[0].equal(bare.reset(seed=1)[0])
    core.close()
