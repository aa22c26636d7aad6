"""Error messages that suggest a known name for an unknown one."""

import difflib
import re
from collections.abc import Collection
from typing import Any

from gpu_envs.errors import format_names, shown

CUTOFF = 0.7
"""Lowest similarity of names in the measure of difflib."""
PREFIX = 4
"""Least number of letters of a name for which a known name that begins with it is similar."""


def similar_names(name: object, candidates: Collection[str], limit: int = 1) -> list[str]:
    """Return the known names that are similar to a name, the most similar first.

    Names are similar without case: those that are equal or abbreviated, then those that have all words of the name,
    then those that differ in few letters, then those that begin with the name, then those whose words the name has.
    """
    lowered = (name if isinstance(name, str) else shown(name)).lower()
    folded = {candidate.lower(): candidate for candidate in candidates}
    words = _words(lowered)
    longer = [candidate for candidate in folded if words and words <= _words(candidate)]
    shorter = [candidate for candidate in folded if _words(candidate) and _words(candidate) <= words]
    stem = _letters(lowered)
    begun = [candidate for candidate in folded if len(stem) >= PREFIX and _letters(candidate).startswith(stem)]
    matches = [candidate for candidate in candidates if candidate.lower() == lowered]
    matches += abbreviated_names(lowered, candidates)
    for names, cutoff in ((longer, 0.0), (folded, CUTOFF), (begun, 0.0), (shorter, 0.0)):
        matches += [
            folded[candidate] for candidate in difflib.get_close_matches(lowered, names, n=limit, cutoff=cutoff)
        ]
    return list(dict.fromkeys(matches))[:limit]


def abbreviated_names(name: str, candidates: Collection[str]) -> list[str]:
    """Return the known names whose last part, after a dot, a name abbreviates: "lr" and "learn_rate" learning_rate."""
    leaf = _leaf(name)
    names = []
    for candidate in candidates:
        parts, short = _leaf(candidate).split("_"), leaf.split("_")
        is_initials = "".join(part[:1] for part in parts) == leaf
        is_beginnings = len(parts) == len(short) and all(map(str.startswith, parts, short))
        if len(leaf) > 1 and (is_initials or is_beginnings):
            names.append(candidate)
    return names


def _leaf(name: str) -> str:
    return name.lower().rpartition(".")[2].replace("-", "_")


def _letters(name: str) -> str:
    """Return the letters and digits of a name."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _words(name: str) -> set[str]:
    """Return the words of a name."""
    return set(re.findall(r"[a-z0-9]{2,}", name))


def unknown_name_message(kind: str, name: object, names: Collection[str], *, limit: int = 1, hint: str = "") -> str:
    """Return a message about an unknown name: similar known names, or else all of them.

    Args:
        kind: Kind of thing that has the name, such as "setting".
        name: The unknown name.
        names: All known names.
        limit: Maximum number of similar names.
        hint: Text in place of all known names, where none is similar.

    Returns:
        Such as "no setting named 'num_god'; did you mean num_good?".
    """
    return f"no {kind} named {shown(name)}; {suggestion(name, names, limit=limit, hint=hint)}"


def suggestion(name: object, names: Collection[str], *, limit: int = 1, hint: str = "") -> str:
    """Return the end of a message about an unknown name; arguments as for :func:`unknown_name_message`."""
    if similar := similar_names(name, names, limit):
        return f"did you mean {' or '.join(similar)}?"
    return hint or (f"expected one of {format_names(names)}" if names else "there are none")


def foreign_name_hint(kind: type, name: str, value: Any, free: Collection[str]) -> str:
    """Return what to use in place of a setting, or of a value, that another implementation of an environment has.

    Args:
        kind: Dataclass of the settings. Its ``FOREIGN_NAMES``, if any, is a dict from a name, or "name='value'", to the
            name of a setting or to a sentence.
        name: Name of the setting that was given.
        value: Its value.
        free: Names of the settings that are not given.

    Returns:
        Such as "did you mean players?"; "" without an entry, or if the setting of the entry is given.
    """
    hints = getattr(kind, "FOREIGN_NAMES", {})
    hint = hints.get(name) or (hints.get(f"{name}={value!r}", "") if isinstance(value, str) else "")
    if hint.isidentifier():
        return f"did you mean {hint}?" if hint in free else ""
    return hint
