"""Lines of Warp code about the bodies of a scene: their places, sizes, and choices by row."""

import math
import re
from collections.abc import Callable, Sequence

from warp_kernels.physics2d.bodies import BodyRows, Box, Disc, Line, Number, half, value

KINDS = {Box: "box", Line: "line", Disc: "disc"}
"""Names of shapes, in the order of the arguments of functions for two shapes."""


def kind_of(rows: BodyRows) -> str:
    """Return the name of the shape of bodies."""
    return KINDS[type(rows.body.shape)]


def rank_of(rows: BodyRows) -> int:
    """Return the place of the shape of bodies among the arguments of a function for two shapes."""
    return list(KINDS).index(type(rows.body.shape))


def angle_row(rows: BodyRows, row: str) -> str:
    """Return code of the row of `rot` of the body in a row."""
    offset = rows.first - rows.first_angle
    return f"{row} - {offset}" if offset else row


def unit(rows: BodyRows, row: str) -> str:
    """Return code of the unit vector along a body."""
    if rows.body.has_angle:
        return f"direction(state.rot[env, {angle_row(rows, row)}])"
    angle = rows.body.angle or 0.0
    return f"wp.vec2({math.cos(angle)!r}, {math.sin(angle)!r})"


def place(rows: BodyRows, row: str, with_hollow: bool = False) -> str:
    """Return code of the arguments that describe a body: center, unit vector and half sizes, or center and radius."""
    shape, center = rows.body.shape, f"state.pos[env, {row}]"
    if isinstance(shape, Disc):
        return f"{center}, {value(shape.radius)}"
    if isinstance(shape, Line):
        return f"{center}, {unit(rows, row)}, {half(shape.length)}"
    hollow = f", {int(shape.is_hollow)}" if with_hollow else ""
    return f"{center}, {unit(rows, row)}, wp.vec2({half(shape.length)}, {half(shape.width)}){hollow}"


def anchor(rows: BodyRows, row: int, share: tuple[float, float]) -> str:
    """Return code of the offset of an anchor from the center of a body."""
    shape = rows.body.shape
    if share == (0.0, 0.0):
        return "wp.vec2(0.0, 0.0)"
    if isinstance(shape, Disc):
        sizes = [value(shape.radius)] * 2
    else:
        sizes = [half(shape.length), half(shape.width) if isinstance(shape, Box) else 0.0]
    offset = ", ".join(f"{part} * {size}" for part, size in zip(map(float, share), sizes, strict=True))
    return f"turned(wp.vec2({offset}), {unit(rows, str(row))})"


def product(number: float, over: Number) -> str:
    """Return code of a number divided by another one."""
    return f"({number!r} / {over})" if isinstance(over, str) else repr(number / over)


def by_rows(rows: Sequence[BodyRows], row: str, lines_of: Callable[[BodyRows], list[str]]) -> list[str]:
    """Return lines that run for the body in a row: those of its `BodyRows`."""
    lines: list[str] = []
    blocks = [(it, lines_of(it)) for it in rows if it.body.count]
    for index, (it, block) in enumerate(blocks):
        is_last = index == len(blocks) - 1
        word = ("if" if index == 0 else "elif") + f" {row} < {it.end}:"
        lines.append("else:" if is_last and index else "if True:" if is_last else word)
        lines += [f"    {line}" for line in block or ["pass"]]
    if lines[:1] == ["if True:"]:
        return [line[4:] for line in lines[1:]]
    return lines


def touched_arrays(lines: Sequence[str], actions: str) -> dict[str, str]:
    """Return the declarations `reads` and `writes` of a phase made of lines; ``actions`` is what a throttle reads."""
    reads, writes = set(), set()
    for line in lines:
        written = re.match(r"\s*state\.(\w+)\[[^\]]*\] = (.*)", line)
        if written:
            writes.add(written[1])
        reads |= set(re.findall(r"state\.(\w+)\[", written[2] if written else line))
    if any("throttle(" in line for line in lines):
        reads.add(actions)
    return {"reads": " ".join(sorted(reads)), "writes": " ".join(sorted(writes))}
