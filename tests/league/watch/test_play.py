"""`gpu-envs play`: its protocol over HTTP, turns, actions, opponents, and errors in one line."""

import base64
import json

import numpy as np
import pytest
from viewer_requests import Answer

from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.runtime.factory import make_core
from league.cli.play import PlayOptions, _load, play_command
from league.watch.play import PlayApi


def started(env_id, agent=None, seed=0, **settings):
    core = make_core(env_id, 1, "cpu", autoreset="disabled", **settings)
    return PlayApi(core, agent or core.possible_agents[0], {}, "random actions", seed)


def asked(api, query=""):
    return json.loads(api.answer("turn", query))


def values(packed):
    return np.frombuffer(base64.b64decode(packed["data"]), "<f4").reshape(packed["shape"])


def test_game_is_played_over_http(serving_command, capsys):
    port = serving_command(play_command, ["TicTacToe-v0", "--as", "player_1", "--no-browser", "--seed", "3"])
    assert "TicTacToe-v0 as player_1 with random actions of the others: http://127.0.0.1" in capsys.readouterr().out
    run = Answer(port, "/api/run").json()
    assert (run["kind"], run["agent"], run["realtime"], len(run["choices"][0])) == ("play", "player_1", False, 9)
    turn = Answer(port, "/api/turn").json()
    assert (turn["turn"], turn["steps"], sum(turn["legal"][0])) == (1, 1, 8), "the other agent has begun"
    refused = Answer(port, f"/api/turn?turn=1&action={turn['legal'][0].index(False)}")
    assert refused.status == 400
    assert "expected a legal action of player_1" in refused.json()["error"]
    cell = turn["legal"][0].index(True)
    after = Answer(port, f"/api/turn?turn=1&action={cell}").json()
    assert Answer(port, f"/api/turn?turn=1&action={cell}").json() == after, "a repeated request changes nothing"
    assert values(after["action"])[0, 0, 1] == cell
    assert (after["turn"], after["over"], sum(after["legal"][0])) == (2, False, 6)
    assert Answer(port, "/api/turn?turn=2&action=new").json()["turn"] == 3
    assert Answer(port, "/api/rollout").status == 404
    assert Answer(int(port), "/api/turn?turn=3&action=new").status == 403, "without the token"


@pytest.mark.parametrize(
    ("env_id", "settings", "action", "wrong"),
    [
        ("SimpleTag-v0", {}, "1", ["5", "-1", "1.5", "nan", "1,1", "x", ""]),
        ("SimpleTag-v0", {"continuous_actions": True}, "0,0.5,0,0,1", ["0,0,0,0,2", "0", "nan,0,0,0,0"]),
        ("TagContinuous-v0", {"num_taggers": 2, "num_runners": 2}, "3,2", ["3", "99,0"]),
    ],
)
def test_action_of_the_person_is_played(env_id, settings, action, wrong):
    api = started(env_id, **settings)
    for text in wrong:
        with pytest.raises(ConfigError, match="expected a legal action of"):
            api.answer("turn", f"turn=1&action={text}" if text else "turn=1&action=+")
    turn = asked(api, f"turn=1&action={action}")
    played = values(turn["action"])[0, 0, 0].reshape(-1)
    assert played.tolist() == [float(word) for word in action.split(",")]
    assert turn["steps"] == 1


def test_episode_ends_with_its_returns_and_the_next_one_has_another_seed():
    api, total = started("SimpleTag-v0", "agent_0", max_cycles=3), 0.0
    for number in (1, 2, 3):
        turn = asked(api, f"turn={number}&action=0")
        total += values(turn["reward"])[:, 0, 3].sum()
    assert (turn["over"], turn["legal"]) == (True, None)
    assert turn["returns"][3] == pytest.approx(total, rel=1e-5)
    with pytest.raises(ConfigError, match="the episode has ended; start a new one"):
        api.answer("turn", "turn=4&action=0")
    following = asked(api, "turn=4&action=new")
    assert (following["seed"], following["over"], following["returns"]) == (1, False, [0.0] * 4)
    same = asked(started("SimpleTag-v0", "agent_0", seed=1, max_cycles=3))
    assert same["shapes"] == following["shapes"]


def test_policies_of_others_come_from_the_zoo_and_from_runs(training, league, capsys):
    for argv, words, names in [
        (["SimpleTag-v0", "--opponents", "zoo:simple-tag-ppo"], "policies of", {"adversary", "agent"}),
        (["SimpleTag-v0", "--opponents", str(training)], "policies of", {"adversary", "agent"}),
        (["RockPaperScissors-v0", "--opponents", str(league)], f"of {league}", {"player_0", "player_1"}),
    ]:
        core, players, text = _load(parse_play(argv))
        assert words in text
        assert set(players) == names
        assert all(policy is not None for policy in players.values())
        assert not asked(PlayApi(core, core.possible_agents[0], players, text, 0))["over"]


def test_wrong_requests_are_refused_in_one_line(training, league):
    with pytest.raises(ConfigError, match="--as: expected one of player_0, player_1, got 'x'"):
        started("TicTacToe-v0", "x")
    with pytest.raises(CheckpointError, match="expected TicTacToe-v0, got SimpleTag-v0"):
        _load(parse_play(["TicTacToe-v0", "--opponents", str(training)]))
    with pytest.raises(ConfigError, match="--env-arg: expected none with the league"):
        _load(parse_play(["RockPaperScissors-v0", "--opponents", str(league), "--env-arg", "x=1"]))
    host = make_core("gymnasium:CartPole-v1", 1, "cpu", autoreset="disabled")
    with pytest.raises(ConfigError, match="expected an environment that declares what to draw"):
        PlayApi(host, "agent", {}, "", 0)


def parse_play(argv):
    from gpu_envs.cli.options import parse

    return parse(PlayOptions, "play", argv)
