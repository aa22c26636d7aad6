"""Construction of cores by environment id: settings and definition, or a host environment."""

import inspect
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, cast

import torch
from gymnasium.vector import AutoresetMode

import warp_kernels
from gpu_envs.definition.environment import EnvDefinition, changed_settings
from gpu_envs.definition.id_modules import NAMESPACE
from gpu_envs.definition.registry import find
from gpu_envs.definition.rules_errors import named_errors
from gpu_envs.errors import ConfigError, UnexpectedArgumentError, shown
from gpu_envs.host.environments import make_host_core
from gpu_envs.runtime.core import Core
from gpu_envs.utils.devices import resolve_device
from gpu_envs.utils.settings import MAX_INT, build_config, check_value

LIMIT_NAMES = ("max_episode_steps", "max_cycles", "max_steps", "episode_length", "num_repetitions", "horizon")
"""Names of the time limit in settings: the common one, and those of mpe2, rware, WarpDrive, OpenSpiel's repeated games
and overcooked_ai."""
PLAYED = {"max_episode_steps", "illegal_actions", "domain_randomization"}
"""Arguments of make_core that change the environment, as its own settings do. The others change how it runs."""
ELSEWHERE = {"group", "agent", "opponents"}
"""Arguments of single-agent and row views, which other functions do not take."""
AUTORESET: dict[AutoresetMode, str] = {
    AutoresetMode.NEXT_STEP: "next_step",
    AutoresetMode.SAME_STEP: "same_step",
    AutoresetMode.DISABLED: "disabled",
}
"""Names of Gymnasium's autoreset modes in settings."""
_REMOVED = {
    "devices": "run one process per GPU, with device='cuda:N' and env_offset= for its part of the worlds, or train "
    "with gpu-envs train --num-workers",
    "env_contiguous": "leave it out: the state is stored world by world",
}
"""Arguments of earlier versions, with what to do instead."""


def autoreset_mode(env_id: str, argument: str, mode: Any) -> AutoresetMode:
    """Return Gymnasium's mode for a member, its value ("NextStep") or a name of `AUTORESET`.

    Raises:
        ConfigError: Naming the argument and the known modes.
    """
    for member, word in AUTORESET.items():
        if isinstance(mode, (str, AutoresetMode)) and mode in (member, member.value, word):
            return member
    words = ", ".join(map(repr, AUTORESET.values())) + " or Gymnasium's AutoresetMode"
    raise ConfigError(f"{env_id}: {argument}: expected one of {words}, got {shown(mode)}")


def limit_name_of(kind: type) -> str | None:
    """Return the name that the settings of an environment have for its time limit; None if they have none."""
    named = (field.name for field in fields(kind) if field.name in LIMIT_NAMES and not field.metadata.get("decides"))
    return next(named, None)


def suggested_calls(id: str, definition: EnvDefinition, arguments: Mapping[str, Any]) -> str:
    """Return the calls that make an environment for one agent, for the rows of a group and for all agents.

    Args:
        id: ID of the environment, without the namespace.
        definition: Definition of the environment.
        arguments: Arguments of the user; valid values of "agent" and "group" appear in the calls.
    """
    agents, groups = definition.agents, definition.groups
    agent = arguments.get("agent") if arguments.get("agent") in agents else agents[0]
    group = arguments.get("group") if arguments.get("group") in list(groups) else next(iter(groups))
    return (
        f"gymnasium.make({NAMESPACE + id!r}, agent={agent!r}) plays one agent, "
        f"gymnasium.make_vec({NAMESPACE + id!r}, group={group!r}) gives agent rows, "
        f"gpu_envs.make({id!r}) all agents by name"
    )


def takes_turns(id: str, settings: Mapping[str, Any], refused: Collection[str] = ()) -> bool:
    """Return whether agents take turns in an environment with these settings; settings of the core are ignored.

    Arguments and errors are as in :func:`configured_definition`.
    """
    config = {name: settings[name] for name in settings.keys() - RUNNER}
    return configured_definition(id, None, config, refused)[2].rules.turn_based


