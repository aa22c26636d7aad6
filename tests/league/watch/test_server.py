"""Tests of the viewer's server over HTTP, and of the command that starts it."""

import contextlib
import http.client
import json
import logging
import socket
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from toy_league import start
from viewed_run import run  # noqa: F401

from gpu_envs.errors import ConfigError, MissingExtraError
from league.cli.watch import watch_command
from league.watch import export as exporting
from league.watch import server as serving
from league.watch.access import AccessMiddleware, new_token, split_host
from league.watch.api import ViewerApi


class Address(int):
    """Port of a viewer, with the token of its URL."""

    token: str

    @classmethod
    def of(cls, url: str) -> "Address":
        address = cls(urlsplit(url).port)
        address.token = urlsplit(url).query.removeprefix("token=")
        return address


class Answer:
    """Response of a server to a request; a request to an `Address` has the token in its cookie."""

    def __init__(self, port: int, path: str, method: str = "GET", **headers: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=300)
        if isinstance(port, Address):
            shown = headers.get("Host", f"127.0.0.1:{port}").rpartition(":")[2]
            headers.setdefault("Cookie", f"gpu-envs-watch-{shown if shown.isdigit() else 80}={port.token}")
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
    """Return a function that runs the command in a thread and returns the port; the command is stopped afterwards."""
    servers, threads, started = [], [], threading.Event()
    serve = serving.serve

    def noted(api, host, port, on_ready):
        def both(url, server):
            servers.append((server, Address.of(url)))
            on_ready(url, server)
            started.set()

        serve(api, host, port, both)

    monkeypatch.setattr(serving, "serve", noted)

    def watch(*argv: str) -> Address:
        threads.append(threading.Thread(target=watch_command, args=([str(run), *argv],)))
        threads[-1].start()
        assert started.wait(300)
        return servers[-1][1]

    yield watch
    for server, _ in servers:
        server.should_exit = True
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()


def test_server_returns_page_and_answers(watching, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(exporting, "PAGE", tmp_path / "index.html")
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    port = watching()
    said = capsys.readouterr().out
    assert "training of CartPole-v1 in " in said
    url = f"http://127.0.0.1:{port}/?token={port.token}"
    assert f"{url} until Ctrl-C" in said
    assert f"ssh -N -L {port}:127.0.0.1:{port} {socket.gethostname()}, then open {url} there" in said
    (entry,) = (Path(urlsplit(each).path) for each in opened)
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


def test_other_hosts_and_sites_are_refused(watching):
    port = watching("--no-browser")
    for host in (f"localhost:{port}", "127.0.0.1", f"[::1]:{port}", socket.gethostname().upper(), "127.0.0.2:8080"):
        assert Answer(port, "/api/run", Host=host).status == 200
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "192.0.2.7", "localhost."):
        refused = Answer(port, "/api/run", Host=host)
        assert refused.status == 400
        assert "CartPole" not in refused.body
    assert Answer(port, "/api/rollout", **{"Sec-Fetch-Site": "cross-site"}).status == 403  # from another site's page
    answer = Answer(port, "/api/run", Origin="http://evil.example")
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert Answer(port, "/api/run", method).status == 405
    for path in ("/api/../config.json", "/config.json", "/api/..%2f..%2fconfig.json", "/static/index.html"):
        assert Answer(port, path).status == 404


