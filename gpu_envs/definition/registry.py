"""Registry of environments: register, find, list_envs.

It imports neither torch nor a host file, so that the command line starts fast and ids can be looked up anywhere.
"""

from __future__ import annotations

import copy
import importlib
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import gymnasium

from gpu_envs.definition.id_modules import (
    NAMESPACE,
    allow_import,
    import_module,
    is_chosen,
    is_imported,
    split_id,
    split_library,
)
from gpu_envs.errors import CheckpointError, ConfigError, UnknownEnvironmentError, shown
from gpu_envs.utils.paths import existing_folder
from gpu_envs.utils.settings import check_value
from gpu_envs.utils.suggestions import unknown_name_message
from gpu_envs.utils.terminal import shell_command

with existing_folder():
    import pettingzoo

if TYPE_CHECKING:
    from gpu_envs.definition.environment import EnvDefinition


@dataclass(frozen=True)
class EnvSpec:
    """Registration of an environment, whose host file has ``Config`` and ``build(config) -> EnvDefinition``."""

    id: str
    """ID, such as "SimpleTag-v0"."""
    module: str | None = None
    """Import path of the host file, imported at first use; None if ``config`` and ``build`` are given."""
    config: type | None = None
    """Frozen dataclass of the settings."""
    build: Callable[[Any], EnvDefinition] | None = None
    """Function that makes the definition from settings."""
    max_episode_steps: int | None = None
    """Steps after which ``gymnasium.make`` truncates episodes; None leaves the time limit to the environment."""
    reward_threshold: float | None = None
    """Return at which Gymnasium's ``EnvSpec`` considers the environment solved."""
    description: str | None = None
    """Module that describes observations and actions, see ``gpu_envs.descriptions``; None for ``module``."""
    presets: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    """Settings of trainings by type of device and algorithm, which ``trainers`` reads."""
    scripted: Callable[[Any, str], Any] | None = None
    """Function ``scripted(core, member)`` that returns the scripted policy of a group or an agent, or None."""
    num_agents: int | None = None
    """Number of agents with default settings, for lists; None for environments of other packages."""
    summary: str = ""
    """Task in a few words, for lists."""
    host: tuple[str, Any] | None = None
    """Library and name, or "" and a function, of an environment in plain Python, see `gpu_envs.host`."""

    def load(self) -> tuple[type, Callable[[Any], EnvDefinition]]:
        """Return the config class and the build function; import the host file at the first call.

        Raises:
            ConfigError: The module cannot be imported, or has no dataclass ``Config`` or no function ``build``; or it
                is a host environment, which has no rules.
        """
        if self.host is not None:
            raise ConfigError(f"{self.id}: expected an environment with rules for kernels, got a host environment")
        if self.module is None:
            assert self.config is not None
            assert self.build is not None
            return self.config, self.build
        import warp_kernels  # loads Warp, which listing ids does not need

        with warp_kernels.building:
            try:
                module = importlib.import_module(self.module)
            except ImportError as error:
                raise ConfigError(f"{self.id}: its module {self.module} cannot be imported: {error}") from error
        config, build = getattr(module, "Config", None), getattr(module, "build", None)
        _check_host(f"{self.id}: module {self.module}", config, build)
        return cast(type, config), cast("Callable[[Any], EnvDefinition]", build)


def _check_host(label: str, config: Any, build: Any) -> None:
    """Raise a ConfigError unless ``config`` is a dataclass and ``build`` is callable."""
    if not isinstance(config, type) or not is_dataclass(config):
        raise ConfigError(f"{label} needs Config, a frozen dataclass of its settings, got {shown(config)}")
    if not callable(build):
        raise ConfigError(f"{label} needs build(config) -> EnvDefinition, got {shown(build)}")


PLUGINS = "gpu_envs.environments"
"""Group of entry points by which installed packages declare modules that register environments."""
_entries: dict[str, EnvSpec] = {}
_plugins: set[str] = set()  # modules of entry points that were imported


