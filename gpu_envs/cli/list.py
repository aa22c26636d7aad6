"""The command `gpu-envs list`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from tyro.conf import arg

from gpu_envs.cli.options import ImportOptions, OptionalStr, parse
from gpu_envs.definition.registry import EnvSpec, find, list_envs
from gpu_envs.errors import ConfigError
from gpu_envs.utils.suggestions import unknown_name_message
from gpu_envs.utils.terminal import shorten, terminal_width

FAMILIES = {
    "mpe": "Multi-Agent Particle Environments",
    "vmas": "VMAS's scenarios with physics",
    "tag": "WarpDrive's Tag",
    "grid": "games on grids",
    "kitchen": "games in kitchens",
    "smax": "battles of two teams",
    "economy": "economies with workers and a planner",
    "cards": "cooperative card games",
    "classic": "classic control",
    "games": "games for populations and leagues",
}
"""Titles of the families, which are the folders of ``gpu_envs/envs``, in the order of lists."""

_OTHER = "other"
_FAMILY_HELP = (
    f'Family of environments: {", ".join(FAMILIES)}, or "{_OTHER}" for environments of other packages. Default: all.'
)


@dataclass(frozen=True, kw_only=True)
class ListOptions(ImportOptions):
    """List all environments by family: id, number of agents, description.

    The first word may be a family: gpu-envs list games

    Example: gpu-envs list --family mpe
    """

    family: Annotated[OptionalStr, arg(help=_FAMILY_HELP)] = None
    """Family of environments, or "other" for environments of other packages. Default: all."""
    ids: bool = False
    """Print the ids only, one per line."""


def list_command(argv: list[str]) -> int:
    """List the environments with agents and a description."""
    if argv and not argv[0].startswith("-"):
        argv = ["--family", *argv]
    args = parse(ListOptions, "list", argv)
    families: dict[str, list[EnvSpec]] = {family: [] for family in (*FAMILIES, _OTHER)}
    for entry in map(find, list_envs()):
        families.setdefault(_family(entry), []).append(entry)
    if args.family is not None:
        if args.family not in families:
            raise ConfigError(f"list: {unknown_name_message('family', args.family, list(families))}")
        families = {args.family: families[args.family]}
    if args.ids:
        for env_id in sorted(entry.id for entries in families.values() for entry in entries):
            print(env_id)
        return 0
    width = terminal_width(sys.stdout) or 1000
    wide = max((len(entry.id) for entries in families.values() for entry in entries), default=0)
    print(f"{'id':{wide}}  agents  description")
    for family, entries in families.items():
        if not entries and args.family is None:
            continue
        print(f"\n{family}: {FAMILIES[family]}" if family in FAMILIES else f"\n{family}")
        for entry in entries:
            agents = "-" if entry.num_agents is None else entry.num_agents
            print(shorten(f"{entry.id:{wide}}  {agents:>6}  {entry.summary}".rstrip(), width))
    return 0


def _family(entry: EnvSpec) -> str:
    """Return the folder of the host file of an environment; "other" for environments of other packages."""
    _, _, path = (entry.module or "").partition("gpu_envs.envs.")
    return path.partition(".")[0] or _OTHER
