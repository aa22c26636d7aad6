"""Access control of the viewer: the Host header, requests of other sites, and the token of the printed URL."""
# Starlette is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

import ipaddress
import json
import re
import secrets
from collections.abc import Collection
from typing import Any

__all__ = ["ENTRY", "HEADERS", "AccessMiddleware", "new_token", "refusal", "split_host"]

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


def new_token() -> str:
    """Return a token that cannot be guessed."""
    return secrets.token_urlsafe(32)


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
