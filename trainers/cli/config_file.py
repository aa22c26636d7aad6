"""The options --config and --print-config: options of a command from a YAML file.

A file is a nested form of the options. Its values become words of the command line in front of those that the user
typed. One parser reads both by the types of the options, and what the user typed counts.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from tyro.conf import Positional, Suppress, UseAppendAction

from gpu_envs.cli.options import (
    CommandLine,
    ImportOptions,
    Names,
    OptionalPath,
    Repeated,
    parse,
    parse_pairs,
    similar_option,
    split_command_line,
)
from gpu_envs.definition.id_modules import allow_import, split_id
from gpu_envs.definition.registry import find
from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import bounds_of, build_config, is_name
from gpu_envs.utils.suggestions import abbreviated_names, similar_names
from gpu_envs.utils.terminal import shell_command
from trainers.algorithms import algorithm_specs
from trainers.config.train_config import TrainConfig
from trainers.storage.config_yaml import flat_settings, read_config

T = TypeVar("T")

TYPED_ONLY = ("allow_import", "allow_pickle", "config", "print_config", "ray_address", "resume")
"""Options that a file cannot set: they let a command import modules, read pickles or connect to other machines, or
they choose what is read."""
OVERRIDES = ("train_overrides", "joint_overrides")
"""Options NAME=VALUE with settings of trainings."""
NUMBER = re.compile(r"-[\d.]")
"""Start of a negative number, which is no option."""
NAMES = {"env_arg": "env", "policy": "policies"}
"""Names in files of options NAME=VALUE, whose values in a file are a mapping, if they differ."""


@dataclass(frozen=True, kw_only=True)
class ConfigFileOptions(ImportOptions):
    """The configuration file of a command."""

    config: OptionalPath = None
    """YAML file with options of this command, such as the config.yaml of a run. Options of the command line override
    the file's; docs/guides/configuration.md describes files."""
    print_config: bool = False
    """Print all settings as YAML, a file for --config, and exit."""


