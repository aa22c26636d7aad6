"""Arbitrary requests to the viewer get an answer or one line."""

import json
from urllib.parse import quote

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from league.watch import server as serving
from league.watch.api import open_viewer

DIGITS = "9" * 5000


VALUES = ("", "0", "1", "-1", "+1", "1.0", "1e3", "007", "x", DIGITS, "0" * 5000, "%", "%zz", "%00", "%ff", "\u0661")


QUESTIONS = [
    *("", "&", "=", "&&=&", "policies", "policies=,", "worlds=1&worlds=2", "seed=0&seed=0", "nothing=1", "%00=1"),
    *(f"{name}={value}" for name in ("worlds", "seed", "policies") for value in VALUES),
    *(f"policies={'random,' * 999}", f"policies={'a' * 9000}", f"{'a' * 9000}=1", f"seed={2**63 - 1}", f"seed={2**63}"),
]


@pytest.fixture(scope="module")
def served(run):
    """Return the viewer's application, without a server."""
    with open_viewer(run) as api:
        yield serving.application(api, token="t", host="127.0.0.1", names=("localhost",))


def fetch(app, path: str, query: str, host: bytes = b"localhost", cookie: bytes = b"gpu-envs-watch-80=t"):
    """Return the status and body of the application's response."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "http_version": "1.1", "method": "GET", "root_path": "", "scheme": "http"}
    scope |= {"path": path, "raw_path": quote(path).encode(), "query_string": query.encode()}
    scope |= {"headers": [(b"host", host), (b"cookie", cookie)], "server": ("127.0.0.1", 80)}
    anyio.run(app, scope, receive, send)
    return sent[0]["status"], b"".join(part.get("body", b"") for part in sent[1:])


def checked(status: int, body: bytes) -> None:
    assert status == 200 or 400 <= status < 500, body
    answer = json.loads(body)
    assert status == 200 or (
        list(answer) == ["error"] and "\n" not in answer["error"] and len(answer["error"]) < 400
    ), answer


@pytest.mark.parametrize("query", QUESTIONS)
def test_rollout_request_gives_answer_or_one_line(served, query):
    for name in ("run", "metrics", "league", "rollout"):
        checked(*fetch(served, f"/api/{name}", query))


@pytest.mark.parametrize("path", ["/api/", "/api/run/", "/api/a/b", "/api/a\nb", "/api/\x00", f"/api/{'a' * 9000}"])
def test_unknown_path_gives_one_line(served, path):
    status, body = fetch(served, path, "")
    assert status == 404
    checked(status, body)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    path=st.text(max_size=30),
    name=st.sampled_from(["policies", "seed", "worlds", ""]),
    value=st.text(max_size=30),
    host=st.binary(max_size=30),
    cookie=st.binary(max_size=30),
)
def test_any_request_gives_answer_or_one_line(served, path, name, value, host, cookie):
    path = path.encode(errors="replace").decode()
    checked(*fetch(served, f"/api/{path}", ""))
    value = value.encode(errors="replace").decode()
    for query in (f"{name}={value}", f"{name}={quote(value)}", value):
        checked(*fetch(served, "/api/rollout", query))
    status, body = fetch(served, "/api/run", "", host)
    assert (status, b"CartPole" in body) in ((400, False), (403, False), (200, True))
    status, body = fetch(served, "/api/run", "", cookie=cookie)
    assert (status, b"CartPole" in body) == (403, False)
