"""The web server of the viewer: the page, and its questions. GET only; nothing in a URL names a file."""
# Starlette and uvicorn are an extra: the type checker runs without them.
# pyright: reportMissingImports=false

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from typing import Any

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
    from starlette.middleware.trustedhost import TrustedHostMiddleware
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
            Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False),
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
        app = application(api, ["localhost", LOOPBACK, "::1", name, socket.gethostname()])
        # Without a log_config, which would end all handlers that there are: those of others close their streams then.
        config = uvicorn.Config(
            app, log_config=None, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        started(f"http://{f'[{name}]' if ':' in name else name}:{port}/", server)
        server.run(sockets=[listening])
