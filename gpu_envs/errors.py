"""Errors of the library. Each message names the problem, the expected value and a remedy."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LINE = 1000
"""Maximum number of characters of a message."""
LONG = 200
"""Maximum number of characters of a value in a message."""


class GpuEnvsError(Exception):
    """Base class of all errors of the library. The message is one line; the middle of a long one is omitted."""

    def __init__(self, message: object = "", *rest: object) -> None:
        line = " ".join(part.strip() for part in str(message).splitlines())
        super().__init__(line if len(line) <= LINE else f"{line[: LINE - 300]} ... {line[-290:]}", *rest)


class UnknownEnvironmentError(GpuEnvsError, ValueError):
    """No environment has this id."""


class ConfigError(GpuEnvsError, ValueError):
    """A setting of an environment or a trainer is unknown or has an invalid value."""


class RulesError(GpuEnvsError, RuntimeError):
    """Warp cannot compile the rules of an environment, or a function of them does not fit its place.

    The message begins with file, line and function of the author's code.
    """


class UnexpectedArgumentError(ConfigError, TypeError):
    """An environment has no setting of this name; a TypeError, too, as Python raises for an unknown keyword."""


class ActionError(GpuEnvsError, ValueError):
    """An action has a wrong shape, dtype, device, agent or value."""


class ResetNeededError(GpuEnvsError, RuntimeError):
    """The environment needs a reset, because there was none or a call was interrupted, or it is closed."""


class HostError(GpuEnvsError, RuntimeError):
    """A host environment has raised an error, or does not keep to its agents and spaces."""


class DeviceError(GpuEnvsError, RuntimeError):
    """The requested device is not available."""


class CaptureError(GpuEnvsError, RuntimeError):
    """An operation that allocates or waits was used inside a CUDA graph."""


class CheckpointError(GpuEnvsError, ValueError):
    """A checkpoint is corrupt, or does not fit the object that loads it."""


class MissingExtraError(GpuEnvsError, ImportError):
    """A required optional library is not installed."""


class ConformanceError(GpuEnvsError, AssertionError):
    """An environment violates the tensor contract; raised by ``gpu_envs.check_env``."""


def missing_extra(error: ModuleNotFoundError, module: str, libraries: tuple[str, ...], install: str) -> ImportError:
    """Return the error to raise when the import of an optional library fails.

    ::

        try:
            import skrl
        except ModuleNotFoundError as error:
            raise missing_extra(error, "gpu_envs.views.skrl", ("skrl",), packages("skrl")) from None

    Args:
        error: Error of the import.
        module: Module that needs the library.
        libraries: Modules that the installation provides.
        install: Arguments of ``pip install``, see :func:`packages`.

    Returns:
        A MissingExtraError if one of the libraries is missing; else the error itself, for a missing dependency of it.
    """
    name = (error.name or "").partition(".")[0]
    return MissingExtraError(f"{module} needs {name}: pip install {install}") if name in libraries else error


def packages(extra: str) -> str:
    """Return the arguments of ``pip install`` for an extra of this project.

    Of an editable installation it is the extra of the clone, as in ``-e '.[sb3]'``, with the path of the clone where
    that is not the working directory. Of another installation it is the packages of the extra, as in
    ``'stable-baselines3>=2.9'``: these do not depend on the name of the release. Installed packages are left out,
    unless all of them are installed.
    """
    from importlib import metadata  # takes long, and only errors need it

    try:
        lines = metadata.requires("gpu-envs") or []
    except metadata.PackageNotFoundError:  # a clone on the path that was not installed
        return f"-e '.[{extra}]' in the clone"
    if clone := _editable_folder():
        folder = "." if clone.cwd() == clone else clone
        return f"-e {shlex.quote(f'{folder}[{extra}]')}"
    required, extras = dict[str, str](), [extra]
    for name in extras:
        for line in lines:
            requirement, _, condition = line.partition(";")
            if not re.search(rf"""extra == ["']{re.escape(name)}["']""", condition):
                continue
            package, nested = re.match(r"([\w.-]+)(?:\[(.*?)\])?", requirement.strip()).groups()  # type: ignore[union-attr]
            if package == "gpu-envs":
                extras += [other for other in nested.split(",") if other not in extras]
            else:
                required[package] = shlex.quote(requirement.strip())
    if not required:  # an extra that is newer than the installation
        return f"-e '.[{extra}]' in the clone"
    missing = [text for package, text in required.items() if not any(metadata.distributions(name=package))]
    return " ".join(missing or required.values())


def _editable_folder() -> Path | None:
    """Return the folder of an editable installation of this project (PEP 610); None for another installation."""
    import json
    from importlib import metadata
    from pathlib import Path
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    source = json.loads(metadata.distribution("gpu-envs").read_text("direct_url.json") or "{}")
    if not source.get("dir_info", {}).get("editable"):
        return None
    return Path(url2pathname(urlsplit(source["url"]).path))


def format_names(names: Iterable[object]) -> str:
    """Return names for a message; the middle of a long list is omitted."""
    words = list(map(str, names))
    return ", ".join(words) if len(words) <= 8 else f"{', '.join(words[:4])}, ... {words[-1]}"


def describe_tensor(value: object) -> str:
    """Return dtype, shape, device and unusual layout of an array for a message; the type of any other value."""
    if getattr(value, "is_nested", False):
        return "a nested tensor"
    dtype, shape, device, layout = (getattr(value, name, None) for name in ("dtype", "shape", "device", "layout"))
    if dtype is None or shape is None or device is None:
        return type(value).__name__
    text = f"{dtype} {tuple(shape)} on {device}"
    return text if str(layout) in ("None", "torch.strided") else f"{text}, {layout}"


def shown(value: object) -> str:
    """Return a value for a message: its repr on one line, shortened; dtype, shape and device of a tensor."""
    if hasattr(value, "layout") and hasattr(value, "device"):
        return describe_tensor(value)
    try:
        text = " ".join(repr(value).split())
    except (ValueError, RuntimeError):  # an int of thousands of digits, a list that contains itself
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= LONG else f"{text[:LONG]}..."
