"""Requests to the viewer's server over HTTP."""

import http.client
import json
from urllib.parse import urlsplit


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
