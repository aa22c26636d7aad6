"""EnvPool's process with a stand-in for the library."""

import importlib
import sys
from types import SimpleNamespace

import pytest

FAKE_ENVPOOL = '''
import types
import numpy as np

__version__ = "0.0"
seconds = 0.0  # that all calls have taken
SPEC = types.SimpleNamespace(dtype=np.int32, minimum=0, maximum=4, shape=[-1])


def list_all_envs():
    return ["MpeSimpleTag-v2", "MpeSimpleTag-v3", "SimpleCrossing-v0", "CartPole-v1"]


class Env:
    """Two players in each world; slow unless half of the worlds are in a batch of one thread."""

    def __init__(self, worlds, batch, threads):
        self.batch, self.slow = batch, (2 * batch, threads) != (worlds, 1)
        keys = ["env_id", "players.env_id", "players.action"]
        self.spec = types.SimpleNamespace(action_array_spec=dict.fromkeys(keys, SPEC), _action_keys=keys)

    def async_reset(self):
        pass

    def recv(self):
        ids = np.arange(self.batch)
        return None, None, None, None, {"env_id": ids, "players": {"env_id": np.repeat(ids, 2)}}

    def send(self, action):
        assert set(action) == {"env_id", "players.env_id", "players.action"}
        assert action["players.action"].shape == action["players.env_id"].shape == (2 * self.batch,)
        assert action["players.action"].dtype == np.int32
        global seconds
        seconds += 0.002 if self.slow else 0.0002


def make(id, env_type, num_envs, batch_size, num_threads, seed, max_episode_steps):
    assert (id, env_type, max_episode_steps) == ("MpeSimpleTag-v3", "gymnasium", 25)
    return Env(num_envs, batch_size, num_threads)
'''


@pytest.fixture
def fake_envpool(tmp_path, monkeypatch):
    """Return the module of EnvPool's process with a stand-in for the library."""
    (tmp_path / "envpool.py").write_text(FAKE_ENVPOOL)
    monkeypatch.syspath_prepend(tmp_path)
    peer = importlib.import_module("benchmarks.peers.inside.envpool")
    monkeypatch.setattr(peer, "time", SimpleNamespace(perf_counter=lambda: peer.envpool.seconds))
    yield peer
    for name in ("envpool", "benchmarks.peers.inside.envpool"):
        sys.modules.pop(name)


def test_envpool_runs_with_its_fastest_settings(fake_envpool, monkeypatch):
    """Each step is one of all worlds, in as many calls as the batch size needs; only calls take time here."""
    monkeypatch.setattr(fake_envpool, "TRIAL", 0.01)
    task = {"game": "simple_tag", "worlds": 8, "threads": 2, "options": {"max_episode_steps": 25}}
    agents, play, note = fake_envpool.build(task)
    assert agents == 2
    assert (play(1), note()) == (1, "")
    assert (play(1), note()) == (1, "fastest with batch_size=4, num_threads=1")
    begin = fake_envpool.envpool.seconds
    assert play(10) == 10
    assert fake_envpool.envpool.seconds - begin == pytest.approx(20 * 0.0002)  # two calls a step


def test_envpool_without_a_scenario_says_so(fake_envpool):
    assert fake_envpool.task_id("CartPole-v1") == "CartPole-v1"
    with pytest.raises(ValueError, match=r"EnvPool 0\.0 does not have simple_spread"):
        fake_envpool.task_id("simple_spread")
