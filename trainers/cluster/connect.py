"""Import Ray and connect to a cluster; no other module imports Ray."""
# Ray is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

import importlib
import logging
import os
import socket
from typing import Any

from gpu_envs.errors import GpuEnvsError, missing_extra, packages

LOOPBACK = "127.0.0.1"  # reachable from this machine only
CONNECT_SECONDS = 5.0
"""Time limit for a TCP connection to a cluster [s]."""


def ray_library(name: str) -> Any:
    """Import Ray and return its module.

    Args:
        name: Name of the feature that needs Ray, for the error message.

    Raises:
        MissingExtraError: Ray is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage reports
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # tasks without a GPU keep CUDA_VISIBLE_DEVICES
    # Otherwise Ray replaces 127.0.0.1 by the machine's outer address and listens on all interfaces. The assignment
    # below covers the case that Ray was imported before: Ray reads the variable during its import.
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
        from ray._private import ray_constants  # fails for a plain folder named ray, such as Ray's logs in /tmp
    except ModuleNotFoundError as error:
        raise missing_extra(error, name, ("ray",), packages("ray")) from None
    ray_constants.ENABLE_RAY_CLUSTER = os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"].lower() in ("1", "true")
    logging.getLogger("ray._private.authentication.authentication_token_setup").addFilter(_is_relevant)
    return ray


def ray_module(name: str) -> Any:
    """Return a module of Ray by its name without "ray.", such as "tune" or "train.torch", after `ray_library`."""
    return importlib.import_module(f"ray.{name}")


def connect(name: str, address: str | None = None, **options: Any) -> Any:
    """Connect this process to a Ray cluster and return Ray's module; an existing connection is kept.

    The cluster of "local" asks for a token, as Ray does (`~/.ray/auth_token`, created if missing). A cluster found by
    "auto" asks for one if a token exists. Set RAY_AUTH_MODE=token for other clusters with tokens.

    Args:
        name: Name of the feature that needs Ray, for error messages.
        address: "auto": the cluster of RAY_ADDRESS or of this machine. "local": a new cluster that ends with this
            process. "HOST:PORT" or "ray://HOST:PORT": that cluster. None: RAY_ADDRESS if set, otherwise "local".
        **options: Further arguments of `ray.init`.

    Raises:
        MissingExtraError: Ray is not installed.
        GpuEnvsError: No cluster answers at the address, or it expects another token.
    """
    ray = ray_library(name)
    if ray.is_initialized():
        return ray
    if address in (None, "", "auto"):
        address = os.environ.get("RAY_ADDRESS") or address or "local"
    if address == "local":  # not reachable from other machines
        options = {"include_dashboard": False, "_node_ip_address": LOOPBACK, **options}
    if os.environ.get("RAY_AUTH_MODE"):  # the variable may have been set after Ray was imported
        ray._raylet.Config.initialize("")
    answered = False
    try:
        if address not in ("auto", "local"):
            _check_reachable(address)
            answered = True
        ray.init(address=address, **{"logging_level": "WARNING", "log_to_driver": True, **options})
    except (ConnectionError, ray.exceptions.AuthenticationError) as error:
        if answered or isinstance(error, ray.exceptions.AuthenticationError):
            raise GpuEnvsError(
                f"{name}: the Ray cluster at {address!r} refused the connection; set RAY_AUTH_MODE=token if it expects "
                "a token, and RAY_AUTH_TOKEN_PATH or RAY_AUTH_TOKEN if that is not the one of ~/.ray/auth_token"
            ) from error
        reason = str(error).splitlines()[0]
        raise GpuEnvsError(
            f"{name}: no Ray cluster at {address!r} ({reason}); start one with `ray start --head`"
        ) from error
    return ray


def _check_reachable(address: str) -> None:
    """Raise ConnectionError if no process listens at an address; Ray itself would retry for half a minute."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        raise ConnectionError("expected HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise ConnectionError(getattr(error, "strerror", None) or str(error)) from error


def _is_relevant(record: logging.LogRecord) -> bool:
    """Return whether a log record is more than the notice that token authentication is on."""
    return not str(record.msg).startswith("Token authentication is enabled")
