"""The subcommand `gpu-envs watch`."""

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
from urllib.parse import urlsplit

from gpu_envs.paths import check_file
from gpu_envs.progress import ProgressBar
from trainers.arguments import Positional, UseAppendAction, parse
from trainers.settings import check_settings, setting


@dataclass(frozen=True)
class WatchArgs:
    """Look at a run in the browser, while it goes on or afterwards: curves, rollouts, and what a league knows.

    Example: gpu-envs watch out/SimpleTag-v0-20260101-120000
    """

    run: Positional[Path]
    """Folder of a training or a league."""
    port: int = setting(0, ">= 0")
    """Of the page; 0: a free one."""
    host: str = "127.0.0.1"
    """Address to listen at. With any other than 127.0.0.1, the URL and the run cross the network unencrypted."""
    browser: bool = True
    """Open the page in a browser, where there is a screen."""
    export: Path | None = None
    """Write the page with all that there is to see to this one .html file, and end."""
    allow_import: UseAppendAction[tuple[str, ...]] = ()
    """Module of a recorded environment; it is imported, which runs it. Repeat it for more."""


def watch_command(argv: list[str]) -> int:
    """Look at a run in the browser, while it goes on or afterwards."""
    from league.watch.api import Api
    from league.watch.rollouts import Rollouts
    from league.watch.server import check_host, libraries, serve
    from league.watch.source import Latest, open_run

    args = parse(WatchArgs, "watch", argv)
    check_settings(args, "--")
    alone = check_host(args.host)
    if args.export is not None:
        check_file(args.export, "--export")
    else:
        libraries()
    with contextlib.closing(Latest(open_run(args.run))) as latest, contextlib.closing(Rollouts()) as rollouts:
        api = Api(latest, rollouts)
        if args.export is not None:
            return _export(api, args.export)
        if not alone:
            print(
                f"gpu-envs: warning: --host {args.host}: nothing is encrypted, neither the URL nor the run; "
                "use 127.0.0.1 with SSH forwarding, or a network of your own",
                file=sys.stderr,
                flush=True,
            )

        stack = contextlib.ExitStack()

        def started(url: str, server: object) -> None:
            told, address = latest.get()[0].answers["run"], urlsplit(url)
            print(f"{told['kind']} of {told['env_id']} in {args.run}: {url} until Ctrl-C", flush=True)
            if alone:
                # netloc: with the port, and brackets where it is IPv6
                there = f"ssh -N -L {address.port}:{address.netloc} {socket.gethostname()}"
                local = address._replace(netloc=f"127.0.0.1:{address.port}").geturl()
                print(f"from another machine: {there}, then open {local} there", flush=True)
            if args.browser and _screen():
                webbrowser.open(stack.enter_context(_entry(url)))

        with contextlib.suppress(KeyboardInterrupt), stack:
            serve(api, args.host, args.port, started)
    return 0


def _export(api, file: Path) -> int:
    from league.watch.export import ROLLOUTS, export

    total = min(ROLLOUTS, len(api.latest.get()[0].matchups))
    with ProgressBar(total, "rollouts", file=sys.stderr) as progress:
        played, trouble = export(api, file, progress)
    for line in trouble:
        print(f"gpu-envs: warning: left out: {line}", file=sys.stderr)
    print(f"{file}: {file.stat().st_size / 1e6:.1f} MB, {played} rollouts")
    return 0


@contextlib.contextmanager
def _entry(url: str) -> Iterator[str]:
    """Give the address of a file of this user alone that opens a URL: what starts a browser is seen by all users."""
    from league.watch.access import ENTRY

    with tempfile.NamedTemporaryFile("w", prefix="gpu-envs-watch-", suffix=".html", encoding="utf-8") as file:
        file.write(ENTRY.format(url=url))
        file.flush()
        yield Path(file.name).as_uri()


def _screen() -> bool:
    """Whether a browser would be seen: not from afar, where it might be one in the terminal."""
    return not os.environ.get("SSH_CONNECTION") and (
        sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    )