def register(
    id: str,
    module: str | None = None,
    *,
    config: type | None = None,
    build: Callable[[Any], EnvDefinition] | None = None,
    max_episode_steps: int | None = None,
    reward_threshold: float | None = None,
    description: str | None = None,
    presets: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
    scripted: Callable[[Any, str], Any] | None = None,
) -> None:
    """Register an environment.

    Args:
        id: "Name-v0".
        module: Import path of a host file with ``Config`` and ``build``, or instead of it:
        config: Frozen dataclass of settings (see :func:`gpu_envs.utils.settings.setting`).
        build: ``build(config) -> EnvDefinition``.
        max_episode_steps: Steps after which ``gymnasium.make`` truncates episodes by its ``TimeLimit`` wrapper, as for
            Gymnasium's own environments.
        reward_threshold: Return at which Gymnasium's ``EnvSpec`` considers the environment solved.
        description: Import path of a module that names observations and actions for the viewer (see
            ``gpu_envs.descriptions``); ``__name__`` if this file does. None for ``module``.
        presets: Defaults of ``gpu-envs train`` by type of device and algorithm, such as ``{("cpu", "ppo"): {"num_envs":
            64, "env": {"length": 5}, "learner": {"gamma": 0.95}}}``: copied fields of ``trainers.TrainConfig``.
        scripted: Function or class ``scripted(core, member)`` that returns the policy of a group or an agent with the
            methods of :class:`trainers.models.policy.PolicyProtocol`. ``gpu-envs eval --opponents scripted``,
            ``gpu-envs train --eval-opponents scripted`` and ``gpu-envs clone scripted`` play it.

    Raises:
        ConfigError: The id is malformed or taken by another module, neither a module nor config and build are given,
            or the presets or the script have another form.
    """
    if not isinstance(id, str) or not re.fullmatch(r"[A-Za-z0-9_\-]+-v\d+", id):
        raise ConfigError(f"register: id must look like 'Name-v0', got {shown(id)}")
    for name, path in (("module", module), ("description", description)):
        if path is not None and not (isinstance(path, str) and re.fullmatch(r"\w+(\.\w+)*", path)):
            raise ConfigError(f"register: {name}: expected the import path of a module, got {shown(path)}")
    entry_module = module or getattr(config, "__module__", None)
    if id in _entries and (entry_module is None or entry_module != _module_of(_entries[id])):
        raise ConfigError(f"register: {id} is registered already; choose another name or version")
    if (module is None) == (config is None or build is None):
        raise ConfigError(f"register: {id} needs either module= or both config= and build=")
    if module is None:
        _check_host(f"register: {id}", config, build)
    _check_presets({} if presets is None else presets)
    if scripted is not None and not callable(scripted):
        raise ConfigError(f"register: scripted: expected a function scripted(core, member), got {shown(scripted)}")
    max_episode_steps = check_value("register", "max_episode_steps", max_episode_steps, int | None, ge=1)
    reward_threshold = check_value("register", "reward_threshold", reward_threshold, float | None)
    _withdraw(id)  # a module that is reloaded registers its environment again
    _entries[id] = EnvSpec(
        id, module, config, build, max_episode_steps, reward_threshold, description, _copied(presets or {}), scripted
    )
    _announce(id)


def _check_presets(presets: Any) -> None:
    """Raise a ConfigError unless presets are dicts of settings by type of device and algorithm."""
    if not isinstance(presets, Mapping):
        raise ConfigError(f"register: presets: expected a dict such as {{('cpu', 'ppo'): {{}}}}, got {shown(presets)}")
    for key, settings in presets.items():
        pair = key if isinstance(key, tuple) and len(key) == 2 else ("", "")
        if pair[0] not in ("cpu", "cuda") or not isinstance(pair[1], str) or not pair[1]:
            raise ConfigError(f"register: presets: expected keys such as ('cpu', 'ppo'), got {shown(key)}")
        if not isinstance(settings, Mapping):
            raise ConfigError(f"register: presets: {key}: expected a dict of settings, got {shown(settings)}")
        for name in ("env", "learner"):
            if not isinstance(settings.get(name, {}), Mapping):
                actual = shown(settings[name])
                raise ConfigError(f"register: presets: {key}: {name}: expected a dict of settings, got {actual}")


def _copied(value: Any) -> Any:
    """Return a deep copy with dicts for mappings of other types, such as read-only ones, which cannot be copied."""
    if isinstance(value, Mapping):
        return {key: _copied(entry) for key, entry in value.items()}
    return copy.deepcopy(value)


def _module_of(entry: EnvSpec) -> str | None:
    """Return the module that an environment is defined in."""
    return entry.module or getattr(entry.config, "__module__", None)


