"""Cores by id: the environment's settings, its definition and the devices it runs on."""

import inspect
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, cast

import torch
from gymnasium.vector import AutoresetMode

import warp_kernels
from gpu_envs.config import AUTORESET, MAX_INT, autoreset_member, build_config, check_value
from gpu_envs.core import Core
from gpu_envs.definition import Definition
from gpu_envs.errors import ConfigError, DeviceError, shown
from gpu_envs.id_modules import NAMESPACE
from gpu_envs.registry import find
from gpu_envs.shards import ShardedCore

PLAYED = {"max_episode_steps", "illegal", "randomise"}
"""Arguments of make_core that say what is played, like an environment's own settings. The others say how to run."""
ELSEWHERE = {"group", "learner", "others"}
"""Arguments of some views, which users give to others."""


def resolve_device(device: str | torch.device | None) -> torch.device:
    """The device asked for; None is cuda if there is one, else cpu.

    Raises:
        DeviceError: It is not there, or this library does not run on it.
    """
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        if not isinstance(device, str | int | torch.device) or isinstance(device, bool):
            raise TypeError
        wanted = torch.device(device)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        raise DeviceError(f"device must be 'cpu', 'cuda' or 'cuda:N', got {shown(device)}") from None
    if wanted.type == "cpu":
        return torch.device("cpu")
    if wanted.type != "cuda":
        raise DeviceError(f"device must be 'cpu', 'cuda' or 'cuda:N', got {device!r}")
    if not torch.cuda.is_available():
        raise DeviceError(
            f"device {device!r} was asked for, but torch finds no CUDA GPU here; "
            "use device='cpu' or install a CUDA build of torch"
        )
    index = torch.cuda.current_device() if wanted.index is None else wanted.index
    if index >= torch.cuda.device_count():
        raise DeviceError(f"device {device!r} was asked for, but there are {torch.cuda.device_count()} GPUs")
    return torch.device("cuda", index)


def suggested_calls(id: str, definition: Definition, given: Mapping[str, Any]) -> str:
    """The calls that make an environment for one agent, for the rows of a group and for all agents.

    Args:
        id: Its id, without the namespace.
        definition: Whose agents and groups there are.
        given: What the user gave; "learner" and "group" come back in the calls where they name any.
    """
    agents, groups = definition.agents, definition.groups
    learner = given.get("learner") if given.get("learner") in agents else agents[0]
    group = given.get("group") if given.get("group") in list(groups) else next(iter(groups))
    return (
        f"gymnasium.make({NAMESPACE + id!r}, learner={learner!r}) plays one agent, "
        f"gymnasium.make_vec({NAMESPACE + id!r}, group={group!r}) gives agent rows, "
        f"gpu_envs.make({id!r}) all agents by name"
    )


def takes_turns(id: str, settings: Mapping[str, Any]) -> bool:
    """Do agents take turns in an environment with these settings? Those of the runner are passed over."""
    return defined(id, None, {name: settings[name] for name in settings.keys() - RUNNER})[2].rules.turn_based


def defined(id: str, max_episode_steps: int | None, config: dict[str, Any]) -> tuple[str, Any, Definition]:
    """Name, settings and definition of an environment, its time limit shortened if that is asked for.

    Raises:
        UnknownEnvironmentError: No such id.
        ConfigError: A setting that does not exist or has a bad value.
    """
    entry = find(id)
    kind, build = entry.load()
    if max_episode_steps is not None and any(field.name == "max_episode_steps" for field in fields(kind)):
        config, max_episode_steps = config | {"max_episode_steps": max_episode_steps}, None
    for name in sorted(ELSEWHERE & config.keys() - {field.name for field in fields(kind)}):
        rest = {key: config[key] for key in config.keys() - ELSEWHERE}
        calls = suggested_calls(entry.id, defined(id, None, rest)[2], config)
        raise ConfigError(f"{entry.id}: {name}={config[name]!r} does not belong here; {calls}")
    settings = build_config(kind, config, entry.id, {"render_mode", *RUNNER} - {"id"})
    try:
        with warp_kernels.building:
            definition = build(settings)
    except ConfigError as error:  # sizes that only the whole shows
        raise ConfigError(f"{entry.id}: {error}") from error
    if max_episode_steps is not None:
        limits = {"low": 1, "high": MAX_INT}
        max_episode_steps = check_value(entry.id, "max_episode_steps", max_episode_steps, int | None, **limits)
        assert max_episode_steps is not None
        if definition.max_steps == 0 or max_episode_steps < definition.max_steps:
            definition = replace(definition, max_steps=max_episode_steps, limit_terminates=False)
    return entry.id, settings, definition


