"""gymnasium.make: one controlled agent and its opponents."""

import re
import warnings
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv
from small_environments import SMALL, group_of, lenient, refuses_illegal

import gpu_envs
from gpu_envs.errors import ActionError, ConfigError, ResetNeededError
from gpu_envs.runtime.factory import make_core

pytestmark = pytest.mark.representative


@pytest.fixture
def make_env(env_id):
    """Return a function that makes this environment, small, for an agent of `group_of`."""

    def build(**settings):
        learner = f"{group_of(env_id)}_0"
        settings = {"agent": learner, **SMALL[env_id], **settings}
        return gymnasium.make(f"gpu_envs/{env_id}", **settings)

    return build


def sample(env, info, env_id):
    """Return a random action, a legal one where another is an error."""
    return env.action_space.sample(info["action_mask"] if refuses_illegal(env_id) else None)


def test_import_registers_ids(env_id):
    spec = gymnasium.spec(f"gpu_envs/{env_id}")
    assert spec.entry_point == "gpu_envs.views.gymnasium:SingleAgentEnv"
    assert spec.vector_entry_point == "gpu_envs.views.rows:RowsEnv"
    assert gymnasium.envs.registration.EnvSpec.from_json(spec.to_json()) == spec
    assert gymnasium.make(f"gpu_envs:gpu_envs/{env_id}", agent=f"{group_of(env_id)}_0", **SMALL[env_id])


