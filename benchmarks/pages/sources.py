"""Result files of several machines as one result: a group comes from the run with the most contenders or figures.

If several runs have equally many, the newest is used. So a new measurement of one group, on any machine, replaces only
that group.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from benchmarks.throughput.library_comparisons import COMPARISONS


def combined(
    main: Mapping[str, Any],
    other_results: Iterable[Mapping[str, Any]],
    promised: Mapping[str, Collection[str]] | None = None,
) -> dict[str, Any]:
    """Return a result with the groups of other machines that have more of today's contenders or figures.

    Contenders are compared only within a run, so that a group comes from one machine as a whole.

    Args:
        main: Contents of the result file of a page; its groups are kept in a tie of figures and dates.
        other_results: Contents of other result files.
        promised: Names of the figures with targets of the groups without contenders, by id of the group.
    """
    all_groups = [main["groups"], *(other["groups"] for other in other_results)]
    groups = dict(main["groups"])
    for comparison in COMPARISONS:
        candidates = [entry[comparison.id] for entry in all_groups if comparison.id in entry]
        if candidates:
            groups[comparison.id] = max(
                candidates, key=lambda group: (-len(lacking(comparison.id, group)), _date(group))
            )
    for id, names in (promised or {}).items():
        if candidates := [entry[id] for entry in all_groups if id in entry]:
            groups[id] = max(candidates, key=lambda group: (-len(_missing(names, group)), _date(group)))
    return {**main, "groups": groups}


def _missing(names: Collection[str], group: Mapping[str, Any]) -> set[str]:
    """Return the names of figures that a group does not have."""
    return set(names) - {figure["what"] for figure in group["figures"]}


def _date(group: Mapping[str, Any]) -> str:
    """Return the date of a group as text that sorts by time."""
    return group.get("date", "")


def lacking(id: str, group: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return round and name of each contender that has no figures in a group, in the order of today's comparison."""
    rows = [figure["row"] for figure in group["figures"] if figure.get("row")]
    measured = {(row["round"], row["name"]) for row in rows if row["kind"] != "absent"}
    absent = [(row["round"], row["name"]) for row in rows if row["kind"] == "absent"]
    current = [
        (round_.title, contender.name)
        for comparison in COMPARISONS
        if comparison.id == id
        for round_ in comparison.rounds
        for contender in round_.contenders
    ]
    return [key for key in dict.fromkeys((*current, *absent)) if key not in measured]


def unplayed(id: str, group: Mapping[str, Any]) -> list[str]:
    """Return the titles of the rounds of today's comparison that a group has no rows of."""
    played = {figure["row"]["round"] for figure in group["figures"] if figure.get("row")}
    rounds = [round_ for comparison in COMPARISONS if comparison.id == id for round_ in comparison.rounds]
    return [round_.title for round_ in rounds if round_.title not in played]


def unmeasured(groups: Mapping[str, Any]) -> str:
    """Return the contenders without figures and their groups as one sentence; empty if there are none."""
    names: dict[str, dict[str, None]] = {}
    for id, group in groups.items():
        for _, name in lacking(id, group):
            names.setdefault(name, {})[group["title"].split(" compared ")[0]] = None
    listed = "; ".join(f"{name} ({', '.join(titles)})" for name, titles in names.items())
    return listed and f"Not measured: {listed}."


def elsewhere(group: Mapping[str, Any], machine: Mapping[str, Any]) -> str:
    """Return a group's processor if it is not the machine's, else an empty string."""
    cpu = group.get("machine", machine).get("cpu")
    return "" if cpu in (None, machine.get("cpu")) else processor(cpu)


def processor(cpu: str) -> str:
    """Return the name of a processor for people: without its family, "(R)" and "Processor"."""
    return re.split(r" \(family| \((?!R\))", cpu)[0].replace("(R)", "").removesuffix(" Processor")
