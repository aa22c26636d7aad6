"""The viewer's server, asked over HTTP as a browser does, and the command that starts it."""

import http.client
import json
import logging
import socket
import sys
import threading
from pathlib import Path

import pytest
from toy_league import start

from gpu_envs.errors import ConfigError, MissingExtraError
from league.watch import export as exporting
from league.watch import server as serving
from league.watch.commands import watch_command
from trainers.config import TrainConfig
from trainers.loop import Trainer
from trainers.ppo import PPOConfig


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("run") / "cart"
    learner = PPOConfig(rollout_length=4, hidden=(4,), epochs=1, minibatches=1)
    settings = {"max_episode_steps": 6}
    Trainer(TrainConfig("CartPole-v1", settings, 4, 16, eval_episodes=0, learner=learner), path).run()
    return path


class Answer:
    """What a server said to a question."""

    def __init__(self, port: int, path: str, method: str = "GET", **headers: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        self.status, self.headers, self.body = (
            response.status,
            response.headers,
            response.read().decode(errors="replace"),
        )
        connection.close()

    def json(self):
        return json.loads(self.body)


@pytest.fixture
def watching(run, monkeypatch, capsys):
    """Function that runs the command in a thread; gives the port, and ends it afterwards."""
    servers, threads, started = [], [], threading.Event()
    serve = serving.serve

    def noted(api, host, port, told):
        def both(url, server):
            servers.append((server, int(url.rstrip("/").rpartition(":")[2])))
            told(url, server)
            started.set()

        serve(api, host, port, both)

    monkeypatch.setattr(serving, "serve", noted)

    def watch(*argv: str) -> int:
        threads.append(threading.Thread(target=watch_command, args=([str(run), *argv],)))
        threads[-1].start()
        assert started.wait(60)
        return servers[-1][1]

    yield watch
    for server, _ in servers:
        server.should_exit = True
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_the_page_and_its_answers(watching, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(exporting, "PAGE", tmp_path / "index.html")
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    port = watching()
    said = capsys.readouterr().out
    assert "training of CartPole-v1 in " in said
    assert f"http://127.0.0.1:{port}/ until Ctrl-C" in said
    assert f"ssh -N -L {port}:127.0.0.1:{port} " in said
    assert opened == [f"http://127.0.0.1:{port}/"]
    missing = Answer(port, "/")
    assert (missing.status, missing.body.count("\n")) == (503, 1)
    assert "the viewer's page is not there; build it" in missing.body
    (tmp_path / "index.html").write_text("<p>the page</p>")
    page = Answer(port, "/")
    assert (page.status, page.body) == (200, "<p>the page</p>")
    assert page.headers["Content-Type"].startswith("text/html")
    assert "default-src 'self'" in page.headers["Content-Security-Policy"]
    assert Answer(port, "/api/run").json()["env_id"] == "CartPole-v1"
    assert Answer(port, "/api/rollout?policies=random&worlds=2").json()["worlds"] == 2
    packed = Answer(port, "/api/rollout?policies=random&worlds=2", **{"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    for path, status, words in (
        ("/api/league", 404, "there is no such answer"),
        ("/api/rollout?policies=nobody", 404, "there is no policy 'nobody'"),
        ("/api/rollout?worlds=x", 400, "worlds: expected a whole number"),
    ):
        wrong = Answer(port, path)
        assert (wrong.status, wrong.headers["Content-Type"]) == (status, "application/json")
        assert words in wrong.json()["error"]


def test_handlers_of_others_go_on(watching):
    """Setting logging up anew ends all there are, and absl's closes its stream."""
    closed = []

    class Theirs(logging.Handler):
        def close(self):
            closed.append(self)
            super().close()

    handler = Theirs()
    watching()
    assert not closed
    handler.close()


def test_strangers_are_refused(watching):
    port = watching("--no-browser")
    for host in (f"localhost:{port}", "127.0.0.1", f"[::1]:{port}", socket.gethostname().upper(), "192.0.2.7"):
        assert Answer(port, "/api/run", Host=host).status == 200
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1.evil.example",
        "",
        "[",
        "localhost:80@evil.example",
    ):
        refused = Answer(port, "/api/run", Host=host)
        assert refused.status == 400
        assert "CartPole" not in refused.body
    assert Answer(port, "/api/rollout", **{"Sec-Fetch-Site": "cross-site"}).status == 403  # another site's page asks
    answer = Answer(port, "/api/run", Origin="http://evil.example")
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert Answer(port, "/api/run", method).status == 405
    for path in ("/api/../config.json", "/config.json", "/api/..%2f..%2fconfig.json", "/static/index.html"):
        assert Answer(port, path).status == 404


def test_a_file_that_is_damaged_is_said(watching, run):
    port = watching("--no-browser")
    (file,) = (run / "checkpoints").glob("*/policy-*.safetensors")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    try:
        answer = Answer(port, "/api/rollout?seed=9")
    finally:
        file.write_bytes(whole)
    assert answer.status == 500
    assert "(damaged)" in answer.json()["error"]


def test_another_address_is_warned_about(watching, capsys):
    port = watching("--no-browser", "--host", "0.0.0.0")
    said = capsys.readouterr()
    assert "warning: --host 0.0.0.0: whoever reaches this address sees the run" in said.err
    assert said.err.count("\n") == 1
    assert "ssh" not in said.out
    assert Answer(port, "/api/run").status == 200
    assert Answer(port, "/api/run", Host="evil.example").status == 400


def test_a_port_that_is_taken(watching, run):
    port = watching("--no-browser")
    with pytest.raises(ConfigError, match=f"--port {port}: cannot listen at 127.0.0.1 .*; choose another, or 0"):
        watch_command([str(run), "--port", str(port), "--no-browser"])
    with pytest.raises(ConfigError, match="--port 70000: cannot listen"):
        watch_command([str(run), "--port", "70000", "--no-browser"])


def test_wrong_words(run, tmp_path):
    with pytest.raises(ConfigError, match="--host nowhere: expected an IP address such as"):
        watch_command([str(run), "--host", "nowhere"])
    with pytest.raises(ConfigError, match=r"--port = -1: expected >= 0"):
        watch_command([str(run), "--port", "-1"])
    with pytest.raises(ConfigError, match="got neither"):
        watch_command([str(tmp_path)])


@pytest.mark.parametrize("library", ["starlette", "uvicorn"])
def test_without_the_extra_it_is_named(run, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"gpu-envs watch needs {library}: pip install 'gpu-envs\[watch\]'"):
        watch_command([str(run)])


def test_no_browser_from_afar(monkeypatch):
    from league.watch.commands import _screen

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    assert _screen()
    monkeypatch.setenv("SSH_CONNECTION", "there")
    assert not _screen()
    monkeypatch.delenv("SSH_CONNECTION")
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert not _screen()


def test_a_league_with_a_damaged_database(tmp_path):
    start(tmp_path).close()
    (tmp_path / "league.db").write_bytes((tmp_path / "league.db").read_bytes()[:3000])
    with pytest.raises(Exception, match="damaged"):
        watch_command([str(tmp_path), "--no-browser"])
