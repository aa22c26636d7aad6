"""What a worker does with a call. Nothing is imported here before a call needs it, torch included."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def perform(
    function: Callable[..., Any],
    pools: Any,
    arguments: Any,
    device: str,
    threads: int,
    modules: Sequence[str] = (),
    parcels: Mapping[str, Any] | None = None,
    fetch: Callable[[Any], Sequence[Any]] | None = None,
) -> Any:
    """Runs a call that has travelled; its result is packed.

    Args:
        function: The call's.
        pools: Packed, or slips.
        arguments: Likewise.
        device: The call's.
        threads: Of torch.
        modules: Those that ids of environments name where the call comes from; they are imported here too.
        parcels: By digest, whatever `fetch` turns into the parcels that slips stand for.
        fetch: Called with those of them that are not kept here from earlier calls.

    Raises:
        GpuEnvsError: The call failed with an error that cannot travel; others are raised as they are.
    """
    os.environ["OMP_NUM_THREADS"] = str(threads)  # of a torch that is still to come
    if modules:
        from gpu_envs.id_modules import import_named

        import_named(modules)
    if parcels or "torch" in sys.modules:  # else neither policies nor tensors have travelled
        import torch

        from league.executors.calls import load_all, unpacked

        torch.set_num_threads(threads)
        found = {}
        if parcels and fetch:
            found = load_all(list(parcels), device, lambda lacking: fetch([parcels[digest] for digest in lacking]))
        pools, arguments = unpacked(pools, device, found), unpacked(arguments, device, found)
    try:
        result = function(pools, **arguments)
    except Exception as error:
        if _travels(error):
            raise
        from gpu_envs.errors import GpuEnvsError

        raise GpuEnvsError(f"{type(error).__name__}: {error}") from error
    if "torch" in sys.modules:
        from league.executors.calls import packed

        return packed(result)
    return result


def _travels(error: Exception) -> bool:
    """Whether an error can be made again from what it was made of."""
    try:
        return type(copy.copy(error)) is type(error)
    except Exception:  # noqa: BLE001  whatever its class does there
        return False
