"""Settings of recorded runs, whose dataclasses may have changed since."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from gpu_envs.utils.settings import default_of, has_default, unmet_requirement

__all__ = ["completed"]


def completed(kind: type[Any], recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a recorded run as the present dataclass needs them.

    Missing settings get their `before` value or default, see `gpu_envs.utils.settings.setting`. Settings without effect
    get their default.
    """
    given = dict(recorded)
    for field in dataclasses.fields(kind):
        if field.name not in given and has_default(field):
            before = field.metadata.get("before", dataclasses.MISSING)
            given[field.name] = default_of(field) if before is dataclasses.MISSING else before
    for field in dataclasses.fields(kind):
        if unmet_requirement(field, given) is not None:
            given[field.name] = default_of(field)
    return given
