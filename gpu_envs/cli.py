"""The console command ``gpu-envs``: subcommands are found by entry point, so lower rooms never import higher ones."""

import difflib
import sys
from importlib.metadata import EntryPoint, entry_points

from gpu_envs.errors import GpuEnvsError

GROUP = "gpu_envs.commands"
"""Entry-point group of the subcommands: name -> ``command(argv) -> exit code``."""


def main(argv: list[str] | None = None) -> int:
    """Run a subcommand. A deliberate error is one line on stderr and exit code 2, never a traceback."""
    args = sys.argv[1:] if argv is None else argv
    commands = {found.name: found for found in entry_points(group=GROUP)}
    if not args or args[0] in ("-h", "--help"):
        print(_usage(commands))
        return 0 if args else 2
    name, *rest = args
    if name not in commands:
        near = difflib.get_close_matches(name, commands, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(commands))}"
        print(f"gpu-envs: error: no command named {name!r}; {hint}", file=sys.stderr)
        return 2
    try:
        return commands[name].load()(rest)
    except GpuEnvsError as error:
        print(f"gpu-envs: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("gpu-envs: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as in `gpu-envs list | head -1`
        sys.stderr.close()
        return 0


def _usage(commands: dict[str, EntryPoint]) -> str:
    names = "\n".join(f"  gpu-envs {name} --help" for name in sorted(commands))
    return f"usage: gpu-envs COMMAND ...\n\n{names}\n\nexample: gpu-envs train TagContinuous-v0"
