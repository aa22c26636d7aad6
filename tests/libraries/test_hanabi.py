"""Hanabi-v0 against the Hanabi Learning Environment 0.0.4, game by game."""

from collections import Counter

import numpy as np
import pytest
import torch
from hanabi_learning_environment import rl_env
from hanabi_learning_environment.agents.simple_agent import SimpleAgent
from libraries import hanabi_oracle as oracle
from libraries.oracle_checks import assert_recorded
from parity.cards.hanabi_games import core_at, random_settings, replay

from gpu_envs.envs.cards.hanabi import original_settings
from gpu_envs.runtime.factory import make_core
from trainers.evaluation.scripted_policies import HanabiPolicy

SETTINGS, GAMES = 12, 170
COLORS = "RYGWB"


@pytest.mark.parametrize("part", range(2))
def test_games_with_random_settings_equal_the_original(part):
    total = Counter()
    for index in range(part, SETTINGS, 2):
        settings = random_settings(np.random.default_rng(index))
        total += replay(settings, oracle.record(settings, GAMES, seed=index))
    assert total["games"] == SETTINGS * GAMES // 2
    assert total["moves"] > 10_000
    assert min(total[name] for name in ("scored", "score lost", "lost", "completed", "out of cards")) > 20, total


def test_recorded_games_are_those_of_the_original(tmp_path):
    oracle.record_all(tmp_path / "trace.npz.xz")
    assert_recorded(tmp_path / "trace.npz.xz", oracle.TRACE)


@pytest.mark.parametrize("name", ["Hanabi-Full", "Hanabi-Full-Minimal", "Hanabi-Small", "Hanabi-Very-Small"])
def test_settings_of_names_equal_the_original(name):
    theirs = rl_env.make(name, num_players=2)
    core = make_core("Hanabi-v0", 1, "cpu", **original_settings(name))
    assert core.observation_spaces["player_0"].shape == tuple(theirs.vectorized_observation_shape())
    assert core.action_spaces["player_0"].n == theirs.num_moves()


@pytest.mark.parametrize("settings", oracle.TRACED[:2])
def test_scripted_policy_chooses_as_the_simple_agent(settings):
    """All positions of games of random and careful actions."""
    trace = oracle.record(settings, 60, seed=3)
    core = core_at(settings, trace)
    policy, compared = HanabiPolicy(core, "player"), Counter()
    games, players = len(trace["deck"]), core.num_agents
    agent = SimpleAgent({"information_tokens": core.config.max_information_tokens})
    env = rl_env.HanabiEnv({name: value for name, value in settings.items() if name in oracle.NAMES})
    game, states = states_of(settings, trace)
    assert game.num_players() == players
    for step in range(int(trace["length"].max())):
        ours = policy.act(core.obs)
        for world in np.flatnonzero(trace["length"] > step):
            env.state = states[world][step]
            mover = env.state.cur_player()
            expected = agent.act(env._extract_dict_from_backend(mover, env.state.observation(mover)))
            assert int(ours[world, mover]) == env.game.get_move_uid(env._build_move(expected))
            compared[expected["action_type"]] += 1
        core.step(torch.from_numpy(trace["action"][:, step]).long()[:, None].expand(games, players).clone())
    assert len(compared) == 3
    assert min(compared.values()) > 20, compared


def states_of(settings, trace):
    """Return a game, which must outlive its states, and the states before every recorded action, by playing again."""
    rng, histories = np.random.default_rng(3), []
    game = oracle.make(settings, 4)
    for index in range(len(trace["deck"])):
        states = []
        oracle.play(
            game, rng, skill=rng.random() ** 0.3, watch=lambda state, collected=states: collected.append(state.copy())
        )
        assert len(states) == trace["length"][index]
        histories.append(states)
    return game, histories
