"""gymnasium.make_vec: agent rows."""

import warnings

import gymnasium
import numpy as np
import pytest
import torch
import toy
import turns
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics
from small_environments import BRIEF, SMALL, group_of

from gpu_envs import wrappers
from gpu_envs.errors import ActionError, ConfigError, ResetNeededError
from gpu_envs.runtime.factory import make_core

pytestmark = pytest.mark.representative

NEXT_STEP, SAME_STEP, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED


def test_rows_describe_themselves(many, env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = many(4)
    members = env.core.groups[group_of(env_id)]
    assert isinstance(env, gymnasium.vector.VectorEnv)
    assert env.num_envs == 4 * len(members)
    assert env.agents == [env.core.possible_agents[row] for row in members]
    assert env.metadata["autoreset_mode"] is env.autoreset_mode is NEXT_STEP
    assert env.metadata["name"] == env_id
    assert env.spec.id == f"gpu_envs/{env_id}"
    assert env.single_observation_space == env.core.observation_spaces[env.agents[0]]
    assert env.observation_space.shape == (env.num_envs, *env.single_observation_space.shape)
    assert env.action_space.shape == (env.num_envs, *env.single_action_space.shape)
    assert env.unwrapped is env
    obs, info = env.reset(seed=5)
    assert env.np_random_seed == 5
    assert isinstance(obs, torch.Tensor)
    assert obs.shape == env.observation_space.shape
    assert info["alive"].all()
    assert info["_alive"].all()
    assert not env.closed
    env.close()
    env.close()
    assert env.closed
    with pytest.raises(ResetNeededError, match="closed"):
        env.reset()


MODES = {NEXT_STEP: "next_step", SAME_STEP: "same_step", DISABLED: "disabled"}


@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=[pytest.mark.slow] * (mode is not SAME_STEP)) for mode in MODES]
)
def test_rows_are_the_core_world_by_world(many, small_core, env_id, mode):
    follow(many(6, autoreset_mode=mode), small_core(env_id, 6, autoreset=MODES[mode]), group_of(env_id), mode)


@pytest.mark.parametrize("mode", MODES)
def test_rows_of_agents_that_leave_one_by_one(toys, mode):
    """Some reach the goal and some are cut, all before their world ends."""
    env = gymnasium.make_vec("gpu_envs/Toy-v0", num_envs=6, tires=3, autoreset_mode=mode, device="cpu")
    core = make_core("Toy-v0", 6, "cpu", tires=3, autoreset=MODES[mode])
    kinds = follow(env, core, "walker", mode)
    assert {(1, 2), (2, 1), (3, 0)} <= kinds


