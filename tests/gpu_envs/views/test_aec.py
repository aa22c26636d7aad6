"""The AEC view: one agent acts at a time, and only agents that decide are asked."""

from types import SimpleNamespace

import numpy as np
import pytest
from pettingzoo.test import api_test, render_test, seed_test
from pettingzoo.test.max_cycles_test import max_cycles_test
from pettingzoo.utils import wrappers
from pettingzoo_worlds import assert_equal, sample

import gpu_envs
from gpu_envs.definition.registry import list_envs
from gpu_envs.errors import ActionError, ResetNeededError

pytestmark = pytest.mark.representative
RENDERED = ("ConnectFour-v0", "SimpleTag-v0")


def legal(env, observation):
    """Return a random legal action of the selected agent."""
    mask = observation["action_mask"] if isinstance(observation, dict) else None
    return env.action_space(env.agent_selection).sample(mask)


def play(env, seed=0):
    """Play an episode of random legal actions; return the selected agents, their last() and the rewards by agent."""
    env.reset(seed=seed)
    for i, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(seed + i)
    selected, sums = [], dict.fromkeys(env.possible_agents, 0.0)
    for agent in env.agent_iter(10_000):
        observation, reward, terminated, truncated, _ = env.last()
        sums[agent] += reward
        selected.append((agent, terminated or truncated))
        env.step(None if terminated or truncated else legal(env, observation))
    assert not env.agents
    return selected, sums


@pytest.mark.filterwarnings("ignore:Agent|Action|Observation")  # bounds, widths, empty boards, masks
def test_pettingzoo_tests_pass(turns, capsys):
    api_test(turns(), num_cycles=30)
    seed_test(turns, num_cycles=20)


@pytest.mark.parametrize(
    "env_id", [pytest.param(name, marks=[pytest.mark.slow] * (name not in RENDERED)) for name in list_envs()]
)
@pytest.mark.usefixtures("hidden_window")
def test_pettingzoo_render_test_passes(turns):
    render_test(lambda render_mode: turns(render_mode=render_mode))


def test_pettingzoo_max_cycles_test_passes():
    def interface(make):
        return lambda **settings: make("SimpleTag-v0", **settings)

    max_cycles_test(SimpleNamespace(parallel_env=interface(gpu_envs.parallel_env), env=interface(gpu_envs.aec_env)))


@pytest.mark.parametrize(
    ("game", "module"), [("TicTacToe-v0", "tictactoe.tictactoe"), ("ConnectFour-v0", "connect_four.connect_four")]
)
def test_games_equal_those_of_pettingzoo(game, module):
    """Selected agents, masks, rewards and ends of PettingZoo's own games, for games won by either player and draws."""
    pytest.importorskip("pygame")
    theirs = pytest.importorskip(f"pettingzoo.classic.{module}").env()
    ours = gpu_envs.aec_env(game)
    names = dict(zip(theirs.unwrapped.possible_agents, ours.possible_agents, strict=True))
    rng, results = np.random.default_rng(0), []
    for seed in range(30 if game == "TicTacToe-v0" else 8):
        theirs.reset(seed=seed)
        ours.reset(seed=seed)
        score = {}
        while theirs.agents:
            agent = theirs.agent_selection
            assert names[agent] == ours.agent_selection
            (expected, *outcome, _), (observation, *mine, _) = theirs.last(), ours.last()
            assert outcome == mine
            score[names[agent]] = outcome[0]
            action = None
            if not outcome[1]:
                np.testing.assert_array_equal(expected["action_mask"], observation["action_mask"])
                action = rng.choice(np.flatnonzero(expected["action_mask"]))
            theirs.step(action)
            ours.step(action)
            assert {names[name]: float(reward) for name, reward in theirs.rewards.items()} == ours.rewards
            assert [names[name] for name in theirs.agents] == ours.agents
        assert not ours.agents
        results.append(score["player_0"])
    assert {1.0, -1.0} <= set(results)
    assert game != "TicTacToe-v0" or 0.0 in results


@pytest.mark.parametrize("game", ["TicTacToe-v0", "KuhnPoker-v0", "PhantomTicTacToe-v0"])
def test_only_movers_act_and_see_their_reward_at_once(game):
    """The mover of the last move has its final reward right after it, as PettingZoo's SB3 tutorial reads it."""
    env, wins = gpu_envs.aec_env(game), 0
    for seed in range(12):
        env.reset(seed=seed)
        for i, agent in enumerate(env.possible_agents):
            env.action_space(agent).seed(seed + i)
        while not any(env.terminations.values()):
            agent = env.agent_selection
            assert env.infos[agent]["to_move"]
            observation = env.observe(agent)
            assert observation["action_mask"].any()
            for other in set(env.agents) - {agent}:
                assert not env.observe(other)["action_mask"].any()
            env.step(legal(env, observation))
            assert env._cumulative_rewards[agent] == env.rewards[agent]
        assert sum(env.rewards.values()) == 0.0
        wins += env.rewards[agent] > 0
        assert dict(env._cumulative_rewards) == env.rewards
    assert wins > 0


