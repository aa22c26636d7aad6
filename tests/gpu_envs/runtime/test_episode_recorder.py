"""core.record_episodes keeps whole episodes of chosen worlds, as they were played."""

import pytest
import torch

from gpu_envs import errors

pytestmark = pytest.mark.representative


@pytest.mark.parametrize("autoreset", ["same_step", pytest.param("next_step", marks=pytest.mark.slow), "disabled"])
@pytest.mark.parametrize("reuse_buffers", [pytest.param(False, marks=pytest.mark.slow), True])
def test_recorded_episodes_equal_the_played_steps(env_id, small_core, autoreset, reuse_buffers):
    """Episodes that began before the recording, or were cut by a reset, are not recorded."""
    core = small_core(env_id, 6, autoreset=autoreset, reuse_buffers=reuse_buffers, env_offset=3)
    core.reset()
    core.step(core.sample_actions())  # this episode has started before the recording
    story = []
    with core.record_episodes([4, 1]) as recorder:
        for t in range(60):  # long games, too, end twice
            previous = core.get_state() | {f"state.{name}": value.clone() for name, value in core.world_state.items()}
            core.step(core.sample_actions())
            story.append((previous, core.get_state()))
            if autoreset == "disabled":
                core.reset(reset_mask=~core.alive.any(1))
            if t == 25:
                core.reset(reset_mask=torch.tensor([False, False, False, False, True, False]))
    core.step(core.sample_actions())
    episodes = recorder.take()
    assert recorder.take() == []
    compared = 0
    for env in (4, 1):
        mine = [episode for episode in episodes if episode.world == env + 3]
        assert len(mine) >= 2
        for episode in mine:
            steps = [
                (b, a) for b, a in story if int(b["io.episode"][env]) == episode.number and a["io.valid"][env].any()
            ]
            assert int(steps[0][0]["io.step"][env]) == 0
            assert len(steps) == len(episode)
            for t, (b, a) in enumerate(steps):
                for name, values in episode.state.items():
                    assert torch.equal(values[t], b[f"state.{name}"][env]), name
                assert torch.equal(episode.obs[t], b["io.obs"][env])
                for name in ("reward", "terminated", "truncated", "valid"):
                    assert torch.equal(getattr(episode, name)[t], a[f"io.{name}"][env]), name
                chosen = a["io.choice" if core.action_kind != "continuous" else "io.control"][env]
                assert torch.equal(episode.action[t].flatten(), chosen.flatten())
                compared += 1
            ended = (episode.terminated | episode.truncated).sum(0)
            assert ended.eq(1).all()
        numbers = [episode.number for episode in mine]
        assert numbers == sorted(numbers)
        assert 0 not in numbers
    assert compared > 20


def test_running_episode_is_kept_for_the_next_call(small_core):
    core = small_core("SimpleTag-v0", 2)
    core.reset()
    recorder = core.record_episodes(0)
    for expected in (0, 1, 1):  # episodes of seven steps
        for _ in range(5):
            core.step(core.sample_actions())
        assert [len(episode) for episode in recorder.take()] == [7] * expected
    recorder.close()
    recorder.close()


def test_frames_are_those_of_the_worlds(env_id, small_core):
    core = small_core(env_id, 3)
    core.reset()
    pictures = []
    with core.record_episodes(2) as recorder:
        while core.get_state()["io.episode"][2] == 0:
            pictures.append(core.render_frames(2, 32)[0])
            core.step(core.sample_actions())
    (episode,) = recorder.take()
    frames = recorder.frames(episode, 32)
    assert frames.shape == (len(episode), 32, 32, 3)
    for mine, theirs in zip(frames, pictures, strict=True):
        assert (mine == theirs).all()


def test_bad_worlds(small_core):
    core = small_core("SimpleTag-v0", 2)
    core.reset()
    with pytest.raises(errors.ConfigError, match=r"envs: expected indices of worlds in \[0, 2\)"):
        core.record_episodes([0, 2])
