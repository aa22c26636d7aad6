"""Web server of the viewer and of play by hand: the page and its API. GET only.

No part of a URL is used as a file name. Requests need the token of the printed URL and the address of this viewer as
their host, and no other site's page may send them.
"""
# Starlette and uvicorn are an extra: the type checker runs without them.
# pyright: reportMissingImports=false

from __future__ import annotations

import ipaddress
import json
import re
import secrets
import socket
from collections.abc import Callable, Collection
from typing import Any, Protocol

from gpu_envs.errors import ConfigError, GpuEnvsError, missing_extra, packages
from league.watch.api import UnknownAnswerError, encode_json
from league.watch.export import read_page
from league.watch.rollouts import ViewerClosedError


class PageApi(Protocol):
    """Responses to the requests of a page."""

    def answer(self, name: str, query: str = "") -> bytes:
        """Return the response to `api/NAME?QUERY`, JSON.

        Raises:
            UnknownAnswerError: There is no such answer.
            ConfigError: The request is invalid.
            GpuEnvsError, OSError: A file is damaged or missing.
        """
        ...


LOOPBACK = "127.0.0.1"
"""Address that only this machine can reach."""
DEADLINE = 5.0
"""Time for a connection to complete a request, or to take more of a response [s]."""
MAX_CONNECTIONS = 100
"""Further connections get a 503."""
MAX_HEADER = 16 * 2**10
"""Incomplete request headers of more bytes are refused."""


HEADERS = {
    # The page loads nothing from other sites and sends nothing to them.
    "Content-Security-Policy": "default-src 'self' 'unsafe-inline' data: blob:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # the first URL has the token
    "Cache-Control": "no-store",
}
"""Headers of every response."""
ENTRY = (
    '<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">'
    '<meta http-equiv="refresh" content="0; url={url}"><title>gpu-envs</title>'
)
"""Document that opens a URL in its place.

An HTTP redirect does not work: after a link of another site, a browser sends no strict cookie along redirects.
"""
_TOKEN = b"token="
_HOST = re.compile(r"(?:\[([0-9a-f.]*:[0-9a-f:.]+)\]|([a-z0-9._-]+))(?::([0-9]{1,5}))?", re.ASCII | re.IGNORECASE)


def check_libraries() -> None:
    """Raise MissingExtraError if Starlette or uvicorn is not installed."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise missing_extra(error, "gpu-envs watch", ("starlette", "uvicorn"), packages("watch")) from None


def split_host(value: str) -> tuple[str, int] | None:
    """Split a Host header into name or address, in lower case, and port; return None if it is malformed."""
    match = _HOST.fullmatch(value)
    if match is None or not 1 <= (port := int(match[3] or 80)) <= 65535:
        return None
    return (match[1] or match[2]).lower(), port


def refusal(scope: Any, status: int, why: str) -> Any:
    """Return a response of one line, as JSON for requests to the API."""
    from starlette.responses import Response

    is_api = scope["path"].startswith("/api/")
    text = json.dumps({"error": why}) if is_api else f"{why}\n"
    return Response(text, status, HEADERS, "application/json" if is_api else "text/plain")


class AccessMiddleware:
    """Middleware that accepts only requests that name this viewer as their host and carry its token.

    The token comes as `?token=` of the URL. The page keeps it in a cookie of its own port, which a browser does not
    send with requests of other sites.
    """

    def __init__(self, app: Any, token: str, host: str, names: Collection[str]) -> None:
        """Wrap an ASGI application.

        Args:
            app: The application.
            token: Token that requests must carry.
            host: Address at which the server listens.
            names: Accepted host names. Other names are refused, because other sites can resolve to any address.
        """
        self.app: Any = app
        self.token: bytes = token.encode()
        self.names: set[str] = {name.lower() for name in names}
        self.address = ipaddress.ip_address(host)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Respond to a request, or pass it to the application without its token."""
        from starlette.requests import Request
        from starlette.responses import HTMLResponse

        request, app = Request(scope), self.app
        hosts, parts = request.headers.getlist("host"), scope["query_string"].split(b"&")
        named = split_host(hosts[0]) if len(hosts) == 1 else None
        if named is None or not self.accepts_host(named[0]):
            app = refusal(scope, 400, "Host: expected the address of this viewer; open the URL that it printed")
            return await app(scope, receive, send)
        cookie = f"gpu-envs-watch-{named[1]}"  # a browser shares cookies between the ports of a host
        in_url = [part.removeprefix(_TOKEN) for part in parts if part.startswith(_TOKEN)]
        token = request.cookies.get(cookie, "").encode()
        if request.headers.get("sec-fetch-site") == "cross-site" and scope["path"].startswith("/api/"):
            app = refusal(scope, 403, "expected a request of this viewer's page, got one of another site")
        elif not any(map(self.accepts_token, (*in_url, token))):
            app = refusal(scope, 403, "expected the token of this viewer; open the URL that gpu-envs watch printed")
        elif in_url and scope["path"] == "/":
            app = HTMLResponse(ENTRY.format(url="/"), headers=HEADERS)
            if any(map(self.accepts_token, in_url)):
                app.set_cookie(cookie, self.token.decode(), httponly=True, samesite="strict")
        query = b"&".join(part for part in parts if not part.startswith(_TOKEN))
        await app({**scope, "query_string": query}, receive, send)

    def accepts_host(self, name: str) -> bool:
        """Return whether a host name or address is one of this viewer's."""
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return name in self.names
        # an address is not a name that another site can own; behind 0.0.0.0 a router may translate addresses
        return self.address.is_unspecified or address == self.address or address.is_loopback

    def accepts_token(self, token: bytes) -> bool:
        """Return whether a token is the right one, in constant time."""
        return secrets.compare_digest(token, self.token)


