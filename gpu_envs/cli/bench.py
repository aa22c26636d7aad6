"""Subcommands of this room: list, check, bench, and what render needs of it (the rest is in ``trainers/render.py``).

Standard library arguments, so that they need no extra. What imports torch is imported by the command that needs it.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gpu_envs.errors import ConfigError
from gpu_envs.id_modules import allow_import
from gpu_envs.progress import ProgressBar
from gpu_envs.registry import find, list_envs, spelled

if TYPE_CHECKING:
    import numpy as np
    import torch

    from gpu_envs.core import Core


ALLOW_IMPORT = "module of a recorded environment; it is imported, which runs it; repeat it for more"
"""Help of the option."""


class _Parser(argparse.ArgumentParser):
    """Wrong arguments are one line, as every other error."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{self.prog.removeprefix('gpu-envs ')}: {message}; see {self.prog} --help")


def command_parser(name: str, what: str, example: str) -> argparse.ArgumentParser:
    """The argument parser of a subcommand."""
    return _Parser(
        prog=f"gpu-envs {name}",
        description=what,
        epilog=f"example: {example}",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )


def parse(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line, and import the modules that it names."""
    args = parser.parse_args(argv)
    for module in getattr(args, "allow_import", ()):
        allow_import(module)
    if "id" in args:
        args.id = spelled(args.id)
    return args


def add_allow_import(parser: argparse.ArgumentParser) -> None:
    """Add the option that every command has that reads runs."""
    parser.add_argument("--allow-import", action="append", default=[], metavar="MODULE", help=ALLOW_IMPORT)


def _add_env(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", help="environment, such as SimpleTag-v0")
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the environment; repeat it for more",
    )


def _add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default=None, help="cpu, cuda or cuda:N; cuda if there is one")


def _count(text: str) -> int:
    """An int >= 1, for argparse."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be an int >= 1, got {text!r}")
    return value


def _whole(text: str) -> int:
    """An int >= 0, for argparse."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be an int >= 0, got {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    """A finite number > 0, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of seconds > 0, got {text!r}")
    return value


