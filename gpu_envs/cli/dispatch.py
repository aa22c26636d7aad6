"""The console command ``gpu-envs``. Entry points name its commands, so that gpu_envs does not import trainers."""

from __future__ import annotations

import ast
import atexit
import codecs
import contextlib
import gc
import importlib.util
import io
import os
import platform
import shutil
import sys
import traceback
import unicodedata
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from pathlib import Path

from gpu_envs import __version__
from gpu_envs.errors import GpuEnvsError, HostError
from gpu_envs.utils.suggestions import unknown_name_message
from gpu_envs.utils.terminal import wrap_lines

GROUP = "gpu_envs.commands"
"""Entry-point group of the commands; each is a function ``command(argv) -> exit code``."""
TRACEBACK = "GPU_ENVS_TRACEBACK"
"""Environment variable that lets unexpected errors print their traceback."""
INSTALLED = (
    *{sys.prefix, sys.base_prefix},
    *(str(Path(__file__).parents[2] / name) for name in ("gpu_envs", "trainers", "league", "warp_kernels")),
)
"""Folders of Python, of installed libraries and of this one."""
MIN_COLUMNS = 40
"""Least width for which text is laid out; layouts of a few columns take gigabytes."""
READABLE = "gpu_envs.readable"
"""Error handler of the output streams."""
_ASCII = {"±": "+-", "…": "...", "×": "x", "·": "*", "√": "sqrt ", "π": "pi", "→": "->"}


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit code.

    A failed command prints one line on stderr and returns 2. For an error that is none of this library's, of files or
    of memory, such as a defect in the code of an environment, the line names the place. The environment variable
    GPU_ENVS_TRACEBACK=1 raises it instead, with its traceback.
    """
    atexit.register(gc.freeze)  # a final garbage collection would take a second
    prepare_streams()
    try:
        os.getcwd()
    except OSError as error:
        return _fail(f"the working folder cannot be used ({error.strerror}); change to one that exists")
    try:
        code = run_command(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()  # a full disk is an error of the command; when Python exits, it would be a traceback
        return code
    except HostError as error:
        if error.__cause__ is not None:  # the code of an environment, which its author wants to see
            traceback.print_exception(error.__cause__)
        return _fail(str(error))
    except GpuEnvsError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        print("gpu-envs: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the output has exited, as in `gpu-envs list | head -1`
        discard_unwritable_output()
        return 0
    except OSError as error:
        discard_unwritable_output()
        filename = "" if error.filename is None else f": {error.filename}"
        return _fail(f"{error.strerror or str(error).partition(chr(10))[0]}{filename}")
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        if _out_of_memory(error):
            message = str(error).partition("\n")[0] or type(error).__name__
            return _fail(f"not enough memory ({message}); try fewer worlds, or a smaller picture")
        if isinstance(error, ValueError) and str(error).startswith("GPU_ENVS_"):  # a wrong variable, no defect
            return _fail(str(error))
        return _fail(_location(error))


def run_command(args: list[str]) -> int:
    """Run the command that the words name, and return its exit code; errors are raised."""
    commands = {entry.name: entry for entry in entry_points(group=GROUP)}
    if not args or args[0] in ("-h", "--help", "--help-all"):
        print(wrap_lines(_usage(commands), shutil.get_terminal_size().columns))
        return 0 if args else 2
    name, *arguments = args
    if name in ("--version", "-V"):
        print(_versions())
        return 0
    if name not in commands:
        return _fail(unknown_name_message("command", name, sorted(commands)))
    for previous, word in zip(("", *arguments), arguments, strict=False):
        option, equals, value = word.partition("=") if word.startswith("--") else (previous, "=", word)
        if "\0" in word or (equals and not value):  # an empty path would mean the working folder
            prefix = f"{option}: " if option.startswith("--") else ""
            return _fail(f"{name}: {prefix}expected a value, got {value!r:.80}")
    return commands[name].load()(arguments)


def _fail(message: str) -> int:
    line = "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in message
    )  # paths may hold control characters
    print(f"gpu-envs: error: {line}", file=sys.stderr)
    return 2


def _location(error: Exception) -> str:
    """Return the kind, the first line and the place of an unexpected error, if possible in a user's own code."""
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [frame for frame in frames if not frame.filename.startswith((*INSTALLED, "<"))]
    last = (user_frames or frames)[-1]
    file, line = last.filename, last.lineno
    if isinstance(error, SyntaxError):  # its own location, not the import's
        file, line = error.filename or file, error.lineno or line
    message = (error.msg if isinstance(error, SyntaxError) else str(error)).partition("\n")[0]
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return f"{text} ({file}, line {line}); set {TRACEBACK}=1 to see the traceback"


def _out_of_memory(error: Exception) -> bool:
    """Return whether an error of Python, torch or Warp reports too little memory, without importing torch."""
    words = ("DefaultCPUAllocator: ", "Failed to allocate ")
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or any(word in str(error) for word in words)


def _versions() -> str:
    """Return the versions of this library and of those that results depend on, without importing them."""
    versions = [f"Python {platform.python_version()}"]
    for package in ("warp-lang", "torch"):
        with contextlib.suppress(PackageNotFoundError):
            versions.append(f"{package} {version(package)}")
    return f"gpu-envs {__version__} ({', '.join(versions)})"


def _usage(commands: dict[str, EntryPoint]) -> str:
    width = max(map(len, commands), default=0)
    rows = "\n".join(f"  {name:{width}}  {_purpose(commands[name])}" for name in sorted(commands))
    purpose = "Multi-agent reinforcement learning with environments that run in parallel on a GPU or CPU."
    hint = "gpu-envs COMMAND --help prints the options of a command, with an example; gpu-envs --version, versions."
    return f"usage: gpu-envs COMMAND ...\n\n{purpose}\n{hint}\n\n{rows}\n\nexample: gpu-envs train TagContinuous-v0"


def _purpose(command: EntryPoint) -> str:
    """Return the first line of a command's docstring. It is read from the source, since importing takes seconds."""
    try:
        spec = importlib.util.find_spec(command.module)
    except ImportError as error:  # the message names the missing extra
        return str(error)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return ""
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == command.attr:
            return (ast.get_docstring(node) or "").partition("\n")[0]
    return ""


def prepare_streams() -> None:
    """Open closed streams, let the output fall back to ASCII, and widen a terminal of a few columns.

    Without it a closed stream is None, and a file of the run may get its number.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one
        if getattr(sys, name) is None:
            mode = "w" if number else "r"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115  # for the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # tests and notebooks replace streams
            stream.reconfigure(errors=READABLE)
    if shutil.get_terminal_size().columns < MIN_COLUMNS:
        os.environ["COLUMNS"] = str(MIN_COLUMNS)


def discard_unwritable_output() -> None:
    """Send the rest of the standard output nowhere if it cannot be written: its reader is gone, or its disk is full."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _replace(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return the text or the byte that replaces a character which the encoding of a stream does not have."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    char = error.object[error.start]
    if 0xDC80 <= ord(char) <= 0xDCFF:  # a byte of a file name that is no UTF-8
        return bytes([ord(char) - 0xDC00]), error.start + 1
    plain = _ASCII.get(char) or unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode()
    return plain or char.encode("ascii", "backslashreplace").decode(), error.start + 1


codecs.register_error(READABLE, _replace)
