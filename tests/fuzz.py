"""Wrong values for arguments, and what a call may do with one: refuse it in one line, or work."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from gpu_envs.errors import GpuEnvsError

LONGEST = 1000
"""Characters of a message."""


def list_of_itself() -> list:
    """Return a list that contains itself."""
    items: list = []
    items.append(items)
    return items


VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "False": lambda: False,
    "numpy bool": lambda: np.bool_(True),
    "text": lambda: "x",
    "no text": lambda: "",
    "a number as text": lambda: "1",
    "NUL": lambda: "a\0b",
    "two lines": lambda: "a\nb",
    "bytes": lambda: b"x",
    "-1": lambda: -1,
    "0": lambda: 0,
    "1.5": lambda: 1.5,
    "numpy int": lambda: np.int64(1),
    "numpy float": lambda: np.float32(1.5),
    "2**31": lambda: 2**31,
    "-2**31 - 1": lambda: -(2**31) - 1,
    "2**70": lambda: 2**70,
    "10**5000": lambda: 10**5000,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "complex": lambda: 1j,
    "empty list": list,
    "empty dict": dict,
    "odd dict": lambda: {1: 2, "x": None},
    "object": object,
    "class": lambda: int,
    "function": lambda: lambda *_: None,
    "iterator": lambda: iter("ab"),
    "list of text": lambda: ["x"],
    "ragged list": lambda: [[1], [2, 3]],
    "list of lists": lambda: [[[[]]]],
    "long list": lambda: [0] * 10**5,
    "list of itself": list_of_itself,
    "array of text": lambda: np.array(["x"]),
    "array of objects": lambda: np.array([object()]),
    "complex array": lambda: np.zeros(3, complex),
    "empty array": lambda: np.zeros((0, 4)),
    "tensor": lambda: torch.zeros(3),
    "double tensor": lambda: torch.zeros((2, 4), dtype=torch.float64),
    "scalar tensor": lambda: torch.tensor(1),
    "empty tensor": lambda: torch.zeros((0,), dtype=torch.int64),
    "complex tensor": lambda: torch.zeros(2, dtype=torch.complex64),
    "meta tensor": lambda: torch.zeros((2, 4), dtype=torch.int64, device="meta"),
    "sparse tensor": lambda: torch.zeros((2, 4), dtype=torch.int64).to_sparse(),
    "sparse mask": lambda: torch.ones(2, dtype=torch.bool).to_sparse(),
    "sparse scalar": lambda: torch.zeros((2,)).to_sparse(),
    "quantized tensor": lambda: torch.quantize_per_tensor(torch.zeros(2, 4), 1.0, 0, torch.qint8),
    "nested tensor": lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged),
    "strided nested tensor": lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
}
"""Makers of values, by name: every call gets its own."""
TEXTS = ("", "x", "-1", "0", "1.5", "nan", "inf", "None", "True", "[]", "{}", "a\nb", "2147483648", str(2**70), "é")
"""Values of options on the command line."""


@dataclass
class Subject:
    """A call, and which of its arguments get wrong values."""

    name: str
    call: Callable[..., Any]
    usual: dict[str, Any] = field(default_factory=dict)
    """Arguments that are right."""
    vary: tuple[str, ...] = ()
    """Arguments that are varied; none: all of the signature."""

    def arguments(self) -> tuple[str, ...]:
        """Names of the varied arguments."""
        if self.vary:
            return self.vary
        kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        parameters = inspect.signature(self.call).parameters.values()
        return tuple(parameter.name for parameter in parameters if parameter.kind not in kinds)


def fault(call: Callable[[], Any]) -> str | None:
    """Return the fault of a call, or None if it succeeded or raised a one-line error of this library."""
    try:
        call()
    except GpuEnvsError as error:
        message = str(error)
        if "\n" in message or not message.strip():
            return f"{type(error).__name__} of {len(message.splitlines())} lines: {message[:80]!r}"
        return None if len(message) <= LONGEST else f"{type(error).__name__} of {len(message)} characters"
    except BaseException as error:  # noqa: BLE001  # any other end is a finding
        return f"{type(error).__name__}: {str(error)[:100]!r}"
    return None


def faults(subject: Subject) -> Iterator[str]:
    """Call with every wrong value of every argument; yield a line for each call with a fault."""
    for name in subject.arguments():
        for label, make in VALUES.items():
            arguments = subject.usual | {name: make()}
            wrong = fault(lambda arguments=arguments: subject.call(**arguments))
            if wrong is not None:
                yield f"{subject.name}({name}={label}): {wrong}"
