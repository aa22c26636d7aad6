"""The web server of the viewer: the page, and its questions. GET only; nothing in a URL names a file."""
# Starlette and uvicorn are an extra: the type checker runs without them.
# pyright: reportMissingImports=false

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from gpu_envs.errors import ConfigError, GpuEnvsError, missing
from league.watch.api import Api, NotThere, encoded
from league.watch.export import page

LOOPBACK = "127.0.0.1"
"""Reached from this machine alone."""
HEADERS = {
    # The page needs nothing from elsewhere, so nothing may be loaded from there, or sent there.
    "Content-Security-Policy": "default-src 'self' 'unsafe-inline' data: blob:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def libraries() -> None:
    """MissingExtraError where Starlette or uvicorn is not installed."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise missing(error, "gpu-envs watch", ("starlette", "uvicorn"), "'gpu-envs[watch]'") from None


class NoStrangers:
    """Refuses pages of others: those whose name is made to mean this machine, and those that ask from elsewhere."""

    def __init__(self, app: Any, hosts: list[str]) -> None:
        """`hosts`: names by which the viewer may be called; by an address it always may, as that is no stranger's."""
        self.app, self.hosts = app, {host.lower() for host in hosts}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """As ASGI asks."""
        from starlette.datastructures import Headers
        from starlette.responses import PlainTextResponse

        app, headers = self.app, Headers(scope=scope)
        if not self.known(headers.get("host", "")):
            app = PlainTextResponse("Invalid host header", 400)
        elif headers.get("sec-fetch-site") == "cross-site" and scope["path"].startswith("/api/"):
            app = PlainTextResponse("not for other sites", 403)
        await app(scope, receive, send)

    def known(self, host: str) -> bool:
        """Whether a Host header names this viewer."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        try:
            return bool(ipaddress.ip_address(name))
        except ValueError:
            return name in self.hosts


def application(api: Api, hosts: list[str]) -> Any:
    """The ASGI application.

    Args:
        api: Answers.
        hosts: By which the viewer may be called: a page of a stranger, whose name is made to mean this machine's
            address, is refused.
    """
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.gzip import GZipMiddleware
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

    # They are no coroutines: Starlette runs them in threads, so that a rollout keeps nobody waiting.
    def show(request: Request) -> Response:
        try:
            return Response(page(), media_type="text/html", headers=HEADERS)
        except ConfigError as error:
            return PlainTextResponse(f"{error}\n", 503, HEADERS)

    def answer(request: Request) -> Response:
        try:
            status, told = 200, api.answer(request.path_params["name"], request.url.query)
        except (GpuEnvsError, OSError) as error:
            status = 404 if isinstance(error, NotThere) else 400 if isinstance(error, ConfigError) else 500
            told = encoded({"error": str(error)})
        return Response(told, status, HEADERS, "application/json")

    return Starlette(
        routes=[Route("/", show), Route("/api/{name}", answer)],
        middleware=[
            Middleware(NoStrangers, hosts=hosts),
            Middleware(GZipMiddleware, compresslevel=1),  # for SSH forwarding
        ],
    )


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
        started: Called with the page's address, and uvicorn's server, before the first answer.

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
        app = application(api, ["localhost", socket.gethostname(), socket.getfqdn()])
        # Without a log_config, which would end all handlers that there are: those of others close their streams then.
        config = uvicorn.Config(
            app, log_config=None, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        started(f"http://{f'[{name}]' if ':' in name else name}:{port}/", server)
        server.run(sockets=[listening])
