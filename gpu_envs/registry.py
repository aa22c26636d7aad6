"""Environments by id: make, register, list_envs."""

import difflib
import importlib
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any, cast

import gymnasium
import pettingzoo
import torch
from gymnasium.vector import AutoresetMode

import warp_kernels
from gpu_envs.config import AUTORESET, MAX_INT, autoreset_member, build_config, check_value
from gpu_envs.core import Core
from gpu_envs.definition import Definition
from gpu_envs.errors import ConfigError, DeviceError, UnknownEnvironmentError, shown
from gpu_envs.shards import ShardedCore
from gpu_envs.views.batched import BatchedEnv

NAMESPACE = "gpu_envs/"  # of the ids in Gymnasium's registry


@dataclass(frozen=True)
class Entry:
    """Where an environment's host file lives; it gives ``Config`` and ``build(config) -> Definition``."""

    id: str
    """Such as "SimpleTag-v0"."""
    module: str | None = None
    """Host file, imported at first need; None: ``config`` and ``build`` are given."""
    config: type | None = None
    """Frozen dataclass of the settings."""
    build: Callable[[Any], Definition] | None = None
    """Makes the definition from settings."""
    max_episode_steps: int | None = None
    """Where it is for ``gymnasium.make`` to cut episodes [steps]; None: the rules do."""
    reward_threshold: float | None = None
    """Return at which Gymnasium's ``EnvSpec`` calls the environment solved."""
    meanings: str | None = None
    """Module that says what the numbers mean, see :mod:`gpu_envs.meanings`; None: nobody says it."""

    def load(self) -> tuple[type, Callable[[Any], Definition]]:
        """Config class and build function; imports the host file at first need.

        Raises:
            ConfigError: The module cannot be imported, or has no dataclass ``Config`` or no function ``build``.
        """
        if self.module is None:
            assert self.config is not None
            assert self.build is not None
            return self.config, self.build
        with warp_kernels.building:
            try:
                module = importlib.import_module(self.module)
            except ImportError as error:
                raise ConfigError(f"{self.id}: its module {self.module} cannot be imported: {error}") from error
        config, build = getattr(module, "Config", None), getattr(module, "build", None)
        _check_host(f"{self.id}: module {self.module}", config, build)
        return cast(type, config), cast(Callable[[Any], Definition], build)


def _check_host(who: str, config: Any, build: Any) -> None:
    """Raise a ConfigError unless there are a dataclass of settings and a function."""
    if not isinstance(config, type) or not is_dataclass(config):
        raise ConfigError(f"{who} needs Config, a frozen dataclass of its settings, got {shown(config)}")
    if not callable(build):
        raise ConfigError(f"{who} needs build(config) -> Definition, got {shown(build)}")


_entries: dict[str, Entry] = {}


def register(
    id: str,
    module: str | None = None,
    *,
    config: type | None = None,
    build: Callable[[Any], Definition] | None = None,
    max_episode_steps: int | None = None,
    reward_threshold: float | None = None,
    meanings: str | None = None,
) -> None:
    """Make an environment known.

    Args:
        id: "Name-v0".
        module: Import path of a host file with ``Config`` and ``build``, or instead of it:
        config: Frozen dataclass of settings (see :func:`gpu_envs.config.setting`).
        build: ``build(config) -> Definition``.
        max_episode_steps: Where it is for ``gymnasium.make`` to cut episodes (its ``TimeLimit``), as with the
            environments of Gymnasium itself: after so many steps.
        reward_threshold: Return at which Gymnasium's ``EnvSpec`` calls the environment solved.
        meanings: Import path of a module that says what observations and actions are (see :mod:`gpu_envs.meanings`), so
            that the viewer names them; ``__name__`` where the host file says it itself.

    Raises:
        ConfigError: A malformed or taken id, or neither a module nor config and build.
    """
    if not isinstance(id, str) or not re.fullmatch(r"[A-Za-z0-9_\-]+-v\d+", id):
        raise ConfigError(f"register: id must look like 'Name-v0', got {shown(id)}")
    if id in _entries:
        raise ConfigError(f"register: {id} is registered already; choose another name or version")
    if (module is None) == (config is None or build is None):
        raise ConfigError(f"register: {id} needs either module= or both config= and build=")
    for name, path in (("module", module), ("meanings", meanings)):
        if path is not None and not (isinstance(path, str) and re.fullmatch(r"\w+(\.\w+)*", path)):
            raise ConfigError(f"register: {name} must be the import path of a module, got {shown(path)}")
    if module is None:
        _check_host(f"register: {id}", config, build)
    max_episode_steps = check_value("register", "max_episode_steps", max_episode_steps, int | None, low=1)
    reward_threshold = check_value("register", "reward_threshold", reward_threshold, float | None)
    _entries[id] = Entry(id, module, config, build, max_episode_steps, reward_threshold, meanings)
    _announce(id)


def _announce(id: str) -> None:
    """Tell Gymnasium and PettingZoo; the views behind the names are imported when one is made."""
    gymnasium.register(
        NAMESPACE + id,
        entry_point="gpu_envs.views.gymnasium:LearnerEnv",
        vector_entry_point="gpu_envs.views.rows:RowsEnv",
        kwargs={"env_id": id},
        max_episode_steps=_entries[id].max_episode_steps,
        reward_threshold=_entries[id].reward_threshold,
    )
    pettingzoo.register(
        "parallel", NAMESPACE + id, entry_point="gpu_envs.views.pettingzoo:parallel_env", kwargs={"id": id}
    )


