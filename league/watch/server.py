"""The web server of the viewer: the page, and its questions. GET only; nothing in a URL names a file."""
# Starlette and uvicorn are an extra: the type checker runs without them.
# pyright: reportMissingImports=false

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from typing import Any

from gpu_envs.errors import ConfigError, GpuEnvsError, missing
from league.watch.access import HEADERS, AccessMiddleware, new_token, refusal
from league.watch.api import Api, NotThere, encoded
from league.watch.export import page
from league.watch.rollouts import Stopped

LOOPBACK = "127.0.0.1"
"""Reached from this machine alone."""
DEADLINE = 5.0
"""Time for a connection to complete a request, or to take more of a response [s]."""
MAX_CONNECTIONS = 100
"""Further connections get a 503."""
MAX_HEADER = 16 * 2**10
"""Incomplete request headers of more bytes are refused."""


def libraries() -> None:
    """MissingExtraError where Starlette or uvicorn is not installed."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise missing(error, "gpu-envs watch", ("starlette", "uvicorn"), "'gpu-envs[watch]'") from None


def application(api: Api, **access: Any) -> Any:
    """Make the ASGI application.

    Args:
        api: Answers.
        **access: See `AccessMiddleware`.
    """
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.gzip import GZipMiddleware
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    # They are no coroutines: Starlette runs them in threads, so that a rollout keeps nobody waiting.
    def show(request: Request) -> Response:
        try:
            return Response(page(), media_type="text/html", headers=HEADERS)
        except ConfigError as error:
            return refusal(request.scope, 503, str(error))

    def answer(request: Request) -> Response:
        try:
            status, told = 200, api.answer(request.path_params["name"], request.url.query)
        except (GpuEnvsError, OSError) as error:
            known = {NotThere: 404, ConfigError: 400, Stopped: 503}
            status = next((code for kind, code in known.items() if isinstance(error, kind)), 500)
            told = encoded({"error": str(error)})
        return Response(told, status, HEADERS, "application/json")

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
        """Every `DEADLINE`, abort a connection that waits for its client and has got no further since."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._before = self._progress()
            self._timer = self.loop.call_later(DEADLINE, self._check)

        def connection_lost(self, exc: Exception | None) -> None:
            self._timer.cancel()
            super().connection_lost(exc)

        def _progress(self) -> tuple[Any, int]:
            """Return the request that was answered last, and the bytes that the client has yet to take."""
            return self.cycle, self.transport.get_write_buffer_size()

        def _check(self) -> None:
            now = cycle, unsent = self._progress()
            waits = unsent or cycle is None or cycle.response_complete
            if waits and now == self._before:
                self.transport.abort()
                return
            self._before = now
            self._timer = self.loop.call_later(DEADLINE, self._check)

    return DeadlineProtocol


def check_host(host: str) -> bool:
    """Whether only this machine can reach an address; ConfigError where it is none."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise ConfigError(f"--host {host}: expected an IP address such as {LOOPBACK}") from None


def serve(api: Api, host: str, port: int, started: Callable[[str, Any], None]) -> None:
    """Answers until it is interrupted.

    Args:
        api: Answers.
        host: Address to listen at.
        port: 0: a free one.
        started: Called with the page's URL, its token included, and uvicorn's server, before the first answer.

    Raises:
        MissingExtraError: Starlette or uvicorn is not installed.
        ConfigError: The address or port cannot be had.
    """
    libraries()
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
            # Without a log_config, which would end all handlers that there are: those of others close their streams.
            log_config=None,
            log_level="error",  # a malformed request is no matter of the person who started the viewer
            access_log=False,
            limit_concurrency=MAX_CONNECTIONS,
            h11_max_incomplete_event_size=MAX_HEADER,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        started(f"http://{f'[{name}]' if ':' in name else name}:{port}/?token={token}", server)
        server.run(sockets=[listening])