def make_core(
    id: str,
    num_envs: int = 1,
    device: str | torch.device | None = None,
    *,
    devices: Sequence[str | torch.device] | None = None,
    autoreset: str | AutoresetMode = "same_step",
    reuse_buffers: bool = False,
    seed: int | None = None,
    env_offset: int = 0,
    illegal: str = "error",
    schedule: str | None = None,
    threads: int | None = None,
    fuse_fp: bool | None = None,
    env_minor: bool = False,
    randomise: Mapping[str, tuple[float, float]] | None = None,
    max_episode_steps: int | None = None,
    **config: Any,
) -> Core:
    """Make the stacked-tensor environment of an id; arguments as :class:`gpu_envs.core.Core` and the id's Config.

    ``devices`` instead of ``device`` splits the worlds over several, as a :class:`gpu_envs.shards.ShardedCore`.
    ``max_episode_steps`` cuts (truncates) episodes earlier than the environment's own time limit would end them, unless
    the environment has a setting of that name, which then is its time limit.

    Raises:
        UnknownEnvironmentError: No such id.
        ConfigError: A setting that does not exist or has a bad value.
        DeviceError: The device is not there.
    """
    name, settings, definition = defined(id, max_episode_steps, config)
    mode = autoreset_member(autoreset)
    if mode is None:
        words = ", ".join(map(repr, AUTORESET.values())) + " or Gymnasium's AutoresetMode"
        raise ConfigError(f"{name}: autoreset must be one of {words}, got {shown(autoreset)}")
    word = AUTORESET[mode]

    def build_core(worlds: int, where: torch.device, offset: int, key: int | None) -> Core:
        return Core(
            definition,
            env_id=name,
            config=settings,
            num_envs=worlds,
            device=where,
            autoreset=word,
            reuse_buffers=reuse_buffers,
            seed=key,
            env_offset=offset,
            illegal=illegal,
            schedule=schedule,
            threads=threads,
            fuse_fp=fuse_fp,
            env_minor=env_minor,
            randomise=randomise,
        )

    if devices is None:
        return build_core(num_envs, resolve_device(device), env_offset, seed)
    if device is not None or not devices or not isinstance(devices, list | tuple):
        raise ConfigError(
            f"{name}: devices must be a list such as ['cuda:0', 'cuda:1'], without device=; got {shown(devices)}"
        )
    key = int.from_bytes(os.urandom(8), "little") if seed is None else seed
    places = [resolve_device(place) for place in devices]

    def make_shard(worlds: int, where: torch.device, first: int) -> Core:
        return build_core(worlds, where, env_offset + first, key)

    # It answers to everything that a Core does; tests/test_shards.py compares the two.
    return cast(Core, ShardedCore(name, make_shard, num_envs, places))


RUNNER = set(inspect.signature(make_core).parameters) - {"config"}
"""Arguments of make_core that are no setting of an environment."""


def check_played(where: str, names: Iterable[str], hint: str = "leave it out") -> None:
    """Check that settings say what is played, and not how to run it, which is for commands and trainers to choose.

    Args:
        where: Begins the message.
        names: Names of the settings.
        hint: Ends the message.

    Raises:
        ConfigError: A setting of the runner.
    """
    for name in names:
        if name in RUNNER - PLAYED:
            raise ConfigError(f"{where}: {name} is no setting of the environment but of the runner; {hint}")
