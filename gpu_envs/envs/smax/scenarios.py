"""Maps of SMAX: unit types of both sides, and random starts as in SMACv2."""

from dataclasses import dataclass

__all__ = ["SCENARIOS", "Sides"]

_MARINE, _STALKER, _ZEALOT, _HYDRALISK = 0, 2, 3, 5  # indices of the default unit types


@dataclass(frozen=True)
class Sides:
    """Units of a map."""

    allies: tuple[int, ...]
    """Unit type of every ally."""
    enemies: tuple[int, ...]
    """Unit type of every enemy."""
    smacv2: bool = False
    """Positions and unit types are random, as in SMACv2."""


def _marines(allies: int, enemies: int | None = None, smacv2: bool = False) -> Sides:
    """Return sides of marines; by default both sides have equally many."""
    return Sides((_MARINE,) * allies, (_MARINE,) * (allies if enemies is None else enemies), smacv2)


def _stalkers_and_zealots(stalkers: int, zealots: int) -> tuple[int, ...]:
    return (_STALKER,) * stalkers + (_ZEALOT,) * zealots


SCENARIOS: dict[str, Sides] = {
    "3m": _marines(3),
    "2s3z": Sides(_stalkers_and_zealots(2, 3), _stalkers_and_zealots(2, 3)),
    "25m": _marines(25),
    "3s5z": Sides(_stalkers_and_zealots(3, 5), _stalkers_and_zealots(3, 5)),
    "8m": _marines(8),
    "5m_vs_6m": _marines(5, 6),
    "10m_vs_11m": _marines(10, 11),
    "27m_vs_30m": _marines(27, 30),
    "3s5z_vs_3s6z": Sides(_stalkers_and_zealots(3, 5), _stalkers_and_zealots(3, 6)),
    "3s_vs_5z": Sides((_STALKER,) * 3, (_ZEALOT,) * 5),
    "6h_vs_8z": Sides((_HYDRALISK,) * 6, (_ZEALOT,) * 8),
    "smacv2_5_units": _marines(5, smacv2=True),
    "smacv2_10_units": _marines(10, smacv2=True),
    "smacv2_20_units": _marines(20, smacv2=True),
}
"""Maps of the original by name."""