def follow(env, core, group, mode):
    """Compare rows with the core for every world and agent, with an explicit definition of a row's end.

    Returns how worlds ended: pairs (rows terminated, rows truncated).
    """
    members = core.groups[group]
    places = [(world, row) for world in range(6) for row in members]
    width = env.single_observation_space.shape[0]

    def rows(tensor, columns=None):
        return torch.stack([tensor[world, row, ..., :columns] for world, row in places])

    def reset_both(seed=None, mask=None):
        options = None if mask is None else {"reset_mask": mask.repeat_interleave(len(members)).numpy()}
        obs, _ = env.reset(seed=seed, options=options)
        first, _ = core.reset(seed=seed, reset_mask=mask)
        assert torch.equal(obs, rows(first, width))
        cut[slice(None) if mask is None else mask] = False

    cut = torch.zeros(6, core.num_agents, dtype=torch.bool)  # by its own end, earlier in this episode
    reset_both(seed=2)
    kinds, ends, deaths = set(), 0, 0
    for t in range(60):
        waiting = ~core.alive.any(1)
        action, mine = core.sample_actions(), env.sample_actions()
        drawn = torch.stack([action[world, row] for world, row in places])
        # other groups may have more components
        assert torch.equal(mine, drawn[:, : mine.shape[1]] if mine.dim() > 1 else drawn)
        obs, reward, terminated, truncated, info = env.step(mine)
        c_obs, c_reward, c_terminated, c_truncated, c_info = core.step(action)
        cut |= c_truncated
        over = ~waiting & ~(c_info["valid"] & ~(c_terminated | c_truncated)).any(1)
        assert torch.equal(obs, rows(c_obs, width))
        for value, expected in (
            (reward, c_reward),
            (info["alive"], c_info["alive"]),
            (info["valid"], c_info["valid"]),
        ):
            assert torch.equal(value, torch.stack([expected[world, row] for world, row in places]))
        figures = info["final_info"] if mode is SAME_STEP else info
        assert ("final_obs" in info) == (mode is SAME_STEP)
        for k, (world, row) in enumerate(places):
            assert terminated[k] == (over[world] and not cut[world, row])
            limit = core.definition.max_episode_steps
            at_limit = not core.definition.time_limit_terminates and c_info["episode_length"][world, row] == limit
            assert truncated[k] == (over[world] and bool(cut[world, row] or at_limit))
            assert figures["_episode_return"][k] == figures["_episode_length"][k] == over[world]
            if over[world]:
                assert figures["episode_return"][k] == c_info["episode_return"][world, row]
                assert figures["episode_length"][k] == c_info["episode_length"][world, row]
            if mode is SAME_STEP:
                assert info["_final_obs"][k] == info["_final_info"][k] == over[world]
                if over[world]:
                    assert torch.equal(info["final_obs"][k], c_info["final_obs"][world, row, :width])
            if not c_info["valid"][world, row] and not waiting[world]:  # it died earlier in this episode
                deaths += 1
                assert reward[k] == 0
                if not (over[world] and mode is SAME_STEP):
                    assert not obs[k].any()
                    assert not info["alive"][k]
        for world in over.nonzero()[:, 0].tolist():
            mine = slice(world * len(members), (world + 1) * len(members))
            kinds.add((int(terminated[mine].sum()), int(truncated[mine].sum())))
            ends += 1
        cut[over] = False
        if mode is DISABLED:
            reset_both(mask=(torch.arange(6) == t % 9) | ~core.alive.any(1))  # one of them, at times, in mid-episode
        elif t % 20 == 5:
            reset_both()
    assert ends > 12
    assert deaths > 0 or env.metadata["name"] not in ("TagContinuous-v0", "Toy-v0")
    return kinds


def test_rows_of_all_agents_need_equal_spaces(toys):
    """With equal spaces no group is needed, and every agent has a row with its mask."""
    env = gymnasium.make_vec("gpu_envs/Toy-v0", num_envs=4, autoreset_mode="same_step", device="cpu")
    assert env.num_envs == 12
    _, info = env.reset(seed=0)
    for _ in range(20):
        assert info["action_mask"].shape == (12, 3)
        assert info["_action_mask"].all()
        action = env.sample_actions()
        assert info["action_mask"].gather(1, action[:, None]).all()
        *_, info = env.step(action)
    illegal = (~info["action_mask"]).nonzero()
    row, choice = illegal[0].tolist()
    action = env.sample_actions()
    action[row] = choice
    with pytest.raises(ActionError, match=rf"of walker_{row % 3} in world {row // 3} is illegal"):
        env.step(action)


def test_rows_of_a_turn_based_game(monkeypatch):
    """The info of a row says whether its agent is to move."""
    toy.announce(monkeypatch, "Nim-v0", turns)
    env = gymnasium.make_vec("gpu_envs/Nim-v0", num_envs=4, device="cpu", autoreset_mode="same_step")
    _, info = env.reset(seed=0)
    for _ in range(6):
        assert torch.equal(info["to_move"], env.core.to_move.reshape(8))
        assert info["_to_move"].all()
        assert (info["to_move"].reshape(4, 2).sum(1) == 1).all()
        *_, info = env.step(env.sample_actions())


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
def test_numpy_rows_suit_gymnasiums_wrappers(many, mode):
    env, plain = many(5, to_numpy=True, autoreset_mode=mode), many(5, autoreset_mode=mode)
    # Gymnasium 1.2 counts wrongly with SAME_STEP, whatever the environment
    wrapped = DictInfoToList(RecordEpisodeStatistics(env) if mode is NEXT_STEP else env)
    obs, infos = wrapped.reset(seed=4)
    other, _ = plain.reset(seed=4)
    ended = 0
    for _ in range(24):
        np.testing.assert_array_equal(obs, other.numpy())
        assert env.observation_space.contains(obs)
        action = plain.sample_actions()
        other, *_ = plain.step(action)
        obs, reward, terminated, truncated, infos = wrapped.step(action.numpy())
        assert all(isinstance(value, np.ndarray) for value in (obs, reward, terminated, truncated))
        for k, info in enumerate(infos):
            done = bool(terminated[k] or truncated[k])
            ended += done
            assert ("final_obs" in info) == (done and mode is SAME_STEP)
            if "final_obs" in info:
                assert info["final_obs"].shape == env.single_observation_space.shape
                assert set(info["final_info"]) == {"episode_return", "episode_length", *plain.core.definition.info}
            elif done:
                assert info["episode"]["r"] == pytest.approx(info["episode_return"], abs=1e-4)
    assert ended > env.num_envs


