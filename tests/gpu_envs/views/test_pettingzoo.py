"""The single-world view: PettingZoo's own tests, and what they leave out."""

import copy
import re
import warnings
from functools import partial

import gymnasium
import numpy as np
import pettingzoo
import pytest
from gymnasium import spaces
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, render_test, seed_test
from pettingzoo.utils import parallel_to_aec
from pettingzoo_worlds import assert_equal, sample
from small_environments import BRIEF, SMALL, refuses_illegal

import gpu_envs
from gpu_envs import mpe
from gpu_envs.definition.registry import list_envs
from gpu_envs.errors import ActionError, ConfigError, ResetNeededError, UnknownEnvironmentError
from gpu_envs.runtime.factory import LIMIT_NAMES
from gpu_envs.views.single_env import FIXED

pytestmark = pytest.mark.representative
RENDERED = ("CartPole-v1", "Hanabi-v0", "SimpleTag-v0")


def seen_by(obs):
    """Return the observation of an agent without its mask."""
    return obs["observation"] if isinstance(obs, dict) else obs


def test_pettingzoo_tests_pass(small, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the API test reports half of its findings as warnings
        parallel_api_test(small(), num_cycles=100)
        parallel_seed_test(small, num_cycles=50)


@pytest.mark.filterwarnings("ignore:Agent|Action space|Observation")  # bounds, widths, empty boards, masks
def test_pettingzoo_tests_of_turns_pass(small, capsys):
    """Run the tests on the AEC form; the seed test samples without masks."""
    api_test(parallel_to_aec(small()), num_cycles=50)
    seed_test(lambda: parallel_to_aec(small()), num_cycles=20)


def test_pettingzoo_test_with_masks_passes(toys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(gpu_envs.parallel_env("Toy-v0"), num_cycles=100)


@pytest.mark.parametrize(
    "env_id",
    [pytest.param(env_id, marks=[pytest.mark.slow] * (env_id not in RENDERED)) for env_id in list_envs()],
)
@pytest.mark.usefixtures("hidden_window")
def test_pettingzoo_render_test_passes(small):
    render_test(lambda render_mode: parallel_to_aec(small(render_mode=render_mode)))


def test_results_equal_the_core(small, small_core, env_id):
    """Equal seeds and actions give the results of core.step by agent, without agents that have left."""
    env, core = small(), small_core(env_id, 1, autoreset="disabled")
    obs, _ = env.reset(seed=3)
    core.reset(seed=3)
    left = 0
    while env.agents:
        acted = list(env.agents)
        action = core.sample_actions()
        shapes = {agent: core.action_spaces[agent].shape or () for agent in acted}
        parts = {agent: action[0, core.possible_agents.index(agent)].numpy() for agent in acted}
        results = env.step(
            {agent: part[: shapes[agent][0]] if shapes[agent] else part for agent, part in parts.items()}
        )
        obs, reward, terminated, truncated, _ = core.step(action)
        for result in results:
            assert list(result) == acted
        for agent in acted:
            row = core.possible_agents.index(agent)
            width = core.observation_spaces[agent].shape[0]
            assert_equal(seen_by(results[0][agent]), obs[0, row, :width].numpy())
            assert results[1][agent] == reward[0, row].item()
            assert results[2][agent] == terminated[0, row].item()
            assert results[3][agent] == truncated[0, row].item()
            assert [type(part[agent]) for part in results[1:]] == [float, bool, bool, dict]
            assert env.observation_space(agent).contains(results[0][agent])
        done = {agent for agent in acted if results[2][agent] or results[3][agent]}
        assert env.agents == [agent for agent in acted if agent not in done]
        left += len(done)
        np.testing.assert_array_equal(env.state(), core.state()[0].numpy())
        assert env.state_space.contains(env.state())
    assert left == env.max_num_agents == len(env.possible_agents)


def test_results_are_copies(small):
    env = small()
    results = [env.reset(seed=0)[0]]
    results.append(env.step(sample(env, results[0]))[0])
    results.append(env.step(sample(env, results[1]))[0])
    copies = copy.deepcopy(results)
    handed = [obs for result in results for obs in result.values()]
    parts = [part for obs in handed for part in (obs.values() if isinstance(obs, dict) else [obs])]
    arrays = [array for part in parts for array in (part if isinstance(part, tuple) else [part])]
    arrays += [env.state(), env.state()]
    for i, values in enumerate(arrays):
        for other in arrays[i + 1 :]:
            assert not np.shares_memory(values, other)
    for array in arrays:
        array += 1
    assert_equal(env.reset(seed=0)[0], copies[0])


def test_metadata_and_spaces(small, env_id):
    env, twin = small(), small()
    assert isinstance(env, pettingzoo.ParallelEnv)
    assert env.unwrapped is env
    assert env.metadata["name"] == env_id == str(env)
    assert env.metadata["is_parallelizable"]
    assert env.metadata["render_modes"] == ["rgb_array", "human"]
    assert env.metadata["render_fps"] > 0
    assert env.agents == []
    assert env.num_agents == 0
    assert len({id(env.action_space(agent)) for agent in env.possible_agents}) == len(env.possible_agents)
    for agent in env.possible_agents:
        assert env.observation_space(agent) is env.observation_space(agent)
        assert env.action_space(agent) is not twin.action_space(agent)  # seeded apart


@pytest.mark.skipif(not hasattr(pettingzoo, "register"), reason="PettingZoo has a registry since 1.27")
def test_pettingzoo_registry_has_all_ids(env_id):
    full = f"gpu_envs/{env_id}"
    assert pettingzoo.spec("parallel", full).entry_point == "gpu_envs.views.pettingzoo:parallel_env"
    for kind, base in (("parallel", pettingzoo.ParallelEnv), ("aec", pettingzoo.AECEnv)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # PettingZoo warns of a class of another kind
            env = pettingzoo.make(kind, full, **SMALL[env_id])
        assert isinstance(env, base)
        assert env.metadata["name"] == env_id == str(env)
    small = {name: value for name, value in SMALL[env_id].items() if name not in LIMIT_NAMES}
    cut = pettingzoo.make("parallel", full, **small, max_cycles=3)
    for i, agent in enumerate(cut.possible_agents):
        cut.action_space(agent).seed(i)
    cuts = 0
    for seed in range(8):
        obs, _ = cut.reset(seed=seed)
        for _ in range(3):
            if cut.agents:
                obs, _, _, truncated, _ = cut.step(sample(cut, obs))
        assert not cut.agents
        cuts += sum(truncated.values())
    assert (cuts > 0) == (env_id not in BRIEF)


def test_max_cycles_is_harmless_as_an_attribute(small):
    env = small()
    limit = env.max_cycles
    env.max_cycles = 10_000
    obs, _ = env.reset(seed=0)
    steps = 0
    while env.agents:
        obs, *_ = env.step(sample(env, obs))
        steps += 1
    assert steps <= limit < 10_000


def test_steps_outside_an_episode_raise(small):
    env = small()
    with pytest.raises(ResetNeededError, match="before the first reset; call reset"):
        env.step({})
    with pytest.raises(ResetNeededError):
        env.step({agent: env.action_space(agent).sample() for agent in env.possible_agents})
    obs, _ = env.reset()
    while env.agents:
        obs, *_ = env.step(sample(env, obs))
    assert env.step({}) == ({}, {}, {}, {}, {})  # as PettingZoo's own environments, and as SuperSuit expects
    with pytest.raises(ResetNeededError, match=r"all agents have left; call reset\(\)"):
        env.step({agent: env.action_space(agent).sample() for agent in env.possible_agents})
    env.reset()
    env.close()
    env.close()
    with pytest.raises(ResetNeededError, match="closed"):
        env.reset()


@pytest.mark.parametrize("name", ["num_envs", "autoreset", "reuse_buffers"])
def test_settings_of_batches_raise(name):
    with pytest.raises(ConfigError, match=f"{name} is fixed"):
        gpu_envs.parallel_env("SimpleTag-v0", **{name: 1})


@pytest.mark.parametrize("settings", [{}, {"illegal_actions": "error"}])
@pytest.mark.parametrize("name", ["num", *(f"{name}_" for name in FIXED)])
@pytest.mark.parametrize(
    "make", [partial(gpu_envs.parallel_env, "SimpleTag-v0"), mpe.simple_tag_v3.parallel_env,
             partial(gymnasium.make, "gpu_envs/SimpleTag-v0", agent="agent_0")],
    ids=["parallel_env", "mpe", "gymnasium"],
)  # fmt: skip
def test_unknown_setting_suggests_no_setting_of_batches(make, name, settings):
    with pytest.raises(ConfigError, match=f"unexpected keyword argument '{name}'; ") as caught:
        make(**{name: 3}, **settings)
    suggested = re.findall(r"\w+", str(caught.value).partition(f"'{name}'; ")[2])
    assert suggested
    assert not set(suggested) & set(FIXED)


def test_invalid_arguments_raise():
    with pytest.raises(UnknownEnvironmentError, match="SimpleTag-v0"):
        gpu_envs.parallel_env("SimpelTag-v0")
    with pytest.raises(ConfigError, match="render_mode"):
        gpu_envs.parallel_env("SimpleTag-v0", render_mode="ansi")
    with pytest.raises(ConfigError, match="max_episode_steps"):
        gpu_envs.parallel_env("SimpleTag-v0", max_episode_steps=0)


def test_actions_without_masks_end_games_instead_of_raising(small, env_id):
    """Actions are sampled from the spaces only, as by random players of other libraries.

    Where players act at once, none can lose by an illegal action: they sample legal ones.
    """
    env, won, masked = small(), [], refuses_illegal(env_id)
    for i, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(i)
    for seed in range(5):
        obs, _ = env.reset(seed=seed)
        while env.agents:
            obs, rewards, *_ = env.step(sample(env, obs if masked else {}))
        won.append(sum(rewards.values()))
    assert len(won) == 5
    assert not env._world.core.definition.zero_sum or won == pytest.approx([0.0] * 5, abs=1e-6)


@pytest.mark.parametrize(("game", "action"), [("Goofspiel-v0", 2), ("OshiZumo-v0", 40)])
def test_illegal_action_of_simultaneous_players_raises(game, action):
    """Player 0 plays a card twice, or bids more coins than it has left."""
    env = gpu_envs.parallel_env(game)
    env.reset(seed=0)
    first, second = env.agents
    env.step({first: action, second: 1})
    with pytest.raises(ActionError, match=f"action {action} of {first} is illegal here"):
        env.step({first: action, second: 0})
    env.step({first: 0, second: 0})


def test_illegal_move_loses_as_in_pettingzoo_classic(monkeypatch):
    """The mover's reward and the end equal TerminateIllegalWrapper's; here the opponent wins what it loses."""
    pytest.importorskip("pygame")
    from pettingzoo.classic.tictactoe import tictactoe

    theirs = tictactoe.env()
    theirs.reset()
    env = gpu_envs.parallel_env("TicTacToe-v0")
    env.reset(seed=0)
    for _ in range(2):  # the second mark goes onto the first
        theirs.step(0)
        _, rewards, terminated, truncated, _ = env.step(dict.fromkeys(env.agents, 0))
    assert rewards == {"player_0": 1.0, "player_1": -1.0}
    assert rewards["player_1"] == theirs.rewards["player_2"]
    assert list(terminated.values()) == list(theirs.terminations.values()) == [True, True]
    assert not any(truncated.values())
    assert env.agents == []


@pytest.mark.parametrize("action", [9, -1, 0.0, None])
def test_action_outside_of_its_space_raises(action):
    env = gpu_envs.parallel_env("TicTacToe-v0")
    env.reset(seed=0)
    with pytest.raises(ActionError, match="of player_0"):
        env.step({"player_0": action, "player_1": 0})
    assert env.agents == ["player_0", "player_1"]


def test_invalid_actions_name_the_agent_and_change_nothing(small):
    env, untouched = small(illegal_actions="error"), small(illegal_actions="error")
    obs, infos = env.reset(seed=0)
    untouched.reset(seed=0)
    good = sample(env, obs)
    last = [agent for agent in env.agents if infos[agent].get("to_move", True)][-1]
    space = env.action_space(last)
    beyond = np.full(space.shape, 1000)
    missing = {agent: action for agent, action in good.items() if agent != last}
    for actions, words in (
        (missing, f"no action for {last}"),
        ({**good, "agent_99": good[last]}, "unknown agent agent_99; the agents are "),
        ({**good, last: None}, f"action of {last}: expected one of .*got NoneType"),
        ({**good, last: np.zeros(17, int)}, f"action of {last}: expected one of .*got int64 \\(17,\\)"),
        ({**good, last: "left"}, f"action of {last}: expected one of "),
        ({**good, last: beyond}, f"of {last} is out of range"),
        ({**good, last: -1 - beyond}, f"of {last} is out of range"),
        ([1, 2], "actions: expected a dict by agent, got list"),
    ):
        with pytest.raises(ActionError, match=words):
            env.step(actions)
    for mine, theirs in zip(env.step(good), untouched.step(good), strict=True):
        assert_equal(mine, theirs)


def test_continuous_actions_are_checked():
    env = gpu_envs.parallel_env("SimpleTag-v0", continuous_actions=True, max_cycles=5)
    env.reset(seed=0)
    good = {agent: env.action_space(agent).sample() for agent in env.agents}
    for bad in (np.nan, np.inf, 1.5, -0.5):
        with pytest.raises(ActionError, match="of agent_0 is out of range"):
            env.step({**good, "agent_0": [bad, 0, 0, 0, 0]})
    env.step({**good, "agent_0": [0, 1, 0, 0, 0]})  # lists and ints will do
    env.step({agent: action.astype(np.float64) for agent, action in good.items()})


def test_action_masks_are_in_observations_only(toys):
    """Masks are in the observation and its space; illegal actions raise with the agent's name."""
    env = gpu_envs.parallel_env("Toy-v0", length=3)
    obs, infos = env.reset(seed=0)
    masks = set()
    for _ in range(40):
        if not env.agents:
            obs, infos = env.reset()
        for agent in env.agents:
            assert isinstance(env.observation_space(agent), spaces.Dict)
            assert env.observation_space(agent).contains(obs[agent])
            mask = obs[agent]["action_mask"]
            assert mask.dtype == np.int8
            assert "action_mask" not in infos[agent]  # TorchRL fails with a mask in both
            masks.add(tuple(mask))
            for choice in np.flatnonzero(mask == 0):
                with pytest.raises(ActionError, match=rf"action {choice} of {agent} is illegal here"):
                    env.step({**sample(env, obs), agent: choice})
        obs, _, _, _, infos = env.step(sample(env, obs))
    assert masks >= {(1, 0, 1), (1, 1, 1)}


def test_actions_are_checked_all_at_once(monkeypatch):
    """A hundred agents do not ask a hundred spaces; only an error does."""
    env = gpu_envs.parallel_env("TagContinuous-v0")
    env.reset(seed=0)
    actions = {agent: env.action_space(agent).sample() for agent in env.agents}
    checks, contains = [], spaces.MultiDiscrete.contains
    monkeypatch.setattr(spaces.MultiDiscrete, "contains", lambda space, x: checks.append(x) or contains(space, x))
    env.step(actions)
    assert len(actions) == 105
    assert not checks
    last = env.agents[-1]
    for bad in (actions[last] - 1000, actions[last] + 1000):
        with pytest.raises(ActionError, match=f"of {last} is out of range"):
            env.step(actions | {last: bad})
