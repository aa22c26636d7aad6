"""Tests of the viewer's server over HTTP, and of the command that starts it."""

import contextlib
import http.client
import logging
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from viewer_requests import Answer

from gpu_envs.errors import ConfigError, MissingExtraError
from league.cli.watch import watch_command
from league.watch import export as exporting
from league.watch import server as serving
from league.watch.api import ViewerApi


def test_server_returns_page_and_answers(watching, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(exporting, "PAGE", tmp_path / "index.html")
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    port = watching()
    output = capsys.readouterr().out
    assert "training of CartPole-v1 in " in output
    url = f"http://127.0.0.1:{port}/?token={port.token}"
    assert f"{url} until Ctrl-C" in output
    assert f"ssh -N -L {port}:127.0.0.1:{port} {socket.gethostname()}, then open {url} there" in output
    (entry,) = (Path(urlsplit(address).path) for address in opened)
    assert entry.stat().st_mode & 0o777 == 0o600, "another user sees the command line of a browser, but not this file"
    assert f'content="0; url={url}"' in entry.read_text()
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
        ("/api/rollout?policies=unknown", 404, "there is no policy 'unknown'"),
        ("/api/rollout?worlds=x", 400, "worlds: expected a whole number"),
    ):
        wrong = Answer(port, path)
        assert (wrong.status, wrong.headers["Content-Type"]) == (status, "application/json")
        assert words in wrong.json()["error"]


def test_existing_log_handlers_stay_open(watching):
    """Configuring logging closes existing handlers, and absl's handler closes its stream."""
    closed = []

    class Theirs(logging.Handler):
        def close(self):
            closed.append(self)
            super().close()

    handler = Theirs()
    watching()
    assert not closed
    handler.close()


SENT = (
    b"",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-",
    b"POST /api/run HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000000\r\n\r\nhalf",
)


@pytest.mark.parametrize("sent", SENT, ids=["nothing", "headers", "body"])
def test_incomplete_request_is_closed(watching, monkeypatch, sent):
    monkeypatch.setattr(serving, "DEADLINE", 0.05)
    port = watching("--no-browser")
    with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as client:
        client.sendall(sent)
        with contextlib.suppress(ConnectionResetError):  # the connection is closed in either case
            while client.recv(4096):
                with contextlib.suppress(ConnectionError):
                    client.sendall(b"x")


def outlast(port: int) -> None:
    """Wait until a connection that sends nothing is closed."""
    client = socket.create_connection(("127.0.0.1", int(port)), timeout=30)
    with client, contextlib.suppress(ConnectionResetError):
        assert not client.recv(1)


def test_slow_answer_is_complete(watching, monkeypatch):
    """The server may close a connection whose request takes too long to arrive, on a busy machine: ask again."""
    monkeypatch.setattr(serving, "DEADLINE", 0.1)
    port = watching("--no-browser")
    original, requests = ViewerApi.answer, []

    def slow(self, name, query=""):
        requests.append(name)
        for _ in range(3):
            outlast(port)
        return original(self, name, query)

    monkeypatch.setattr(ViewerApi, "answer", slow)
    while not requests:
        try:
            assert Answer(port, "/api/run").status == 200
        except (http.client.RemoteDisconnected, ConnectionError):
            assert not requests, "closed during the answer"


def test_client_that_reads_no_response_is_closed(watching, monkeypatch):
    monkeypatch.setattr(serving, "DEADLINE", 0.05)
    monkeypatch.setattr(ViewerApi, "answer", lambda self, name, query="": b" " * 2**25)
    port = watching("--no-browser")
    with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as client:
        lines = "GET /api/run HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Cookie: gpu-envs-watch-{port}={port.token}"
        client.sendall("\r\n".join((*lines, "", "")).encode())
        for _ in range(3):
            outlast(port)
        size = 0
        with contextlib.suppress(ConnectionResetError):
            while part := client.recv(2**20):
                size += len(part)
        assert size < 2**25


def test_headers_without_end_are_refused(watching):
    port = watching("--no-browser")
    with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * (serving.MAX_HEADER + 1))
        assert client.makefile("rb").readline().split()[1] == b"400"


def test_damaged_file_is_reported(watching, run):
    port = watching("--no-browser")
    (file,) = (run / "checkpoints").glob("*/policy-*.safetensors")
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    try:
        answer = Answer(port, "/api/rollout?seed=9")
    finally:
        file.write_bytes(content)
    assert answer.status == 500
    assert "(damaged)" in answer.json()["error"]


def test_used_port_is_refused(watching, run):
    port = watching("--no-browser")
    with pytest.raises(ConfigError, match=f"--port {port}: cannot listen at 127.0.0.1 .*; choose another, or 0"):
        watch_command([str(run), "--port", str(port), "--no-browser"])
    with pytest.raises(ConfigError, match="--port 70000: cannot listen"):
        watch_command([str(run), "--port", "70000", "--no-browser"])


def test_invalid_options_are_refused(run, tmp_path):
    with pytest.raises(ConfigError, match="--host nowhere: expected an IP address such as"):
        watch_command([str(run), "--host", "nowhere"])
    with pytest.raises(ConfigError, match=r"--port: expected an int >= 0, got -1"):
        watch_command([str(run), "--port", "-1"])
    with pytest.raises(ConfigError, match="got none of them"):
        watch_command([str(tmp_path)])


@pytest.mark.parametrize("library", ["starlette", "uvicorn"])
def test_missing_extra_is_named(run, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(
        MissingExtraError, match=rf"gpu-envs watch needs {library}: pip install .*('{library}>=|\[watch\])"
    ):
        watch_command([str(run)])


def test_browser_is_not_opened_over_ssh(monkeypatch):
    from league.cli.watch import _screen

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
