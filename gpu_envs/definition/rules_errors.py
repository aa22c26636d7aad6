"""Errors of an author's rules: functions that do not fit their place, and those that Warp cannot compile."""

import ast
import os
import re
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import warp as wp

import warp_kernels
from gpu_envs.errors import RulesError
from warp_kernels import episode, philox
from warp_kernels.framework.recorded_launch import record_launch
from warp_kernels.framework.unrolling import has_break
from warp_kernels.rules import AGENT, WORLD, Phase, Rules
from warp_kernels.rules_source import CompileTimeValues, rules_functions

FRAMEWORK = str(Path(warp_kernels.__file__).parent / "framework")
"""Folder of the functions that call an author's."""
WARP = str(Path(wp.__file__).parent)
"""Folder of Warp."""
DECLARATION_ERRORS = (
    wp.WarpCodegenError,
    wp.WarpCodegenTypeError,
    wp.WarpCodegenAttributeError,
    wp.WarpCodegenKeyError,
    wp.WarpCodegenValueError,
)
"""Errors of Warp about a function or a struct that it cannot use."""
_FRAME = re.compile(r'Error while parsing function "(?P<function>.*?)" at (?P<place>.*?:\d+):\n(?P<line>.*?)\n;', re.S)
"""A call in a message of Warp, which lists them from the kernel to the function with the error."""
_DIAGNOSIS = re.compile(r"^(?P<file>.*?\.cpp):(?P<line>\d+):\d+: error: (?P<reason>.*)$", re.M)
"""An error of the compiler in the C++ that Warp has written."""
_HINTS = {
    "type 'void'": "the called function returns no value",
    "wp::array_t<": "expected a number, got an array; index all of its axes",
}
"""What errors of the compiler mean, by a part of them."""
_SOURCE = re.compile(r"// (?P<code>.*?) *<L (?P<line>\d+)>")
"""Comment of Warp in its C++ with a line of the author."""


@cache
def check_functions(rules: Rules) -> None:
    """Check that every function of the rules is a Warp function with the arguments that it is called with.

    Functions that they call are checked, too: one that returns a value must not end without, because Warp would return
    an undefined number; and none uses a buffer of masks or turns of rules without them, which has no memory.

    Raises:
        RulesError: Naming the function, its file and line, and what is expected.
    """
    integer, stream = wp.int32, philox.Stream
    state, io = rules.argument(rules.state), rules.argument(episode.IO)
    world = {"params": rules.params, "state": state, "io": io, "env": integer}
    agent, item = world | {"agent": integer}, world | {"item": integer}
    memory = {"params": rules.params, "state": state, "env": integer}
    member = memory | {"agent": integer}
    arguments: dict[str | int, dict[str, Any]] = {WORLD: world, AGENT: agent}
    functions = {
        "observe": (rules.observe, agent),
        "observe_slot": (rules.observe_slot, agent | {"slot": integer}),
        "legal": (rules.legal, agent),
        "global_state": (rules.global_state, agent),
        "forget": (rules.forget, member),
        "stake": (rules.stake, member),
        "reset": (rules.reset, memory | {"rng": stream}),
        "reset_agent": (rules.reset_agent, member | {"rng": stream}),
    }
    for name, phases in (("phases", rules.phases), ("build_grid", rules.build_grid)):
        for number, phase in enumerate(phases):
            slot = f"{name}[{number}]"
            if not isinstance(phase, Phase):
                raise RulesError(
                    f"{rules.key}: {slot}: expected a phase, got {_named(phase)}; use agent_phase(...), "
                    "world_phase(...) or item_phase(count, ...)"
                )
            functions[slot] = (phase.run, arguments.get(phase.over, item))
    for slot, (function, expected) in functions.items():
        if function is not None or slot == "observe":
            _check_function(rules, slot, function, expected)
    for function in rules_functions(rules):
        _check_returns(function)
        _check_buffers(rules, function)


