import gc

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from host_worlds import Broken, Countdown, Reach
from mpe2 import simple_tag_v3

import gpu_envs
from gpu_envs.cli import main
from gpu_envs.errors import ActionError, CaptureError, CheckpointError, ConfigError, HostError, ResetNeededError


def _countdown(num_envs=2, **options):
    return gpu_envs.from_pettingzoo(Countdown, num_envs, seed=3, **options)


def _same_actions(core):
    return torch.full_like(core.action_buffer, 2)


def test_flags_rewards_and_final_observations_of_agents_that_leave_at_different_times():
    core = _countdown()
    obs, info = core.reset()
    number = obs[:, :2, 1].clone()
    assert obs.shape == (2, 3, 2)
    assert not obs[:, 2, 1].any()  # padding of the flyer
    assert core.groups == {"walker": (0, 1), "flyer": (2,)}
    for step in range(1, 4):
        obs, reward, terminated, truncated, info = core.step(_same_actions(core))
        died = step == 2
        assert terminated.tolist() == [[died, False, False]] * 2
        assert not truncated.any()
        assert info["valid"].tolist() == [[step <= 2, True, True]] * 2
        assert info["alive"].tolist() == [[step < 2, True, True]] * 2
        assert reward[0].tolist() == [step if step <= 2 else 0, step, step]
        assert obs[0, :, 0].tolist() == [step if step <= 2 else 0, step, step]
    assert info["episode_return"][:, 0].tolist() == [3.0, 3.0]
    assert info["episode_length"][:, 0].tolist() == [2, 2]
    obs, reward, terminated, truncated, info = core.step(_same_actions(core))
    assert not terminated.any()
    assert truncated.tolist() == [[False, True, True]] * 2
    assert info["final_obs"][0, :, 0].tolist() == [2, 4, 4]  # walker_0 left at step 2
    torch.testing.assert_close(info["final_obs"][:, :2, 1], number)  # of the old episode
    assert not torch.equal(obs[:, :2, 1], number)  # SAME_STEP shows the next one
    assert obs[0, :, 0].tolist() == [0, 0, 0]
    assert info["alive"].all()
    assert info["episode_return"][0].tolist() == [3.0, 10.0, 10.0]
    assert core.elapsed_steps.tolist() == [0, 0]
    assert core.episode_index.tolist() == [1, 1]


def test_next_step_autoreset_takes_a_step_of_its_own():
    core = _countdown(autoreset="next_step")
    core.reset()
    for _ in range(4):
        obs, *_, info = core.step(_same_actions(core))
    assert not info["alive"].any()
    assert obs[0, :, 0].tolist() == [0, 4, 4]
    obs, reward, _, truncated, info = core.step(_same_actions(core))
    assert not info["valid"].any()
    assert not reward.any()
    assert not truncated.any()
    assert info["alive"].all()
    assert obs[0, :, 0].tolist() == [0, 0, 0]


def test_disabled_autoreset_waits_for_a_reset_by_mask():
    core = _countdown(autoreset="disabled")
    core.reset()
    for _ in range(5):
        _, reward, *_, info = core.step(_same_actions(core))
    assert not reward.any()
    assert not info["alive"].any()
    core.reset(reset_mask=torch.tensor([False, True]))
    assert core.alive.tolist() == [[False] * 3, [True] * 3]
    _, reward, *_ = core.step(_same_actions(core))
    assert reward.tolist() == [[0, 0, 0], [1, 1, 1]]
    previous = core.obs.clone()
    core.reset(reset_mask=torch.tensor([True, False]))
    assert torch.equal(core.obs[1], previous[1])


def test_a_world_plays_the_same_in_batches_of_any_size_and_with_its_own_seed():
    large, small = _countdown(5), _countdown(2, env_offset=3)
    for core in (large, small):
        core.reset(seed=11)
        for _ in range(9):  # into the third episode
            core.step(core.sample_actions())
    assert torch.equal(large.obs[3:], small.obs)
    assert torch.equal(large.sample_actions()[3:], small.sample_actions())
    large.reset(seed=[7, 8, 7, 9, 7])
    assert torch.equal(large.obs[0], large.obs[2])
    assert not torch.equal(large.obs[0], large.obs[1])