MALFORMED = (
    *("", " ", "[", "a b", "127.0.0.1 ", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:99999", "127.0.0.1:80:80"),
    *("127.0.0.1:x", "127.0.0.1:+80", "127.0.0.1:8700/", "127.0.0.1/", "127.0.0.1?", "127.0.0.1#", "a@127.0.0.1"),
    *("127.0.0.1@evil.example", "localhost:80@evil.example", "http://127.0.0.1", "[127.0.0.1]", "[::1", "::1"),
    *("[::1%25eth0]", "127.0.0.1, 127.0.0.1", "127.1", "0x7f.0.0.1", "localhost\t", "\u0661"),
)


@pytest.mark.parametrize("host", MALFORMED)
def test_malformed_host_is_refused(host):
    access = AccessMiddleware(None, "token", "127.0.0.1", ("localhost",))
    named = split_host(host)
    assert named is None or not access.accepts_host(named[0])


def test_request_with_several_hosts_or_none_is_refused(watching):
    port = watching("--no-browser")
    cookie = f"Cookie: gpu-envs-watch-{port}={port.token}"
    host = f"Host: 127.0.0.1:{port}"
    for version, lines, status in (
        ("1.1", [host, cookie], 200),
        ("1.1", [cookie], 400),
        ("1.0", [cookie], 400),
        ("1.1", [host, host, cookie], 400),
        ("1.1", ["Host: 127.0.0.1:99999", cookie], 400),
        ("1.1", ["Host: evil.example@127.0.0.1", cookie], 400),
    ):
        with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as client:
            client.sendall("\r\n".join([f"GET /api/run HTTP/{version}", *lines, "Connection: close", "", ""]).encode())
            assert client.makefile("rb").readline().split()[1] == str(status).encode(), lines


def test_request_without_token_is_refused(watching, tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "PAGE", tmp_path / "index.html")
    (tmp_path / "index.html").write_text("<p>the page</p>")
    port = watching("--no-browser")
    wrong = port.token[:-1] + ("A" if port.token[-1] != "A" else "B")
    cookie = f"gpu-envs-watch-{port}"
    for path in ("/", "/api/run", "/nothing", "/?token=", f"/?token={wrong}", f"/api/run?token={wrong}"):
        for sent in ("", f"{cookie}={wrong}", f"{cookie}=", f"gpu-envs-watch-1={port.token}", f"{cookie}=%00é"):
            refused = Answer(int(port), path, **({"Cookie": sent} if sent else {}))
            assert refused.status == 403
            text = refused.json()["error"] if path.startswith("/api/") else refused.body
            assert text.strip() == "expected the token of this viewer; open the URL that gpu-envs watch printed"
    entered = Answer(int(port), f"/?token={port.token}")
    assert entered.status == 200
    assert 'http-equiv="refresh" content="0; url=/"' in entered.body, "the token leaves the address bar and the history"
    assert entered.headers["Set-Cookie"] == f"{cookie}={port.token}; HttpOnly; Path=/; SameSite=strict"
    assert entered.headers["Referrer-Policy"] == "no-referrer"
    assert Answer(port, "/").body == "<p>the page</p>"
    stale = Answer(port, f"/?token={wrong}")  # token of an earlier viewer, from a browser with the cookie
    assert (stale.status, stale.headers["Set-Cookie"]) == (200, None)
    assert Answer(int(port), f"/api/rollout?worlds=1&token={port.token}").json()["worlds"] == 1  # without a cookie


def test_two_viewers_have_different_tokens():
    assert len({new_token() for _ in range(9)}) == 9
    assert len(new_token()) >= 43  # 256 bits


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
    original, begun = ViewerApi.answer, []

    def slow(self, name, query=""):
        begun.append(name)
        for _ in range(3):
            outlast(port)
        return original(self, name, query)

    monkeypatch.setattr(ViewerApi, "answer", slow)
    while not begun:
        try:
            assert Answer(port, "/api/run").status == 200
        except (http.client.RemoteDisconnected, ConnectionError):
            assert not begun, "closed during the answer"


def test_client_that_reads_no_response_is_closed(watching, monkeypatch):
    monkeypatch.setattr(serving, "DEADLINE", 0.05)
    monkeypatch.setattr(ViewerApi, "answer", lambda self, name, query="": b" " * 2**25)
    port = watching("--no-browser")
    with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as client:
        lines = "GET /api/run HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Cookie: gpu-envs-watch-{port}={port.token}"
        client.sendall("\r\n".join((*lines, "", "")).encode())
        for _ in range(3):
            outlast(port)
        got = 0
        with contextlib.suppress(ConnectionResetError):
            while part := client.recv(2**20):
                got += len(part)
        assert got < 2**25


def test_headers_without_end_are_refused(watching):
    port = watching("--no-browser")
    with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * (serving.MAX_HEADER + 1))
        assert client.makefile("rb").readline().split()[1] == b"400"


def test_damaged_file_is_reported(watching, run):
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


def test_public_address_gives_a_warning(watching, capsys):
    port = watching("--no-browser", "--host", "0.0.0.0")
    said = capsys.readouterr()
    assert "warning: --host 0.0.0.0: the URL and the run are not encrypted" in said.err
    assert said.err.count("\n") == 1
    assert "ssh" not in said.out
    assert Answer(port, "/api/run").status == 200
    assert Answer(int(port), "/api/run").status == 403
    assert Answer(port, "/api/run", Host="192.0.2.7").status == 200  # in a container, with the address of its host
    assert Answer(port, "/api/run", Host="evil.example").status == 400


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
    with pytest.raises(ConfigError, match="got neither"):
        watch_command([str(tmp_path)])


@pytest.mark.parametrize("library", ["starlette", "uvicorn"])
def test_missing_extra_is_named(run, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"gpu-envs watch needs {library}: pip install 'gpu-envs\[watch\]'"):
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


def test_damaged_league_database_gives_one_line(tmp_path):
    start(tmp_path).close()
    (tmp_path / "league.db").write_bytes((tmp_path / "league.db").read_bytes()[:3000])
    with pytest.raises(Exception, match="damaged"):
        watch_command([str(tmp_path), "--no-browser"])
