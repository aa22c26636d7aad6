"""Every error this library raises on purpose. Each message names what was wrong, what was expected and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LINE = 1000
"""Characters of a message."""
LONG = 200
"""Characters of a value that a message shows."""


class GpuEnvsError(Exception):
    """Base of all deliberate errors. The message is one line, and the middle of a long one is left out."""

    def __init__(self, message: object = "", *rest: object) -> None:
        line = " ".join(part.strip() for part in str(message).splitlines())
        super().__init__(line if len(line) <= LINE else f"{line[: LINE - 300]} ... {line[-290:]}", *rest)


class UnknownEnvironmentError(GpuEnvsError, ValueError):
    """No environment has this id."""


class ConfigError(GpuEnvsError, ValueError):
    """A setting of an environment or a trainer has a value that is not allowed."""


class ActionError(GpuEnvsError, ValueError):
    """An action has a wrong shape, dtype, device, agent or value."""


class ResetNeededError(GpuEnvsError, RuntimeError):
    """The environment was stepped before its first reset, or after it was closed."""


class DeviceError(GpuEnvsError, RuntimeError):
    """The device asked for is not there."""


class CaptureError(GpuEnvsError, RuntimeError):
    """A step that allocates was put into a CUDA graph."""


class CheckpointError(GpuEnvsError, ValueError):
    """A checkpoint is corrupt, or does not fit what it is loaded into."""


class MissingExtraError(GpuEnvsError, ImportError):
    """An optional library is needed and not installed."""


class ConformanceError(GpuEnvsError, AssertionError):
    """An environment breaks a promise of the tensor contract; raised by ``gpu_envs.check_env``."""


def missing(error: ModuleNotFoundError, who: str, libraries: tuple[str, ...], install: str) -> ImportError:
    """What to raise where an optional library is not there; what it misses itself is not ours to explain.

    ::

        try:
            import skrl
        except ModuleNotFoundError as error:
            raise missing(error, "gpu_envs.views.skrl", ("skrl",), "'gpu-envs[skrl]'") from None

    Args:
        error: Of the import.
        who: Needs the library.
        libraries: Modules that the installation would bring.
        install: What to give to ``pip install``.

    Returns:
        A MissingExtraError if one of the libraries is missing, else the error itself.
    """
    name = (error.name or "").partition(".")[0]
    return MissingExtraError(f"{who} needs {name}: pip install {install}") if name in libraries else error


def listed(names: Iterable[object]) -> str:
    """Names for a message, the middle left out where there are many."""
    words = list(map(str, names))
    return ", ".join(words) if len(words) <= 8 else f"{', '.join(words[:4])}, ... {words[-1]}"


def described(value: object) -> str:
    """Dtype, shape and device of an array for a message, and its layout if not strided; the type of anything else."""
    if getattr(value, "is_nested", False):
        return "a nested tensor"
    dtype, shape, device, layout = (getattr(value, name, None) for name in ("dtype", "shape", "device", "layout"))
    if dtype is None or shape is None or device is None:
        return type(value).__name__
    told = f"{dtype} {tuple(shape)} on {device}"
    return told if str(layout) in ("None", "torch.strided") else f"{told}, {layout}"


def shown(value: object) -> str:
    """A value for a message: its repr, on one line and cut where it is long; a tensor's dtype, shape and device."""
    if hasattr(value, "layout") and hasattr(value, "device"):
        return described(value)
    try:
        text = " ".join(repr(value).split())
    except (ValueError, RuntimeError):  # an int of thousands of digits, a list that contains itself
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= LONG else f"{text[:LONG]}..."
