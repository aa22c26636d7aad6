"""Hundreds of generated arguments: each is accepted, or raises a one-line error of this library."""

import contextlib
import dataclasses
import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import gpu_envs
from gpu_envs import wrappers
from gpu_envs.definition.registry import find, list_envs
from gpu_envs.errors import GpuEnvsError
from gpu_envs.rendering.trails import TrailRenderer
from gpu_envs.runtime.factory import configured_definition, make_core
from gpu_envs.views.gymnasium import SingleAgentEnv
from gpu_envs.views.pettingzoo import ParallelView
from gpu_envs.views.rows import RowsEnv

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
LONGEST = 1000
"""Characters of a message."""


def list_of_itself() -> list:
    """Return a list that contains itself."""
    items: list = []
    items.append(items)
    return items


VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "False": lambda: False,
    "numpy bool": lambda: np.bool_(True),
    "text": lambda: "x",
    "no text": lambda: "",
    "a number as text": lambda: "1",
    "NUL": lambda: "a\0b",
    "two lines": lambda: "a\nb",
    "bytes": lambda: b"x",
    "-1": lambda: -1,
    "0": lambda: 0,
    "1.5": lambda: 1.5,
    "numpy int": lambda: np.int64(1),
    "numpy float": lambda: np.float32(1.5),
    "2**31": lambda: 2**31,
    "-2**31 - 1": lambda: -(2**31) - 1,
    "2**70": lambda: 2**70,
    "10**5000": lambda: 10**5000,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "complex": lambda: 1j,
    "empty list": list,
    "empty dict": dict,
    "odd dict": lambda: {1: 2, "x": None},
    "object": object,
    "class": lambda: int,
    "function": lambda: lambda *_: None,
    "iterator": lambda: iter("ab"),
    "list of text": lambda: ["x"],
    "ragged list": lambda: [[1], [2, 3]],
    "list of lists": lambda: [[[[]]]],
    "long list": lambda: [0] * 10**5,
    "list of itself": list_of_itself,
    "array of text": lambda: np.array(["x"]),
    "array of objects": lambda: np.array([object()]),
    "complex array": lambda: np.zeros(3, complex),
    "empty array": lambda: np.zeros((0, 4)),
    "tensor": lambda: torch.zeros(3),
    "double tensor": lambda: torch.zeros((2, 4), dtype=torch.float64),
    "scalar tensor": lambda: torch.tensor(1),
    "empty tensor": lambda: torch.zeros((0,), dtype=torch.int64),
    "complex tensor": lambda: torch.zeros(2, dtype=torch.complex64),
    "meta tensor": lambda: torch.zeros((2, 4), dtype=torch.int64, device="meta"),
    "sparse tensor": lambda: torch.zeros((2, 4), dtype=torch.int64).to_sparse(),
    "sparse mask": lambda: torch.ones(2, dtype=torch.bool).to_sparse(),
    "sparse scalar": lambda: torch.zeros((2,)).to_sparse(),
    "quantized tensor": lambda: torch.quantize_per_tensor(torch.zeros(2, 4), 1.0, 0, torch.qint8),
    "nested tensor": lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged),
    "strided nested tensor": lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
}
"""Makers of values, by name: every call gets its own."""