def list_envs() -> list[str]:
    """Ids of all environments, sorted."""
    return sorted(_entries)


def spelled(id: str) -> str:
    """An id as configurations keep it: without ``gpu_envs/``, with the module that registers it if one was named."""
    find(id)
    return str(id).removeprefix(NAMESPACE)


def find(id: str) -> Entry:
    """The entry of an id, with or without ``gpu_envs/``.

    As in Gymnasium, "module:Name-v0" imports a module first, which registers the environment.

    Raises:
        UnknownEnvironmentError: Naming close matches, or the module that cannot be imported.
    """
    if not isinstance(id, str):
        raise UnknownEnvironmentError(f"an environment's id is a string such as 'SimpleTag-v0', got {shown(id)}")
    module, colon, name = str(id).removeprefix(NAMESPACE).rpartition(":")
    if colon:
        try:
            importlib.import_module(module)
        except (ModuleNotFoundError, TypeError, ValueError) as error:
            raise UnknownEnvironmentError(
                f"{id!r}: {error}; is {module!r} installed, or in a folder on PYTHONPATH?"
            ) from error
    if name not in _entries:
        near = difflib.get_close_matches(name, _entries, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else "gpu_envs.list_envs() or `gpu-envs list` gives all"
        raise UnknownEnvironmentError(f"no environment named {id!r}; {hint}")
    return _entries[name]


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


def make(
    id: str,
    num_envs: int = 1,
    device: str | torch.device | None = None,
    *,
    render_mode: str | None = None,
    **kwargs: Any,
) -> BatchedEnv:
    """Make a batched multi-agent environment: dicts by agent of tensors with a leading ``num_envs``.

    Args:
        id: "SimpleTag-v0", "gpu_envs/SimpleTag-v0", ... see :func:`list_envs`.
        num_envs: Worlds.
        device: "cpu", "cuda", "cuda:1"; None takes cuda if there is one, else the CPU.
        render_mode: "rgb_array", "human" or None.
        **kwargs: The runner's settings (autoreset, reuse_buffers, seed, ... see :class:`gpu_envs.core.Core`) and the
            environment's own (see its page).

    Returns:
        The environment; ``env.core`` is the stacked-tensor form of the same worlds.

    Raises:
        UnknownEnvironmentError: No such id; names close matches.
        ConfigError: A setting that does not exist or has a bad value.
        DeviceError: The device is not there.
    """
    again = partial(make, id, num_envs, device, render_mode=render_mode, **kwargs)
    return BatchedEnv(make_core(id, num_envs, device, **kwargs), render_mode, again)


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
    others = {"render_mode", *inspect.signature(make_core).parameters} - {"id", "config"}
    settings = build_config(kind, config, entry.id, others)
    with warp_kernels.building:
        definition = build(settings)
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


register("SimpleTag-v0", "gpu_envs.mpe.simple_tag")
register("TagContinuous-v0", "gpu_envs.tag.tag_continuous")
register("TagGridworld-v0", "gpu_envs.tag.tag_gridworld")
# MPE
register("Simple-v0", "gpu_envs.mpe.simple")
register("SimpleAdversary-v0", "gpu_envs.mpe.simple_adversary")
register("SimplePush-v0", "gpu_envs.mpe.simple_push")
register("SimpleSpread-v0", "gpu_envs.mpe.simple_spread")
# MPE, the talking ones
register("SimpleCrypto-v0", "gpu_envs.mpe.simple_crypto")
register("SimpleReference-v0", "gpu_envs.mpe.simple_reference")
register("SimpleSpeakerListener-v0", "gpu_envs.mpe.simple_speaker_listener")
register("SimpleWorldComm-v0", "gpu_envs.mpe.simple_world_comm")
# classic control
register("CartPole-v1", "gpu_envs.classic.cartpole", max_episode_steps=500, reward_threshold=475.0)
register("MountainCar-v0", "gpu_envs.classic.mountain_car", max_episode_steps=200, reward_threshold=-110.0)
register(
    "MountainCarContinuous-v0",
    "gpu_envs.classic.mountain_car_continuous",
    max_episode_steps=999,
    reward_threshold=90.0,
)
register("Pendulum-v1", "gpu_envs.classic.pendulum", max_episode_steps=200)
register("Acrobot-v1", "gpu_envs.classic.acrobot", max_episode_steps=500, reward_threshold=-100.0)
# games
register("ClimbingGame-v0", "gpu_envs.games.climbing_game")
register("ConnectFour-v0", "gpu_envs.games.connect_four")
register("DiscGame-v0", "gpu_envs.games.disc_game")
register("KuhnPoker-v0", "gpu_envs.games.kuhn_poker")
register("LeducPoker-v0", "gpu_envs.games.leduc_poker")
register("MatrixGame-v0", "gpu_envs.games.matrix_game")
register("RockPaperScissors-v0", "gpu_envs.games.rock_paper_scissors")
register("TicTacToe-v0", "gpu_envs.games.tic_tac_toe")
register("TwoStepGame-v0", "gpu_envs.games.two_step_game")