def application(api: PageApi, **access: Any) -> Any:
    """Make the ASGI application.

    Args:
        api: Answers about a run, or a game.
        **access: Arguments of `AccessMiddleware`.
    """
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.gzip import GZipMiddleware
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    # not coroutines: Starlette runs them in threads, so that a rollout does not block other requests
    def show(request: Request) -> Response:
        try:
            return Response(read_page(), media_type="text/html", headers=HEADERS)
        except ConfigError as error:
            return refusal(request.scope, 503, str(error))

    def answer(request: Request) -> Response:
        try:
            status, text = 200, api.answer(request.path_params["name"], request.url.query)
        except (GpuEnvsError, OSError) as error:
            codes = {UnknownAnswerError: 404, ConfigError: 400, ViewerClosedError: 503}
            status = next((code for kind, code in codes.items() if isinstance(error, kind)), 500)
            text = encode_json({"error": str(error)})
        return Response(text, status, HEADERS, "application/json")

    async def refused(request: Request, error: Any) -> Response:
        return refusal(request.scope, error.status_code, error.detail)

    app = Starlette(
        routes=[Route("/", show), Route("/api/{name:path}", answer)],
        middleware=[
            Middleware(AccessMiddleware, **access),
            Middleware(GZipMiddleware, compresslevel=1),  # for SSH forwarding
        ],
        exception_handlers={HTTPException: refused},
    )
    app.router.redirect_slashes = False
    return app


def protocol() -> type[Any]:
    """Make the HTTP protocol of the server: uvicorn's, which closes connections that make no progress."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class DeadlineProtocol(H11Protocol):
        """Protocol that closes a connection if its client makes no progress for `DEADLINE`."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._earlier = self._progress()
            self._timer = self.loop.call_later(DEADLINE, self._check)

        def connection_lost(self, exc: Exception | None) -> None:
            self._timer.cancel()
            super().connection_lost(exc)

        def _progress(self) -> tuple[Any, int]:
            """Return the last answered request, and the number of unsent bytes."""
            return self.cycle, self.transport.get_write_buffer_size()

        def _check(self) -> None:
            now = cycle, unsent = self._progress()
            waits = unsent or cycle is None or cycle.response_complete
            if waits and now == self._earlier:
                self.transport.abort()
                return
            self._earlier = now
            self._timer = self.loop.call_later(DEADLINE, self._check)

    return DeadlineProtocol


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address; raise ConfigError if the address is invalid."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise ConfigError(f"--host {host}: expected an IP address such as {LOOPBACK}") from None


def serve(api: PageApi, host: str, port: int, started: Callable[[str, Any], None]) -> None:
    """Serve the viewer until it is interrupted.

    Args:
        api: Answers about a run, or a game.
        host: Address to listen at.
        port: Port to listen at; 0: a free one.
        started: Called with the URL, including its token, and with uvicorn's server before the first response.

    Raises:
        MissingExtraError: Starlette or uvicorn is not installed.
        ConfigError: The address or port is not available.
    """
    check_libraries()
    import uvicorn

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"--port {port}: cannot listen at {host} ({why}); choose another, or 0 for a free one"
        ) from None
    with listening:
        port = listening.getsockname()[1]
        name = socket.gethostname() if ipaddress.ip_address(host).is_unspecified else host
        token = secrets.token_urlsafe(32)  # 256 bits
        app = application(api, token=token, host=host, names=("localhost", socket.gethostname(), socket.getfqdn()))
        config = uvicorn.Config(
            app,
            http=protocol(),
            ws="none",
            lifespan="off",
            # A log_config would remove existing log handlers.
            log_config=None,
            log_level="error",  # malformed requests are not of interest
            access_log=False,
            limit_concurrency=MAX_CONNECTIONS,
            h11_max_incomplete_event_size=MAX_HEADER,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        started(f"http://{f'[{name}]' if ':' in name else name}:{port}/?token={token}", server)
        server.run(sockets=[listening])
