"""The command `gpu-envs watch`."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from tyro.conf import Positional, arg

from gpu_envs.cli.options import ImportOptions, OptionalPath, parse
from gpu_envs.utils.paths import check_file
from gpu_envs.utils.progress import ProgressBar
from gpu_envs.utils.settings import setting

if TYPE_CHECKING:
    from league.watch.server import PageApi


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """The address of a page."""

    port: int = setting(0, ge=0)
    """TCP port of the page; 0 for a free one."""
    host: str = "127.0.0.1"
    """Address to listen on. With any address but 127.0.0.1, the URL and the page cross the network unencrypted."""
    browser: bool = True
    """Open the page in a browser if there is a display."""


@dataclass(frozen=True, kw_only=True)
class WatchOptions(ImportOptions, PageOptions):
    """Open a training, several seeds, a league or an experiment in the browser: curves, rollouts, payoffs, lineage.

    The page updates while the run is in progress. It is served on this machine until Ctrl-C.

    Example: gpu-envs watch out/SimpleTag-v0-20260101-120000
    """

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """Folder of a training run, of several seeds, of a league or of an experiment."""
    export: OptionalPath = None
    """Write the page with its data to this .html file and exit."""


def watch_command(argv: list[str]) -> int:
    """Open a run in the browser, during training or afterwards."""
    from league.watch.api import open_viewer
    from league.watch.server import check_libraries, is_loopback

    args = parse(WatchOptions, "watch", argv)
    is_loopback(args.host)  # a wrong address is an error before the run is read
    if args.export is not None:
        check_file(args.export, "--export")
    else:
        check_libraries()
    with open_viewer(args.run) as api:
        if args.export is not None:
            return _export(api, args.export)
        run = api.latest.get()[0].answers["run"]
        return serve_page(args, api, f"{run['kind']} of {run['env_id']} in {args.run}")


def serve_page(args: PageOptions, api: PageApi, title: str) -> int:
    """Serve a page until Ctrl-C, and open it if there is a display; return the exit code.

    Raises:
        MissingExtraError: Starlette or uvicorn is not installed.
        ConfigError: The address or port is not available.
    """
    from league.watch.server import is_loopback, serve

    is_local = is_loopback(args.host)
    if not is_local:
        print(
            f"gpu-envs: warning: --host {args.host}: the URL and the page are not encrypted; "
            "use 127.0.0.1 with SSH forwarding, or a private network",
            file=sys.stderr,
            flush=True,
        )
    stack = contextlib.ExitStack()

    def started(url: str, server: object) -> None:
        address = urlsplit(url)
        print(f"{title}: {url} until Ctrl-C", flush=True)
        if is_local:
            # netloc: with the port, and brackets where it is IPv6
            tunnel = f"ssh -N -L {address.port}:{address.netloc} {socket.gethostname()}"
            local = address._replace(netloc=f"127.0.0.1:{address.port}").geturl()
            print(f"from another machine: {tunnel}, then open {local} there", flush=True)
        if args.browser and _screen():
            webbrowser.open(stack.enter_context(_entry(url)))

    with contextlib.suppress(KeyboardInterrupt), stack:
        serve(api, args.host, args.port, started)
    return 0


def _export(api, file: Path) -> int:
    from league.watch.export import MAX_ROLLOUTS, export, run_snapshot

    total = min(MAX_ROLLOUTS, len(run_snapshot(api)[0].matchups))
    with ProgressBar(total, "rollouts", file=sys.stderr) as progress:
        played, trouble = export(api, file, progress)
    for line in trouble:
        print(f"gpu-envs: warning: left out: {line}", file=sys.stderr)
    print(f"{file}: {file.stat().st_size / 1e6:.1f} MB, {played} rollouts")
    return 0


@contextlib.contextmanager
def _entry(url: str) -> Iterator[str]:
    """Return the address of a private file that opens a URL: other users can see the arguments of the browser."""
    from league.watch.server import ENTRY

    with tempfile.NamedTemporaryFile("w", prefix="gpu-envs-watch-", suffix=".html", encoding="utf-8") as file:
        file.write(ENTRY.format(url=url))
        file.flush()
        yield Path(file.name).as_uri()


def _screen() -> bool:
    """Return whether a browser would be visible; over SSH it could be a text browser in the terminal."""
    return not os.environ.get("SSH_CONNECTION") and (
        sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    )