def test_results_equal_the_parallel_view(turns, small, env_id):
    """The same actions give the same observations, rewards and ends, also where several agents decide at once."""
    env, world = turns(), small()
    for seed in range(3):
        env.reset(seed=seed)
        obs, infos = world.reset(seed=seed)
        while world.agents:
            actions = sample(world, obs)
            deciding = [agent for agent in world.agents if infos[agent].get("to_move", True)]
            for i, agent in enumerate(deciding):
                assert env.agent_selection == agent
                assert_equal(env.observe(agent), obs[agent])
                env.step(actions[agent])
                if i < len(deciding) - 1:
                    assert not any(env.rewards.values())
            obs, rewards, terminated, truncated, infos = world.step(actions)
            assert_equal({agent: env.rewards[agent] for agent in rewards}, rewards)
            assert_equal(env.terminations, terminated)
            assert_equal(env.truncations, truncated)
            np.testing.assert_array_equal(env.state(), world.state())
            left = [agent for agent in env.agents if terminated[agent] or truncated[agent]]
            for _ in left:
                assert env.agent_selection in left
                env.step(None)
            assert env.agents == world.agents


def test_illegal_move_loses_or_raises():
    env = gpu_envs.aec_env("TicTacToe-v0")
    env.reset()
    env.step(4)
    env.step(4)
    assert env.rewards == {"player_0": 1.0, "player_1": -1.0}
    assert env.terminations == {"player_0": True, "player_1": True}
    strict = gpu_envs.aec_env("TicTacToe-v0", illegal_actions="error")
    strict.reset()
    strict.step(4)
    for action, words in ((4, "action 4 of player_1 is illegal"), (9, "out of range"), (None, "got NoneType")):
        with pytest.raises(ActionError, match=words):
            strict.step(action)
        assert strict.agent_selection == "player_1"
    strict.step(0)
    assert strict.agent_selection == "player_0"


def test_pettingzoo_wrappers_work():
    """PettingZoo's own games wear these wrappers; an illegal move pays what the wrapper says."""
    env = wrappers.TerminateIllegalWrapper(gpu_envs.aec_env("TicTacToe-v0"), illegal_reward=-3)
    env = wrappers.OrderEnforcingWrapper(wrappers.AssertOutOfBoundsWrapper(env))
    env.reset()
    env.step(4)
    env.step(4)
    assert env.rewards == {"player_0": 0, "player_1": -3.0}
    while env.agents:
        env.step(None)
    _, sums = play(env)
    assert sum(sums.values()) == 0.0


def test_agent_that_has_left_takes_none():
    env = gpu_envs.aec_env("TicTacToe-v0")
    with pytest.raises(ResetNeededError, match="before the first reset"):
        env.step(0)
    with pytest.raises(ResetNeededError, match="before the first reset"):
        env.last()
    env.reset()
    for action in (0, 3, 1, 4, 2):
        env.step(action)
    assert env.agent_selection == "player_1"
    with pytest.raises(ValueError, match="only valid action is None"):
        env.step(5)
    observation, reward, terminated, truncated, _ = env.last()
    assert (reward, terminated, truncated) == (-1.0, True, False)
    assert observation["action_mask"].tolist() == [1] + [0] * 8  # TorchRL's checks sample from it
    env.step(None)
    assert env.last()[1] == 1.0
    env.step(None)
    assert env.agents == []
    with pytest.raises(ResetNeededError, match="all agents have left"):
        env.step(0)


def test_max_cycles_truncates_after_moves():
    env = gpu_envs.aec_env("ConnectFour-v0", max_cycles=3)
    selected, sums = play(env)
    assert [agent for agent, over in selected if not over] == ["player_0", "player_1", "player_0"]
    assert sum(over for _, over in selected) == 2
    assert set(sums.values()) == {0.0}


def test_hidden_tries_keep_the_player_selected():
    """A try on a marked cell is no move: the same player is asked again."""
    env = gpu_envs.aec_env("PhantomTicTacToe-v0", obstype="reveal-nothing")
    env.reset()
    env.step(4)
    first = env.agent_selection
    env.step(4)
    assert env.agent_selection == first
    assert env.observe(first)["action_mask"][4] == 0
