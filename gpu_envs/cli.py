"""The console command ``gpu-envs``: subcommands are found by entry point, so lower rooms never import higher ones."""

import atexit
import difflib
import gc
import sys
from importlib.metadata import EntryPoint, entry_points

from gpu_envs.errors import GpuEnvsError

GROUP = "gpu_envs.commands"
"""Entry-point group of the subcommands: name -> ``command(argv) -> exit code``."""


def main(argv: list[str] | None = None) -> int:
    """Run a subcommand.

    What a user can mend is one line on stderr and exit code 2, never a traceback: a deliberate error, a file that
    cannot be read or written, too little memory.
    """
    atexit.register(gc.freeze)  # else the collection at the very end walks through all of torch, for a second
    args = sys.argv[1:] if argv is None else argv
    commands = {found.name: found for found in entry_points(group=GROUP)}
    if not args or args[0] in ("-h", "--help"):
        print(_usage(commands))
        return 0 if args else 2
    if "" not in sys.path:
        sys.path.append("")  # "module:Name-v0" finds a module of the working folder, as with python -m
    name, *rest = args
    if name not in commands:
        near = difflib.get_close_matches(name, commands, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(commands))}"
        return _refused(f"no command named {name!r}; {hint}")
    try:
        return commands[name].load()(rest)
    except GpuEnvsError as error:
        return _refused(str(error))
    except KeyboardInterrupt:
        print("gpu-envs: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as in `gpu-envs list | head -1`
        sys.stderr.close()
        return 0
    except OSError as error:
        where = "" if error.filename is None else f": {error.filename}"
        return _refused(f"{error.strerror or str(error).partition(chr(10))[0]}{where}")
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        told = str(error).partition("\n")[0] or type(error).__name__
        return _refused(f"not enough memory ({told}); try fewer worlds, or a smaller picture")


def _refused(why: str) -> int:
    print(f"gpu-envs: error: {why}", file=sys.stderr)
    return 2


def _out_of_memory(error: Exception) -> bool:
    """Is it Python's, torch's on a GPU (by name: torch is not loaded here), torch's on the CPU, or Warp's?"""
    words = ("DefaultCPUAllocator: ", "Failed to allocate ")
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or any(word in str(error) for word in words)


def _usage(commands: dict[str, EntryPoint]) -> str:
    names = "\n".join(f"  gpu-envs {name} --help" for name in sorted(commands))
    return f"usage: gpu-envs COMMAND ...\n\n{names}\n\nexample: gpu-envs train TagContinuous-v0"
