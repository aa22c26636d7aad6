"""The command `gpu-envs list`."""

from dataclasses import dataclass

from gpu_envs.cli.options import parse
from gpu_envs.definition.registry import list_envs

__all__ = ["ListOptions", "list_command"]


@dataclass(frozen=True)
class ListOptions:
    """Print the ids of all environments, one per line.

    Example: gpu-envs list
    """


def list_command(argv: list[str]) -> int:
    """Print the ids of all environments."""
    parse(ListOptions, "list", argv)
    print("\n".join(list_envs()))
    return 0