def test_random_actions_are_legal_and_cover_all_choices():
    core = _countdown(64, settings={"masks": True})
    _, info = core.reset()
    counts = torch.zeros(2, 3)
    for step in range(2):
        action = core.sample_actions()
        assert info["action_mask"].gather(2, action.unsqueeze(2)).all()
        counts[step] = torch.bincount(action.flatten(), minlength=3)
        info = core.step(action)[4]
    assert (counts[0] > 30).all()
    assert (counts[1, [0, 2]] > 30).all()
    assert counts[1, 1] == 0


def test_max_episode_steps_truncates():
    core = _countdown(settings={"limit": 100}, max_episode_steps=3)
    core.reset()
    for _ in range(3):
        *_, truncated, info = core.step(_same_actions(core))
    assert truncated.tolist() == [[False, True, True]] * 2
    assert info["final_obs"][0, :, 0].tolist() == [2, 3, 3]


def test_dict_observations_discrete_parts_and_shaped_actions():
    core = gpu_envs.from_gymnasium(Reach, 1)
    obs, _ = core.reset()
    assert obs[0, 0].tolist() == [9, 9, 9, 9, 0, 1, 0]
    assert core.step(torch.tensor([[[1.5, -0.5]]]))[1].item() == 1.0
    with pytest.raises(ActionError, match="action of agent_0 in world 0: expected a legal action"):
        core.step(torch.tensor([[[1.5, -3.0]]]))
    saturated = gpu_envs.from_gymnasium(Reach, 1, illegal_actions="saturate")
    saturated.reset()
    assert saturated.step(torch.tensor([[[1.5, -3.0]]]))[1].item() == -0.5


def test_steps_of_gymnasium_equal_the_bare_environment():
    core = gpu_envs.from_gymnasium("CartPole-v1", 1)
    core.reset(seed=5)
    env = gymnasium.make("CartPole-v1").unwrapped
    env.reset()
    env.state = core.obs[0, 0].double().numpy()
    for choice in (0, 1, 1, 0, 1):
        obs, reward, terminated, _, _ = env.step(choice)
        core.step(torch.tensor([[choice]]))
        np.testing.assert_allclose(core.obs[0, 0], obs, atol=1e-6)
        assert (core.reward.item(), core.terminated.item()) == (reward, terminated)
    assert core.definition.max_episode_steps == 500


def test_steps_of_mpe_equal_the_bare_environment():
    core = gpu_envs.from_pettingzoo("mpe2.simple_tag_v3", 2)
    env = simple_tag_v3.parallel_env()
    core.reset(seed=1)
    observations, _ = env.reset(seed=int(_seed_of_first_episode(core)))
    for _ in range(25):
        for row, agent in enumerate(env.possible_agents):
            np.testing.assert_array_equal(core.obs[1, row, : len(observations[agent])], observations[agent])
        action = core.sample_actions()
        observations, rewards, _, truncated, _ = env.step(dict(zip(env.agents, action[1].tolist(), strict=True)))
        core.step(action)
        np.testing.assert_allclose(core.reward[1], list(rewards.values()), rtol=1e-6)
        assert core.truncated[1].tolist() == list(truncated.values())
    for row, agent in enumerate(observations):
        np.testing.assert_array_equal(core.final_obs[1, row, : len(observations[agent])], observations[agent])


def _seed_of_first_episode(core):
    """Return the seed of the first episode of world 1, which a world of seed 1 computes before its first reset."""
    core.reset(seed=1)
    core._write_keys(1, None)
    seed = core._arrays["next_seed"][1]
    core.reset(seed=1)
    return seed


def test_a_saved_state_restarts_the_episodes_and_says_so():
    core, other = _countdown(), _countdown()
    core.reset(seed=1)
    for _ in range(5):
        core.step(_same_actions(core))
    other.reset()
    with pytest.warns(UserWarning, match="cannot be saved; its episodes start anew"):
        other.set_state(core.get_state())
    assert other.episode_index.tolist() == [2, 2]
    assert other.elapsed_steps.tolist() == [0, 0]
    with pytest.raises(CheckpointError, match=r"state: io.seed: expected .* got None"):
        other.set_state({})


def test_frames_are_those_of_the_worlds():
    core = _countdown(settings={"render_mode": "rgb_array"})
    core.reset()
    frames = core.render_frames((0, 1), 16)
    assert frames.shape == (2, 16, 16, 3)
    assert (frames[:, :, :8] == 7).all()
    assert (frames[:, :, 8:] == 0).all()
    plain = _countdown()
    plain.reset()
    with pytest.raises(ConfigError, match="cannot draw a frame; give them render_mode='rgb_array'"):
        plain.render_frames()


