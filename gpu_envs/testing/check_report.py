"""Result of ``check_env``: the checks that an environment has passed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_envs.utils.summaries import Summarized, Summary

__all__ = ["CheckReport", "PassedCheck"]


@dataclass(frozen=True)
class PassedCheck:
    """A check that an environment has passed."""

    name: str
    """Name of the check."""
    description: str
    """Property that it compares."""
    seconds: float
    """Duration [s]."""
    reached: str = ""
    """What the check has reached, such as ends of episodes."""


@dataclass(frozen=True, repr=False)
class CheckReport(Summarized):
    """Checks that an environment has passed, as ``print`` and notebooks show them."""

    env_id: str
    """ID of the environment."""
    settings: str
    """Settings that differ from their defaults; empty if there are none."""
    checks: Sequence[PassedCheck]
    """All checks in their order."""

    @property
    def seconds(self) -> float:
        """Duration of all checks [s]."""
        return sum(check.seconds for check in self.checks)

    def __repr__(self) -> str:
        """Return a line for the environment and one per check."""
        settings = f" ({self.settings})" if self.settings else ""
        width = max(len(check.name) for check in self.checks)
        lines = [f"  {check.name:{width}}  {_check_line(check)}" for check in self.checks]
        title = f"{self.env_id}{settings} passed all {len(self.checks)} checks in {self.seconds:.1f} s"
        return "\n".join([title, *lines])

    def _summary(self) -> Summary:
        rows = [(check.name, _check_line(check), f"{check.seconds:.2f}") for check in self.checks]
        facts = {"result": f"passed all {len(self.checks)} checks", "settings": self.settings or None}
        columns = ("check", "compared property", "seconds")
        return Summary(self.env_id, {**facts, "seconds": f"{self.seconds:.1f}"}, columns, rows)


def _check_line(check: PassedCheck) -> str:
    """Return the description of a check, and what it has reached."""
    return f"{check.description} ({check.reached})" if check.reached else check.description
