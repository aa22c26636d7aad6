"""The console command ``gpu-envs``: subcommands are found by entry point, so lower rooms never import higher ones."""

import ast
import atexit
import difflib
import gc
import importlib.util
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

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
    name, *rest = args
    if name not in commands:
        near = difflib.get_close_matches(name, commands, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(commands))}"
        return _refused(f"no command named {name!r}; {hint}")
    for before, word in zip(("", *rest), rest, strict=False):
        option, equals, value = word.partition("=") if word.startswith("--") else (before, "=", word)
        if "\0" in word or (equals and not value):  # an empty path would be the working folder
            where = f"{option}: " if option.startswith("--") else ""
            return _refused(f"{name}: {where}expected a value, got {value!r:.80}")
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
    line = "".join(each if each.isprintable() else repr(each)[1:-1] for each in why)  # a path may hold anything
    print(f"gpu-envs: error: {line}", file=sys.stderr)
    return 2


def _out_of_memory(error: Exception) -> bool:
    """Is it Python's, torch's on a GPU (by name: torch is not loaded here), torch's on the CPU, or Warp's?"""
    words = ("DefaultCPUAllocator: ", "Failed to allocate ")
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or any(word in str(error) for word in words)


def _usage(commands: dict[str, EntryPoint]) -> str:
    width = max(map(len, commands), default=0)
    rows = "\n".join(f"  {name:{width}}  {_purpose(commands[name])}" for name in sorted(commands))
    tells = "gpu-envs COMMAND --help tells its options, with an example."
    return f"usage: gpu-envs COMMAND ...\n\n{tells}\n\n{rows}\n\nexample: gpu-envs train TagContinuous-v0"


def _purpose(command: EntryPoint) -> str:
    """First line of a command's docstring, read from its source: to import all of them takes seconds."""
    try:
        found = importlib.util.find_spec(command.module)
    except ImportError as error:  # of an extra, says which
        return str(error)
    if found is None or found.origin is None or not found.origin.endswith(".py"):
        return ""
    for node in ast.parse(Path(found.origin).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == command.attr:
            return (ast.get_docstring(node) or "").partition("\n")[0]
    return ""
