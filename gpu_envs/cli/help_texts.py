"""Texts of options in --help, from the docstrings of the dataclasses of options and environments."""

import ast
import contextlib
import dataclasses
import inspect
import itertools
import textwrap
from collections.abc import Collection
from copy import copy
from functools import partial
from types import MappingProxyType
from typing import Any, cast, get_type_hints

from gpu_envs.definition import registry
from gpu_envs.errors import GpuEnvsError


def write_texts(kind: type[Any], env_id: str | None) -> None:
    """Write the help of every option into the metadata of its field, where tyro reads it.

    From docstrings, tyro would keep the line breaks of the source, and wrap each of those lines again.

    Args:
        kind: Dataclass of the options.
        env_id: Environment whose settings the help of --env-arg lists; None or an unknown one: no settings.
    """
    docstrings, hints = field_docstrings(kind), get_type_hints(kind)
    for field in dataclasses.fields(kind):
        text = docstrings.get(field.name, "")
        if field.name == "env_arg":
            text = "\n".join([text, *_env_settings(env_id)])
        if text:
            field.metadata = MappingProxyType({**field.metadata, "help": text})
        if dataclasses.is_dataclass(hint := hints[field.name]):
            write_texts(cast("type[Any]", hint), env_id)


def field_docstrings(kind: type[Any]) -> dict[str, str]:
    """Return the docstrings of the fields of a dataclass and its base classes by name, each on one line."""
    docstrings = {}
    for base in reversed(kind.__mro__):
        with contextlib.suppress(OSError, TypeError):  # a class without source
            tree = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
            for node, following in itertools.pairwise(cast("ast.ClassDef", tree).body):
                match node, following:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        docstrings[name] = " ".join(text.replace("``", "`").split())
    return docstrings


def first_options(kind: type[Any], names: Collection[str], default: Any) -> type[Any]:
    """Return a dataclass with some options of another one, for a short help.

    Args:
        kind: Dataclass of all options.
        names: Names of the options that remain, such as "num_envs" or "learner.gamma"; others are ignored.
        default: Instance of `kind` with the defaults.
    """
    hints, fields = get_type_hints(kind, include_extras=True), list[Any]()
    for field in dataclasses.fields(kind):
        name, hint, value = field.name, hints[field.name], getattr(default, field.name)
        prefix = f"{name}."
        if dataclasses.is_dataclass(hint):
            group = [option.removeprefix(prefix) for option in names if option.startswith(prefix)]
            hint = first_options(cast("type[Any]", hint), group, value)
            value = hint()
        if name in names or (dataclasses.is_dataclass(hint) and dataclasses.fields(hint)):
            setting = dataclasses.field(default_factory=partial(copy, value), metadata=field.metadata)
            fields.append((name, hint, setting))
    namespace = {"__doc__": kind.__doc__}
    return dataclasses.make_dataclass(kind.__name__, fields, namespace=namespace, frozen=True, kw_only=True)


def _env_settings(env_id: str | None) -> list[str]:
    """Return a line per setting of an environment, with its default, after a heading."""
    if not env_id:
        return []
    try:
        spec = registry.find(env_id)
        config = spec.load()[0]
    except GpuEnvsError:  # an unknown one, or a host environment, which has no list of settings
        return []
    docstrings = field_docstrings(config)
    lines = []
    for field in dataclasses.fields(config):
        has_default = field.default is not dataclasses.MISSING
        default = f" (default: {field.default})" if has_default else ""
        lines.append(f"{field.name}: {docstrings.get(field.name, '')}{default}")
    return [f"Settings of {spec.id}:", *lines]
