"""The command `gpu-envs league resume`."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass

from gpu_envs.cli.options import OptionalInt, OptionalStr, parse
from league import registry
from league.cli.gpu_table import gpu_table
from league.cli.live_table import LiveTable
from league.cli.options import ExecutorOptions, RunOptions
from league.cli.run_output import RunOutput
from league.storage.run_config import configuration
from league.storage.run_store import RunStore
from trainers.runner.signals import interrupts
from trainers.storage.config_yaml import CONFIG_FILE, read_config, write_config

__all__ = ["ResumeOptions", "resume_command"]


@dataclass(frozen=True, kw_only=True)
class ResumeOptions(ExecutorOptions, RunOptions):
    """Continue a league with its recorded settings.

    Example: gpu-envs league resume out/kuhn --iterations 20
    """

    iterations: OptionalInt = None
    """Total number of iterations, to extend the run. Default: the recorded number."""
    device: OptionalStr = None
    """Device: "cpu", "cuda" or "cuda:<i>". Default: the recorded device."""


def resume_command(argv: list[str]) -> int:
    """Continue a run and return the exit code; 130 after an interruption."""
    args = parse(ResumeOptions, "league resume", argv)
    with RunStore.open(args.run_dir) as store:
        algorithm = registry.find(store.config.get("algorithm", ""))
        config = configuration(store, algorithm.config_type)
        with contextlib.closing(args.make_executor()) as executor:
            changes = {"iterations": args.iterations, "device": args.device and executor.device(args.device)}
            config = dataclasses.replace(config, **{key: value for key, value in changes.items() if value is not None})
            live = LiveTable(store, config.iterations)
            run = algorithm.make(store, config, live, executor)
            if (args.run_dir / CONFIG_FILE).exists():  # not of a run that a program started
                recorded = read_config(args.run_dir / CONFIG_FILE)
                write_config(args.run_dir, "league train", {**recorded, "iterations": config.iterations})
            output = RunOutput(store, args, live, config.device, gpu_table(executor, run, config.device))
            with output, interrupts():
                run.run()
            return output.exit_code
