"""Laws of every environment that `check_env` does not check, or only in `test_check_env.py` for representatives."""

import pytest
import torch
from played import assert_same, play
from small_environments import FEW

from gpu_envs.definition.registry import list_envs
from gpu_envs.runtime import thread_pool
from gpu_envs.runtime.factory import make_core

MOSTLY_SLOW = [pytest.param(name, marks=[pytest.mark.slow] * (name not in FEW)) for name in list_envs()]


def differ(left, right, rows=slice(None)):
    """Return whether observations differ, or rewards if there are no observations."""
    names = ("obs", "reward")
    return any(not torch.equal(a[n][rows], b[n][rows]) for a, b in zip(left, right, strict=True) for n in names)


def compare_schedules(env_id, small_core, autoreset, schedule="phased"):
    """Compare over many chaotic steps and several episodes, bit for bit."""
    fused, other = (small_core(env_id, 33, schedule=s, autoreset=autoreset) for s in ("fused", schedule))
    assert_same(play(fused, 40), play(other, 40))
    left, right = fused.get_state(), other.get_state()
    for name in left:
        assert torch.equal(left[name], right[name]), name


def test_fused_equals_phased(env_id, small_core):
    compare_schedules(env_id, small_core, "same_step")


@pytest.mark.parametrize("env_id", MOSTLY_SLOW)
@pytest.mark.parametrize("autoreset", ["next_step", "disabled"])
def test_fused_equals_phased_with_other_resets(env_id, small_core, autoreset):
    compare_schedules(env_id, small_core, autoreset)


@pytest.mark.slow
@pytest.mark.parametrize("autoreset", ["same_step", "next_step", "disabled"])
def test_fused_equals_block(env_id, small_core, autoreset):
    compare_schedules(env_id, small_core, autoreset, "block")


@pytest.mark.parametrize("env_id", MOSTLY_SLOW)
@pytest.mark.parametrize("schedule", ["fused", "phased"])
def test_threads_change_nothing(env_id, small_core, schedule, monkeypatch):
    monkeypatch.setattr(thread_pool.ThreadingHeuristic, "parallel", lambda self: True)  # even with so few worlds
    plain = play(small_core(env_id, 33, schedule=schedule, threads=1), 20)
    assert_same(plain, play(small_core(env_id, 33, schedule=schedule, threads=3), 20))


@pytest.mark.representative
def test_equal_seeds_give_equal_trajectories(env_id, small_core):
    core = small_core(env_id)
    first, second, other = play(core, 20, seed=5), play(core, 20, seed=5), play(core, 20, seed=6)
    assert_same(first, second)
    assert differ(first, other)
    # A world with its own seed plays as world 0 of that seed, wherever it is.
    per_world = play(core, 20, seed=torch.tensor([5, 6] * 8))
    for expected, start in ((first, 0), (other, 1)):
        assert_same(
            [{name: value[start::2] for name, value in step.items()} for step in per_world],
            [{name: value[:1].expand_as(value[::2]) for name, value in step.items()} for step in expected],
        )


@pytest.mark.representative
def test_episodes_differ(env_id, small_core):
    """The second episode is not the first again."""
    core = small_core(env_id, 64)
    play(core, 30, seed=0)
    assert (core.get_state()["io.episode"] > 0).all()
    first, second = core.reset(seed=0)[0], core.reset()[0]
    # where the rules start every episode alike, the actions drawn still differ
    drawn = core.sample_actions()
    core.reset(seed=0)
    assert not torch.equal(first, second) or not torch.equal(drawn, core.sample_actions())


@pytest.mark.parametrize("env_id", MOSTLY_SLOW)
@pytest.mark.parametrize("autoreset", ["same_step", "next_step", "disabled"])
@pytest.mark.parametrize("schedule", ["fused", "phased"])
def test_random_play_is_step_after_step(env_id, small_core, schedule, autoreset):
    """Without coming back to Python: the same results, and the same worlds to the last bit."""
    settings = {"schedule": schedule, "autoreset": autoreset, "max_episode_steps": 6}
    stepped, played = (small_core(env_id, 19, threads=threads, **settings) for threads in (1, 2))
    stepped.reset()
    played.reset()
    for steps in (1, 2, 9, 20):
        for _ in range(steps):
            left = stepped.step(stepped.sample_actions())
        right = played.random_rollout(steps)
        for a, b in zip((*left[:4], *left[4].values()), (*right[:4], *right[4].values()), strict=True):
            assert torch.equal(a, b)
        ours, theirs = stepped.get_state(), played.get_state()
        for name in ours:
            assert torch.equal(ours[name], theirs[name]), f"{name} after {steps} steps"
    assert (stepped.episode_index > 2).all() or autoreset == "disabled"


@pytest.mark.representative
def test_returns_and_lengths(env_id, small_core):
    core = small_core(env_id, 16)
    core.reset()
    total, length, num_episodes = torch.zeros_like(core.reward, dtype=torch.float64), torch.zeros_like(core.reward), 0
    for _ in range(40):
        _, reward, terminated, truncated, info = core.step(core.sample_actions())
        total += reward  # in float64, as the core sums; the return is rounded once
        length += info["valid"].float()
        done = terminated | truncated
        num_episodes += int(done.sum())
        torch.testing.assert_close(info["episode_return"][done], total[done].float(), rtol=0, atol=0)
        assert torch.equal(info["episode_length"][done], length[done].int())
        fresh = done & info["alive"]
        total[fresh], length[fresh] = 0, 0
        restarted = ~info["valid"] & info["alive"]  # terminated earlier, and its world has been reset
        total[restarted], length[restarted] = 0, 0
    assert num_episodes > 0


@pytest.mark.representative
def test_reused_buffers_are_those_of_the_core(env_id, small_core):
    core = small_core(env_id, reuse_buffers=True)
    first, _ = core.reset()
    obs, *_ = core.step(core.sample_actions())
    assert first.data_ptr() == obs.data_ptr() == core.obs.data_ptr()


def test_state_continues_bit_for_bit(env_id, small_core):
    first, second = small_core(env_id), small_core(env_id, seed=77)
    play(first, 11)
    second.set_state(first.get_state())
    for _ in range(25):
        left, right = first.step(first.sample_actions()), second.step(second.sample_actions())
        for a, b in zip((*left[:4], *left[4].values()), (*right[:4], *right[4].values()), strict=True):
            assert torch.equal(a, b)


def test_observations_are_in_their_spaces(env_id, small_core):
    core = small_core(env_id)
    for step in play(core, 12):
        for row, agent in enumerate(core.possible_agents):
            width = core.observation_spaces[agent].shape[0]
            for obs in step["obs"][:, row, :width].numpy():
                assert core.observation_spaces[agent].contains(obs)
            assert not step["obs"][:, row, width:].any()


@pytest.mark.parametrize("env_id", MOSTLY_SLOW)
def test_one_world_of_another_shape(env_id):
    """The default configuration runs, whatever its size."""
    core = make_core(env_id, 2, "cpu", seed=0)
    obs, _ = core.reset()
    assert torch.isfinite(obs).all()
    obs, *_ = core.step(core.sample_actions())
    assert torch.isfinite(obs).all()
    state = core.state()
    assert state.shape[0] == 2
    assert torch.isfinite(state).all()
