"""Execution of a task in a worker. Modules, including torch, are imported only when a task needs them."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def perform(
    function: Callable[..., Any],
    policies: Any,
    arguments: Any,
    device: str,
    threads: int,
    modules: Sequence[str] = (),
    payloads: Mapping[str, Any] | None = None,
    fetch: Callable[[Any], Sequence[Any]] | None = None,
    workspace: str = "",
) -> Any:
    """Run a packed task and return its packed result.

    Args:
        function: Function of the task.
        policies: Packed policies, or references.
        arguments: Packed arguments, or references.
        device: Device of the task.
        threads: Number of torch threads.
        modules: Modules of environment ids, to be imported here too.
        payloads: Handles of the referenced payloads by digest.
        fetch: Function from handles to payloads, called for those that are not cached.
        workspace: CUBLAS_WORKSPACE_CONFIG of the run, which has an effect only before CUDA starts.

    Raises:
        GpuEnvsError: The task failed with an error that cannot be pickled; other errors are raised unchanged.
    """
    os.environ["OMP_NUM_THREADS"] = str(threads)  # for a later import of torch
    if workspace and not ("torch" in sys.modules and sys.modules["torch"].cuda.is_initialized()):
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", workspace)
    if modules:
        from gpu_envs.definition.id_modules import import_named

        import_named(modules)
    if payloads or "torch" in sys.modules:  # else there are neither policies nor tensors
        import torch

        from league.executors.transport import load_all, unpacked

        torch.set_num_threads(threads)
        loaded = {}
        if payloads and fetch:
            loaded = load_all(list(payloads), device, lambda missing: fetch([payloads[digest] for digest in missing]))
        policies, arguments = unpacked(policies, device, loaded), unpacked(arguments, device, loaded)
    try:
        result = function(policies, **arguments)
    except Exception as error:
        if _travels(error):
            raise
        from gpu_envs.errors import GpuEnvsError

        raise GpuEnvsError(f"{type(error).__name__}: {error}") from error
    if "torch" in sys.modules:
        from league.executors.transport import packed

        return packed(result)
    return result


def _travels(error: Exception) -> bool:
    """Return whether an error can be rebuilt from its arguments."""
    try:
        return type(copy.copy(error)) is type(error)
    except Exception:  # noqa: BLE001  of any class
        return False
