"""Check of indices, divisions and loops in a child process, which a fault may end."""

import ctypes
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpu_envs import errors
from gpu_envs.errors import ConformanceError, GpuEnvsError, shown

LONGEST_PHASE = 60.0
"""Most time that a phase may take in one world [s]."""
_PROGRESS = struct.Struct("iiid")
"""Step, number of the phase, world, and start of the phase [s]; the time is 0 outside of phases."""


def check_memory(id: str, num_steps: int | None = None, num_envs: int = 12, **config: Any) -> str:
    """Check indices of arrays, integer divisions by zero and endless loops of an environment, in a child process.

    The functions of the rules run in Warp's debug mode, with checks of every index of State and IO, every integer
    divisor and every ``while`` loop, phase by phase and world by world.

    Args:
        id: Environment id; "module:Name-v0" imports the module.
        num_steps: Steps; None as for :func:`gpu_envs.check_env`.
        num_envs: Worlds, at least 2.
        **config: Settings of the environment.

    Returns:
        What was reached.

    Raises:
        ConfigError: A number or a setting is out of range.
        ConformanceError: A fault, with file, line, function, expression, index, phase, world and step as far as known.
        RulesError: The rules do not compile.
        UnknownEnvironmentError: The id is unknown, or its module cannot be imported.
    """
    with tempfile.TemporaryDirectory() as folder:
        progress, result = Path(folder) / "progress", Path(folder) / "result"
        progress.write_bytes(bytes(_PROGRESS.size))
        order = {"id": id, "steps": num_steps, "worlds": num_envs, "config": config, "folder": folder}
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([*filter(None, sys.path), os.getcwd()])}
        command = [sys.executable, "-P", "-m", "gpu_envs.testing.memory_check", json.dumps(order)]
        with (Path(folder) / "output").open("w+b") as output:
            child = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
            try:
                code = _wait(child, progress)
            finally:
                child.kill()
                child.wait()
            output.seek(0)
            text = output.read().decode(errors="replace")
        if result.exists():
            answer = json.loads(result.read_text())
            if "reached" in answer:
                return answer["reached"]
            raise getattr(errors, answer["kind"], GpuEnvsError)(answer["message"])
        raise ConformanceError(f"{id}: {_explain_end(code, progress, folder, text)}")


def _wait(child: subprocess.Popen[bytes], progress: Path) -> int | None:
    """Return the exit code of the child process; None if a phase takes too long."""
    while True:
        try:
            return child.wait(1.0)
        except subprocess.TimeoutExpired:
            start = _PROGRESS.unpack(progress.read_bytes())[3]
            if start > 0 and time.monotonic() - start > LONGEST_PHASE:
                return None


def _explain_end(code: int | None, progress: Path, folder: str, text: str) -> str:
    """Return why a child process has ended without a result."""
    step, number, world, start = _PROGRESS.unpack(progress.read_bytes())
    names = Path(folder) / "phases"
    phases = json.loads(names.read_text()) if names.exists() else []
    location = f"phase {phases[number]}, world {world}, step {step}" if start > 0 else "outside of the phases"
    reason = (text.strip().splitlines() or [""])[-1]
    if code is None:
        return f"every phase ends; {location}: it runs for more than {LONGEST_PHASE:.0f} s; look for an endless loop"
    if code < 0:
        return f"the kernels end; {location}: {signal.Signals(-code).name} has ended the process; {reason}"
    return f"the check runs; {location}: the process has ended with exit code {code}; {reason}"


# ---------------------------------------------------------------- child process


def _main(order: dict[str, Any]) -> None:
    """Check an environment and write the result to the folder of the parent process."""
    folder = Path(order["folder"])
    try:
        answer = {"reached": _check(order, folder)}
    except GpuEnvsError as error:
        answer = {"kind": type(error).__name__, "message": str(error)}
    (folder / "result").write_text(json.dumps(answer))


def _check(order: dict[str, Any], folder: Path) -> str:
    import warp as wp

    from gpu_envs.definition.rules_errors import record_kernel
    from gpu_envs.testing.env_checker import build_subject
    from gpu_envs.testing.instrumentation import instrument
    from gpu_envs.testing.phase_diagnosis import name_of
    from warp_kernels.framework.step import step_phases
    from warp_kernels.framework.thread_orders import USUAL, reorder
    from warp_kernels.rules import AGENT, WORLD

    wp.config.mode, wp.config.optimization_level = "debug", 0
    libc = ctypes.CDLL(None)
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, 2, 0)  # unbuffered: a fault may end the process
    subject = build_subject(order["id"], order["steps"], order["worlds"], order["config"])
    d = subject.definition
    sites = instrument(d.rules)
    core = subject.core(definition=replace(d, rules=reorder(d.rules, USUAL)), schedule="phased")
    parts, program = step_phases(d.rules, in_slots=True), core._launcher.program
    params, state, ios = core._launcher.arguments
    launches, names = [], []
    for kind, phases in (("reset", (*parts.renew, *parts.start)), ("step", (*parts.play, *parts.start))):
        stages = list(zip(getattr(program, kind), phases, strict=True))
        commands = []
        for stage, phase in stages:
            names.append(name_of(phase))
            count = core.num_agents if phase.over == AGENT else 1 if phase.over == WORLD else int(phase.over)
            inputs = [] if phase.over == WORLD else [1, 0]
            for world in range(core.num_envs):
                arguments = [world, *inputs, params, state, ios[0]]
                command = record_kernel(stage.kernel, (1, count), arguments, core._launcher.device)
                commands.append((len(names) - 1, world, command))
        launches.append(commands)
    (folder / "phases").write_text(json.dumps(names))
    with (folder / "progress").open("r+b") as file, mmap.mmap(file.fileno(), _PROGRESS.size) as shared:
        output = folder / "output"

        def play(step: int, commands: list[Any]) -> None:
            for number, world, command in commands:
                shared[:] = _PROGRESS.pack(step, number, world, time.monotonic())
                size = os.fstat(1).st_size
                command.launch()
                if os.fstat(1).st_size > size:
                    _raise_fault(subject.id, output.read_bytes()[size:], sites, names[number], world, step)
            shared[:] = _PROGRESS.pack(step, 0, 0, 0.0)

        core._io["restart"].fill_(True)
        core._io["step"].zero_()
        play(0, launches[0])
        core._started = True
        for step in range(1, subject.whole_steps + 1):
            core.sample_actions()
            play(step, launches[1])
            if core._launcher.program.global_state:
                core.state()
                _raise_fault(subject.id, output.read_bytes(), sites, "global_state", -1, step)
    return f"{subject.whole_steps} steps of {core.num_envs} worlds; {len(sites)} places of the rules"


def _raise_fault(env_id: str, output: bytes, sites: list[Any], phase: str, world: int, step: int) -> None:
    """Raise the error of the first fault in the output of kernels; nothing if there is none."""
    from gpu_envs.testing.instrumentation import MARK

    for line in output.decode(errors="replace").splitlines():
        if not line.startswith(MARK):
            continue
        kind, *numbers = line.split()[1:]
        index, value, size, env = map(int, numbers)
        site = sites[index]
        promise, fault = {
            "index": ("indices are within their arrays", f"index {value} of axis {site.axis}, which has size {size}"),
            "divisor": ("integers are not divided by zero", "its divisor is 0"),
            "loop": ("loops end", f"`while` has run {value:,} times"),
        }[kind]
        raise ConformanceError(
            f"{env_id}: {promise}; {site.location}, {site.function}: {shown(site.code)[1:-1]}: {fault}; phase {phase}, "
            f"world {env if env >= 0 else world}, step {step}"
        )


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
