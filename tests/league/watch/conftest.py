"""Fixtures of tests of the viewer: runs, their answers, and the server."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from viewer_requests import Address
from watch_runs import psro, trained

from league.cli.watch import watch_command
from league.watch import server as serving
from league.watch.api import open_viewer
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer


@pytest.fixture(scope="module")
def training(tmp_path_factory) -> Path:
    return trained(tmp_path_factory.mktemp("run") / "tag")


@pytest.fixture(scope="module")
def league(tmp_path_factory) -> Path:
    return psro(tmp_path_factory.mktemp("run") / "rps")


@pytest.fixture
def watched() -> Iterator:
    """Return a function that makes the `ViewerApi` of a run."""
    with contextlib.ExitStack() as stack:
        yield lambda path: stack.enter_context(open_viewer(path))


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("run") / "cart"
    learner = PPOConfig(rollout_length=4, hidden_sizes=(4,), num_epochs=1, num_minibatches=1)
    settings = {"max_episode_steps": 6}
    Trainer(TrainConfig("CartPole-v1", settings, 4, 16, eval_episodes=0, learner=learner), path).run()
    return path


@pytest.fixture
def watching(run, serving_command):
    """Return a function that watches a run with further options and returns the port."""
    return lambda *argv: serving_command(watch_command, [str(run), *argv])


@pytest.fixture
def serving_command(monkeypatch, capsys):
    """Return a function that runs a command in a thread and returns the port; the command is stopped afterwards."""
    servers, threads, started = [], [], threading.Event()
    serve = serving.serve

    def noted(api, host, port, on_ready):
        def notify(url, server):
            servers.append((server, Address.of(url)))
            on_ready(url, server)
            started.set()

        serve(api, host, port, notify)

    monkeypatch.setattr(serving, "serve", noted)

    def start(command: Callable[[list[str]], int], argv: list[str]) -> Address:
        started.clear()
        threads.append(threading.Thread(target=command, args=(argv,)))
        threads[-1].start()
        assert started.wait(300)
        return servers[-1][1]

    yield start
    for server, _ in servers:
        server.should_exit = True
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
