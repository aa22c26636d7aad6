"""Configuration files: the settings of a command as YAML. Reading one never runs code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpu_envs.definition.id_modules import import_words
from gpu_envs.errors import ConfigError, missing_extra, packages
from gpu_envs.utils.terminal import shell_command
from trainers.base.serialization import write_text

CONFIG_FILE = "config.yaml"
"""File in the folder of a run with the settings that repeat it."""
MAX_BYTES = 1_000_000
"""Largest configuration file; a larger one is probably another file."""


def read_config(path: Path) -> dict[str, Any]:
    """Return the settings in a YAML file, with its interpolations such as ``${num_envs}`` resolved.

    YAML tags are refused, so that a file cannot create objects.

    Raises:
        ConfigError: The file cannot be read, or holds anything but a mapping of plain values.
    """
    yaml = _yaml()
    try:
        import omegaconf
        from omegaconf.errors import OmegaConfBaseException
    except ModuleNotFoundError as error:
        raise missing_extra(error, "a configuration file", ("omegaconf",), packages("train")) from None
    try:
        if path.stat().st_size > MAX_BYTES or not path.is_file():
            raise ConfigError(f"{path}: expected a YAML file of at most {MAX_BYTES:,} bytes; name another file")
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)  # builds no objects
        if root is not None and not isinstance(root, yaml.MappingNode):
            kind = "a list" if isinstance(root, yaml.SequenceNode) else "a single value"
            raise ConfigError(f"{path}: expected a mapping such as 'seed: 1', got {kind}")
        config = omegaconf.OmegaConf.create(text if root else "{}")
        values: Any = omegaconf.OmegaConf.to_container(config, resolve=True)
    except FileNotFoundError:
        raise ConfigError(f"{path}: this file is missing; expected a YAML file") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path}: expected a YAML file, got {reason}; name another file") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        reason = " ".join(words for words in (error.problem, error.context) if words)
        raise ConfigError(f"{path}: {position}expected YAML with plain values, got an error: {reason}") from None
    except (yaml.YAMLError, OmegaConfBaseException, RecursionError) as error:
        raise ConfigError(f"{path}: expected YAML with plain values, got {_one_line(error)}") from None
    for name, value in leaves(values):
        if value is not None and not isinstance(value, bool | int | float | str):
            raise ConfigError(f"{path}: {name}: expected a plain value, got a {type(value).__name__}")
    return {str(name): value for name, value in values.items()}


def format_config(settings: Mapping[str, Any]) -> str:
    """Return settings as YAML that `read_config` reads back as equal values; tuples become lists."""
    yaml = _yaml()

    class Dumper(yaml.SafeDumper):  # OmegaConf takes 0.2 s to import, which every training would pay
        def represent_text(self, value: str) -> Any:
            """Quote what OmegaConf could read as a number, such as 1e-3."""
            return self.represent_scalar("tag:yaml.org,2002:str", value, "'" if value[:1] in "+-.0123456789" else None)

    Dumper.add_representer(str, Dumper.represent_text)
    return yaml.dump(_plain(settings), Dumper=Dumper, sort_keys=False, allow_unicode=True)


def flat_settings(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested settings by their dotted names, such as "learner.gamma"."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flat_settings(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def write_config(folder: Path, command: str, settings: Mapping[str, Any]) -> Path:
    """Write the file `CONFIG_FILE` of a run atomically, and return its path.

    Args:
        folder: Folder of the run.
        command: Command that made the run, such as "league train".
        settings: Settings of the command by name.
    """
    path = folder / CONFIG_FILE
    name = path if str(path).isprintable() else CONFIG_FILE  # a line break would end the comment
    repeat = shell_command("gpu-envs", *command.split(), "--config", name, *import_words(settings))
    write_text(path, f"# The settings of this run. To repeat it:\n#   {repeat}\n{format_config(settings)}")
    return path


def _yaml() -> Any:
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise missing_extra(error, "a configuration file", ("yaml",), packages("train")) from None
    return yaml


def _one_line(error: BaseException) -> str:
    """Return the message of an error on one line, without the empty lines and pointers of the YAML parser."""
    if isinstance(error, RecursionError):
        return "values that are nested too deeply"
    return ", ".join(line.strip() for line in str(error).splitlines() if line.strip())


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values that are neither mappings nor lists, with their dotted names."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


def _plain(value: Any) -> Any:
    """Return a value for YAML: lists for tuples, and text whose "${" is no interpolation."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return _plain(str(value))
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", value) if isinstance(value, str) else value
