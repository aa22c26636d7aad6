"""Web server of the viewer: the page and its API. GET only; no part of a URL is used as a file name."""
# Starlette and uvicorn are an extra: the type checker runs without them.
# pyright: reportMissingImports=false

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from typing import Any

from gpu_envs.errors import ConfigError, GpuEnvsError, missing_extra, packages
from league.watch.access import HEADERS, AccessMiddleware, new_token, refusal
from league.watch.api import UnknownAnswerError, ViewerApi, encode_json
from league.watch.export import read_page
from league.watch.rollouts import ViewerClosedError

__all__ = [
    "DEADLINE",
    "LOOPBACK",
    "MAX_CONNECTIONS",
    "MAX_HEADER",
    "application",
    "check_libraries",
    "is_loopback",
    "protocol",
    "serve",
]

LOOPBACK = "127.0.0.1"
"""Address that only this machine can reach."""
DEADLINE = 5.0
"""Time for a connection to complete a request, or to take more of a response [s]."""
MAX_CONNECTIONS = 100
"""Further connections get a 503."""
MAX_HEADER = 16 * 2**10
"""Incomplete request headers of more bytes are refused."""


def check_libraries() -> None:
    """Raise MissingExtraError if Starlette or uvicorn is not installed."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise missing_extra(error, "gpu-envs watch", ("starlette", "uvicorn"), packages("watch")) from None


def application(api: ViewerApi, **access: Any) -> Any:
    """Make the ASGI application.

    Args:
        api: Answers about the run.
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


def serve(api: ViewerApi, host: str, port: int, started: Callable[[str, Any], None]) -> None:
    """Serve the viewer until it is interrupted.

    Args:
        api: Answers about the run.
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
        token = new_token()
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
