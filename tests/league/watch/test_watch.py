"""Tests of the viewer's answers about finished and running trainings, and to invalid requests."""

import json
import time

import pytest
import torch
from watch_runs import ask, trainer, until

from gpu_envs.errors import CheckpointError, ConfigError
from league.watch.api import UnknownAnswerError, open_source
from league.watch.sources.training import metric_rows
from trainers.loggers.csv_logger import CSVLogger
from trainers.loggers.logger import Loggers
from trainers.storage import checkpoint

# ---------------------------------------------------------------- a training


def test_answers_describe_a_training(training, watched):
    answer = ask(watched(training), "run")
    assert (answer["name"], answer["kind"], answer["env_id"]) == ("tag", "training", "SimpleTag-v0")
    assert (answer["algorithm"], answer["config"]["learner"]["hidden_sizes"]) == ("ppo", [4])
    assert answer["roles"] == ["adversary", "agent"]
    assert answer["policies"] == {role: ["random", "000000002", "000000004"] for role in answer["roles"]}
    assert answer["groups"] == {"adversary": ["adversary_0", "adversary_1", "adversary_2"], "agent": ["agent_0"]}
    assert (answer["writing"], answer["problem"]) == (False, None)


def test_curves_equal_metrics_csv(training, watched):
    metrics = ask(watched(training), "metrics")
    columns = metrics["columns"]
    assert metrics["x"] == "env_steps"
    assert [row[columns.index("env_steps")] for row in metrics["rows"]] == [20, 40, 60, 80]
    scores = [row[columns.index("eval/score")] for row in metrics["rows"]]
    assert [score is None for score in scores] == [True, False, True, False]
    with pytest.raises(
        UnknownAnswerError, match="api/league: there is no such answer of this run; there are run, metrics, roll"
    ):
        ask(watched(training), "league")


def test_long_curves_are_averaged():
    rows = [{"iteration": str(i), "env_steps": str(10 * i), "a": "" if i % 2 else str(i)} for i in range(1, 6)]
    metrics = metric_rows(rows, limit=2)
    assert (metrics["every"], metrics["rows"]) == (3, [[3, 30, 2.0], [5, 50, 4.0]])


def test_running_training_gives_new_snapshots(tmp_path, watched):
    run = trainer(tmp_path)
    run.iterate()
    api = watched(tmp_path)
    first = ask(api, "run")
    assert first["writing"]
    assert first["policies"] == {"adversary": ["random"], "agent": ["random"]}
    with (tmp_path / "metrics.csv").open("a") as file:
        file.write(
            (tmp_path / "metrics.csv").read_text().splitlines()[-1][:-1]
        )  # all columns are present, and the last line is incomplete
    until(lambda: ask(api, "run")["version"] > first["version"])
    assert len(ask(api, "metrics")["rows"]) == 1
    for _ in range(3):
        run.iterate()
    run.log.close()
    until(lambda: ask(api, "run")["policies"]["agent"] == ["random", "000000002", "000000004"])
    assert not ask(api, "run")["writing"]


def test_training_without_changes_has_ended(tmp_path, watched, monkeypatch):
    run = trainer(tmp_path)
    run.iterate()
    run.close()
    (tmp_path / "run.lock").unlink()  # as in a copy
    api, now = watched(tmp_path), time.time()
    monkeypatch.setattr(time, "time", lambda: now + 50.0)
    assert ask(api, "run")["writing"]
    monkeypatch.setattr(time, "time", lambda: now + 70.0 + 3.0 * run.seconds)
    assert not ask(api, "run")["writing"]


def test_unreadable_file_is_reported_until_it_is_readable(tmp_path, watched):
    run = trainer(tmp_path)
    run.iterate()
    run.log.close()
    api, content = watched(tmp_path), (tmp_path / "metrics.csv").read_bytes()
    (tmp_path / "metrics.csv").unlink()
    (tmp_path / "metrics.csv").mkdir()
    until(lambda: ask(api, "run")["problem"] is not None)
    assert len(ask(api, "metrics")["rows"]) == 1  # of the last snapshot
    assert ask(api, "metrics")["version"] == ask(api, "run")["version"]
    (tmp_path / "metrics.csv").rmdir()
    (tmp_path / "metrics.csv").write_bytes(content)
    until(lambda: ask(api, "run")["problem"] is None)


def test_extended_training_is_not_finished(tmp_path, watched):
    run = trainer(tmp_path)
    while run.iteration < run.config.iterations:
        run.iterate()
    run.log.close()
    api, file = watched(tmp_path), tmp_path / "config.json"
    assert not ask(api, "run")["writing"]
    longer = json.loads(file.read_text())
    longer["total_steps"] *= 2
    file.write_text(json.dumps(longer))
    until(lambda: ask(api, "run")["config"]["total_steps"] == longer["total_steps"])
    assert ask(api, "run")["writing"]
    run.close()
    assert ask(api, "run")["state"] == "stopped"
    assert (ask(api, "run")["done"], ask(api, "run")["total"]) == (4, 8)


