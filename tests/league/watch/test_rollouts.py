"""Tests of rollouts for the viewer: exact, repeatable, bounded, and available for every environment."""

import json
import threading
from functools import partial

import numpy as np
import pytest
from watch_runs import array, ask, until

from gpu_envs.errors import CheckpointError, GpuEnvsError
from league.game import Game
from league.watch import rollouts as playing
from league.watch.rollouts import RolloutCache, record_rollout
from trainers.config.train_config import make_train_core
from trainers.evaluation.policy_evaluation import record_policies


class Stage:
    """Environment with random actions."""

    def __init__(self, make, seats=()) -> None:
        self.make, self.seats = make, seats

    def core(self, num_envs):
        return self.make(num_envs, autoreset="disabled")

    def policy(self, seat, name):
        return None


def test_rollout_equals_recorded_episodes(training, watched):
    """Random actions come from the worlds' own streams, so another recorder gets the same ones."""
    api = watched(training)
    rollout = ask(api, "rollout", "policies=random&seed=3&worlds=2")
    stage = api.latest.get()[0].stage
    episodes, _ = record_policies(make_train_core(stage.config, 2, 0), {}, seed=3)
    assert rollout["steps"] == 7
    assert rollout["complete"] == [True, True]
    for world, episode in enumerate(sorted(episodes, key=lambda record: record.world)):
        for name in ("obs", "action", "reward"):
            assert np.array_equal(array(rollout[name])[:7, world], getattr(episode, name).float().numpy()), name
    assert array(rollout["shapes"]).shape[:2] == array(rollout["places"]).shape[:2] == (8, 2)
    alive = array(rollout["alive"])
    assert alive[:7].all()
    assert not alive[7].any()
    places = array(rollout["places"])
    assert np.isfinite(places).all()  # also in the last frame
    assert not np.array_equal(places[7], places[6])
    assert rollout["obs_widths"] == [16, 16, 16, 14]
    counts = {group: sum(len(block["entries"]) for block in blocks) for group, blocks in rollout["obs_names"].items()}
    assert counts == {"adversary": 16, "agent": 14}


def test_rollouts_are_repeatable_and_cached(training, watched, monkeypatch):
    query = "policies=000000004,000000002&seed=5&worlds=2"
    first, other = watched(training), watched(training)
    answer = first.answer("rollout", query)
    assert answer == other.answer("rollout", query)
    assert answer != first.answer("rollout", query.replace("seed=5", "seed=6"))
    monkeypatch.setattr("league.watch.api.record_rollout", None)
    assert first.answer("rollout", query) is answer


def test_oldest_rollouts_leave_the_cache_first():
    rollouts, calls = RolloutCache(max_bytes=5), []

    def make(name: str) -> bytes:
        return rollouts.get(name, lambda: calls.append(name) or b"12")

    for name in ("a", "b", "a", "c", "a", "b"):
        make(name)
    rollouts.close()
    assert calls == ["a", "b", "c", "b"]


def test_outdated_requests_do_not_delay_new_ones(monkeypatch):
    monkeypatch.setattr(playing, "MAX_WAITING", 2)
    played, started, go, calls = RolloutCache(), threading.Event(), threading.Event(), []

    def make(key):
        started.set()
        assert go.wait(60)
        calls.append(key)
        return b""

    answers = {}

    def ask(key):
        try:
            answers[key] = played.get(key, lambda: make(key))
        except GpuEnvsError as error:
            answers[key] = str(error)

    threads = [threading.Thread(target=ask, args=(key,)) for key in range(5)]
    for key, thread in enumerate(threads):  # in this order
        thread.start()
        until(lambda key=key: key in played._pending)
        assert started.wait(60)  # the first request is being recorded
    go.set()
    for thread in threads:
        thread.join(60)
    played.close()
    assert calls == [0, 3, 4]
    assert all("newer rollouts were asked for" in answers[key] for key in (1, 2))


def test_failed_rollout_is_tried_again():
    rollouts = RolloutCache()
    with pytest.raises(CheckpointError):
        rollouts.get("a", lambda: (_ for _ in ()).throw(CheckpointError("gone")))
    assert rollouts.get("a", lambda: b"there") == b"there"
    rollouts.close()


def test_finished_world_keeps_its_last_frame():
    rollout = record_rollout(Stage(Game.of("TicTacToe-v0").core), [], seed=1, worlds=8)
    alive, shapes, obs, reward = (array(rollout[name]) for name in ("alive", "shapes", "obs", "reward"))
    length = alive.any(2).sum(0)
    assert len(set(length)) > 1
    assert rollout["steps"] == length.max()
    for world, last in enumerate(length):
        assert (shapes[last:, world] == shapes[last, world]).all()
        assert (obs[last:, world] == obs[last, world]).all()
        assert obs[last, world].any()
        assert not np.array_equal(shapes[last, world], shapes[last - 1, world])  # the last move is visible
        assert not reward[last:, world].any()


def test_large_rollout_loses_worlds_then_observations_then_steps(training, watched):
    stage = watched(training).latest.get()[0].stage

    def size(rollout) -> int:
        return sum(array(rollout[name]).nbytes for name in ("shapes", "places", "obs", "alive") if rollout[name])

    def played(budget: int):
        return record_rollout(stage, ["random", "random"], 0, 4, budget)

    complete = played(playing.BUDGET)
    budget = size(complete)
    fewer = played(budget * 2 // 3)
    assert (complete["worlds"], fewer["worlds"]) == (4, 2)
    assert fewer["obs"]
    blind = played(budget // 4 - 200)
    assert (blind["worlds"], blind["obs"], blind["steps"], blind["complete"]) == (1, None, 7, [True])
    short = played(budget // 16)
    assert (short["worlds"], short["complete"]) == (1, [False])
    assert 1 <= short["steps"] < 7
    assert size(short) <= budget // 16


def test_continuous_actions_belong_to_their_steps(small_core):
    rollout = record_rollout(Stage(partial(small_core, "SimpleTag-v0", continuous_actions=True)), [], seed=0, worlds=1)
    action = array(rollout["action"])
    assert action.shape == (7, 1, 4, 5)
    assert not (action[:-1] == action[1:]).all((1, 2, 3)).any()


def test_agents_of_the_last_step_stay_visible(small_core):
    rollout = record_rollout(Stage(partial(small_core, "TagContinuous-v0")), [], seed=0, worlds=4)
    visible, alive = np.isfinite(array(rollout["places"])).all(3), array(rollout["alive"])
    length = alive.any(2).sum(0)
    for world, last in enumerate(length):
        assert visible[last, world, :2].all()  # the taggers
        assert (visible[:last, world] == alive[:last, world]).all()
        assert not alive[last:, world].any()
    assert not visible.all()  # tagged agents are gone


def test_every_environment_can_be_watched(env_id, small_core):
    rollout = record_rollout(Stage(partial(small_core, env_id)), [], seed=0, worlds=2)
    assert array(rollout["shapes"]).shape[:2] == (rollout["steps"] + 1, 2)
    assert np.isfinite(array(rollout["shapes"])).all()
    assert json.loads(json.dumps(rollout, allow_nan=False)) == rollout