def _withdraw(id: str) -> None:
    """Remove an environment from this registry and from Gymnasium's and PettingZoo's, if it is registered."""
    if _entries.pop(id, None) is not None:
        gymnasium.registry.pop(NAMESPACE + id, None)
        getattr(pettingzoo, "parallel_registry", {}).pop(NAMESPACE + id, None)
        getattr(pettingzoo, "aec_registry", {}).pop(NAMESPACE + id, None)


def _announce(id: str) -> None:
    """Register an id with Gymnasium and PettingZoo; views are imported when an environment is made."""
    gymnasium.register(
        NAMESPACE + id,
        entry_point="gpu_envs.views.gymnasium:SingleAgentEnv",
        vector_entry_point="gpu_envs.views.rows:RowsEnv",
        kwargs={"env_id": id},
        max_episode_steps=_entries[id].max_episode_steps,
        reward_threshold=_entries[id].reward_threshold,
    )
    if hasattr(pettingzoo, "register"):  # PettingZoo has a registry since 1.27
        for kind in ("parallel", "aec"):
            entry_point = f"gpu_envs.views.pettingzoo:{kind}_env"
            pettingzoo.register(kind, NAMESPACE + id, entry_point=entry_point, kwargs={"id": id})


def load_plugins() -> None:
    """Import the modules of installed packages that declare environments, once.

    A package declares a module that registers its environments in its ``pyproject.toml``::

        [project.entry-points."gpu_envs.environments"]
        meet = "meet"

    The ids then need no ``module:`` and no ``--allow-import``: who installs a package trusts it. A module that fails is
    reported by a warning, so that it does not hide the other environments.
    """
    for point in entry_points(group=PLUGINS):
        if point.value in _plugins:
            continue
        _plugins.add(point.value)
        try:
            loaded = point.load()
            if callable(loaded):  # "meet:register_environments"
                loaded()
        except Exception as error:  # noqa: BLE001 - the code of another package
            package = point.dist.name if point.dist is not None else "a package"
            warnings.warn(
                f"{package} declares environments in {point.value}, which fails: {type(error).__name__}: {error}; "
                "update or uninstall it",
                stacklevel=2,
            )


def list_envs() -> list[str]:
    """Return the ids of all environments, sorted, including those in installed packages, see :func:`load_plugins`."""
    load_plugins()
    return sorted(_entries)


def find(id: str) -> EnvSpec:
    """Return the registration of an id, with or without ``gpu_envs/``.

    As in Gymnasium, "module:Name-v0" imports a module first, which registers the environment. "module:make_env" names a
    function that makes a host environment, and "gymnasium:CartPole-v1" one of another library.

    Raises:
        UnknownEnvironmentError: The id is unknown, or its module cannot be imported.
    """
    if not isinstance(id, str):
        raise UnknownEnvironmentError(f"an environment's id is a string such as 'SimpleTag-v0', got {shown(id)}")
    module, name = split_id(id)
    if module:
        import_module(module)
    library, library_name = split_library(name)
    if library:
        return EnvSpec(name, host=(library, library_name))
    if name not in _entries and module and callable(make := getattr(sys.modules.get(module), name, None)):
        return EnvSpec(f"{module}:{name}", host=("", make))
    if name not in _entries:
        load_plugins()
    if name not in _entries:
        raise UnknownEnvironmentError(_unknown_id(id, name))
    return _entries[name]


_ORIGINAL_IDS: dict[str, tuple[str, str]] = {
    "LevelBasedForaging-v0": (r"Foraging-.+-v3", r"(lbf|lbforaging|foraging)\b.*"),
    "RobotWarehouse-v0": (r"rware-.+-v2", r"(rware|warehouse)\b.*"),
    "CommonsHarvest-v0": ("", r"(commons?[-_]?)?harvest([-_](common[-_])?(open|closed|partnership))?"),
    "Connector-v0": (r"con-\d+x\d+x\d+a", r"(ma)?connector(-v\d+)?"),
    "Pursuit-v0": ("", r"(sisl/)?pursuit([-_]v\d+)?"),
    "Hanabi-v0": (r"Hanabi-(Full(-CardKnowledge|-Minimal)?|Small|Very-Small)", r"(hle|hanabi|hanabi_v\d+)(-.*)?"),
    "VMASFootball-v0": ("", r"football"),
    "OvercookedV2-v0": ("", r"overcooked[-_]?v2"),
    "Overcooked-v0": ("", r"(overcooked|overcooked_ai)(-.*)?"),
}
"""Patterns of the ids in the original packages, by the id here: of those that ``original_settings`` of its module
translates ("" without such a function), and of other names, in any case."""


