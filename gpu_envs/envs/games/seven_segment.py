"""Numbers in pictures, of seven strokes a digit, as on a pocket calculator."""

import torch

from gpu_envs.rendering import Colour, Values, lines

_CORNERS = ((-0.5, 1.0), (0.5, 1.0), (-0.5, 0.0), (0.5, 0.0), (-0.5, -1.0), (0.5, -1.0))
_STROKES = ((0, 1), (1, 3), (3, 5), (4, 5), (2, 4), (0, 2), (2, 3))  # a to g, as data sheets name them
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
"""From one sign to the next, in heights; a 1 and a point take less."""


def numbers(
    centres: torch.Tensor, values: torch.Tensor, width: float, height: float, colour: Colour, alpha: Values = 1.0
) -> torch.Tensor:
    """Numbers to three places: shape rows (W, N 8 C, 10), for the C signs of the longest.

    Args:
        centres: (W, N, 2) middles [world units].
        values: (W, N).
        width: Of the longest number, at most [world units].
        height: Of a digit, at most [world units].
        colour: It broadcasts to (W, N, 3).
        alpha: It broadcasts to (W, N).
    """
    worlds, count = values.shape
    texts = [[_text(value) for value in row] for row in values.tolist()]
    longest = max(len(text) for row in texts for text in row)
    height = min(height, width / (ADVANCE * longest))
    lit = torch.zeros((worlds, count, longest, 8))
    place = torch.zeros((worlds, count, longest))
    for world, row in enumerate(texts):
        for index, text in enumerate(row):
            at = 0.0
            for sign, letter in enumerate(text):
                wide = NARROW if letter in ".1" else ADVANCE
                place[world, index, sign] = at + 0.5 * wide - 0.25 * (letter == "1")  # its strokes are on the right
                at += wide
                for stroke in _LIT[letter]:
                    lit[world, index, sign, "abcdefg".index(stroke)] = 1.0
                lit[world, index, sign, 7] = letter == "."
            place[world, index] -= 0.5 * at
    device = centres.device
    corners = torch.tensor(_CORNERS) * 0.5
    ends = corners[torch.tensor(_STROKES)]  # (7, 2, 2)
    ends = torch.cat([ends, torch.tensor([[[0.0, -0.5], [0.0, -0.5]]])])  # the point
    offsets = ends.expand(worlds, count, longest, 8, 2, 2).clone()
    offsets[..., 0] += place[..., None, None]
    points = centres[:, :, None, None, None] + height * offsets.to(device)
    shape = (worlds, count, longest * 8)
    shown = lit.to(device).flatten(2) * torch.as_tensor(alpha, device=device).expand(worlds, count)[..., None]
    tint = torch.as_tensor(colour, dtype=torch.float32, device=device).expand(worlds, count, 3)
    starts, stops = (points[..., end, :].reshape(worlds, -1, 2) for end in (0, 1))
    tints = tint[:, :, None].expand(*shape, 3).flatten(1, 2)
    return lines(starts, stops, 0.14 * height, tints, shown.flatten(1))


def _text(value: float) -> str:
    text = f"{value + 0.0:.3g}"  # -0 is 0
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text
