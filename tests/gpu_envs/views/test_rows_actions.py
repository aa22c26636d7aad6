"""gymnasium.make_vec: actions, opponents and arguments of agent rows."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from gpu_envs.errors import ActionError, ConfigError, ResetNeededError
from gpu_envs.runtime.factory import make_core

NEXT_STEP, SAME_STEP, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED


def test_actions_are_accepted_in_many_forms(many):
    env, twin = many(3, illegal_actions="error"), many(3, illegal_actions="error")
    env.reset(seed=0)
    twin.reset(seed=0)
    other = np.float64 if env.core.action_kind == "continuous" else np.int32
    forms = [np.asarray, np.ndarray.tolist, torch.as_tensor]
    forms += [lambda action: action.astype(np.int32), lambda action: torch.as_tensor(action.astype(np.int8))]
    forms += [lambda action: action.astype(other), lambda action: torch.as_tensor(action.astype(other))]
    if env.core.action_kind == "discrete":
        forms += [lambda action: action[:, None], lambda action: torch.as_tensor(action[:, None])]
    for form in forms:
        action = env.sample_actions().numpy()
        action = np.rint(action).astype(action.dtype)
        left, right = env.step(form(action)), twin.step(torch.as_tensor(action))
        assert torch.equal(left[0], right[0])
        assert torch.equal(left[1], right[1])
    env.reset(seed=0)  # a world whose episode has ended ignores actions
    short = torch.as_tensor(action)[:-1]
    bads = [
        (short, "actions: expected torch.int64"),
        (action.astype(np.float32), "actions: expected numbers of .*got float32"),
        (torch.as_tensor(action).float(), r"got torch.float32"),
        (torch.as_tensor(action).bool(), r"got torch.bool"),
        (torch.as_tensor(action)[..., None, None], "actions: expected torch.int64"),
        (action + 1000, "is out of range"),
    ]
    if env.core.action_kind == "continuous":
        bads = [
            (short, "actions: expected torch.float32"),
            (action.astype(bool), "actions: expected numbers of .*got bool"),
            (torch.as_tensor(action).bool(), r"got torch.bool"),
            (torch.as_tensor(action)[..., None], "actions: expected torch.float32"),
            (action * np.float32(np.nan), "is not finite"),
        ]
    for bad, words in bads:
        with pytest.raises(ActionError, match=words):
            env.step(bad)


def test_opponents_can_be_scripted():
    calls = []

    def idle(obs):
        calls.append(obs.shape)
        return torch.zeros(obs.shape[:2], dtype=torch.int64)

    settings = {"num_envs": 3, "group": "adversary", "device": "cpu"}
    env = gymnasium.make_vec("gpu_envs/SimpleTag-v0", opponents={"agent": idle}, **settings)
    core = make_core("SimpleTag-v0", 3, "cpu", autoreset="next_step")
    env.reset(seed=1)
    core.reset(seed=1)
    action = core.sample_actions()
    action[:, 3] = 0
    obs = env.step(action[:, :3].reshape(-1))[0]
    expected = core.step(action)[0]
    assert torch.equal(obs, expected[:, :3].reshape(9, 16))
    assert calls == [(3, 1, 14)]


def test_actions_of_opponents_are_checked():
    """A policy of another group that answers in a wrong form is named, and nothing moves."""
    settings = {"num_envs": 3, "group": "adversary", "device": "cpu"}
    discrete = gymnasium.make_vec("gpu_envs/SimpleTag-v0", **settings)
    boxes = gymnasium.make_vec("gpu_envs/SimpleTag-v0", continuous_actions=True, **settings)
    for env, bads in (
        (discrete, [torch.full((3, 1), 1.7), torch.ones(1, dtype=torch.int64), torch.ones(3, 1).int(), 2, None]),
        (boxes, [torch.zeros(3, 1), torch.zeros(3, 1, 1), torch.zeros(3, 1, 5).double(), np.zeros((3, 1, 5))]),
    ):
        env.reset(seed=0)
        for bad in bads:
            env.set_opponents({"agent": lambda obs, bad=bad: bad})
            with pytest.raises(
                ActionError, match=r"SimpleTag-v0: action of group 'agent': expected a torch\.(int64|float32)"
            ):
                env.step(env.sample_actions())
        assert not env.core.elapsed_steps.any()
        good = torch.zeros((3, 1, 5), requires_grad=True) if env is boxes else torch.ones((3, 1), dtype=torch.int64)
        env.set_opponents({"agent": lambda obs, good=good: good})
        assert not env.step(env.sample_actions())[0].requires_grad


@pytest.mark.parametrize("reuse", [False, True])
def test_observations_of_opponents_are_copies(reuse):
    """Copies; with reused buffers the live ones, as everything then."""
    pairs = []

    def idle(obs):
        pairs.append((obs, obs.clone()))
        return torch.zeros(obs.shape[:2], dtype=torch.int64)

    env = gymnasium.make_vec(
        "gpu_envs/SimpleTag-v0", num_envs=3, group="adversary", opponents=idle, reuse_buffers=reuse, device="cpu"
    )
    env.reset(seed=0)
    for _ in range(4):
        env.step(env.sample_actions())
    unchanged = [torch.equal(obs, copy) for obs, copy in pairs[:-1]]
    assert not any(unchanged) if reuse else all(unchanged)


def test_actions_are_sampled_only_for_random_opponents(monkeypatch):
    """Random actions are not sampled if no agent uses them."""

    def idle(obs):
        return torch.zeros(obs.shape[:2], dtype=torch.int64)

    env = gymnasium.make_vec("gpu_envs/SimpleTag-v0", num_envs=3, group="adversary", device="cpu")
    env.reset(seed=0)
    draws, drawn = [], env.core.sample_actions
    monkeypatch.setattr(env.core, "sample_actions", lambda: draws.append(1) or drawn())
    action = torch.ones(9, dtype=torch.int64)
    for opponents, expected in (
        ("random", 1),
        (idle, 1),
        ({}, 2),
        ({"agent": idle}, 2),
        ({"agent": "random"}, 3),
    ):
        env.set_opponents(opponents)
        env.step(action)
        assert len(draws) == expected


@pytest.mark.parametrize("group", ["adversary", "agent", None])
def test_results_are_copied_once_and_kept(group):
    """Returned results never change later, for the rows of a group and of all agents."""
    env_id = "SimpleTag-v0" if group else "SimpleSpread-v0"
    env = gymnasium.make_vec(f"gpu_envs/{env_id}", num_envs=5, group=group, autoreset_mode=SAME_STEP, device="cpu")
    results = []

    def keep(result):
        for value in result.values() if isinstance(result, dict) else result:
            if isinstance(value, dict | tuple):
                keep(value)
            else:
                results.append((value, value.clone()))

    keep(env.reset(seed=0))
    for _ in range(30):
        action = env.sample_actions()
        keep((action,))
        keep(env.step(action))
    assert all(torch.equal(value, copy) for value, copy in results)
    if group:  # the core does not make copies that would be copied again
        assert env.core.step(env.core.sample_actions())[0].data_ptr() == env.core.obs.data_ptr()


def test_invalid_action_is_shown_in_the_error():
    env = gymnasium.make_vec("gpu_envs/SimpleTag-v0", num_envs=3, group="adversary", device="cpu")
    env.reset(seed=0)
    action = env.sample_actions()
    action[4] = 77
    with pytest.raises(ActionError, match="action 77 of adversary_1 in world 1 is out of range"):
        env.step(action)


@pytest.mark.parametrize("bad", [-1, True, 1.0, "abc", [1, 2]])
def test_invalid_seed_changes_nothing(bad):
    make = {"group": "adversary", "device": "cpu"}
    rows = gymnasium.make_vec("gpu_envs/SimpleTag-v0", num_envs=3, **make)
    single = gymnasium.make("gpu_envs/SimpleTag-v0", agent="agent_0").unwrapped
    for env in (rows, single):
        first, _ = env.reset(seed=np.int64(4))
        assert np.array_equal(first, env.reset(seed=4)[0])
        state = env.core.get_state(), env.np_random.bit_generator.state
        with pytest.raises(ConfigError, match="SimpleTag-v0: seed: expected an int"):
            env.reset(seed=bad)
        assert all(torch.equal(value, state[0][name]) for name, value in env.core.get_state().items())
        assert env.np_random.bit_generator.state == state[1]


def test_invalid_arguments_of_make_vec_raise():
    def make(**settings):
        return gymnasium.make_vec(
            "gpu_envs/SimpleTag-v0", num_envs=2, **{"group": "agent", "device": "cpu", **settings}
        )

    for settings, words in (
        ({"group": None}, "the spaces of its groups differ, .*choose group='adversary' or group='agent'"),
        ({"group": "prey"}, "group: expected one of adversary, agent, got 'prey'"),
        ({"autoreset_mode": "never"}, "autoreset_mode: expected one of 'next_step', .*got 'never'"),
        ({"autoreset_mode": ["NextStep"]}, r"autoreset_mode: expected one of .*got \['NextStep'\]"),
        ({"autoreset": "same_step"}, "autoreset is not a setting of rows; use autoreset_mode"),
        ({"opponents": {"agent": "random"}}, "opponents has no 'agent' to play; it has adversary"),
        ({"render_mode": "ansi"}, "render_mode"),
        ({"max_episode_steps": -1}, "max_episode_steps"),
        ({"agent": "fox", "group": None}, "no agent named 'fox'; expected one of adversary_0, "),
        ({"agent": "agent_0"}, "expected one of group and agent, got both"),
    ):
        with pytest.raises(ConfigError, match=words):
            make(**settings)
    with pytest.raises(ResetNeededError, match="before the first reset"):
        make().step(torch.zeros(2, dtype=torch.int64))


def test_rows_of_one_agent_of_a_group():
    """Its group's policy plays the others of the group, and a policy by agent goes before it."""
    shapes, core = [], make_core("SimpleTag-v0", 3, "cpu", seed=2)

    def policy(choice):
        def act(obs):
            shapes.append(tuple(obs.shape))
            return torch.full(obs.shape[:2], choice)

        return act

    settings = {"agent": "adversary_1", "device": "cpu", "seed": 2}
    for opponents, actions, expected_shapes in (
        ({"adversary": policy(4), "agent": policy(2)}, [4, 1, 4, 2], [(3, 2, 16), (3, 1, 14)]),
        ({"adversary": policy(4), "adversary_0": policy(3), "agent": policy(2)}, [3, 1, 4, 2],
         [(3, 1, 16), (3, 1, 16), (3, 1, 14)]),
    ):  # fmt: skip
        env = gymnasium.make_vec("gpu_envs/SimpleTag-v0", num_envs=3, opponents=opponents, **settings)
        assert env.agents == ["adversary_1"]
        assert env.num_envs == 3
        env.reset(seed=5)
        core.reset(seed=5)
        shapes.clear()
        obs, reward, *_ = env.step(torch.ones(3, dtype=torch.int64))
        expected = core.step(torch.tensor([actions] * 3))
        assert shapes == expected_shapes
        assert torch.equal(obs, expected[0][:, 1, :16])
        assert torch.equal(reward, expected[1][:, 1])
    rows_env = gymnasium.make_vec("gpu_envs/SimpleTag-v0", num_envs=3, opponents={"adversary_0": policy(3)}, **settings)
    rows_env.reset(seed=5)
    core.reset(seed=5)
    joint = core.sample_actions()
    joint[:, 0], joint[:, 1] = 3, 1
    assert torch.equal(rows_env.step(torch.ones(3, dtype=torch.int64))[0], core.step(joint)[0][:, 1, :16])


