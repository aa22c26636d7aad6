"""IDs that the original packages of environments use, for messages about unknown ids. It imports nothing slow."""

import re

__all__ = ["ORIGINAL_IDS", "find_original"]

ORIGINAL_IDS: dict[str, tuple[str, str]] = {
    "LevelBasedForaging-v0": (r"Foraging-.+-v3", r"(lbf|lbforaging|foraging)\b.*"),
    "RobotWarehouse-v0": (r"rware-.+-v2", r"(rware|warehouse)\b.*"),
    "Hanabi-v0": (r"Hanabi-(Full(-CardKnowledge|-Minimal)?|Small|Very-Small)", r"(hle|hanabi|hanabi_v\d+)(-.*)?"),
    "Overcooked-v0": ("", r"(overcooked|overcooked_ai)(-.*)?"),
}
"""Patterns by id of the environment here: of the ids that ``original_settings`` of its module translates, "" without
such a function, and of other names, in any case."""


def find_original(name: str) -> tuple[str, bool]:
    """Return the environment of an id of its original, and whether its ``original_settings`` translates the id.

    The environment is "" if no original has such an id.
    """
    for env_id, (translated, named) in ORIGINAL_IDS.items():
        if translated and re.fullmatch(translated, name):
            return env_id, True
        if re.fullmatch(named, name, re.IGNORECASE):
            return env_id, False
    return "", False
