"""Error messages that suggest a known name for an unknown one."""

import difflib
from collections.abc import Collection

from gpu_envs.errors import format_names, shown

__all__ = ["similar_names", "unknown_name_message"]


def similar_names(name: object, known: Collection[str], limit: int = 1) -> list[str]:
    """Return the known names that are similar to a name, the most similar first."""
    return difflib.get_close_matches(str(name), known, n=limit, cutoff=0.5)


def unknown_name_message(kind: str, name: object, known: Collection[str], *, limit: int = 1, hint: str = "") -> str:
    """Return a message about an unknown name: similar known names, or else all of them.

    Args:
        kind: Kind of thing that has the name, such as "setting".
        name: The unknown name.
        known: All known names.
        limit: Maximum number of similar names.
        hint: Text in place of all known names, where none is similar.

    Returns:
        Such as "no setting named 'num_god'; did you mean num_good?".
    """
    similar = similar_names(name, known, limit)
    if not hint:
        hint = f"expected one of {format_names(known)}" if known else "there are none"
    if similar:
        hint = f"did you mean {' or '.join(similar)}?"
    return f"no {kind} named {shown(name)}; {hint}"
