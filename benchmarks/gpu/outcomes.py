"""Outcomes of tests, read from the output of pytest."""

import re
from typing import Any


class PytestOutcomes:
    """Parser of the outcomes in the output of ``pytest -v``, serial or parallel, complete or not."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self.last = ""

    def read(self, line: str) -> None:
        """Parse one line."""
        side_by_side = re.match(r"\[gw\d+\]\s+\[\s*\d+%\]\s+([A-Z]+)\s+(tests/.*\S)", line)
        alone = re.match(r"(tests/.*?)\s+(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b", line)
        summary = re.match(r"(FAILED|ERROR) (tests/.*?)(?: - (.*))?$", line)
        if side_by_side:
            self.outcomes[side_by_side[2]] = side_by_side[1].lower()
        elif alone:
            self.outcomes[alone[1]] = alone[2].lower()
        elif summary:
            self.reasons[summary[2]] = (summary[3] or "")[:300]
            self.outcomes.setdefault(summary[2], summary[1].lower())  # a file that cannot be read has no line before
        if line.strip():
            self.last = line

    def rows(self) -> list[dict[str, Any]]:
        """Return the count of each outcome and each failed test with its reason."""
        counts: dict[str, int] = {}
        for outcome in self.outcomes.values():
            counts[outcome] = counts.get(outcome, 0) + 1
        rows: list[dict[str, Any]] = [{"what": kind, "unit": "tests", "value": counts[kind]} for kind in sorted(counts)]
        bad = [name for name, outcome in self.outcomes.items() if outcome in ("failed", "error")]
        return rows + [{"what": name, "error": self.reasons.get(name, self.outcomes[name])} for name in bad]
