"""Exceptions that a signal handler raises within a call: the call is whole, or the environment needs a reset."""

import sys

import pytest
import rollout_cases
import torch
from small_environments import SMALL

import gpu_envs
from gpu_envs.errors import ResetNeededError
from gpu_envs.runtime import core as core_module
from gpu_envs.runtime import thread_pool

RUNTIME = core_module.__file__.removesuffix("core.py")
WORLDS = 8
STEPS = 3


class Interrupt(BaseException):
    """Exception of a signal handler."""


def interrupted(call, line):
    """Call a function, and raise an Interrupt at a line of the runtime; return whether there are so many."""
    lines = 0

    def trace(frame, event, _):
        nonlocal lines
        if not frame.f_code.co_filename.startswith(RUNTIME):
            return None
        if event == "line":
            lines += 1
            if lines > line:
                raise Interrupt
        return trace

    tracer = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except Interrupt:
        return True
    finally:
        sys.settrace(tracer)
    return False


def same(left, right):
    return all(torch.equal(left[name], right[name]) for name in left)


def make(kind):
    """Return a core, of which two threads share the worlds if it is on several threads."""
    settings = {"seed": 0, **SMALL["SimpleTag-v0"]}
    schedule, _, threads = kind.partition(" on ")
    return gpu_envs.make("SimpleTag-v0", WORLDS, "cpu", schedule=schedule, threads=2 if threads else 1, **settings).core


@pytest.fixture
def parallel(monkeypatch):
    """Use several threads in every run."""
    monkeypatch.setattr(thread_pool.ThreadingHeuristic, "parallel", lambda heuristic: True)


def interrupt_every_line(core, call, initial, after, check_refused=lambda: None):
    """Call a function from a state, interrupted at every line in turn; return the number of ends by outcome."""
    outcomes = {"before": 0, "after": 0, "refused": 0}
    while True:
        core.set_state(initial)
        if not interrupted(call, sum(outcomes.values())):
            break
        try:
            state = core.get_state()
        except ResetNeededError:
            outcomes["refused"] += 1
            check_refused()
            continue
        outcomes["before" if same(state, initial) else "after"] += 1
        assert same(state, initial) or same(state, after)
    assert same(core.get_state(), after)
    return outcomes


@pytest.mark.parametrize(
    "kind",
    ["fused", "phased", "fused on threads", pytest.param("phased on threads", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("name", ["step", "reset", "partial reset", "random rollout"])
def test_interrupted_call_is_whole_or_needs_a_reset(parallel, kind, name):
    core = make(kind)
    first, _ = core.reset(seed=3)
    core.random_rollout(STEPS)
    action, mask = core.sample_actions(), torch.arange(WORLDS) % 2 == 0
    call = {
        "step": lambda: core.step(action),
        "reset": lambda: core.reset(seed=5),
        "partial reset": lambda: core.reset(seed=5, reset_mask=mask),
        "random rollout": lambda: core.random_rollout(STEPS),
    }[name]
    initial = core.get_state()
    call()
    after = core.get_state()
    assert not same(initial, after)

    def check_refused():
        for refused in (core.get_state, lambda: core.step(action), lambda: core.reset(reset_mask=mask)):
            with pytest.raises(ResetNeededError, match=r"has interrupted a call.*; call reset\(\) first"):
                refused()
        assert torch.equal(core.reset(seed=3)[0], first)

    outcomes = interrupt_every_line(core, call, initial, after, check_refused)
    if "threads" in kind:  # the number of lines depends on how many parts the other thread performs
        del outcomes["after"]
    assert min(outcomes.values()) > 0, outcomes


def test_interrupted_rollout_of_policies_is_whole_or_needs_a_reset(parallel):
    core = rollout_cases.make_core("discrete", num_envs=64, threads=2)
    policies = rollout_cases.make_policies(core)[1]
    initial = core.get_state()
    trace = core.rollout(policies, STEPS)
    after = core.get_state()
    core.rollout(policies, STEPS, trace)  # prepares the launches of these buffers
    outcomes = interrupt_every_line(core, lambda: core.rollout(policies, STEPS, trace), initial, after)
    assert outcomes["refused"] > 0


def test_interrupted_step_in_place_is_whole_or_needs_a_reset():
    core = make("phased")
    core.reset(seed=3)
    core.sample_actions()
    initial = core.get_state()
    core.step_in_place()
    assert interrupt_every_line(core, core.step_in_place, initial, core.get_state())["refused"] > 0


def test_refused_action_interrupts_nothing():
    core = make("fused")
    core.reset(seed=0)
    with pytest.raises(ValueError, match="action: expected"):
        core.step(core.sample_actions().to_sparse())
    core.step(core.sample_actions())
