"""Requests to the viewer's server over HTTP, and the fixture that starts the server."""

import http.client
import json
import threading
from urllib.parse import urlsplit

import pytest

from league.cli.watch import watch_command
from league.watch import server as serving


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
            host_port = headers.get("Host", f"127.0.0.1:{port}").rpartition(":")[2]
            headers.setdefault("Cookie", f"gpu-envs-watch-{host_port if host_port.isdigit() else 80}={port.token}")
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
        def notify(url, server):
            servers.append((server, Address.of(url)))
            on_ready(url, server)
            started.set()

        serve(api, host, port, notify)

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
