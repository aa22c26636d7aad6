"""The laws every environment keeps: schedules agree, worlds are independent, episodes end and start as promised."""

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


def compare_schedules(env_id, small_core, autoreset):
    """Compare over many chaotic steps and several episodes, bit for bit."""
    fused, phased = (small_core(env_id, 33, schedule=s, autoreset=autoreset) for s in ("fused", "phased"))
    assert_same(play(fused, 40), play(phased, 40))
    left, right = fused.get_state(), phased.get_state()
    for name in left:
        assert torch.equal(left[name], right[name]), name


def test_fused_equals_phased(env_id, small_core):
    compare_schedules(env_id, small_core, "same_step")


@pytest.mark.parametrize("env_id", MOSTLY_SLOW)
@pytest.mark.parametrize("autoreset", ["next_step", "disabled"])
def test_fused_equals_phased_with_other_resets(env_id, small_core, autoreset):
    compare_schedules(env_id, small_core, autoreset)


@pytest.mark.parametrize("env_id", MOSTLY_SLOW)
@pytest.mark.parametrize("schedule", ["fused", "phased"])
def test_threads_change_nothing(env_id, small_core, schedule, monkeypatch):
    monkeypatch.setattr(thread_pool.ThreadingHeuristic, "parallel", lambda self: True)  # even with so few worlds
    plain = play(small_core(env_id, 33, schedule=schedule, threads=1), 20)
    assert_same(plain, play(small_core(env_id, 33, schedule=schedule, threads=3), 20))


@pytest.mark.representative
def test_world_alone_equals_world_among_many(env_id, small_core):
    """Start, random actions and every later episode of world i do not depend on the batch."""
    many = play(small_core(env_id, 9), 40)
    for i in (0, 5, 8):
        alone = play(small_core(env_id, 1, env_offset=i), 40)
        assert_same(many, alone, rows=slice(i, i + 1))
    shard = play(small_core(env_id, 4, env_offset=5), 40)
    assert_same(many, shard, rows=slice(5, 9))


@pytest.mark.representative
def test_permuted_worlds_give_permuted_results(env_id, small_core):
    first, second = (small_core(env_id, 12, autoreset="disabled") for _ in range(2))
    first.reset()
    second.reset()
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    state = first.get_state()
    second.set_state({name: t[order] if t.ndim and len(t) == 12 else t for name, t in state.items()})
    for _ in range(6):
        action = first.sample_actions()
        left, right = first.step(action), second.step(action[order])
        for a, b in zip(left[:4], right[:4], strict=True):
            assert torch.equal(a[order], b)


@pytest.mark.representative
def test_no_leak_between_worlds(env_id, small_core):
    """Other actions in world 3 change world 3 and nothing else."""
    first, second = small_core(env_id, 8), small_core(env_id, 8)
    actions = [step["action"] for step in play(first, 12)]
    other = [action.clone() for action in actions]
    strange = play(small_core(env_id, 8), 12, seed=99)
    for mine, theirs in zip(other, strange, strict=True):
        mine[3] = theirs["action"][3]
    base, changed = play(first, 12, 0, actions), play(second, 12, 0, other)
    keep = torch.tensor([0, 1, 2, 4, 5, 6, 7])
    for a, b in zip(base, changed, strict=True):
        for name in ("obs", "reward", "terminated", "truncated"):
            assert torch.equal(a[name][keep], b[name][keep])
    assert differ(base, changed, 3)


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


@pytest.mark.representative
def test_autoreset_modes_give_equal_trajectories(env_id, small_core):
    """SAME_STEP and NEXT_STEP against DISABLED with resets by hand, as Gymnasium documents them.

    SAME_STEP: the step that ends an episode returns the next one's first observation, the last is in final_obs.
    NEXT_STEP: the step after ignores the action, returns the first observation, reward 0, no flags.
    """
    worlds = 8
    same, later, hand = (small_core(env_id, worlds, autoreset=mode) for mode in ("same_step", "next_step", "disabled"))
    for core in (same, later, hand):
        core.reset()
    waiting = torch.zeros(worlds, dtype=torch.bool)
    ended = 0
    for _ in range(40):
        # by hand
        action = hand.sample_actions()
        obs, reward, terminated, truncated, info = hand.step(action)
        done = terminated | truncated
        over = ~info["alive"].any(1)
        assert torch.equal(info["final_obs"][done], obs[done])
        # SAME_STEP
        assert torch.equal(action, same.sample_actions())
        s_obs, s_reward, s_terminated, s_truncated, s_info = same.step(action)
        for mine, theirs in (
            (reward, s_reward),
            (terminated, s_terminated),
            (truncated, s_truncated),
            (info["valid"], s_info["valid"]),
        ):
            assert torch.equal(mine, theirs)
        assert torch.equal(obs[~over], s_obs[~over])
        assert torch.equal(info["final_obs"][done], s_info["final_obs"][done])
        fresh, _ = hand.reset(reset_mask=over)
        assert torch.equal(fresh, s_obs)
        assert s_info["alive"][over].all()
        ended += int(over.sum())
    assert ended > worlds
    # NEXT_STEP against SAME_STEP: the same steps with one reset step put in after each episode
    same.reset(seed=1)
    later.reset(seed=1)
    stories = {name: [[] for _ in range(worlds)] for name in ("same", "later")}
    for _ in range(45):
        for name, core in (("same", same), ("later", later)):
            previous = core.obs.clone()
            obs, reward, terminated, truncated, info = core.step(core.sample_actions())
            for i in range(worlds):
                if name == "later" and waiting[i]:
                    assert not reward[i].any()
                    assert not (terminated[i] | truncated[i]).any()
                    assert not info["valid"][i].any()
                    assert info["alive"][i].all()
                    continue
                stories[name][i].append([previous[i], reward[i], terminated[i], truncated[i], info["final_obs"][i]])
            if name == "later":
                waiting = ~info["alive"].any(1)
    for left, right in zip(stories["same"], stories["later"], strict=True):
        assert len(right) < len(left)
        for a, b in zip(left, right, strict=False):
            for x, y in zip(a[:4], b[:4], strict=True):
                assert torch.equal(x, y)


def test_flags_are_events_and_agents_that_left_have_zeros(env_id, small_core):
    """An event is True exactly once per agent and episode; afterwards zeros, and actions are ignored."""
    core = small_core(env_id, 32, autoreset="disabled")
    core.reset()
    gone = torch.zeros_like(core.alive)
    count = torch.zeros_like(core.reward)
    for _ in range(30):
        action = core.sample_actions()
        action[gone] = -5 if action.dtype == torch.int64 else float("nan")  # would raise if it were read
        obs, reward, terminated, truncated, info = core.step(action)
        assert torch.equal(info["valid"], ~gone)
        assert not (terminated & truncated).any()
        assert not obs[gone].any()
        assert not reward[gone].any()
        count += (terminated | truncated).float()
        gone |= terminated | truncated
        assert torch.equal(info["alive"], ~gone)
    assert (count == 1).all()


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
def test_stored_results_survive_later_steps(env_id, small_core):
    core = small_core(env_id)
    core.reset()
    steps = [(core.step(core.sample_actions())) for _ in range(3)]
    copies = [[t.clone() for t in (*step[:4], *step[4].values())] for step in steps]
    for _ in range(20):
        core.step(core.sample_actions())
    for step, copy in zip(steps, copies, strict=True):
        for a, b in zip((*step[:4], *step[4].values()), copy, strict=True):
            assert torch.equal(a, b)


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
