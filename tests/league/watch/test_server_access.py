"""Tests of which requests the viewer's server answers: by host, site and token."""

import socket

import pytest
from viewer_requests import Answer

from league.watch import export as exporting
from league.watch.server import AccessMiddleware, split_host


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
    assert len(port.token) >= 43  # 256 bits
    assert watching("--no-browser").token != port.token
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


def test_public_address_gives_a_warning(watching, capsys):
    port = watching("--no-browser", "--host", "0.0.0.0")
    output = capsys.readouterr()
    assert "warning: --host 0.0.0.0: the URL and the page are not encrypted" in output.err
    assert output.err.count("\n") == 1
    assert "ssh" not in output.out
    assert Answer(port, "/api/run").status == 200
    assert Answer(int(port), "/api/run").status == 403
    assert Answer(port, "/api/run", Host="192.0.2.7").status == 200  # in a container, with the address of its host
    assert Answer(port, "/api/run", Host="evil.example").status == 400