@dataclasses.dataclass
class Subject:
    """A call, and which of its arguments get wrong values."""

    name: str
    call: Callable[..., Any]
    usual: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Arguments that are right."""
    vary: tuple[str, ...] = ()
    """Arguments that are varied; none: all of the signature."""

    def arguments(self) -> tuple[str, ...]:
        """Names of the varied arguments."""
        if self.vary:
            return self.vary
        kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        parameters = inspect.signature(self.call).parameters.values()
        return tuple(parameter.name for parameter in parameters if parameter.kind not in kinds)


def fault(call: Callable[[], Any]) -> str | None:
    """Return the fault of a call, or None if it succeeded or raised a one-line error of this library."""
    try:
        call()
    except GpuEnvsError as error:
        message = str(error)
        if "\n" in message or not message.strip():
            return f"{type(error).__name__} of {len(message.splitlines())} lines: {message[:80]!r}"
        return None if len(message) <= LONGEST else f"{type(error).__name__} of {len(message)} characters"
    except BaseException as error:  # noqa: BLE001  # any other end is a finding
        return f"{type(error).__name__}: {str(error)[:100]!r}"
    return None


def faults(subject: Subject) -> Iterator[str]:
    """Call with every wrong value of every argument; yield a line for each call with a fault."""
    for name in subject.arguments():
        for label, make in VALUES.items():
            arguments = subject.usual | {name: make()}
            wrong = fault(lambda arguments=arguments: subject.call(**arguments))
            if wrong is not None:
                yield f"{subject.name}({name}={label}): {wrong}"


TAG = {"id": "SimpleTag-v0", "num_envs": 2, "device": "cpu"}
ROWS = {"env_id": "SimpleTag-v0", "num_envs": 2, "device": "cpu", "group": "adversary"}
RUNNER = tuple(
    name
    for name, parameter in inspect.signature(make_core).parameters.items()
    if parameter.kind is not inspect.Parameter.VAR_KEYWORD
)


def tell(messages):
    """Fail with all that was found, at once."""
    messages = list(messages)
    assert not messages, f"{len(messages)} calls end otherwise:\n" + "\n".join(messages)


def started(**settings):
    core = make_core("SimpleTag-v0", 2, "cpu", seed=0, reuse_buffers=True, **settings)
    core.reset()
    return core


def used(env, call):
    """Return the call followed by a step, which must work after a failed call, too."""

    def call_and_step(**arguments):
        try:
            call(**arguments)
        finally:
            env.unwrapped.core.step(env.unwrapped.core.sample_actions())

    return call_and_step


def test_make_accepts_or_raises_a_library_error(monkeypatch):
    def make(id):
        return gpu_envs.make(id)

    subjects = [
        Subject("make", gpu_envs.make, TAG, (*RUNNER, "render_mode")),
        Subject("make_core", make_core, TAG, ("num_envs", "seed")),
        Subject("parallel_env", ParallelView, {"id": "SimpleTag-v0"}, ("id", "render_mode", "device", "max_cycles")),
        Subject("check_env", gpu_envs.check_env, {}, ("id_or_env",)),
        Subject("RowsEnv", RowsEnv, ROWS),
        Subject("SingleAgentEnv", SingleAgentEnv, {"env_id": "SimpleTag-v0", "agent": "agent_0"}),
        Subject(
            "gymnasium.make",
            lambda **config: gymnasium.make("gpu_envs/SimpleTag-v0", **config),
            {"agent": "agent_0"},
            ("agent", "opponents", "device", "illegal_actions", "seed"),
        ),
    ]
    tell(itertools.chain.from_iterable(map(faults, subjects)))


def test_register_accepts_or_raises_a_library_error(monkeypatch):
    monkeypatch.setattr("gpu_envs.definition.registry._entries", {})
    monkeypatch.setattr("gpu_envs.definition.registry._announce", lambda id: None)
    numbers = itertools.count()
    entry = {"module": "gpu_envs.envs.mpe.simple"}

    def register(**arguments):
        gpu_envs.register(**{"id": f"Fuzz-v{next(numbers)}", **arguments})

    names = ("module", "max_episode_steps", "reward_threshold", "description", "config", "build")
    tell(itertools.chain(
        faults(Subject("register", register, entry, names)),
        faults(Subject("register", gpu_envs.register, entry, ("id",))),
        faults(Subject("register", register, {"config": dict, "build": print}, ("config", "build"))),
    ))  # fmt: skip


@pytest.mark.parametrize("env_id", list_envs())
def test_settings_of_environments(env_id):
    kind, _ = find(env_id).load()
    names = tuple(f.name for f in dataclasses.fields(kind))
    tell(
        faults(Subject(env_id, lambda **config: configured_definition(env_id, None, config), {}, names))
        if names
        else ()
    )


def test_core_methods_accept_or_raise_a_library_error():
    core = started()
    state = core.get_state()

    def put(**entries):
        core.set_state(state | entries)

    def step(action):
        try:
            core.step(action)
        finally:
            core.step(core.sample_actions())

    tag = make_core("SimpleTag-v0", 2, "cpu", seed=0, continuous_actions=True)
    tag.reset()
    subjects = [
        Subject("reset", core.reset),
        Subject("step", step),
        Subject("continuous step", tag.step),
        Subject("random_rollout", core.random_rollout),
        Subject("capture", core.capture, {"play": core.sample_actions}),
        Subject("record", lambda envs: core.record_episodes(envs).close()),
        Subject("set_state", core.set_state),
        Subject("check_state", core.check_state),
        Subject("set_state", put, {}, ("params", "io.seed", "io.step", "io.alive", "state.pos")),
        Subject("set_params", core.set_params, {}, ("good_size", "nothing")),
        Subject("get_params", core.get_params),
        Subject("frame", core.render_frames, {"size": 8}),
        Subject(
            "TrailRenderer",
            lambda **arguments: TrailRenderer(core, **{"size": 8, **arguments}),
            {},
            ("envs", "size", "trails"),
        ),
    ]
    tell(itertools.chain.from_iterable(map(faults, subjects)))


def test_views_accept_or_raise_a_library_error():
    batched = gpu_envs.make(**TAG, seed=0)
    rows, pole_rows = RowsEnv(**ROWS, seed=0), RowsEnv(**{**ROWS, "env_id": "CartPole-v1", "group": None}, seed=0)
    view, learner = ParallelView("SimpleTag-v0", seed=0), SingleAgentEnv("SimpleTag-v0", "agent_0", seed=0)
    pole = SingleAgentEnv("CartPole-v1")
    for env in (batched, rows, pole_rows, view, learner, pole):
        env.reset()
    fair = batched.sample_actions()
    acts = dict.fromkeys(view.possible_agents, 0)

    def optional(env, *names):
        def reset(**options):
            env.reset(options=options)

        return Subject(f"{type(env).__name__}.reset options", reset, {}, (*names, "foreign"))

    def picture(mode):
        with contextlib.closing(gpu_envs.make(**TAG, render_mode=mode)) as env:
            env.reset()
            env.render()

    subjects = [
        Subject("batched.reset", used(batched, batched.reset), {}, ("seed", "options", "reset_mask")),
        optional(batched, "reset_mask"),
        Subject("batched.step", used(batched, batched.step), {}, ("actions",)),
        Subject(
            "batched.step of one", lambda **actions: batched.step({**fair, **actions}), {}, ("agent_0", "agent_99")
        ),
        Subject("rows.reset", rows.reset),
        optional(rows, "reset_mask"),
        optional(pole_rows, "reset_mask", "low", "high"),
        Subject("rows.step", rows.step),
        Subject("rows.set_opponents", rows.set_opponents),
        Subject("ParallelView.reset", view.reset),
        optional(view, "reset_mask", "options"),
        Subject("ParallelView.step", view.step),
        Subject("ParallelView.step of one", lambda **a: view.step({**acts, **a}), {}, ("agent_0", "agent_99")),
        Subject("SingleAgentEnv.reset", learner.reset),
        optional(pole, "low", "high"),
        Subject("SingleAgentEnv.step", learner.step),
        Subject("render", picture),
    ]
    tell(itertools.chain.from_iterable(map(faults, subjects)))


@pytest.mark.parametrize("name", wrappers.__all__)
def test_wrappers_accept_or_raise_a_library_error(name):
    kind = getattr(wrappers, name)
    env = RowsEnv(**{**ROWS, "env_id": "MountainCarContinuous-v0", "group": None}, seed=0)
    usual = {
        "RescaleAction": {"min_action": -1, "max_action": 1},
        "RescaleObservation": {"min_obs": 0, "max_obs": 1},
        "ClipReward": {"min_reward": 0},
        "FrameStackObservation": {"stack_size": 2},
    }.get(name, {})

    def make(**arguments):
        wrapper = kind(**{"env": env, **arguments})
        wrapper.reset(seed=0)
        wrapper.step(wrapper.unwrapped.sample_actions() * 0)

    messages = list(faults(Subject(name, make, usual, tuple(inspect.signature(kind).parameters))))
    wrapper = kind(env, **usual)
    wrapper.reset()
    tell([*messages, *faults(Subject(f"{name}.step", wrapper.step)), *faults(Subject(f"{name}.reset", wrapper.reset))])
