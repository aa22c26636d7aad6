"""Options that commands share, and the parser of every command line."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import tyro
from tyro.conf import Positional, Suppress, UseAppendAction, arg
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from gpu_envs.cli.help_texts import first_options, write_texts
from gpu_envs.definition.id_modules import allow_import
from gpu_envs.definition.registry import canonical_id
from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import check_settings, exact_int, parse_value
from gpu_envs.utils.suggestions import abbreviated_names, similar_names
from gpu_envs.utils.terminal import is_terminal, wrap_lines

T = TypeVar("T")

EnvId = Annotated[Positional[str], arg(metavar="ID")]
"""Type of a positional environment id."""
Repeated = Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME=VALUE")]
"""Type of an option NAME=VALUE that can be given several times."""
Names = Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="module:NAME")]
"""Type of an option module:NAME that can be given several times."""
OptionalStr = Annotated[str | None, arg(metavar="STR", help_behavior_hint="")]
"""Type of an option whose help states its default."""
OptionalInt = Annotated[int | None, arg(metavar="INT", help_behavior_hint="")]
"""Type of an option whose help states its default."""
OptionalFloat = Annotated[float | None, arg(metavar="FLOAT", help_behavior_hint="")]
"""Type of an option whose help states its default."""
OptionalPath = Annotated[Path | None, arg(metavar="PATH", help_behavior_hint="")]
"""Type of an option whose help states its default."""


NUMBERS = {
    r"invalid literal for int\(\) with base 10": "an int",
    "could not convert string to float": "a number",
}
"""Expected values by the pattern of Python's error."""


# ---------------------------------------------------------------- options


@dataclass(frozen=True, kw_only=True)
class EnvOptions:
    """The environment of a command and its settings."""

    env_id: EnvId
    """Environment id, such as SimpleTag-v0; `gpu-envs list` prints all ids."""
    env_arg: Repeated = ()
    """Environment setting, such as num_good=2. Repeat the option for several settings."""


@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """The device of a command."""

    device: OptionalStr = None
    """Device: "cpu", "cuda" or "cuda:<i>". Default: "cuda" if a GPU is available, else "cpu"."""


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """The modules that a command may import."""

    allow_import: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="MODULE")] = ()
    """Module to import (its code runs) if a recorded or configured name has it, as in "module:Name-v0"."""


# ---------------------------------------------------------------- parser

_RULES = ConstructorRegistry()


@_RULES.primitive_rule
def _int_rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
    """Let options that are ints accept "1e6", like those that are floats."""
    if info.type is not int:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda words: exact_int(words[0]),
        is_instance=lambda value: isinstance(value, int) and not isinstance(value, bool),
        str_from_instance=lambda value: [str(value)],
    )


def parse(kind: type[T], command: str, argv: Sequence[str], default: T | None = None) -> T:
    """Parse a command line into a dataclass of options and import the modules that it names.

    Print the help and exit if the command line asks for it. The help of a dataclass with an attribute FIRST_OPTIONS has
    these options only; with --help-all it has all.

    Args:
        kind: Dataclass of the options. Their help is the docstrings of the fields.
        command: Name of the command after "gpu-envs", such as "league train".
        argv: Words of the command line after the command.
        default: Instance with the default of every option; None for the defaults of the dataclass.

    Raises:
        ConfigError: A wrong option or value; the message is one line.
        UnknownEnvironmentError: An unknown environment or module.
    """
    words = split_command_line(kind, argv)
    shown, end, args = kind, "", list(words.argv)
    if words.help:
        write_texts(kind, words.positional)
        if (first := getattr(kind, "FIRST_OPTIONS", ())) and "--help-all" not in argv:
            shown, default = first_options(kind, first, kind() if default is None else default), None
            end = f"The other options: gpu-envs {command} --help-all\n"
        args = ["--help"]
    errors, printed = io.StringIO(), _Help()
    defaults: dict[str, Any] = {} if default is None else {"default": default}
    try:
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(printed), _RULES:
            options = tyro.cli(shown, prog=f"gpu-envs {command}", args=args, **defaults)
    except SystemExit as stop:
        if not stop.code:
            width = shutil.get_terminal_size().columns
            print(wrap_lines(printed.getvalue(), width), end=end)
            raise
        message = _message(errors.getvalue(), sorted(_options_of(kind)))
        see = " See" if message.endswith("?") else "; see"
        raise ConfigError(f"{command}: {message}{see} gpu-envs {command} --help") from None
    try:
        check_settings(options, "--", lambda name: name.replace("_", "-"))
    except ConfigError as error:
        raise ConfigError(f"{command}: {error}") from None
    for module in getattr(options, "allow_import", ()):
        allow_import(module)
    if env_id := getattr(options, "env_id", None):
        canonical_id(env_id)
    return options