def test_render_writes_a_video_of_the_frames(tmp_path):
    argv = ["render", "host_worlds:make_countdown", "--env-arg", "render_mode=rgb_array", "--steps", "3"]
    assert main([*argv, "--device", "cpu", "--output", str(tmp_path / "a.png")]) == 0
    assert (tmp_path / "a.png").exists()


def test_worlds_do_not_share_an_environment():
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(ConfigError, match="expected a new environment from every call of the function"):
        gpu_envs.from_gymnasium(lambda: env, 2)


def test_returns_of_long_episodes_are_summed_in_float64():
    class Tenths(Countdown):
        def step(self, actions):
            observations, rewards, *flags = super().step(actions)
            return observations, dict.fromkeys(rewards, 0.1), *flags

    core = gpu_envs.from_pettingzoo(Tenths, 1, settings={"limit": 20_000})
    core.reset(seed=0)
    for _ in range(20_000):
        *_, info = core.step(_same_actions(core))
    assert info["episode_return"][0, 1].item() == pytest.approx(2000, rel=1e-7)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("raise", "world 0: RuntimeError: the gripper broke"),
        ("nan", "world 0: obs of walker_1: expected numbers, got NaN"),
        ("shape", r"world 0: observation of walker_1: expected an observation \(2,\), got \(3,\)"),
        ("leave", "world 0: walker_0: expected its end in terminations or truncations"),
    ],
)
def test_a_fault_of_an_environment_is_one_line_that_names_the_world(fault, message):
    core = gpu_envs.from_pettingzoo(Broken, 2, settings={"fault": fault})
    core.reset()
    with pytest.raises(HostError, match=message):
        core.step(_same_actions(core))
    with pytest.raises(ResetNeededError, match="after an error"):
        core.step(_same_actions(core))


def test_what_needs_kernels_is_one_line():
    core = _countdown()
    core.reset()
    for call in (lambda: core.rollout({}, 1), lambda: core.set_params(speed=1.0), lambda: core.record_episodes([0])):
        with pytest.raises(ConfigError, match="host environments cannot"):
            call()
    with pytest.raises(CaptureError, match="CUDA graph"):
        core.capture(lambda: None)
    with pytest.raises(ConfigError, match="schedule: expected none"):
        gpu_envs.make_core("gymnasium:CartPole-v1", schedule="fused")
    with pytest.raises(ConfigError, match="workers: expected none, as kernels play all worlds"):
        gpu_envs.make_core("KuhnPoker-v0", workers=2)
    with pytest.raises(ConfigError, match="expected an environment with rules"):
        gpu_envs.definition.registry.find("gymnasium:CartPole-v1").load()


def test_action_errors_name_agent_and_world_before_a_world_steps():
    core = _countdown(settings={"masks": True})
    core.reset()
    core.step(_same_actions(core))
    with pytest.raises(ActionError, match=r"action of walker_0 in world 0: expected a legal action .* got 1"):
        core.step(torch.ones_like(core.action_buffer))
    with pytest.raises(ActionError, match="got 3"):
        core.step(torch.full_like(core.action_buffer, 3))
    with pytest.raises(ActionError, match=r"expected a torch\.int64 tensor"):
        core.step(core.action_buffer.float())
    core.step(_same_actions(core))
    assert core.elapsed_steps.tolist() == [2, 2]


def test_observations_of_views_have_their_shapes():
    env = gpu_envs.make("gymnasium:CartPole-v1", num_envs=2, device="cpu", seed=0)
    obs, info = env.reset()
    assert obs["agent_0"].shape == (2, 4)
    assert set(info["agent_0"]) == {"valid", "alive", "final_obs", "episode_return", "episode_length"}
    obs, *_ = env.step(env.sample_actions())
    assert obs["agent_0"].shape == (2, 4)


def test_worlds_of_a_batch_that_cannot_be_made_are_closed():
    closed = []

    class Mixed(Countdown):
        def action_space(self, agent):
            return spaces.Box(-1.0, 1.0, (1,)) if agent == "flyer_0" else super().action_space(agent)

        def close(self):
            closed.append(self)

    with pytest.raises(ConfigError, match="expected action spaces of one kind"):
        gpu_envs.from_pettingzoo(Mixed, 2)
    gc.collect()
    assert len(closed) == 2
