"""Standard streams and the terminal of a command, made usable whatever the process was started with."""

from __future__ import annotations

import codecs
import io
import os
import shutil
import sys
import unicodedata

__all__ = ["MIN_COLUMNS", "discard_unwritable_output", "prepare_streams"]

MIN_COLUMNS = 40
"""Least width for which text is laid out; layouts of a few columns take gigabytes."""
READABLE = "gpu_envs.readable"
"""Error handler of the output streams."""
_ASCII = {"±": "+-", "…": "...", "×": "x", "·": "*", "√": "sqrt ", "π": "pi", "→": "->"}


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