@pytest.mark.parametrize(("game", "agent"), [("TicTacToe-v0", "player_1"), ("KuhnPoker-v0", "player_0")])
def test_rows_of_a_player_equal_the_single_environment(game, agent):
    """Against the same opponents, world 0 of the rows plays the games of ``gymnasium.make``."""
    rows = gymnasium.make_vec(
        f"gpu_envs/{game}",
        num_envs=2,
        agent=agent,
        opponents=lambda obs, mask: mask.int().argmax(-1),
        autoreset_mode="disabled",
        device="cpu",
    )
    env = gymnasium.make(f"gpu_envs/{game}", agent=agent, opponents=lambda obs, mask: int(mask.argmax()))
    results = []
    for seed in range(6):
        obs, info = rows.reset(seed=seed)
        single, _ = env.reset(seed=seed)
        over = False
        while not over:
            assert torch.equal(obs[0], torch.from_numpy(single))
            choices = info["action_mask"].int()
            actions = choices.shape[1] - 1 - choices.flip(1).argmax(1)  # the last legal ones
            obs, reward, terminated, _, info = rows.step(actions)
            single, value, over, _, _ = env.step(int(actions[0]))
            assert (reward[0].item(), terminated[0].item()) == (value, over)
        results.append(value)
    assert any(results)
