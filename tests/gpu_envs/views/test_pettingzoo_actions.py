"""Actions of the single-world view: masks, illegal moves and values outside of their spaces."""

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo_worlds import assert_equal, sample, small, toys  # noqa: F401
from small_environments import refuses_illegal

import gpu_envs
from gpu_envs.errors import ActionError

pytestmark = pytest.mark.representative


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


def test_illegal_actions_error_raises_on_illegal_moves():
    env = gpu_envs.parallel_env("TicTacToe-v0", illegal_actions="error")
    env.reset(seed=0)
    env.step(dict.fromkeys(env.agents, 0))
    with pytest.raises(ActionError, match="action 0 of player_1 is illegal here"):
        env.step(dict.fromkeys(env.agents, 0))


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
