"""The subcommand `gpu-envs watch`."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path

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
    """Where it can be reached. Anything but this machine's own 127.0.0.1 shows the run to others."""
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
                f"gpu-envs: warning: --host {args.host}: whoever reaches this address sees the run, and nothing is "
                "encrypted; use 127.0.0.1 with SSH forwarding, or a network of your own",
                file=sys.stderr,
                flush=True,
            )

        def started(url: str, server: object) -> None:
            told = latest.get()[0].answers["run"]
            port = url.rstrip("/").rpartition(":")[2]
            print(f"{told['kind']} of {told['env_id']} in {args.run}: {url} until Ctrl-C", flush=True)
            if alone:
                host = url.partition("//")[2].rstrip("/")  # with the port, and brackets where it is IPv6
                there = f"ssh -N -L {port}:{host} {socket.gethostname()}"
                print(f"from another machine: {there}, then open http://127.0.0.1:{port}/ there", flush=True)
            if args.browser and _screen():
                webbrowser.open(url)

        with contextlib.suppress(KeyboardInterrupt):
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


def _screen() -> bool:
    """Whether a browser would be seen: not from afar, where it might be one in the terminal."""
    return not os.environ.get("SSH_CONNECTION") and (
        sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    )
