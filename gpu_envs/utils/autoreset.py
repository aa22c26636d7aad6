"""Names of Gymnasium's autoreset modes."""

from typing import Any

from gymnasium.vector import AutoresetMode

__all__ = ["AUTORESET", "autoreset_member"]

AUTORESET: dict[AutoresetMode, str] = {
    AutoresetMode.NEXT_STEP: "next_step",
    AutoresetMode.SAME_STEP: "same_step",
    AutoresetMode.DISABLED: "disabled",
}
"""Names of Gymnasium's autoreset modes in settings."""


def autoreset_member(mode: Any) -> AutoresetMode | None:
    """Return Gymnasium's mode for a member, its value ("NextStep") or the name of a setting; None if unknown."""
    if not isinstance(mode, (str, AutoresetMode)):
        return None
    return next((member for member, word in AUTORESET.items() if mode in (member, member.value, word)), None)
