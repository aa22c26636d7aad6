"""The one way to Ray: its import, and a cluster to work on."""
# Ray is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

import ipaddress
import os
import warnings
from typing import Any

from gpu_envs.errors import ConfigError, GpuEnvsError, missing

LOOPBACK = "127.0.0.1"


def ray_library(who: str) -> Any:
    """Ray's module; MissingExtraError where it is not installed.

    Args:
        who: Needs it.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # tasks without a GPU leave CUDA as it is
    try:
        import ray
    except ModuleNotFoundError as error:
        raise missing(error, who, ("ray",), "'gpu-envs[ray]'") from None
    return ray


def connect(who: str, address: str | None = None, **options: Any) -> Any:
    """Ray's module, with this process connected to a cluster; one that it is connected to already is used as it is.

    Args:
        who: Needs it.
        address: "auto": the cluster of this machine, or of RAY_ADDRESS; "local": one of this process alone, which ends
            with it; "HOST:PORT" or "ray://HOST:PORT": that one. None: RAY_ADDRESS if it is set, else "local".
        **options: For `ray.init`.

    Raises:
        MissingExtraError: Ray is not installed.
        GpuEnvsError: Nothing answers there.
    """
    ray = ray_library(who)
    if ray.is_initialized():
        return ray
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if address == "local":  # nobody else is to reach it
        options = {"include_dashboard": False, "_node_ip_address": LOOPBACK, **options}
    try:
        ray.init(address=address, **{"logging_level": "WARNING", "log_to_driver": True, **options})
    except ConnectionError as error:
        told = str(error).splitlines()[0]
        raise GpuEnvsError(
            f"{who}: no Ray cluster at {address!r} ({told}); start one with `gpu-envs cluster up-local`, or with "
            "`ray start --head`"
        ) from error
    return ray


def check_host(host: str) -> str:
    """The address that a service binds to: the loopback interface's, or another with a warning.

    Raises:
        ConfigError: No IP address.
    """
    try:
        found = ipaddress.ip_address(LOOPBACK if host == "localhost" else host)
    except ValueError:
        raise ConfigError(f"host = {host!r}: expected an IP address such as {LOOPBACK}") from None
    if not found.is_loopback:
        warnings.warn(
            f"host = {host}: whoever reaches this address can run any code on this machine, as Ray has it; use "
            f"{LOOPBACK} with an SSH tunnel, or set RAY_AUTH_MODE=token and let nobody else in",
            stacklevel=2,
        )
    return str(found)