def _unknown_id(id: str, name: str) -> str:
    """Return a message about an unknown id, with the environment that has this id in its original package."""
    for env_id, (translated, named) in _ORIGINAL_IDS.items():
        if translated and re.fullmatch(translated, name):
            settings = f"{_entries[env_id].module}.original_settings({name!r})"
            return f"no environment named {shown(id)}; did you mean {env_id} with the settings of {settings}?"
        if re.fullmatch(named, name, re.IGNORECASE):
            return f"no environment named {shown(id)}; did you mean {env_id}?"
    hint = "gpu_envs.list_envs() or `gpu-envs list` lists all"
    return unknown_name_message("environment", id, _entries, limit=3, hint=hint)


def canonical_id(id: str) -> str:
    """Import the module of an id typed on a command line; return the id as configurations keep it. See ``find``."""
    if module := split_id(id)[0]:
        allow_import(module)
    find(id)
    return str(id).removeprefix(NAMESPACE)


def recorded_id(env_id: Any, source: str) -> str:
    """Return an id that was read from a file, after checks. A file must not choose code to run.

    A module that the id names must be imported already, or declared by an installed package, see
    :func:`load_plugins`. A program imports it before it loads the file
    (``import meet``). A command line names the id, or ``--allow-import meet``.

    Raises:
        CheckpointError: The value is not an id, or its module is not imported.
        UnknownEnvironmentError: The imported module does not register the id.
    """
    module, name = split_id(env_id)
    if not isinstance(env_id, str) or not re.fullmatch(r"[\w.]*", module):
        raise CheckpointError(f"{source}: expected the id of an environment, got {env_id!r:.80}")
    if module:
        load_plugins()  # whatever the file names
    may_call = is_chosen(module)  # a function of any other module, such as os:system, is no environment
    if module and not is_imported(module):
        raise CheckpointError(
            f"{source}: environment {env_id!r} is in the module {module!r}, which is not imported for a recorded run; "
            f"add {shell_command('--allow-import', module)} if you trust it"
        )
    if module and name not in _entries and not split_library(name)[0]:
        try:
            is_host = may_call and find(env_id).host is not None
        except UnknownEnvironmentError:
            is_host = False
        if not is_host:
            raise UnknownEnvironmentError(
                f"{source}: expected {module!r} to register {name!r}, got no such environment"
            )
    return env_id


_GYMNASIUM: dict[str, dict[str, Any]] = {
    "Acrobot-v1": {"max_episode_steps": 500, "reward_threshold": -100.0},
    "CartPole-v1": {"max_episode_steps": 500, "reward_threshold": 475.0},
    "MountainCar-v0": {"max_episode_steps": 200, "reward_threshold": -110.0},
    "MountainCarContinuous-v0": {"max_episode_steps": 999, "reward_threshold": 90.0},
    "MultiCartPole-v0": {"max_episode_steps": 500},
    "Pendulum-v1": {"max_episode_steps": 200},
}
"""Fields of Gymnasium's specs of its own environments."""


def _register_own() -> None:
    """Register the environments of this library.

    Their host modules are the files in ``gpu_envs/envs`` with a first line such as "CartPole-v1 (1 agent): Balance a
    pole on a cart." They are read, not imported.
    """
    folder = Path(__file__).parents[1] / "envs"
    for path in sorted(folder.rglob("*.py")):
        with path.open(encoding="utf-8") as lines:
            line = lines.readline()
        match = re.match(r'"""(\S+-v\d+) \((\d+) agents?\): (.+?)\.(?:""")?$', line)
        if re.match(r'"""\S+-v\d+\b', line) and not match:
            raise ConfigError(f'{path}: expected a first line such as """Meet-v0 (2 agents): Meet., got {line!r}')
        if match:
            family, *names = path.relative_to(folder).with_suffix("").parts
            names = names[:1] if len(set(names)) == 1 else names  # a folder exports its host module of the same name
            register(match[1], ".".join(("gpu_envs.envs", family, *names)), **_GYMNASIUM.get(match[1], {}))
            _entries[match[1]] = replace(_entries[match[1]], num_agents=int(match[2]), summary=match[3])


_register_own()