@dataclass(frozen=True)
class ConfigFile:
    """The settings of the file that --config names, or none."""

    command: str
    """Command after "gpu-envs", such as "league train"."""
    path: Path | None = None
    """The file; None without --config."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Settings by name, nested as in the file."""

    @classmethod
    def of(cls, command: str, kind: type[Any], argv: Sequence[str]) -> ConfigFile:
        """Read the file that a command line names.

        Args:
            command: Command after "gpu-envs".
            kind: Dataclass of the options, perhaps without an algorithm's.
            argv: Words of the command line after the command.

        Raises:
            ConfigError: The file is invalid, or names a module without --allow-import, or --resume is given too.
        """
        words = split_command_line(kind, argv)
        name, file = words.last("config"), words.positional or ""
        if file.endswith((".yaml", ".yml")):
            raise ConfigError(f"{command}: expected an environment, got the file {file}; did you mean --config {file}?")
        if name is None:
            return cls(command)
        if words.last("resume") is not None:
            raise ConfigError(
                "--config: expected a new run, because --resume continues with the recorded settings; leave one out"
            )
        config = cls(command, Path(name), read_config(Path(name)))
        for key in config.values:
            if key in TYPED_ONLY:
                option = f"--{key.replace('_', '-')}"
                raise ConfigError(f"{name}: {key}: expected on the command line, not in a file; give {option} there")
        for key in ("env_id", "algorithm"):
            config._scalar(key, config.get(key))
        config._check_modules(words.values.get("allow_import", ()))
        return config

    def get(self, name: str) -> str | None:
        """Return the text of a setting; None without it.

        Raises:
            ConfigError: The value is not text.
        """
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{self.path}: {name}: expected text, got {value!r:.80}")
        return value

    def merge(self, kind: type[Any], argv: Sequence[str]) -> CommandLine:
        """Return the options of the file followed by the command line's.

        Args:
            kind: Dataclass of all options.
            argv: Words of the command line after the command.

        Raises:
            ConfigError: The file has an unknown setting, or a value of the wrong kind.
        """
        typed = split_command_line(kind, argv)
        if not typed.help:
            _check_overrides(kind, self.command, typed.values)
        head = typed.argv[: typed.positional is not None]  # first: a list of words would consume it
        words = split_command_line(kind, [*head, *self._options(kind), *typed.argv[len(head) :]])
        env_id = self.get("env_id")
        if words.positional is None and env_id is not None:
            return split_command_line(kind, [env_id, *words.argv])
        return words

    def parse(self, kind: type[T], words: CommandLine, default: T | None = None) -> T:
        """Parse the merged options; an error about a value of the file starts with the name of the file.

        Args:
            kind: Dataclass of all options.
            words: Result of `merge`.
            default: Instance with the default of every option; None for the defaults of the dataclass.

        Raises:
            ConfigError: A wrong option or value.
        """
        try:
            return parse(kind, self.command, words.argv, default)
        except ConfigError:
            if self.path is not None:
                try:
                    parse(kind, self.command, self._options(kind), default)
                except ConfigError as error:
                    raise ConfigError(f"{self.path}: {error}") from None
            raise

    def _check_modules(self, allowed: Collection[str]) -> None:
        """Raise an error if the file names a module that the command line does not allow."""
        named = [("env_id", self.get("env_id")), ("algorithm", self.get("algorithm"))]
        for key, value in self.values.items():  # such as train_overrides
            if isinstance(value, Mapping):
                named.append((f"{key}.algorithm", value.get("algorithm")))
        for key, value in named:
            module = split_id(value)[0] if isinstance(value, str) else ""
            if module and module not in allowed:
                raise ConfigError(
                    f"{self.path}: {key}: {value!r} is in the module {module!r}, and a file cannot choose the code "
                    f"to run; add {shell_command('--allow-import', module)} if you trust it"
                )

    def _options(self, kind: type[Any]) -> list[str]:
        """Return the options of the file as words."""
        try:
            words = list(self._words(kind, self.values))
        except KeyError as error:
            raise ConfigError(f"{self.path}: {_unknown(kind, error.args[0])}") from None
        line = split_command_line(kind, words)
        wrong = [name for name in TYPED_ONLY if name in line.values or f"--{name.replace('_', '-')}" in words]
        if wrong or line.help or line.positional is not None:  # a value became an option
            raise ConfigError(f"{self.path}: expected values, got the word of an option; leave it out")
        return words

    def _words(self, kind: type[Any], values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
        """Yield the words of the command line for settings, except for the environment's id."""
        hints = _hints(kind)
        for key, value in values.items():
            label = f"{prefix}{key}"
            if key not in hints:
                raise KeyError(label)
            name, hint = hints[key]
            option = f"--{prefix}{name}".replace("_", "-")
            if isinstance(hint, type) and dataclasses.is_dataclass(hint):
                yield from self._words(hint, self._mapping(label, value), f"{label}.")
            elif hint == Names:
                if not isinstance(value, list):
                    raise ConfigError(f"{self.path}: {label}: expected a list of module:NAME, got {value!r:.80}")
                yield from (f"{option}={self._scalar(label, item)}" for item in value)
            elif UseAppendAction in get_args(hint):
                for item, entry in flat_settings(self._mapping(label, value)):
                    plain = isinstance(entry, str) and hint != Repeated
                    yield f"{option}={item}={entry if plain else json.dumps(entry)}"
            elif Positional not in get_args(hint):
                yield from self._option(label, option, hint, value)

    def _option(self, label: str, option: str, hint: Any, value: Any) -> Iterator[str]:
        """Yield the words of one option that is no group and cannot be repeated."""
        if hint is bool:
            if not isinstance(value, bool):
                raise ConfigError(f"{self.path}: {label}: expected true or false, got {value!r:.80}")
            head, dot, tail = option.lstrip("-").rpartition(".")
            yield option if value else f"--{head}{dot}no-{tail}"
        elif get_origin(hint) is tuple:
            if not isinstance(value, list):
                raise ConfigError(f"{self.path}: {label}: expected a list such as [64, 64], got {value!r:.80}")
            yield option
            yield from (str(self._scalar(label, item)) for item in value)
        else:
            yield f"{option}={self._scalar(label, value)}"

    def _scalar(self, label: str, value: Any) -> Any:
        if isinstance(value, dict | list) or value == "" or "\0" in str(value):
            raise ConfigError(f"{self.path}: {label}: expected one value, got {value!r:.80}")
        if isinstance(value, str) and value.startswith("-") and not NUMBER.match(value):
            raise ConfigError(f"{self.path}: {label}: expected a value, got {value!r:.80}, which looks like an option")
        return value

    def _mapping(self, label: str, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{self.path}: {label}: expected a mapping of names to values, got {value!r:.80}")
        return {str(name): entry for name, entry in value.items()}


def _check_overrides(kind: type[Any], command: str, options: Collection[str]) -> None:
    """Raise an error about an option that only --train-overrides of this command sets.

    Args:
        kind: Dataclass of all options.
        command: Command after "gpu-envs".
        options: Names of the options that are given.
    """
    option_types = get_type_hints(kind)
    if "train_overrides" not in option_types:
        return
    learner = (f"learner.{field.name}" for field in dataclasses.fields(algorithm_specs.find("ppo").config_type))
    settings = [*learner, *(field.name for field in dataclasses.fields(TrainConfig))]
    if "steps" in option_types:  # of leagues, which train that long per iteration
        settings.remove("total_steps")
    for name in options:
        is_setting = name == "steps" or name in settings or name.startswith("learner.")
        if name not in option_types and (
            is_setting or (abbreviated_names(name, settings) and not similar_names(name, option_types))
        ):
            nearest = (similar_names(name, settings) or [name])[0]
            option = f"--{name.replace('_', '-')}"
            raise ConfigError(
                f"{command}: {option} is a training setting, expected in --train-overrides; "
                f"did you mean --train-overrides {nearest}=VALUE?"
            )


def env_settings(env_id: str, env: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings of an environment, those that `env` does not name with their defaults.

    Raises:
        ConfigError: A setting is unknown or invalid.
    """
    from gpu_envs.runtime.factory import PLAYED, limit_name_of, make_core

    make_core(env_id, 1, "cpu", **env)  # refuses what a training refuses
    if (spec := find(env_id)).host is not None:
        return dict(env)  # the defaults are inside the environment
    kind, _ = spec.load()
    names = {field.name for field in dataclasses.fields(kind)}
    played = {name: value for name, value in env.items() if name in PLAYED - names}
    values = {name: value for name, value in env.items() if name not in played}
    settings = dataclasses.asdict(build_config(kind, values, env_id)) | played
    if "max_episode_steps" in played:  # it is given in place of the limit with the environment's own name
        own_name = limit_name_of(kind)
        settings = {name: value for name, value in settings.items() if name != own_name}
    return settings


def allow_named_modules(kind: type[Any], argv: Sequence[str]) -> None:
    """Import the modules of --allow-import, and of module:NAME in the options that allow it.

    Args:
        kind: Dataclass of the options.
        argv: Words of the command line after the command, without those of a configuration file.

    Raises:
        UnknownEnvironmentError: A module does not exist.
    """
    values = split_command_line(kind, argv).values
    for module in values.get("allow_import", ()):
        allow_import(module)
    names = [value for option in ("algorithm", *_by_name(kind)) for value in values.get(option, ())]
    overrides = (pair.partition("=") for name in OVERRIDES for pair in values.get(name, ()))
    names += [value for name, _, value in overrides if name == "algorithm" or name.startswith("learner.")]
    annealed = parse_pairs(values.get("anneal", ()), "--anneal").values()
    names += [str(value[-1]) for value in annealed if isinstance(value, tuple) and value]
    for name in filter(is_name, names):
        allow_import(split_id(name)[0])


def _by_name(kind: type[Any], prefix: str = "") -> Iterator[str]:
    """Yield the options whose value may be module:NAME."""
    hints = get_type_hints(kind)
    for field_ in dataclasses.fields(kind):
        if dataclasses.is_dataclass(hint := hints[field_.name]):
            yield from _by_name(cast("type[Any]", hint), f"{prefix}{field_.name}.")
        elif bounds_of(field_).by_name:
            yield f"{prefix}{field_.name}"


def _hints(kind: type[Any]) -> dict[str, tuple[str, Any]]:
    """Return the name and the type of each option by its name in files."""
    return {
        NAMES.get(name, name): (name, hint)
        for name, hint in get_type_hints(kind, include_extras=True).items()
        if Suppress not in get_args(hint) and name not in TYPED_ONLY
    }


def _names(kind: type[Any], prefix: str = "") -> Iterator[str]:
    """Yield the names of all settings in files, settings of groups as group.name."""
    for name, (_, hint) in _hints(kind).items():
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            yield from _names(hint, f"{prefix}{name}.")
        yield f"{prefix}{name}"


def _unknown(kind: type[Any], name: str) -> str:
    """Return the message about an unknown setting, with the nearest known one."""
    options = {setting: setting for setting in sorted(_names(kind))} | {
        option: setting for setting, (option, _) in _hints(kind).items()
    }
    options = {f"--{option.replace('_', '-')}": setting for option, setting in options.items()}
    nearest = similar_option(name, list(options))
    return f"no setting named {name!r}; " + (
        f"did you mean {options[nearest]}?" if nearest else f"expected one of {', '.join(_hints(kind))}"
    )