def _check_returns(function: Any) -> None:
    """Raise a RulesError if a function returns a value in some of its branches, and ends without one in others."""
    definition = function.adj.tree.body[0]
    returns = [node for node in ast.walk(definition) if isinstance(node, ast.Return) and node.value is not None]
    if returns and not _always_returns(definition.body, CompileTimeValues(function)):
        raise RulesError(
            f"{function.adj.filename}:{_definition_line(function)}, {function.adj.fun_name}: expected a return value "
            "in every branch, got an end of the function without one; add a return at its end"
        )


def _always_returns(body: Sequence[ast.stmt], names: CompileTimeValues) -> bool:
    """Return whether a block of statements never ends without a return."""
    for statement in body:
        if isinstance(statement, ast.Return):
            return True
        if isinstance(statement, ast.If):
            condition = names.value(statement.test)  # wp.static(...) selects a branch
            branches = [statement.body, statement.orelse]
            if isinstance(condition, int):
                branches = branches[:1] if condition else branches[1:]
            if all(_always_returns(branch, names) for branch in branches):
                return True
        if isinstance(statement, ast.While) and names.value(statement.test) and not has_break(statement.body):
            return True
    return False


def _check_buffers(rules: Rules, function: Any) -> None:
    """Raise a RulesError if a function uses a buffer that is empty with these rules: a write would be out of bounds."""
    flags = {"action_mask": "masked", "to_move": "turn_based"}
    names = CompileTimeValues(function)
    ios = [name for name, kind in function.adj.arg_types.items() if kind in (episode.IO, wp.ref[episode.IO])]
    queue: list[ast.AST] = list(function.adj.tree.body[0].body)
    while queue:
        node = queue.pop(0)
        condition = names.value(node.test) if isinstance(node, ast.If) else None
        if isinstance(node, ast.If) and isinstance(condition, int):  # wp.static(...) selects a branch
            queue[:0] = node.body if condition else node.orelse
            continue
        queue[:0] = ast.iter_child_nodes(node)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ios:
            flag = flags.get(node.attr)
            if flag is not None and not getattr(rules, flag):
                line = function.adj.fun_lineno + node.lineno - 1
                raise RulesError(
                    f"{function.adj.filename}:{line}, {function.adj.fun_name}: io.{node.attr}: expected "
                    f"Rules({flag}=True), got False; without it there is no such buffer"
                )


def _check_function(rules: Rules, slot: str, function: Any, arguments: dict[str, Any]) -> None:
    """Raise a RulesError unless a function of the rules is a Warp function with these arguments."""
    if not isinstance(function, wp.Function):
        raise RulesError(
            f"{rules.key}: {slot}: expected a Warp function, got {_named(function)}; decorate it with @wp.func"
        )
    types = [_plain_type(kind) for name, kind in function.adj.arg_types.items() if name != "return"]
    if len(types) != len(arguments) or any(
        kind is not Any and kind != expected for kind, expected in zip(types, arguments.values(), strict=False)
    ):
        signature = ", ".join(f"{name}: {_type_name(kind)}" for name, kind in arguments.items())
        declared = ", ".join(
            f"{name}: {_type_name(_plain_type(kind))}"
            for name, kind in function.adj.arg_types.items()
            if name != "return"
        )
        raise RulesError(
            f"{function.adj.filename}:{_definition_line(function)}, {function.adj.fun_name}: "
            f"expected the arguments of {slot} ({signature}), got ({declared})"
        )


def _plain_type(kind: Any) -> Any:
    """Return Warp's type of an annotation."""
    return {int: wp.int32, float: wp.float32, bool: wp.bool}.get(kind, kind)


def _type_name(kind: Any) -> str:
    """Return the name of a type as an author writes it."""
    names = {wp.int32: "int", wp.float32: "float", wp.bool: "bool"}
    return names.get(kind) or getattr(kind, "key", None) or getattr(kind, "__name__", str(kind))


def _named(value: Any) -> str:
    """Return kind and name of a value that is no Warp function."""
    key = getattr(value, "__name__", None) or getattr(value, "key", "").rpartition("__")[2]
    return f"{type(value).__name__} {key}" if key else repr(value)


