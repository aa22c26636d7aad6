"""The command `gpu-envs league` and its subcommands."""

from collections.abc import Callable
from importlib import import_module

from gpu_envs.errors import ConfigError
from gpu_envs.utils.suggestions import unknown_name_message

USAGE = """usage: gpu-envs league COMMAND ...

Train populations of policies that play against each other.

  gpu-envs league train ID                 train populations of policies
  gpu-envs league resume DIR               continue or extend a run
  gpu-envs league report DIR               write tables and figures of a run
  gpu-envs league render DIR               render policies of a run to a video
  gpu-envs league export DIR --output OUT  write policies as a checkpoint

gpu-envs league COMMAND --help prints the options, with an example.

example: gpu-envs league train KuhnPoker-v0 --algorithm psro"""
"""Help of `gpu-envs league`."""

COMMANDS = {"train": "train", "resume": "train", "report": "results", "render": "results", "export": "results"}
"""Modules of this package by subcommand; the function of a subcommand is `NAME_command`."""


def league_command(argv: list[str]) -> int:
    """Train populations of policies; report on runs and render them."""
    if not argv or argv[0] in ("-h", "--help", "--help-all"):
        print(USAGE)
        return 0 if argv else 2
    name, *arguments = argv
    if name not in COMMANDS:
        raise ConfigError(f"league: {unknown_name_message('command', name, COMMANDS)}")
    command: Callable[[list[str]], int] = getattr(import_module(f"league.cli.{COMMANDS[name]}"), f"{name}_command")
    return command(arguments)
