"""Host environments by id, and by functions that make one."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch

from gpu_envs.errors import ConfigError, GpuEnvsError, HostError, shown
from gpu_envs.host.batched import BatchedWorlds, check_batched
from gpu_envs.host.core import HostCore
from gpu_envs.host.worlds import World, close_worlds
from gpu_envs.utils.devices import resolve_device
from gpu_envs.utils.settings import MAX_INT, check_value


def make_host_core(env_id: str, library: str, source: Any, settings: Mapping[str, Any], **options: Any) -> HostCore:
    """Make the worlds of a host environment.

    Args:
        env_id: ID of the environment.
        library: "pettingzoo", "gymnasium", "open_spiel", or "" for a function that makes an environment of any of them.
        source: Name in the library, or the function. A function with an argument ``num_envs`` returns worlds that
            step at once, see :func:`from_batched`.
        settings: Arguments of the function, or settings of the environment in its library.
        **options: Arguments of :class:`gpu_envs.host.core.HostCore`.

    Raises:
        ConfigError: The environment is unknown, a setting is invalid, or its spaces are not supported.
        HostError: The environment raises an error when it is made.
        DeviceError: The device is not available.
    """
    fields = [(name, Any) for name in settings]
    config = dataclasses.make_dataclass("Config", fields, frozen=True)(**settings)
    if not library and _takes_num_envs(source):
        return _make_worlds_at_once(env_id, source, settings, config, **options)
    options["device"] = resolve_device(options.get("device"))
    adapter = f"gpu_envs.host.{library or 'adapter'}"
    return HostCore((adapter, source, dict(settings)), env_id=env_id, config=config, **options)


def _takes_num_envs(source: Callable[..., Any]) -> bool:
    """Return whether a function has an argument ``num_envs``."""
    try:
        return "num_envs" in inspect.signature(source).parameters
    except (TypeError, ValueError):  # a function in C
        return False


def from_pettingzoo(
    make_env: Callable[..., Any] | str,
    num_envs: int = 64,
    *,
    device: str | torch.device | None = "cpu",
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> HostCore:
    """Make a batch of PettingZoo environments, parallel or turn-based (AEC).

    ::

        core = gpu_envs.from_pettingzoo("pettingzoo.butterfly.pistonball_v6", num_envs=8, settings={"n_pistons": 5})
        obs, info = core.reset(seed=0)
        obs, reward, terminated, truncated, info = core.step(core.sample_actions())

    Args:
        make_env: Function that returns an environment, or its module.
        num_envs: Number of worlds E.
        device: Device of the tensors; the worlds play on the host.
        settings: Arguments of the function.
        **options: "workers", "worker_timeout", "autoreset", "reuse_buffers", "seed", "env_offset", "illegal_actions",
            "max_episode_steps", see :class:`gpu_envs.host.core.HostCore`.

    Raises:
        ConfigError: There is no such environment, a setting is invalid, or its spaces are not supported.
        HostError: The environment raises an error when it is made.
    """
    return _of_library("pettingzoo", make_env, settings, num_envs=num_envs, device=device, **options)


def from_gymnasium(
    make_env: Callable[..., Any] | str,
    num_envs: int = 64,
    *,
    device: str | torch.device | None = "cpu",
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> HostCore:
    """Make a batch of single-agent environments of Gymnasium, by an id or a function; see :func:`from_pettingzoo`."""
    return _of_library("gymnasium", make_env, settings, num_envs=num_envs, device=device, **options)


def from_open_spiel(
    game: Callable[..., Any] | str,
    num_envs: int = 64,
    *,
    device: str | torch.device | None = "cpu",
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> HostCore:
    """Make a batch of a game of OpenSpiel such as "leduc_poker(players=3)"; see :func:`from_pettingzoo`."""
    return _of_library("open_spiel", game, settings, num_envs=num_envs, device=device, **options)


def from_batched(env: BatchedWorlds, *, device: str | torch.device | None = "cpu", **options: Any) -> HostCore:
    """Give worlds of another library that step at once the interface of a core; see :func:`from_pettingzoo`.

    Args:
        env: The worlds, see :class:`gpu_envs.host.batched.BatchedWorlds`.
        device: Device of the tensors.
        **options: As in :func:`from_pettingzoo`, with one worker.

    Raises:
        ConfigError: It lacks a part, its spaces are not supported, or there are several workers.
    """
    name, config = f"batched:{type(env).__qualname__}", dataclasses.make_dataclass("Config", [])()
    return _wrap_worlds(name, env, config, device=device, **options)


def _make_worlds_at_once(
    env_id: str, make_worlds: Callable[..., BatchedWorlds], settings: Mapping[str, Any], config: Any, **options: Any
) -> HostCore:
    """Make worlds by a function with an argument ``num_envs``; close them if they are refused."""
    num_envs = check_value(env_id, "num_envs", options["num_envs"], int, ge=1, le=MAX_INT)
    _check_workers(env_id, options)
    try:
        env = make_worlds(num_envs=num_envs, **settings)
    except GpuEnvsError:
        raise
    except Exception as error:
        raise HostError(f"{env_id}: making the worlds failed: {type(error).__name__}: {error}") from error
    try:
        return _wrap_worlds(env_id, env, config, **options)
    except GpuEnvsError:
        close_worlds([cast(World, env)])
        raise


def _wrap_worlds(env_id: str, env: BatchedWorlds, config: Any, **options: Any) -> HostCore:
    """Return the core of worlds that step at once; raise a ConfigError if they do not fit the options."""
    _check_workers(env_id, options)
    check_batched(env_id, env)
    num_envs = options.pop("num_envs", env.num_envs)
    if num_envs != env.num_envs:
        raise ConfigError(f"{env_id}: num_envs: expected {num_envs} worlds, got an environment of {env.num_envs}")
    options["device"] = resolve_device(options.get("device"))
    return HostCore(env, env_id=env_id, config=config, num_envs=num_envs, **options)


def _check_workers(env_id: str, options: Mapping[str, Any]) -> None:
    if options.get("workers", 1) != 1:
        raise ConfigError(f"{env_id}: workers: expected 1, as its worlds step at once, got {shown(options['workers'])}")


def _of_library(library: str, source: Any, settings: Mapping[str, Any] | None, **options: Any) -> HostCore:
    if not (isinstance(source, str) or callable(source)):
        raise ConfigError(f"from_{library}: expected a name, or a function that makes one, got {shown(source)}")
    name = source if isinstance(source, str) else getattr(source, "__qualname__", type(source).__name__)
    return make_host_core(f"{library}:{name}", library, source, settings or {}, **options)