def settings(pairs: Sequence[str], option: str = "--env", options: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Turn NAME=VALUE strings into settings; values are JSON, else plain strings.

    Args:
        pairs: The strings.
        option: Where they come from; with "--env", settings of the runner are refused, which the command chooses.
        options: Options of the command that set something of the runner, by its name; for the message.

    Raises:
        ConfigError: A string without "=", or a setting of the runner.
    """
    from gpu_envs.factory import check_played

    values = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise ConfigError(f"{option} {pair}: expected NAME=VALUE, such as num_runners=12")
        if option == "--env":
            hint = f"use {options[name]}" if options and name in options else "--help shows the command's own options"
            check_played(f"{option} {pair}", [name], hint)
        try:
            value = json.loads(text)
        except ValueError:
            value = {"True": True, "False": False, "None": None}.get(text, text)
        values[name] = tuple(value) if isinstance(value, list) else value
    return values


def list_command(argv: list[str]) -> int:
    """Print the ids of all environments."""
    command_parser("list", "Print the ids of all environments.", "gpu-envs list").parse_args(argv)
    print("\n".join(list_envs()))
    return 0


def check_command(argv: list[str]) -> int:
    """Check that an environment keeps the tensor contract."""
    parser = command_parser(
        "check", "Check that an environment keeps the tensor contract.", "gpu-envs check SimpleTag-v0"
    )
    _add_env(parser)
    args = parse(parser, argv)
    from gpu_envs.check import LAWS, examine

    entry = find(args.id)
    with ProgressBar(1 + len(LAWS), "laws", file=sys.stderr) as progress:
        for done, law in enumerate(examine(entry.id, **settings(args.env)), start=1):
            progress(done, law)
    print(f"{entry.id} keeps the contract")
    return 0


def render_parser() -> argparse.ArgumentParser:
    """The arguments of `gpu-envs render`, but for those that say which policies play."""
    parser = command_parser(
        "render",
        "Write a picture or a video of worlds at play.",
        "gpu-envs render SimpleTag-v0 --checkpoint zoo:simple-tag-ppo --worlds 16 --out out/tag.mp4",
    )
    _add_env(parser)
    add_pictures(parser)
    return parser


def add_pictures(parser: argparse.ArgumentParser) -> None:
    """The arguments that `render_play` reads, and the device and the seed."""
    _add_device(parser)
    parser.add_argument("--out", type=Path, default=Path("out/render.mp4"), help="file; .mp4, .gif or .png")
    parser.add_argument("--worlds", type=_count, default=4, help="worlds, tiled")
    parser.add_argument("--steps", type=_count, default=200, help="steps; a .png shows the last")
    parser.add_argument(
        "--trails", type=_whole, default=None, help="steps that trails go back, 0 for none; half a second if not given"
    )
    parser.add_argument(
        "--size", type=_count, default=320, help="pixels of a world's side; all worlds together take at most 2 GiB"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the worlds and the actions")


def render_settings(args: argparse.Namespace) -> dict[str, Any]:
    """The environment's settings that `gpu-envs render` was given."""
    return settings(args.env, options={"num_envs": "--worlds", "seed": "--seed", "device": "--device"})


def render_play(
    args: argparse.Namespace, core: Core, act: Callable[[torch.Tensor, dict[str, torch.Tensor]], torch.Tensor]
) -> int:
    """Play and write what is seen; the rest of `gpu-envs render`.

    Args:
        args: Those of `add_pictures`.
        core: Its worlds are all shown. With autoreset "next_step" the ends of episodes are seen too.
        act: act(obs, info) gives the actions.

    Returns:
        The exit code.
    """
    from gpu_envs.film import Film
    from gpu_envs.video import tile, write_video

    film = Film(core, tuple(range(core.num_envs)), args.size, args.trails)
    obs, info = core.reset()

    def frames(progress: ProgressBar) -> Iterator[np.ndarray]:
        nonlocal obs, info
        for step in range(args.steps):
            if args.out.suffix.lower() != ".png" or step == args.steps - 1:
                yield tile(film.frame())
            else:
                film.scene()
            obs, _, _, _, info = core.step(act(obs, info))
            progress(step + 1)
        core.check()

    with ProgressBar(args.steps, "steps", file=sys.stderr) as progress:
        path = write_video(args.out, frames(progress), core.render_fps)
    print(path)
    return 0


def bench_command(argv: list[str]) -> int:
    """Time one environment through its doors."""
    parser = command_parser(
        "bench",
        "Time one environment: random actions made beforehand, autoreset included.",
        "gpu-envs bench SimpleTag-v0",
    )
    _add_env(parser)
    _add_device(parser)
    parser.add_argument("--num-envs", type=_count, default=4096, help="worlds")
    parser.add_argument("--threads", type=_count, default=None, help="CPU threads; chosen by the batch if not given")
    parser.add_argument(
        "--schedule", choices=("fused", "phased"), default=None, help="chosen by agents and device if not given"
    )
    parser.add_argument("--seconds", type=_seconds, default=1.0, help="time per row and round")
    args = parse(parser, argv)
    from gpu_envs.api import make
    from gpu_envs.factory import make_core

    own = {"num_envs": "--num-envs", **{name: f"--{name}" for name in ("device", "threads", "schedule")}}
    common: dict[str, Any] = dict(
        seed=0, threads=args.threads, schedule=args.schedule, **settings(args.env, options=own)
    )
    fast = make_core(args.id, args.num_envs, args.device, reuse_buffers=True, **common)
    safe = make_core(args.id, args.num_envs, args.device, **common)
    batched = make(args.id, args.num_envs, args.device, reuse_buffers=True, **common)
    for env in (fast, safe, batched):
        env.reset()
    actions = []
    for _ in range(8):
        actions.append(fast.sample_actions().clone())
        fast.step(actions[-1])
    dicts = [dict(zip(fast.possible_agents, action.unbind(1), strict=True)) for action in actions]
    doors: dict[str, Callable[[int], Any]] = {
        "core.step, reused buffers": lambda i: fast.step(actions[i & 7]),
        "core.step, clones (default)": lambda i: safe.step(actions[i & 7]),
        "dict of agents, reused buffers": lambda i: batched.step(dicts[i & 7]),
    }
    rates: dict[str, list[float]] = {door: [] for door in doors}
    rounds = [*doors] * 3  # the doors alternate, so that a busy machine slows all alike
    with ProgressBar(len(rounds), "rounds", file=sys.stderr) as progress:
        for done, door in enumerate(rounds, start=1):
            rates[door].append(_rate(doors[door], args.seconds / 3, fast.device))
            progress(done, door)
    where = f"{fast.device}, {fast.schedule}" + (f", {fast.threads} threads" if fast.device.type == "cpu" else "")
    print(f"{fast.id}: {args.num_envs} worlds x {fast.num_agents} agents on {where}")
    for door, measured in rates.items():
        steps = statistics.median(measured)
        worlds, agents = steps * args.num_envs, steps * args.num_envs * fast.num_agents
        print(f"  {door:32s} {worlds:14,.0f} env-steps/s {agents:14,.0f} agent-steps/s {1e6 / steps:10.1f} us/step")
    return 0


def _rate(step: Callable[[int], Any], seconds: float, device: torch.device) -> float:
    """Steps per second of a callable, the device's queue drained at both ends."""
    import torch

    sync = torch.cuda.synchronize if device.type == "cuda" else (lambda: None)
    for i in range(3):
        step(i)
    sync()
    count, batch, started = 0, 1, time.perf_counter()
    while True:
        for i in range(batch):
            step(i)
        sync()
        count += batch
        passed = time.perf_counter() - started
        if passed >= seconds:
            return count / passed
        batch = max(1, int(count / passed * seconds / 10))  # look at the clock about ten times
