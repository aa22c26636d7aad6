"""The one way to Ray: its import, and a cluster to work on."""
# Ray is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import warnings
from typing import Any

from gpu_envs.errors import ConfigError, GpuEnvsError, missing

LOOPBACK = "127.0.0.1"  # reached from this machine alone
ANSWER_SECONDS = 5.0
"""How long a cluster may take to accept a connection."""


def ray_library(who: str) -> Any:
    """Ray's module; MissingExtraError where it is not installed.

    Args:
        who: Needs it.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # tasks without a GPU leave CUDA as it is
    # Else Ray puts the machine's outer address wherever 127.0.0.1 is asked for, and listens on all interfaces. The
    # second line is for where Ray was imported before: it reads the variable then.
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
        from ray._private import ray_constants  # not in a mere folder named ray, such as that of Ray's logs in /tmp
    except ModuleNotFoundError as error:
        raise missing(error, who, ("ray",), "'gpu-envs[ray]'") from None
    ray_constants.ENABLE_RAY_CLUSTER = os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"].lower() in ("1", "true")
    logging.getLogger("ray._private.authentication.authentication_token_setup").addFilter(_no_news)
    return ray


def connect(who: str, address: str | None = None, **options: Any) -> Any:
    """Ray's module, with this process connected to a cluster; one that it is connected to already is used as it is.

    A cluster of this process alone asks for a token (`~/.ray/auth_token`, made where there is none), as Ray has it; so
    does one that is found by "auto", where there is a token. For another that does, set RAY_AUTH_MODE=token.

    Args:
        who: Needs it.
        address: "auto": the cluster of this machine, or of RAY_ADDRESS; "local": one of this process alone, which ends
            with it; "HOST:PORT" or "ray://HOST:PORT": that one. None: RAY_ADDRESS if it is set, else "local".
        **options: For `ray.init`.

    Raises:
        MissingExtraError: Ray is not installed.
        GpuEnvsError: Nothing answers there, or it wants another token.
    """
    ray = ray_library(who)
    if ray.is_initialized():
        return ray
    if address in (None, "", "auto"):
        address = os.environ.get("RAY_ADDRESS") or address or "local"
    if address == "local":  # nobody else is to reach it
        options = {"include_dashboard": False, "_node_ip_address": LOOPBACK, **options}
    if os.environ.get("RAY_AUTH_MODE"):  # it may have been set after Ray was imported, which reads it then
        ray._raylet.Config.initialize("")
    answered = False
    try:
        if address not in ("auto", "local"):
            _knock(address)
            answered = True
        ray.init(address=address, **{"logging_level": "WARNING", "log_to_driver": True, **options})
    except (ConnectionError, ray.exceptions.AuthenticationError) as error:
        if answered or isinstance(error, ray.exceptions.AuthenticationError):
            raise GpuEnvsError(
                f"{who}: the Ray cluster at {address!r} does not let us in; set RAY_AUTH_MODE=token if it wants a "
                "token, and RAY_AUTH_TOKEN_PATH or RAY_AUTH_TOKEN if that is not the one of ~/.ray/auth_token"
            ) from error
        told = str(error).splitlines()[0]
        raise GpuEnvsError(
            f"{who}: no Ray cluster at {address!r} ({told}); start one with `gpu-envs cluster up-local`, or with "
            "`ray start --head`"
        ) from error
    return ray


def check_host(host: str) -> str:
    """The address that Ray is to listen at: 127.0.0.1 for any of the loopback interface's, or another with a warning.

    Raises:
        ConfigError: No IP address.
    """
    try:
        found = ipaddress.ip_address(LOOPBACK if host == "localhost" else host)
    except ValueError:
        raise ConfigError(f"host = {host!r}: expected an IP address such as {LOOPBACK}") from None
    if found.is_loopback:  # the only one for which Ray does not listen on all interfaces
        return LOOPBACK
    warnings.warn(
        f"host = {host}: whoever reaches this address and has the token (anybody, without RAY_AUTH_MODE=token) can "
        f"run any code on this machine, and nothing is encrypted; use {LOOPBACK} with an SSH tunnel, or a network of "
        "your own",
        stacklevel=2,
    )
    return str(found)


def _knock(address: str) -> None:
    """ConnectionError where nothing listens: Ray itself would try for half a minute, and tell much."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        raise ConnectionError("expected HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise ConnectionError(getattr(error, "strerror", None) or str(error)) from error


def _no_news(record: logging.LogRecord) -> bool:
    """Does Ray tell more than that a token is asked for, which is as it should be?"""
    return not str(record.msg).startswith("Token authentication is enabled")
