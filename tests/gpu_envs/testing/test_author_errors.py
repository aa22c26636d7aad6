"""Errors in an author's code are reported with file, line and function of this code, whichever library finds them."""

import re

import pytest
from planted import ENV_ID, fault_line, planted_source, register_planted

import gpu_envs
from gpu_envs.cli import main
from gpu_envs.errors import ConfigError, RulesError

EAT = "            reward = float(0.0)\n"
END = "            finally:\n                pass\n"
MOVE = "def move(params: Params, state: State, io: IO, env: int, agent: int):"
CLAMP = "    return wp.clamp(cell, 0, length)"
USE = "clamped(state.cell[env, agent] + step, params.length)"
slow = pytest.mark.slow

COMPILE_ERRORS = {
    "field of State": ("- 0.02", "- state.enrgy[env, agent]", "move", "`enrgy` is not an attribute of 'state'"),
    "parameter": ("reward = params.gain", "reward = params.gian", "eat", "`gian` is not an attribute of 'params'"),
    "buffer": ("io.reward[env, agent] = reward", "io.rewards[env, agent] = reward", "eat", "`rewards` is not an"),
    "types": ("agent] - 0.02", "agent] - 1", "move", r"must be the same, got \['float32', 'int32'\]"),
    "stored type": ("agent] - 0.02", "agent] = step", "move", "."),
    "overload": (USE, USE.replace("length", "gain"), "move", "overload for 'clamped' that matched .* float32"),
    "number of arguments": (USE, USE.replace(", params.length", ""), "move", "overload for 'clamped' that matched"),
    "helper": (CLAMP, CLAMP.replace("clamp", "clmp"), "clamped", r"wp.clmp .* called by move \(.*rules.py:\d+\)"),
    "type of a result": (CLAMP, CLAMP + " + 0.5", "clamped", r"\['int32', 'float32'\]"),
    "missing result": (CLAMP, CLAMP.replace("return ", ""), "move", "the called function returns no value"),
    "undefined name": ("choice = int(io.choice[env, agent, 0])", "choice = cell", "move", "undefined symbol: cell"),
    "undefined function": (USE, USE.replace("clamped", "clampd"), "move", "undefined symbol: clampd"),
    "unsupported statement": (
        EAT,
        f"            try:\n    {EAT}            finally:\n                pass\n",
        "eat",
        "Try",
    ),
    "unsupported value": (EAT, EAT + "            odd = {'a': 1}\n", "eat", "`ast.Dict` not supported"),
    "library of the host": (EAT, EAT.replace("float", "np.float32"), "eat", "undefined symbol: np"),
    "too many indices": ("== state.food[env]:", "== state.food[env, agent]:", "eat", "got 2 indices for a 1 dim"),
    "too few indices": ("== state.food[env]:", "== state.food:", "eat", "expected a number, got an array"),
}
QUICK = ("field of State", "parameter", "helper", "types", "missing result")


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[slow] * (kind not in QUICK)) for kind in COMPILE_ERRORS])
def test_compile_error_begins_with_the_authors_line(tmp_path, monkeypatch, kind):
    old, new, function, reason = COMPILE_ERRORS[kind]
    line = fault_line("walk", old, new)
    if kind == "missing result":  # found where the result is used
        line = fault_line("walk", USE, "")
    register_planted(monkeypatch, tmp_path, "walk", (old, new))
    core = gpu_envs.make(ENV_ID).core
    with pytest.raises(RulesError, match=reason) as caught:
        core.reset()
    start = rf"{re.escape(str(tmp_path))}/rules\.py:(\d+), {function}: "
    match = re.match(start, str(caught.value))
    assert match, str(caught.value)
    assert abs(int(match[1]) - line) <= (kind == "unsupported value")  # the change adds a line
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        (MOVE, MOVE.replace("io: IO, ", ""), True, r"move: expected the arguments of phases\[0\] \(params: Params, .*"
         r"io: IO, env: int, agent: int\), got \(params: Params, state: State, env: int, agent: int\)"),
        (MOVE, MOVE.replace("agent: int", "agent: float"), True, r"move: .*got \(.*agent: float\)"),
        ("agent: int, rng: philox.Stream", "rng: philox.Stream", True, "reset_agent: .* rng: Stream"),
        (CLAMP, f"    if cell > 0:\n    {CLAMP}", False, "clamped: expected a return value in every branch"),
        (MOVE, "def move(params, state, io, env, agent):", False, "Incomplete argument annotations on function move"),
        (f"    @wp.func\n    {MOVE}", f"    {MOVE}", False, r"phases\[0\]: expected a Warp function, got function m"),
        ("phases=(agent_phase(move),", "phases=(move,", False, r"phases\[0\]: expected a phase, got Function move"),
        ("observe=observe,", "observe=None,", False, "observe: expected a Warp function, got None"),
    ],
)  # fmt: skip
def test_function_that_does_not_fit_its_place_is_named(tmp_path, monkeypatch, old, new, line, words):
    register_planted(monkeypatch, tmp_path, "walk", (old, new))
    with pytest.raises(RulesError, match=words) as caught:
        gpu_envs.make(ENV_ID)
    if line:
        start = f"{tmp_path}/rules.py:{fault_line('walk', old, new)}, "
        assert str(caught.value).startswith(start), str(caught.value)


