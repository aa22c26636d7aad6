"""Host environments whose agents take turns: PettingZoo's AEC environments and OpenSpiel's games."""

import numpy as np
import pyspiel
import pytest
import torch
from pettingzoo.classic import connect_four_v3, rps_v2

import gpu_envs
from gpu_envs.errors import ActionError, ConfigError


def _play(core, choose, steps):
    """Play steps with actions of the agents to move; return the rewards of all steps added up, and the ends."""
    total, ends = torch.zeros_like(core.reward), []
    for _ in range(steps):
        action = torch.zeros_like(core.action_buffer)
        movers = core.to_move.nonzero()
        for world, row in movers.tolist():
            action[world, row] = choose(core.action_mask[world, row].nonzero().flatten().tolist())
        _, reward, terminated, _, _ = core.step(action)
        total += reward
        ends.append(terminated.clone())
    return total, ends


def test_connect_four_is_won_by_the_first_full_column():
    core = gpu_envs.from_pettingzoo("pettingzoo.classic.connect_four_v3", 2)
    obs, info = core.reset(seed=0)
    assert core.definition.observation_spaces["player_0"].shape == (6, 7, 2)
    assert core.definition.roles == {"player_0": ("player_0",), "player_1": ("player_1",)}
    assert core.groups == {"player": (0, 1)}
    assert info["to_move"].tolist() == [[True, False]] * 2
    assert info["action_mask"].tolist() == [[[True] * 7, [True] + [False] * 6]] * 2
    for turn in range(7):  # player 0 fills column 3, player 1 column 5
        assert core.to_move.tolist() == [[turn % 2 == 0, turn % 2 == 1]] * 2
        action = torch.zeros(2, 2, dtype=torch.int64)
        action[:, turn % 2] = (3, 5)[turn % 2]
        obs, reward, terminated, _, info = core.step(action)
    assert reward.tolist() == [[1, -1]] * 2
    assert terminated.all()
    assert info["episode_length"].tolist() == [[7, 7]] * 2
    board = info["final_obs"][0].reshape(2, 6, 7, 2)
    assert board[0, 2:, 3, 0].tolist() == [1, 1, 1, 1]
    assert board[1, 2:, 3, 1].tolist() == [1, 1, 1, 1]  # the other player sees it in its second plane
    assert not obs.any()  # the next game has begun
    assert info["to_move"].tolist() == [[True, False]] * 2


def test_connect_four_equals_the_bare_environment_move_by_move():
    core, env = gpu_envs.from_pettingzoo(connect_four_v3.env, 1), connect_four_v3.env()
    core.reset(seed=0)
    env.reset()
    for _ in range(12):
        mover = env.possible_agents.index(env.agent_selection)
        observation, _, done, _, _ = env.last()
        if done:
            break
        assert core.to_move[0].nonzero().item() == mover
        np.testing.assert_array_equal(core.obs[0, mover], observation["observation"].ravel())
        np.testing.assert_array_equal(core.action_mask[0, mover], observation["action_mask"])
        action = core.sample_actions()
        env.step(int(action[0, mover]))
        core.step(action)


def test_rewards_of_every_agent_in_a_round_of_rock_paper_scissors():
    core = gpu_envs.from_pettingzoo(lambda: rps_v2.env(max_cycles=2), 1)
    core.reset(seed=0)
    rewards = []
    for choice in (0, 1, 2, 2):
        action = torch.full((1, 2), choice)
        _, reward, terminated, truncated, _ = core.step(action * core.to_move)
        rewards.append(reward[0].tolist())
    assert rewards == [[0, 0], [-1, 1], [0, 0], [0, 0]]
    assert truncated.all()
    assert not terminated.any()


def test_illegal_moves_are_errors_and_the_world_waits():
    core = gpu_envs.from_pettingzoo("pettingzoo.classic.tictactoe_v3", 1)
    core.reset(seed=0)
    core.step(torch.zeros(1, 2, dtype=torch.int64))
    with pytest.raises(ActionError, match="action of player_2 in world 0"):
        core.step(torch.zeros(1, 2, dtype=torch.int64))
    assert core.to_move.tolist() == [[False, True]]


def test_games_of_open_spiel_follow_their_states():
    core = gpu_envs.from_open_spiel("leduc_poker", 8)
    core.reset(seed=1)
    assert (core.definition.zero_sum, core.num_agents) == (True, 2)
    game = pyspiel.load_game("leduc_poker")
    assert core.obs_width == game.information_state_tensor_size()
    total, ends = _play(core, lambda legal: legal[-1], 9)
    assert (total.sum(1) == 0).all()
    assert total.any()
    assert sum(end.all(1) for end in ends).min() >= 1
    deals = {tuple(row.tolist()) for row in core.reset(seed=1)[0][:, 0]}
    assert len(deals) > 2  # worlds have their own chance


def test_leduc_of_open_spiel_gives_the_returns_of_leduc_here_for_equal_deals_and_actions():
    theirs = gpu_envs.from_open_spiel("leduc_poker", 200, autoreset="disabled")
    ours = gpu_envs.make_core("LeducPoker-v0", 200, "cpu", autoreset="disabled")
    theirs.reset(seed=3)
    ours.reset(seed=3)
    first = theirs.obs[:, :, 2:8].argmax(2)  # private cards; the public one is dealt later there
    ours.world_state["card"][:, :2] = first.to(torch.int32)
    earned = torch.zeros(2, 200, 2)
    generator = np.random.default_rng(0)
    for _ in range(8):
        public = theirs.obs[:, 0, 8:14]
        is_open = public.any(1)
        ours.world_state["card"][is_open, 2] = public.argmax(1).to(torch.int32)[is_open]
        action = torch.zeros(200, 2, dtype=torch.int64)
        for world, row in theirs.to_move.nonzero().tolist():
            action[world, row] = int(generator.choice(theirs.action_mask[world, row].nonzero().flatten()))
        assert torch.equal(theirs.to_move, ours.to_move & ours.alive)
        earned[0] += theirs.step(action)[1]
        earned[1] += ours.step(action)[1]
        assert torch.equal(theirs.alive, ours.alive)
    assert torch.equal(earned[0], earned[1])
    assert not theirs.alive.any()


def test_players_move_at_the_same_time_in_simultaneous_games():
    core = gpu_envs.from_open_spiel("goofspiel", 2, settings={"num_cards": 4})
    _, info = core.reset(seed=0)
    assert "to_move" not in info
    assert info["action_mask"].all()
    for _ in range(3):
        *_, terminated, _, info = core.step(core.sample_actions())
    assert terminated.all()
    assert (info["episode_return"].sum(1) == 0).all()


def test_unplayable_games_are_one_line():
    with pytest.raises(ConfigError, match=r"mfg_crowd_modelling: expected turns or simultaneous moves"):
        gpu_envs.from_open_spiel("mfg_crowd_modelling")
    with pytest.raises(ConfigError, match="leduc_poker: Unknown parameter"):
        gpu_envs.from_open_spiel("leduc_poker", settings={"cards": 3})
