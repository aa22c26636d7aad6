"""Seven-segment digits for rendering numbers."""

import torch

from gpu_envs.rendering.scene import Color, Values, lines

_CORNERS = ((-0.5, 1.0), (0.5, 1.0), (-0.5, 0.0), (0.5, 0.0), (-0.5, -1.0), (0.5, -1.0))
_STROKES = ((0, 1), (1, 3), (3, 5), (4, 5), (2, 4), (0, 2), (2, 3))  # segments a to g
_LIT = {
    **dict(
        zip(
            "0123456789",
            ("abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg"),
            strict=True,
        )
    ),
    "-": "g",
    "e": "adefg",
    ".": "",
    "+": "",
}
ADVANCE, NARROW = 0.85, 0.45
"""Advance per character, in heights; NARROW is for a 1 and a point."""


def numbers(
    centers: torch.Tensor,
    values: torch.Tensor,
    width: float,
    height: float,
    color: Color,
    alpha: Values = 1.0,
    *,
    largest: float = 0.0,
) -> torch.Tensor:
    """Return numbers with three significant digits as shape rows (W, N * C * 8, 10), C characters each.

    C is the length of the longest number. The scenes of an environment need equally many shapes in all frames: give the
    largest value if values change.

    Args:
        centers: Centers (W, N, 2) [world units].
        values: Numbers (W, N).
        width: Maximum width of a number [world units].
        height: Maximum height of a digit [world units].
        color: Color, broadcasts to (W, N, 3).
        alpha: Opacity, broadcasts to (W, N).
        largest: Number that is as long as the longest one of all frames.
    """
    worlds, count = values.shape
    texts = [[_text(value) for value in row] for row in values.tolist()]
    longest = max(len(text) for row in [[_text(largest)], *texts] for text in row)
    height = min(height, width / (ADVANCE * longest))
    lit = torch.zeros((worlds, count, longest, 8))
    shift = torch.zeros((worlds, count, longest))
    for world, row in enumerate(texts):
        for index, text in enumerate(row):
            at = 0.0
            for sign, letter in enumerate(text):
                wide = NARROW if letter in ".1" else ADVANCE
                shift[world, index, sign] = (
                    at + 0.5 * wide - 0.25 * (letter == "1")
                )  # the segments of a 1 are on the right
                at += wide
                for stroke in _LIT[letter]:
                    lit[world, index, sign, "abcdefg".index(stroke)] = 1.0
                lit[world, index, sign, 7] = letter == "."
            shift[world, index] -= 0.5 * at
    device = centers.device
    corners = torch.tensor(_CORNERS) * 0.5
    ends = corners[torch.tensor(_STROKES)]  # (7, 2, 2)
    ends = torch.cat([ends, torch.tensor([[[0.0, -0.5], [0.0, -0.5]]])])  # the point
    offsets = ends.expand(worlds, count, longest, 8, 2, 2).clone()
    offsets[..., 0] += shift[..., None, None]
    points = centers[:, :, None, None, None] + height * offsets.to(device)
    shape = (worlds, count, longest * 8)
    opacity = lit.to(device).flatten(2) * torch.as_tensor(alpha, device=device).expand(worlds, count)[..., None]
    tint = torch.as_tensor(color, dtype=torch.float32, device=device).expand(worlds, count, 3)
    starts, stops = (points[..., end, :].reshape(worlds, -1, 2) for end in (0, 1))
    tints = tint[:, :, None].expand(*shape, 3).flatten(1, 2)
    return lines(starts, stops, 0.14 * height, tints, opacity.flatten(1))


def digit_strokes(digit: str) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Return the strokes of a digit of height 1 around (0, 0), each as two points."""
    points = [(0.5 * x, 0.5 * y) for x, y in _CORNERS]
    ends = (_STROKES["abcdefg".index(stroke)] for stroke in _LIT[digit])
    return [(points[start], points[stop]) for start, stop in ends]


def _text(value: float) -> str:
    text = f"{value + 0.0:.3g}"  # -0 is 0
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text