@pytest.mark.parametrize("render_mode", [None, pytest.param("rgb_array", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("hidden_window")
def test_gymnasium_check_env_passes(make_env, env_id, render_mode):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*A Box observation space m.* value is.*infinity")  # it is
        if env_id == "Pendulum-v1":  # as Gymnasium's own
            warnings.filterwarnings("ignore", message=".*recommend using a symmetric and normalized space")
        check_env(make_env(render_mode=render_mode).unwrapped)


def test_single_agent_results_equal_the_core(make_env, small_core, env_id):
    """Opponents are random, from the world's own streams; the episode ends when the agent leaves."""
    env, core = make_env(), small_core(env_id, 1, autoreset="disabled", **lenient(env_id))
    row = core.possible_agents.index(env.unwrapped.agent)
    width = core.observation_spaces[env.unwrapped.agent].shape[0]
    env.action_space.seed(0)
    for episode in range(5):
        seed = 11 if episode == 0 else None
        obs, info = env.reset(seed=seed)
        first, _ = core.reset(seed=seed)
        np.testing.assert_array_equal(obs, first[0, row, :width].numpy())
        assert set(info) - {"action_mask", "to_move"} == set(core.definition.info)
        done = False
        while not done:
            mine = sample(env, info, env_id)
            action = core.sample_actions()
            action[0, row] = torch.as_tensor(mine)
            obs, reward, terminated, truncated, info = env.step(mine)
            results = core.step(action)
            np.testing.assert_array_equal(obs, results[0][0, row, :width].numpy())
            assert obs.dtype == np.float32
            assert [reward, terminated, truncated] == [result[0, row].item() for result in results[1:4]]
            assert [type(value) for value in (reward, terminated, truncated)] == [float, bool, bool]
            done = terminated or truncated
        if terminated or "max_episode_steps" not in SMALL[env_id]:  # else the cut is the wrapper's alone
            with pytest.raises(ResetNeededError, match=r"has left|all agents have left"):
                env.step(mine)


def test_opponents_can_be_scripted():
    """A policy gets its agent's observation; agent keys precede group keys; missing agents act at random."""
    calls = []

    def up(obs):
        calls.append(obs.copy())
        obs += 100  # a policy may scribble
        return 4

    class Frozen:
        def __call__(self, obs):
            return np.int64(0)

    settings = {"agent": "agent_0", "max_cycles": 5}
    env = gymnasium.make("gpu_envs/SimpleTag-v0", opponents={"adversary": up, "adversary_1": Frozen()}, **settings)
    core = make_core("SimpleTag-v0", 1, "cpu", max_cycles=5)
    env.reset(seed=1)
    core.reset(seed=1)
    for _ in range(4):
        previous = core.obs.clone()
        obs, reward, *_ = env.step(1)
        expected = core.step(torch.tensor([[4, 0, 4, 1]]))
        np.testing.assert_array_equal(obs, expected[0][0, 3, :14].numpy())
        assert reward == expected[1][0, 3].item()
        np.testing.assert_array_equal(calls[-2:], previous[0, [0, 2], :16].numpy())
    assert len(calls) == 8
    everyone = gymnasium.make("gpu_envs/SimpleTag-v0", opponents=Frozen(), **settings)
    everyone.reset(seed=1)
    everyone.step(0)
    wrong = gymnasium.make("gpu_envs/SimpleTag-v0", opponents={"adversary_2": lambda obs: 7}, **settings)
    wrong.reset(seed=1)
    with pytest.raises(ActionError, match=r"action 7 of adversary_2 is out of range"):
        wrong.step(0)


def test_agent_can_leave_before_its_opponents(toys):
    env = gymnasium.make("gpu_envs/Toy-v0", agent="walker_1", length=2)
    ends = set()
    for seed in range(12):
        env.reset(seed=seed)
        done, steps = False, 0
        while not done:
            obs, _, done, truncated, _ = env.step(2)
            steps += 1
            assert not truncated
        assert obs[0] == 1.0
        ends.add((steps, len(env.unwrapped._world.agents)))
        with pytest.raises(ResetNeededError, match="left"):
            env.step(2)
    assert any(remaining > 0 for _, remaining in ends)


def test_masks_reach_the_agent_and_its_opponents(toys):
    masks = []

    def first_legal(obs, mask):
        masks.append(mask)
        return int(mask.argmax())

    env = gymnasium.make("gpu_envs/Toy-v0", agent="walker_0", opponents=first_legal)
    for seed in range(10):
        _, info = env.reset(seed=seed)
        mask = info["action_mask"]
        assert mask.dtype == np.int8
        if not mask[1]:
            with pytest.raises(ActionError, match="action 1 of walker_0 is illegal here"):
                env.step(1)
        _, _, _, _, info = env.step(env.action_space.sample(mask))
        assert info["action_mask"].shape == (3,)
    assert len(masks) == 20


def test_single_agent_environments_need_no_agent_argument(toys):
    """No agent is named, and there are as many rows as worlds."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make("gpu_envs/Toy-v0", num_agents=1, length=9, masked=False)
        check_env(env.unwrapped, skip_render_check=True)
        env = gymnasium.make_vec("gpu_envs/Toy-v0", num_envs=5, num_agents=1, masked=False, to_numpy=True, device="cpu")
    assert env.num_envs == env.core.num_envs == 5
    obs, _ = env.reset(seed=0)
    assert env.observation_space.contains(obs)
    assert env.spec.kwargs["num_envs"] == 5


def test_suggested_calls_work(env_id):
    """Whatever argument of another view is given where it does not belong, the calls of the message work."""
    full, group = f"gpu_envs/{env_id}", group_of(env_id)
    wrong = [
        lambda: gymnasium.make(full, agent=f"{group}_0", group=group),
        lambda: gpu_envs.make(env_id, group=group),
        lambda: gpu_envs.make(env_id, opponents="random"),
        lambda: gpu_envs.parallel_env(env_id, agent=f"{group}_0"),
        lambda: make_core(env_id, group=[group]),
    ]
    if len(make_core(env_id, 1, "cpu").possible_agents) > 1:
        wrong.append(lambda: gymnasium.make(full))
    calls = set()
    for call in wrong:
        with pytest.raises(ConfigError) as caught:
            call()
        suggestions = re.findall(r"\b(?:gymnasium|gpu_envs)\.make\w*\(.*?\)", str(caught.value))
        assert len(suggestions) == 3, caught.value
        calls |= set(suggestions)
    assert f"gymnasium.make({full!r}, agent='{group}_0')" in calls
    assert f"gymnasium.make_vec({full!r}, group={group!r})" in calls
    for call in calls:
        eval(call, {"gymnasium": gymnasium, "gpu_envs": gpu_envs}).close()


def test_invalid_arguments_of_make_raise():
    def make(**settings):
        return gymnasium.make("gpu_envs/SimpleTag-v0", **{"agent": "agent_0", **settings})

    for settings, words in (
        ({"agent": "prey"}, "no agent named 'prey'; expected one of adversary_0, "),
        ({"opponents": 3}, "opponents: expected 'random', a policy or a dict"),
        ({"opponents": {"fox": "random"}}, "opponents has no 'fox' to play; it has adversary, adversary_0"),
        ({"opponents": {"agent_0": "random"}}, "opponents has no 'agent_0' to play"),
        ({"opponents": {"adversary": "clever"}}, r"opponents\['adversary'\]: expected 'random' or a policy"),
        ({"num_goods": 2}, "unexpected keyword argument 'num_goods'; did you mean num_good"),
        ({"autoreset": "same_step"}, "autoreset is fixed"),
    ):
        with pytest.raises(ConfigError, match=words):
            make(**settings)
    env = make()
    env.reset()
    for action in (5, -1, 0.0, None, [0]):
        with pytest.raises(ActionError, match=r"of agent_0[ :]"):
            env.step(action)
    with pytest.raises(ResetNeededError, match="before the first reset"):
        make().unwrapped.step(0)


def test_gymnasium_time_limit_and_vectorizer_work(make_env, env_id):
    env = make_env(max_episode_steps=2)
    _, info = env.reset(seed=0)
    *_, terminated, truncated, info = env.step(sample(env, info, env_id))
    if not (terminated or truncated):  # some games may be over at once
        *_, terminated, truncated, info = env.step(sample(env, info, env_id))
    assert terminated or truncated
    settings = {"agent": f"{group_of(env_id)}_0", **SMALL[env_id]}
    rows = gymnasium.make_vec(f"gpu_envs/{env_id}", num_envs=2, vectorization_mode="sync", **settings)
    rows.reset(seed=0)
    rows.step(rows.action_space.sample())


@pytest.mark.parametrize(
    ("game", "agent"),
    [("TicTacToe-v0", "player_1"), ("PhantomTicTacToe-v0", "cross_0"), ("KuhnPoker-v0", "player_1")],
)
def test_waiting_can_be_skipped(game, agent):
    """Steps are the agent's own turns, of the same games as with the steps in which it waits."""

    def first_legal(obs, mask):
        return int(mask.argmax())

    make = partial(gymnasium.make, f"gpu_envs/{game}", agent=agent, opponents=first_legal)
    env, plain = make(skip_waiting=True), make()
    rng, ends = np.random.default_rng(0), []
    for seed in range(8):
        obs, info = env.reset(seed=seed)
        all_obs, all_info = plain.reset(seed=seed)
        over, waits = False, 0
        while not over:
            total = 0.0
            while not over and not all_info["to_move"]:
                all_obs, reward, terminated, truncated, all_info = plain.step(0)
                total, over, waits = total + reward, terminated or truncated, waits + 1
            assert info["to_move"]
            np.testing.assert_array_equal(obs, all_obs)
            assert not over
            action = rng.choice(np.flatnonzero(info["action_mask"]))
            obs, reward, terminated, truncated, info = env.step(action)
            all_obs, total, over, _, all_info = plain.step(action)
            while not over and not all_info["to_move"]:
                all_obs, more, over, _, all_info = plain.step(0)
                total, waits = total + more, waits + 1
            assert (reward, terminated, truncated) == (total, over, False)
        np.testing.assert_array_equal(obs, all_obs)
        assert waits > 0
        ends.append(total)
    assert any(ends)


def test_game_without_a_turn_of_the_agent_is_not_returned(monkeypatch):
    """No game here ends before a player's first turn, so that the first step ends the first game in this test."""
    env = gymnasium.make("gpu_envs/TicTacToe-v0", agent="player_1", skip_waiting=True).unwrapped
    world, played = env._world, []
    play = env._play

    def lose_once(actions):
        if played:
            return play(actions)
        played.append(1)
        world.agents = []  # the game is over

    monkeypatch.setattr(env, "_play", lose_once)
    _, info = env.reset(seed=0)
    assert info["to_move"]
    assert world.core.elapsed_steps.item() == 1
    assert world.core.episode_index.item() == 1  # the second game of the seed


def test_skipped_waiting_of_agents_that_act_at_once_raises():
    with pytest.raises(ConfigError, match="skip_waiting has no effect, because agents act at once"):
        gymnasium.make("gpu_envs/SimpleTag-v0", agent="agent_0", skip_waiting=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda name, **settings: AsyncVectorEnv([partial(gymnasium.make, name, **settings)] * 2, context="spawn"),
        lambda name, **settings: gymnasium.make_vec(
            name, 2, vectorization_mode="async", vector_kwargs={"context": "spawn"}, **settings
        ),
    ],
    ids=["AsyncVectorEnv", "make_vec"],
)
def test_workers_that_are_spawned_find_the_environment(make):
    """A spawned process has imported nothing: the module in front of the id is imported there."""
    envs = make("gpu_envs:gpu_envs/SimpleTag-v0", agent="agent_0", max_cycles=5)
    try:
        obs, _ = envs.reset(seed=3)
        local = gymnasium.make("gpu_envs/SimpleTag-v0", agent="agent_0", max_cycles=5)
        np.testing.assert_array_equal(obs[1], local.reset(seed=4)[0])
        assert envs.step(envs.action_space.sample())[0].shape == (2, 14)
    finally:
        envs.close()


def test_actions_are_sampled_only_for_random_opponents(monkeypatch):
    for env, draws in (
        (gymnasium.make("gpu_envs/CartPole-v1"), 0),
        (gymnasium.make("gpu_envs/SimpleTag-v0", agent="agent_0", opponents=lambda obs: 0), 0),
        (gymnasium.make("gpu_envs/SimpleTag-v0", agent="agent_0"), 1),
    ):
        core, drawn = env.unwrapped.core, []
        sample = core.sample_actions
        monkeypatch.setattr(core, "sample_actions", lambda drawn=drawn, sample=sample: drawn.append(1) or sample())
        env.reset(seed=0)
        env.step(1)
        assert len(drawn) == draws