class _Help(io.StringIO):
    """Help that tyro prints, with boxes and colors if the standard output has them."""

    encoding = "ascii"  # StringIO's cannot be set

    def __init__(self) -> None:
        super().__init__()
        self._colored: bool = is_terminal(sys.stdout)
        self.encoding: str = sys.stdout.encoding or "ascii"

    def isatty(self) -> bool:
        """Return whether the standard output is a terminal."""
        return self._colored


def _message(box: str, options: Sequence[str]) -> str:
    """Return the first message of tyro's error box as one line, with the known option that is meant."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", box)
    lines = [line.strip("│ ") for line in plain.splitlines() if line.strip()][1:]  # the first line is the title
    while lines and not lines[0].strip("─-"):  # a rule follows the title in terminals without box characters
        lines.pop(0)
    end = next((i for i, line in enumerate(lines) if not line.strip("─-╰╯")), len(lines))
    if lines and lines[0].startswith("Missing from"):
        return f"expected {' '.join(lines[1:2]).split('  ')[0]}, got none"
    message = " ".join(lines[:end])
    for pattern, expected in NUMBERS.items():
        if match := re.fullmatch(rf"Error parsing (\S+): {pattern}: (.*)", message):
            return f"{match[1]}: expected {expected}, got {match[2]}"
    kind, colon, words = message.partition(": ")
    if kind.startswith("Unrecognized option") and colon:
        wrong = [word for word in words.split(", ") if word.startswith("--")] or words.split(", ")
        closest = similar_option(wrong[0].partition("=")[0], options)
        return f"{kind}: {', '.join(wrong)}" + (f"; did you mean {closest}?" if closest else "")
    return message.removesuffix(".")


def similar_option(word: str, options: Sequence[str]) -> str | None:
    """Return the option that a wrong one means: a similar one, one that it abbreviates, or one in another group.

    Args:
        word: Option of the command line, such as "--learner.lr".
        options: Options of the command, such as "--learner.learning-rate".
    """
    stem, names = word.lstrip("-").replace("_", "-"), [option.lstrip("-") for option in options]
    leaf = stem.rpartition(".")[2]
    leaves = {name.rpartition(".")[2]: name for name in names}
    matches = abbreviated_names(stem, names)
    if not matches and len(leaf) < 3:  # almost any name would be similar
        return None
    matches = matches or similar_names(stem, names) or [leaves[match] for match in similar_names(leaf, leaves)]
    return f"--{matches[0]}" if matches else None


def _options_of(kind: type[Any], prefix: str = "--") -> Iterator[str]:
    """Yield the options of a dataclass, with the options of its groups."""
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            yield from _options_of(hint, f"{prefix}{name.replace('_', '-')}.")
        elif Suppress not in get_args(hint) and Positional not in get_args(hint):
            yield f"{prefix}{name.replace('_', '-')}"


@dataclass(frozen=True)
class CommandLine:
    """The words of a command line, grouped before they are parsed.

    The defaults of some commands depend on the environment, the algorithm, the device or the run to resume.
    """

    positional: str | None
    """First word that is neither an option nor the value of one."""
    values: Mapping[str, Sequence[str]]
    """Values of the options by name, such as {"algorithm": ["ppo"]}."""
    help: bool
    """Whether the command line asks for help."""
    argv: Sequence[str]
    """All words, the positional ones first: an option that takes several values would consume them."""

    def last(self, name: str) -> str | None:
        """Return the value of an option that counts, the last one; None if the option is not given."""
        return next(reversed(self.values.get(name, ())), None)


def split_command_line(kind: type[Any], argv: Sequence[str]) -> CommandLine:
    """Split a command line into options and positional word.

    Args:
        kind: Dataclass of the options; its bool fields are flags, and its tuple fields take several numbers, or all
            words up to the next option if they are of strings.
        argv: Words of the command line after the command.
    """
    flags, tuples, lists = _option_names(kind, "")
    words, remaining, values = list(argv), list[str](), dict[str, list[str]]()
    positionals, asks_help = list[str](), False
    while words:
        word = words.pop(0)
        if not word.startswith("-") or word == "-":
            positionals.append(word)
            continue
        remaining.append(word)
        option, equals, value = word.partition("=")
        name = option.lstrip("-").replace("-", "_")
        asks_help |= word in ("-h", "--help", "--help-all")
        if equals:
            values.setdefault(name, []).append(value)
        elif name in tuples or name in lists:
            while words and (not words[0].startswith("-") if name in lists else _is_number(words[0])):
                values.setdefault(name, []).append(words[0])
                remaining.append(words.pop(0))
        elif words and name not in flags and word != "-h" and not words[0].startswith("--"):
            values.setdefault(name, []).append(words[0])
            remaining.append(words.pop(0))
    return CommandLine(next(iter(positionals), None), values, asks_help, [*positionals, *remaining])


def _option_names(kind: type[Any], prefix: str) -> tuple[set[str], set[str], set[str]]:
    """Return the names of options without a value, of those with several numbers, and of those with several words."""
    flags, tuples, lists = {"help", "help_all"} if not prefix else set[str](), set[str](), set[str]()
    for name, hint in get_type_hints(kind, include_extras=True).items():  # repeated options are no plain tuples
        if hint is bool:
            head, _, tail = f"{prefix}{name}".rpartition(".")
            flags |= {f"{prefix}{name}", f"{head}.no_{tail}" if head else f"no_{tail}"}
        elif get_origin(hint) is tuple:
            (lists if str in get_args(hint) else tuples).add(f"{prefix}{name}")
        elif isinstance(hint, type) and dataclasses.is_dataclass(hint):
            more = _option_names(hint, f"{prefix}{name}.")
            flags, tuples, lists = flags | more[0], tuples | more[1], lists | more[2]
    return flags, tuples, lists


def _is_number(word: str) -> bool:
    return re.fullmatch(r"[-+]?\d[\d_]*(\.\d*)?(e[-+]?\d+)?", word, re.IGNORECASE) is not None


def without_validation(kind: type[Any]) -> type[Any]:
    """Return a subclass of a config dataclass that does not validate its values.

    The command validates the config after parsing, so that an error is one line instead of tyro's box.
    """
    return type(kind.__name__, (kind,), {"__post_init__": lambda self: None, "__doc__": kind.__doc__})


def with_field(kind: type[T], name: str, hint: Any, default: Any) -> type[T]:
    """Return a dataclass of options with another type of one field."""
    settings = field(default_factory=default) if callable(default) else field(default=default)
    namespace = {"__doc__": kind.__doc__}
    return dataclasses.make_dataclass(
        kind.__name__, [(name, hint, settings)], bases=(kind,), namespace=namespace, frozen=True, kw_only=True
    )


def parse_pairs(
    pairs: Sequence[str], option: str = "--env-arg", options: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Parse NAME=VALUE strings into settings; values are JSON, or plain strings otherwise.

    With "--env-arg", NAME.KEY=VALUE is an entry of a dictionary: domain_randomization.gravity=[5,15].

    Args:
        pairs: NAME=VALUE strings.
        option: Option that the strings come from. With "--env-arg", arguments of `make_core` that the command itself
            sets are refused.
        options: Options of the command by the argument of `make_core` that they set, for the message.

    Raises:
        ConfigError: A string without "=", or an argument that the command itself sets.
    """
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise ConfigError(f"{option} {pair}: expected NAME=VALUE, such as num_runners=12")
        key = ""
        if option == "--env-arg":
            from gpu_envs.runtime.factory import check_played

            name, _, key = name.partition(".")
            hint = f"use {options[name]}" if options and name in options else "--help lists the options of the command"
            check_played(f"{option} {pair}", [name], hint)
        if key:
            entries = values.get(name)
            values[name] = (entries if isinstance(entries, dict) else {}) | {key: parse_value(text)}
        else:
            values[name] = parse_value(text)
    return values
