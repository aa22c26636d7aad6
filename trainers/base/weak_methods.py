"""References to methods that do not keep their objects."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


def weak_method(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a method of an object, and does not keep the object.

    What an object owns calls it back so. Without a reference cycle, the memory on the device is free as soon as the
    last reference to the object is gone. A function that replaces a method is returned itself.
    """
    if not hasattr(method, "__self__"):
        return method
    reference = weakref.WeakMethod(method)

    def call(*arguments: Any) -> Any:
        bound = reference()
        assert bound is not None, "its owner calls it"
        return bound(*arguments)

    return call