def _definition_line(function: Any) -> int:
    """Return the line of the file with the ``def`` of a Warp function."""
    definition = function.adj.tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    return function.adj.fun_lineno + definition.lineno - 1


def record_kernel(
    kernel: Any, dim: int | Sequence[int], inputs: Sequence[Any], device: Any, block_dim: int | None = None
) -> Any:
    """Record a launch, see :func:`warp_kernels.framework.recorded_launch.record_launch`, and compile its module.

    Raises:
        RulesError: Warp cannot compile the kernel; the message begins with file, line and function of the author's
            code. Its cause is Warp's error.
    """
    try:
        return record_launch(kernel, dim, inputs, device, block_dim)
    except Exception as error:
        message = str(error.args[0]) if error.args else ""
        if _FRAME.search(message):
            raise RulesError(_explain(message)) from error
        if "kernel build failed" in message:
            diagnosis = _explain_cpp(_compiler_output(kernel, device))
            raise RulesError(diagnosis or f"{kernel.key}: {message}; the compiler's messages are above") from error
        raise


@contextmanager
def named_errors() -> Iterator[None]:
    """Raise errors of Warp about a declaration, such as a missing annotation, with the place of the author's code.

    Raises:
        RulesError: Beginning with file, line and function of the code that runs within the block.
    """
    try:
        yield
    except DECLARATION_ERRORS as error:
        frames = traceback.extract_tb(error.__traceback__)
        frame = [frame for frame in frames if not frame.filename.startswith(WARP)][-1]
        raise RulesError(f"{frame.filename}:{frame.lineno}, {frame.name}: {_sentence(str(error))}") from error


def _explain(message: str) -> str:
    """Return an error of Warp as one line that begins with the author's function."""
    frames = list(_FRAME.finditer(message))
    reason = _sentence(message[frames[-1].end() :])
    written = [frame for frame in frames if not frame["place"].startswith(FRAMEWORK)] or frames[-1:]
    last = written[-1]
    calls = "".join(f", called by {frame['function']} ({frame['place']})" for frame in reversed(written[:-1]))
    return f"{last['place']}, {last['function']}: {reason}; the line is: {last['line'].strip()}{calls}"


def _sentence(reason: str) -> str:
    """Return Warp's reason without its lead-in, and with names as the author writes them."""
    text = " ".join(reason.split()).removeprefix("Error, ").removeprefix("Error ").rstrip(".")
    return re.sub(r"\b\w+__locals__(\w+)", r"\1", text)


def _compiler_output(kernel: Any, device: Any) -> str:
    """Return what the compiler writes to file descriptor 2, at any log level, when a module is compiled again."""
    kernel.module.mark_modified()  # Warp would otherwise raise its recorded error
    with tempfile.TemporaryFile() as output:
        stderr = os.dup(2)
        os.dup2(output.fileno(), 2)
        try:
            with suppress(Exception):  # raised before; this time its output counts
                wp.load_module(kernel.module, device)
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
        output.seek(0)
        return output.read().decode(errors="replace")


def _explain_cpp(output: str) -> str:
    """Return the first error of a compiler as one line that begins with the author's function; "" if there is none."""
    diagnosis = _DIAGNOSIS.search(output)
    if diagnosis is None:
        return ""
    lines = Path(diagnosis["file"]).read_text(encoding="utf-8").splitlines()[: int(diagnosis["line"])]
    comments = [comment for comment in map(_SOURCE.search, reversed(lines)) if comment]
    headers = (re.match(r"// (.*\.py):\d+$", line) for line in reversed(lines))
    file = next((header[1] for header in headers if header), "")
    function = next((match[1] for comment in comments if (match := re.match(r"def (\w+)\(", comment["code"]))), "")
    if not comments:
        return ""
    reason = next((hint for word, hint in _HINTS.items() if word in diagnosis["reason"]), diagnosis["reason"])
    return f"{file}:{comments[0]['line']}, {function}: {reason}; the line is: {comments[0]['code'].strip()}"