def test_frames_of_rows_are_shared_by_a_world(many, env_id):
    env = many(3, render_mode="rgb_array")
    env.reset(seed=4)
    for _ in range(BRIEF.get(env_id, 2)):  # the boards of games are all empty at first
        env.step(env.sample_actions())
    frames = env.render()
    assert isinstance(frames, tuple)
    assert len(frames) == env.num_envs
    assert frames[0].dtype == np.uint8
    assert frames[0].ndim == 3
    n = len(env.agents)
    np.testing.assert_array_equal(frames[0], frames[n - 1])
    assert not np.array_equal(frames[0], frames[n])
    with pytest.raises(ConfigError, match="render_mode"):
        many(1).render()


@pytest.mark.gpu
def test_rows_on_a_gpu(env_id):
    """Rows stay there, and play as on a CPU; the views of one world bring everything here."""
    settings = {"group": group_of(env_id), "autoreset_mode": SAME_STEP, "fuse_fp": False, **SMALL[env_id]}
    cpu, gpu = (gymnasium.make_vec(f"gpu_envs/{env_id}", num_envs=6, device=d, **settings) for d in ("cpu", "cuda"))
    assert torch.equal(cpu.reset(seed=3)[0], gpu.reset(seed=3)[0].cpu())
    for _ in range(20):
        action = cpu.sample_actions()
        left, right = cpu.step(action), gpu.step(action.cuda())
        assert all(value.is_cuda for value in right[:4])
        for mine, theirs in zip(left[:4], right[:4], strict=True):
            torch.testing.assert_close(mine, theirs.cpu(), rtol=0, atol=1e-5)
    with pytest.raises(ActionError, match=r"on cuda:0, got .* on cpu"):
        gpu.step(action)
    gpu.step(gpu.sample_actions().cpu().numpy())
    gpu.unwrapped.core.raise_pending_errors()
    env = gymnasium.make(f"gpu_envs/{env_id}", agent=f"{group_of(env_id)}_0", device="cuda", **SMALL[env_id])
    obs, info = env.reset(seed=3)
    assert env.observation_space.contains(obs)
    env.action_space.seed(3)
    assert env.observation_space.contains(env.step(env.action_space.sample(info.get("action_mask")))[0])


@pytest.mark.gpu
@pytest.mark.parametrize("mode", MODES)
def test_rollout_of_rows_needs_no_host_sync(mode):
    """Masks of resets, scripted groups and wrappers included."""
    env = gymnasium.make_vec(
        "gpu_envs/SimpleTag-v0",
        num_envs=64,
        group="adversary",
        opponents={"agent": lambda obs: torch.zeros(obs.shape[:2], dtype=torch.int64, device=obs.device)},
        autoreset_mode=mode,
        max_cycles=5,
        device="cuda",
    )
    env = wrappers.NormalizeReward(wrappers.NormalizeObservation(wrappers.RecordEpisodeStatistics(env)))
    env.reset(seed=0)
    over = torch.zeros(env.num_envs, dtype=torch.bool, device="cuda")
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(12):
            if mode is DISABLED:
                env.reset(options={"reset_mask": over})
            _, _, terminated, truncated, _ = env.step(env.unwrapped.sample_actions())
            over = terminated | truncated
    finally:
        torch.cuda.set_sync_debug_mode("default")
    env.close()