def configured_definition(
    id: str, max_episode_steps: int | None, config: dict[str, Any], refused: Collection[str] = ()
) -> tuple[str, Any, EnvDefinition]:
    """Return the id, settings and definition of an environment.

    Args:
        id: ID of the environment.
        max_episode_steps: Time limit [steps]; None keeps the settings' limit.
        config: Settings of the environment.
        refused: Arguments of :func:`make_core` that the caller does not accept or that are given: the error about an
            unknown setting does not suggest them.

    Raises:
        UnknownEnvironmentError: The id is unknown.
        UnexpectedArgumentError: A setting is unknown.
        ConfigError: A setting has an invalid value.
    """
    entry = find(id)
    kind, build = entry.load()
    limit_name = limit_name_of(kind)
    # Gymnasium's TimeLimit truncates, whatever the reference environment does at a limit of another name.
    # An environment whose own limit has that name may have a setting for the kind of its end.
    truncates = max_episode_steps is not None and not (limit_name == "max_episode_steps" and "time_limit" in config)
    if max_episode_steps is not None and limit_name is not None:
        if limit_name in config:
            raise ConfigError(
                f"{entry.id}: expected one of max_episode_steps and {limit_name}, got both; give max_episode_steps"
            )
        limits = {"ge": 1, "le": MAX_INT}
        max_episode_steps = check_value(entry.id, "max_episode_steps", max_episode_steps, int, **limits)
        config, max_episode_steps = config | {limit_name: max_episode_steps}, None
    unknown = config.keys() - {field.name for field in fields(kind)}
    for name in sorted(unknown & _REMOVED.keys()):
        raise UnexpectedArgumentError(f"{entry.id}: unexpected keyword argument {name!r}; {_REMOVED[name]}")
    for name in sorted(ELSEWHERE & unknown):
        known_settings = {key: config[key] for key in config.keys() - ELSEWHERE}
        calls = suggested_calls(entry.id, configured_definition(id, None, known_settings, refused)[2], config)
        raise UnexpectedArgumentError(f"{entry.id}: {name}={config[name]!r} does not belong here; {calls}")
    settings = build_config(kind, config, entry.id, {"render_mode", *RUNNER} - {"id", *refused})
    try:
        with warp_kernels.building, named_errors():
            definition = build(settings)
    except ConfigError as error:  # sizes that depend on several settings
        changed = changed_settings(settings)
        raise ConfigError(f"{entry.id}: {error}{f'; the settings are {changed}' if changed else ''}") from error
    if max_episode_steps is not None:
        limits = {"ge": 1, "le": MAX_INT}
        max_episode_steps = check_value(entry.id, "max_episode_steps", max_episode_steps, int | None, **limits)
        assert max_episode_steps is not None
        if definition.max_episode_steps == 0 or max_episode_steps < definition.max_episode_steps:
            definition = replace(definition, max_episode_steps=max_episode_steps, time_limit_terminates=False)
    elif truncates:
        definition = replace(definition, time_limit_terminates=False)
    return entry.id, settings, definition


def make_core(
    id: str,
    num_envs: int = 1,
    device: str | torch.device | None = None,
    *,
    autoreset: str | AutoresetMode = "same_step",
    reuse_buffers: bool = False,
    seed: int | None = None,
    env_offset: int = 0,
    illegal_actions: str = "error",
    schedule: str | None = None,
    threads: int | None = None,
    block_dim: int | None = None,
    fuse_fp: bool | None = None,
    domain_randomization: Mapping[str, tuple[float, float]] | None = None,
    max_episode_steps: int | None = None,
    workers: int = 1,
    worker_timeout: float = 300.0,
    **config: Any,
) -> Core:
    """Make the stacked-tensor environment of an id, with the arguments of ``Core`` and its settings.

    ``max_episode_steps`` truncates longer episodes [steps]. The reference environments have other names for the limit:
    ``max_cycles`` (MPE), ``max_steps`` (RWARE), ``episode_length`` (Tag) and ``num_repetitions`` (matrix games). With
    these names the limit does what it does there. ``workers`` and ``worker_timeout`` are for environments in plain
    Python, see :func:`gpu_envs.from_pettingzoo`.

    Raises:
        UnknownEnvironmentError: The id is unknown.
        ConfigError: A setting is unknown or has an invalid value.
        DeviceError: The device is not available.
    """
    arguments = {argument for argument, value in locals().items() if value is not _DEFAULTS.get(argument)} & RUNNER
    spec = find(id)
    mode = AUTORESET[autoreset_mode(spec.id, "autoreset", autoreset)]
    if spec.host is not None:
        _check_host(spec.id, arguments)
        core = make_host_core(
            spec.id,
            *spec.host,
            config,
            num_envs=num_envs,
            device=device,
            autoreset=mode,
            reuse_buffers=reuse_buffers,
            seed=seed,
            env_offset=env_offset,
            illegal_actions=illegal_actions,
            max_episode_steps=max_episode_steps,
            workers=workers,
            worker_timeout=worker_timeout,
        )
        return cast(Core, core)  # it offers the same interface
    name, settings, definition = configured_definition(id, max_episode_steps, config, arguments)
    for argument, option in (("workers", " and --env-workers"), ("worker_timeout", "")):
        if argument in arguments:
            raise ConfigError(
                f"{name}: {argument}: expected none, as kernels play all worlds; leave {argument}{option} out"
            )
    return Core(
        definition,
        env_id=name,
        config=settings,
        num_envs=num_envs,
        device=resolve_device(device),
        autoreset=mode,
        reuse_buffers=reuse_buffers,
        seed=seed,
        env_offset=env_offset,
        illegal_actions=illegal_actions,
        schedule=schedule,
        threads=threads,
        block_dim=block_dim,
        fuse_fp=fuse_fp,
        domain_randomization=domain_randomization,
    )


_DEFAULTS = {
    argument.name: argument.default
    for argument in inspect.signature(make_core).parameters.values()
    if argument.kind is not inspect.Parameter.VAR_KEYWORD
}
RUNNER = set(_DEFAULTS)
"""Arguments of make_core that are not settings of an environment."""


def _check_host(env_id: str, arguments: Collection[str]) -> None:
    """Raise a ConfigError if an argument that only kernels have is given for a host environment."""
    for name in ("schedule", "threads", "block_dim", "fuse_fp", "domain_randomization"):
        if name in arguments:
            raise ConfigError(f"{env_id}: {name}: expected none, as a host environment has no kernels; leave it out")


def check_played(prefix: str, names: Iterable[str], hint: str = "leave it out") -> None:
    """Check that settings change the environment, and not how it runs, which commands and trainers choose.

    Args:
        prefix: Start of the message.
        names: Names of the settings.
        hint: End of the message.

    Raises:
        ConfigError: A setting changes how the environment runs.
    """
    for name in names:
        if name in RUNNER - PLAYED:
            raise ConfigError(f"{prefix}: {name} is no setting of the environment but of the runner; {hint}")