@pytest.mark.parametrize(
    ("old", "buffer", "words"),
    [
        ("        masked=True,\n        turn_based=True,\n", "to_move", "turn_based=True"),
        ("        turn_based=True,\n", "to_move", "turn_based=True"),
        ("        masked=True,\n", "action_mask", "masked=True"),
    ],
    ids=["neither", "masks alone", "turns alone"],
)
def test_buffer_that_the_rules_do_not_have_is_refused_with_its_line(tmp_path, monkeypatch, old, buffer, words):
    register_planted(monkeypatch, tmp_path, "turns", (old, ""))
    line = 1 + next(i for i, text in enumerate(planted_source("turns").splitlines()) if f"io.{buffer}[" in text)
    start = re.escape(f"{tmp_path}/rules.py:{line}, observe: io.{buffer}: expected Rules({words}), got False")
    with pytest.raises(RulesError, match=f"^{start}"):
        gpu_envs.make(ENV_ID)


def test_global_state_without_a_width_is_refused(tmp_path, monkeypatch):
    width = next(line for line in planted_source("walk").splitlines(keepends=True) if "global_state_size=" in line)
    register_planted(monkeypatch, tmp_path, "walk", (width, ""))
    with pytest.raises(ConfigError, match=r"global_state_size: expected the width of the rows .*, got 0"):
        gpu_envs.make(ENV_ID)


@pytest.mark.parametrize(
    "body",
    [
        f"    if wp.static(1 < 2):\n    {CLAMP}\n    if wp.static(1 >= 2):\n    {CLAMP}",
        f"    while True:\n        if cell > 0:\n        {CLAMP}\n        cell += 1",
        f"    if cell > 0:\n    {CLAMP}\n    else:\n    {CLAMP}",
    ],
    ids=["wp.static", "endless loop", "else"],
)
def test_function_that_never_ends_without_a_return_is_accepted(tmp_path, monkeypatch, body):
    register_planted(monkeypatch, tmp_path, "walk", (CLAMP, body))
    gpu_envs.make(ENV_ID)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"gain": 0.05', '"gian": 0.5', "params: no field of Params named 'gian'; did you mean gain"),
        ('"gain": 0.05', '"gain": "much"', "params: gain: expected a float of 32 bits, got 'much'"),
        ('"length": LENGTH, ', "", "params: expected an entry for Params.length, got none"),
        ('"length": LENGTH', '"length": 4.5', "params: length: expected an int, got 4.5"),
        ('"length": LENGTH', '"length": 2**40', "params: length: expected an int of 32 bits, got 1099511627776"),
        ("gain: float", "gain: wp.vec2", "Params.gain: expected a field that is a float or an int, got vec2f"),
        ('"energy": (count,)', '"enrgy": (count,)', "state: no field of State named 'enrgy'; did you mean energy"),
        ('"energy": (count,)', '"energy": ()', r"State.energy: expected a shape of 1 axes .*, got \(\)"),
        ('info={"meals": "meals"}', 'info={"meals": "meal"}', "info: meals: no field of State named 'meal'"),
        ('info={"meals": "meals"}', 'info={"meals": "food"}', r"info: meals: .* per agent \(3, ...\), got food \(\)"),
        ("        global_state_size=", '        initial={"food": np.zeros(2)},\n        global_state_size=',
         r"initial: food: expected the shape \(\), got \(2,\)"),
    ],
)  # fmt: skip
def test_definition_that_does_not_fit_its_structs_is_named(tmp_path, monkeypatch, old, new, words):
    register_planted(
        monkeypatch, tmp_path, "walk", (old, new), ("import warp as wp", "import numpy as np\nimport warp as wp")
    )
    with pytest.raises(ConfigError, match=words):
        gpu_envs.make(ENV_ID)


@pytest.mark.parametrize("command", [["check"], ["train", "--total-steps", "64"]])
def test_commands_print_the_authors_line_first(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    register_planted(monkeypatch, tmp_path, "walk", ("- 0.02", "- state.enrgy[env, agent]"))
    name, *options = command
    assert main([name, ENV_ID, *options]) == 2
    line = fault_line("walk", "- 0.02", "- state.enrgy[env, agent]")
    start = f"gpu-envs: error: {tmp_path}/rules.py:{line}, move: `enrgy` is not an attribute of 'state'"
    assert capsys.readouterr().err.splitlines()[-1].startswith(start)


def test_error_of_a_users_module_is_reported_with_its_own_line(tmp_path, monkeypatch, capsys):
    """Warp raises it, deep in its own files."""
    (tmp_path / "spoiled.py").write_text("import warp as wp\n\n@wp.struct\nclass State:\n    cell: str\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["check", "spoiled:Spoiled-v0"]) == 2
    assert f"({tmp_path}/spoiled.py, line 3)" in capsys.readouterr().err
