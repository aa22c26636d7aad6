"""The number of calls and files from a step, a training and a league to the work that each starts."""

import sys
from pathlib import Path

import pytest
import torch

import gpu_envs
from gpu_envs.cli import main
from gpu_envs.runtime.core import Core
from warp_kernels.framework.recorded_launch import CPULaunch

ROOT = Path(__file__).parents[2]
PACKAGES = tuple(str(ROOT / name) + "/" for name in ("warp_kernels", "gpu_envs", "trainers", "league"))
IMPLICIT = {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"}
"""Frames that some versions of Python make for a comprehension; they are no calls."""

PAYOFFS = {"league/evaluation/payoff_filler.py", "league/rollout/matchups.py"}
"""Files on the way to a payoff cell."""


def frames_from(frame, start):
    """Return (file, function) of each project frame from `start`, a (file, functions) pair, down to the given frame.

    The result is empty if `start` is not on the stack.
    """
    found = []
    while frame is not None:
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if file.startswith(PACKAGES) and name not in IMPLICIT:
            place = (str(Path(file).relative_to(ROOT)), name)
            found.append(place)
            if place[0] == start[0] and name in start[1]:
                return found[::-1]
        frame = frame.f_back
    return []


def journeys(function, start, target):
    """Run a function and return the distinct stacks of project frames with which it called the target."""
    found, code = set(), target.__code__

    def profile(frame, event, arg):
        if event == "call" and frame.f_code is code:
            found.add(tuple(frames_from(frame, start)))

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(before)
    return found - {()}


def check(stacks, calls, files):
    """Assert that there is a journey and that none is longer than the limits."""
    assert stacks, "the target was not called"
    longest = max(stacks, key=len)
    shown = "\n".join(f"{file}: {name}" for file, name in longest)
    assert len(longest) <= calls, f"{len(longest)} calls, expected at most {calls}:\n{shown}"
    most = max(stacks, key=lambda stack: len({file for file, _ in stack}))
    count = len({file for file, _ in most})
    assert count <= files, f"{count} files, expected at most {files}:\n" + "\n".join(sorted({file for file, _ in most}))


@pytest.mark.parametrize("threads", [1, 2])
def test_environment_step_reaches_the_launch_in_6_calls(threads):
    env = gpu_envs.make("SimpleTag-v0", 256, "cpu", seed=0, threads=threads)
    env.reset()
    actions = {agent: torch.zeros(256, dtype=torch.int64) for agent in env.agents}
    env.step(actions)  # records the launches
    stacks = journeys(lambda: env.step(actions), ("gpu_envs/views/batched.py", {"step"}), CPULaunch.launch)
    stacks = {stack[:-1] for stack in stacks}  # without the launch itself
    check(stacks, calls=6, files=4 if threads > 1 else 3)


@pytest.mark.slow
def test_train_command_reaches_the_gradient_in_8_calls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    argv = ["train", "SimpleTag-v0", "--algorithm", "ppo", "--num-envs", "4", "--total-steps", "400"]
    argv += ["--eval-episodes", "0", "--device", "cpu"]
    start = ("trainers/cli/train.py", {"train_command"})
    check(journeys(lambda: main(argv), start, torch.Tensor.backward), calls=8, files=7)


def test_league_command_reaches_a_payoff_cell_in_9_calls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    argv = ["league", "train", "KuhnPoker-v0", "--algorithm", "psro", "--iterations", "0", "--device", "cpu"]
    start = ("league/cli/train.py", {"train", "train_command"})
    stacks = journeys(lambda: main(argv), start, Core.step)
    cells = {stack for stack in stacks if {file for file, _ in stack} >= PAYOFFS}  # game trees are built by steps too
    check(cells, calls=9, files=7)