@pytest.mark.parametrize(("goal", "state"), [(None, "stopped"), (10**6, "ended")])
def test_states_of_a_training_are_running_stopped_and_finished(tmp_path, watched, goal, state):
    run = trainer(tmp_path, until_return=goal)
    run.iterate()
    api = watched(tmp_path)
    answer = ask(api, "run")
    assert (answer["state"], answer["done"], answer["total"]) == ("running", 1, 4)
    run.close()
    assert ask(api, "run")["state"] == state
    assert not ask(api, "run")["writing"]
    while run.iteration < 4:
        run.log = Loggers([CSVLogger], tmp_path, run.steps, {})
        run.iterate()
        run.close()
    until(lambda: ask(api, "run")["done"] == 4)
    assert ask(api, "run")["state"] == "finished"


def test_removed_checkpoint_is_replaced_by_the_newest(tmp_path, watched):
    """The page asks for what the last snapshot had, and files disappear while they are read."""
    run = trainer(tmp_path, iterations=12, keep_last_checkpoints=1)
    for _ in range(2):
        run.iterate()
    api = watched(tmp_path)
    assert ask(api, "run")["latest"] == {"adversary": "000000002", "agent": "000000002"}
    answers, load = [], checkpoint.load_policy

    def late(path, *args, **kwargs):
        while path.name == "000000002" and path.exists():  # it rotates away after the request has been resolved
            with torch.enable_grad():
                run.iterate()
        return load(path, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "load_policy", late)
        answers.append(ask(api, "rollout", "policies=000000002,random&worlds=1"))
    until(lambda: ask(api, "run")["latest"]["agent"] > "000000002")
    newest = ask(api, "run")["latest"]["agent"]
    assert [seat["policy"] for seat in answers[0]["seats"]] == [newest, "random"]
    answer = ask(api, "rollout", "policies=000000002,latest&worlds=1&seed=1")  # of an earlier snapshot
    assert [seat["policy"] for seat in answer["seats"]] == [newest, newest]
    run.close()
    with pytest.raises(UnknownAnswerError, match="there is no policy '000000001'"):
        ask(api, "rollout", "policies=000000001,random")
    for file in (tmp_path / "checkpoints" / newest).glob("*.safetensors"):  # damaged, not removed
        file.write_bytes(b"nothing")
    with pytest.raises(CheckpointError):
        ask(api, "rollout", "worlds=1&seed=2")


def test_any_reading_error_is_reported(tmp_path, watched, monkeypatch):
    run = trainer(tmp_path)
    run.iterate()
    api = watched(tmp_path)
    monkeypatch.setattr(type(api.latest.source), "read", lambda self: {}["nothing"])
    run.iterate()
    run.log.close()
    until(lambda: ask(api, "run")["problem"] == "KeyError: 'nothing'")


# ---------------------------------------------------------------- invalid requests and folders


@pytest.mark.parametrize(
    ("name", "query", "error", "words"),
    [
        (
            "nothing",
            "",
            UnknownAnswerError,
            "api/nothing: there is no such answer of this run; there are run, metrics, rollout",
        ),
        (
            "rollout",
            "policies=unknown",
            UnknownAnswerError,
            "policies: adversary: there is no policy 'unknown' of adversary",
        ),
        ("rollout", "policies=random,000000003", UnknownAnswerError, "agent: there is no policy '000000003' of agent"),
        ("rollout", "policies=..%2F..%2Fconfig,random", UnknownAnswerError, "there is no policy '../../config'"),
        ("rollout", "policies=a,b,c", ConfigError, "expected one, or one for each of adversary, agent, got 3"),
        ("rollout", "worlds=17", ConfigError, "worlds: expected a whole number from 1 to 16, got '17'"),
        ("rollout", "seed=-1", ConfigError, "seed: expected a whole number from 0 to 9223372036854775807, got '-1'"),
        ("rollout", "sed=1", ConfigError, "no parameter 'sed'; there are policies, seed, worlds"),
    ],
)
def test_invalid_requests_are_refused(training, watched, name, query, error, words):
    with pytest.raises(error) as caught:
        ask(watched(training), name, query)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_folders_without_runs_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"expected the folder of a run, with league.db .* got none of them"):
        open_source(tmp_path)
    with pytest.raises(ConfigError, match="got no folder"):
        open_source(tmp_path / "nothing")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"config.json: expected JSON"):
        open_source(tmp_path)
    (tmp_path / "league.db").write_text("no database")
    with pytest.raises(CheckpointError, match="damaged"):
        open_source(tmp_path)