def test_own_actions_of_reused_buffers():
    """With one world the sampled actions are a view of the buffer of all actions."""
    settings = {"num_envs": 1, "group": "adversary", "device": "cpu"}
    env, copy = (
        gymnasium.make_vec("gpu_envs/SimpleTag-v0", **settings, reuse_buffers=reuse) for reuse in (True, False)
    )
    env.reset(seed=0)
    copy.reset(seed=0)
    for _ in range(5):
        left, right = env.step(env.sample_actions()), copy.step(copy.sample_actions())
        assert torch.equal(left[0], right[0])


def test_seeds_per_world_are_independent(toys):
    """Gymnasium's lists of seeds: one int per world."""
    env = gymnasium.make_vec("gpu_envs/Toy-v0", num_envs=3, device="cpu")
    keys = [5, 2**64 - 1, 7]
    expected = env.core.reset(torch.tensor([5, -1, 7]))[0].reshape(9, -1)
    for form in (keys, tuple(keys), np.array(keys, np.uint64), torch.tensor([5, -1, 7])):
        env.reset(seed=0)
        assert torch.equal(env.reset(seed=form)[0], expected)
    for bad, words in (
        ([1, 2], "one int per world, 3 of them, got 2 seeds"),
        (list(range(9)), "got 9 seeds"),
        ([1, None, 2], r"seed\[1\]: expected an int, got None"),
        (np.array([0.5, 1.0, 2.0]), r"seed\[0\]: expected an int, got 0.5"),
        ("abc", "seed: expected an int"),
    ):
        with pytest.raises(ConfigError, match=words):
            env.reset(seed=bad)


def test_row_of_an_agent_that_left_before_the_limit_only_terminates(toys):
    """Agent 0 walks to the end of the line, the others stay until the limit: they are truncated, it is not."""
    env = gymnasium.make_vec("gpu_envs/Toy-v0", num_envs=1, device="cpu", length=2, max_steps=3, num_agents=3)
    env.reset(seed=0)
    env.core.world_state["cell"].copy_(torch.tensor([[0, 0, 0]]))
    for actions in ([2, 0, 2], [2, 0, 0], [0, 0, 2]):
        *_, terminated, truncated, _ = env.step(torch.tensor(actions))
    assert terminated.tolist() == [True, False, True]
    assert truncated.tolist() == [False, True, True]


def test_reset_masks_are_whole_worlds(toys):
    env = gymnasium.make_vec("gpu_envs/Toy-v0", num_envs=3, autoreset_mode=DISABLED, device="cpu")
    obs, _ = env.reset(seed=0)
    mask = np.zeros(9, np.bool_)
    mask[3:5] = True
    for bad, words in (
        (mask, "the 3 rows of world 1 disagree; set them all alike"),
        (mask[:3], r"expected bool \(9,\), one per row, got torch.bool \(3,\)"),
        (mask.astype(int), r"expected bool \(9,\), one per row, got torch.int64"),
    ):
        with pytest.raises(ActionError, match=words):
            env.reset(options={"reset_mask": bad})
    obs, *_ = env.step(env.sample_actions())
    mask[5] = True
    restarted, _ = env.reset(options={"reset_mask": mask})
    assert torch.equal(restarted[:3], obs[:3])
    assert torch.equal(restarted[6:], obs[6:])
    seeded, _ = env.reset(seed=0, options={"reset_mask": mask})
    assert torch.equal(
        seeded[3:6], gymnasium.make_vec("gpu_envs/Toy-v0", num_envs=3, device="cpu").reset(seed=0)[0][3:6]
    )


def test_reset_mask_on_a_gpu_needs_no_host_sync(toys, monkeypatch):
    """Looking would wait for it; there one row of a world resets it. A CPU's mask is checked (above)."""
    env = gymnasium.make_vec("gpu_envs/Toy-v0", num_envs=3, autoreset_mode=DISABLED, device="cpu")
    env.reset(seed=0)
    env.step(env.sample_actions())
    mask = torch.zeros(9, dtype=torch.bool)
    mask[4] = True
    monkeypatch.setattr(torch.Tensor, "is_cpu", property(lambda tensor: False))
    env.reset(options={"reset_mask": mask})
    assert env.core.elapsed_steps.tolist() == [1, 0, 1]
