"""Search spaces of settings, such as `NAME=loguniform(1e-4,1e-2)` on the command line.

    loguniform(a,b)    a number between a and b with uniform logarithm; 0 < a < b.
    uniform(a,b)       a number between a and b.
    randint(a,b)       an integer from a to b, b included.
    choice(x,y,...)    one of the values.
    grid(x,y,...)      every value; the other settings are sampled for each.

Values are JSON, such as true, null or [64,64]; words need no quotes.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import parse_value
from trainers.config.train_config import TrainConfig, changed

FIELDS = ("num_envs", "seed", "sharing")
"""Fields of `TrainConfig` that can be searched, in addition to all settings of the learners."""
ALLOWED_OVERRIDES = (
    "num_envs", "seed", "sharing", "eval_episodes", "eval_opponents", "patience", "deterministic", "precision",
    "matmul_precision", "num_threads", "cuda_graph", "engine",
)  # fmt: skip
"""Fields of `TrainConfig` that --train-overrides can set, in addition to all settings of the learners."""
RANGES = ("loguniform", "uniform", "randint")  # spaces with two bounds
LISTS = ("choice", "grid")  # spaces of given values
COMBINATIONS = 2_000
"""Largest number of combinations of bounds and values that are checked before the search starts."""
_FORM = f"expected one of {', '.join(f'{kind}(a,b)' for kind in RANGES)}, choice(x,y,...), grid(x,y,...)"


@dataclass(frozen=True)
class Space:
    """Search space of one setting."""

    kind: str
    """Kind of space, in `RANGES` or `LISTS`."""
    values: tuple[Any, ...]
    """Lower and upper bound of a range, both included; all values of a list."""
    source: Any = None
    """Object of Ray Tune that defined the space, if any."""

    @property
    def numbers(self) -> bool:
        """Whether all values are numbers."""
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.values)

    def domain(self, library: Any) -> Any:
        """Return the space as an object of Ray Tune; `library` is the module `ray.tune`."""
        if self.source is not None:
            return self.source
        if self.kind == "randint":
            return library.randint(self.values[0], self.values[1] + 1)
        if self.kind == "grid":
            return library.grid_search(list(self.values))
        return library.choice(list(self.values)) if self.kind == "choice" else getattr(library, self.kind)(*self.values)

    def __str__(self) -> str:
        """Return the form on the command line."""
        return f"{self.kind}({','.join(json.dumps(value) for value in self.values)})"


def parse(text: str) -> Space:
    """Parse a space; raise ConfigError if the text is not valid."""
    match = re.fullmatch(r"\s*([a-z]+)\s*\((.*)\)\s*", text, re.DOTALL)
    if match is None or match[1] not in RANGES + LISTS:
        raise ConfigError(f"search: {text}: {_FORM}")
    kind, values = match[1], tuple(_value(part, text) for part in _parts(match[2], text))
    if kind in LISTS:
        return Space(kind, values)
    is_integer = kind == "randint"
    expected = "whole numbers" if is_integer else "numbers"
    if len(values) != 2 or not all(_is_number(value, is_integer) for value in values):
        raise ConfigError(f"search: {text}: expected two {expected}, {kind}(a,b)")
    low, high = values
    if not (low < high and (kind != "loguniform" or low > 0)):
        raise ConfigError(f"search: {text}: expected {'0 < ' if kind == 'loguniform' else ''}a < b")
    return Space(kind, values if is_integer else (float(low), float(high)))


def parse_all(pairs: Iterable[str]) -> dict[str, Space]:
    """Parse `NAME=SPACE` pairs into spaces by setting; raise ConfigError for the first invalid pair."""
    spaces: dict[str, Space] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not (name and equals):
            raise ConfigError(f"--search {pair}: expected NAME=SPACE, such as learner.entropy_coef=uniform(0,0.01)")
        if name in spaces:
            raise ConfigError(f"--search {pair}: {name} is searched twice; give it once")
        spaces[name] = parse(text)
    return spaces


def space(name: str, entry: Any) -> Space:
    """Return a space from text, or from an object of Ray Tune: a bounded range, a choice or a grid.

    Raises:
        ConfigError: The argument is something else.
    """
    if isinstance(entry, Space):
        return entry
    if isinstance(entry, str):
        return parse(entry)
    if isinstance(entry, Mapping) and set(entry) == {"grid_search"}:
        return Space("grid", tuple(_frozen(value) for value in entry["grid_search"]))
    kind, low, high = type(entry).__name__, getattr(entry, "lower", None), getattr(entry, "upper", None)
    if kind == "Categorical":
        return Space("choice", tuple(_frozen(value) for value in getattr(entry, "categories", ())), entry)
    if kind == "Integer" and low is not None and high is not None:
        return Space("randint", (low, high - 1), entry)
    if kind == "Float" and low is not None and high is not None and math.isfinite(low) and math.isfinite(high):
        return Space("uniform", (float(low), float(high)), entry)
    raise ConfigError(f"search: {name}: expected text, or a range with ends, choice or grid of Ray Tune's, got {entry}")


def check(config: TrainConfig, spaces: Mapping[str, Space]) -> None:
    """Check that every setting exists and allows the values of its space.

    Bounds of ranges and values of lists are checked in all combinations, because settings can depend on each other.

    Raises:
        ConfigError: A setting or value is not valid.
    """
    if not spaces:
        raise ConfigError("search: expected a setting to search, got none; such as learner.entropy_coef=choice(0,0.01)")
    tried = (space.values for space in spaces.values())
    for values in itertools.islice(itertools.product(*tried), COMBINATIONS):
        changed(config, dict(zip(spaces, values, strict=True)), "search", FIELDS)


def clip_to_space(spaces: Mapping[str, Space]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that clips perturbed settings to the bounds of their ranges."""
    ends = {name: (*space.values, space.kind == "randint") for name, space in spaces.items() if space.kind in RANGES}

    def back(settings: dict[str, Any]) -> dict[str, Any]:
        for name, (low, high, is_integer) in ends.items():
            value = min(max(settings[name], low), high)
            settings[name] = round(value) if is_integer else float(value)
        return settings

    return back


def _parts(inside: str, text: str) -> Sequence[str]:
    """Split text at the commas that are outside of lists and strings."""
    parts, depth, quoted = [""], 0, False
    for i, letter in enumerate(inside):
        quoted ^= letter == '"' and inside[i - 1 : i] != "\\"
        depth += 0 if quoted else (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    if quoted or depth or not all(part.strip() for part in parts):
        raise ConfigError(f"search: {text}: expected values with commas between them")
    return parts


def _value(part: str, text: str) -> Any:
    word = part.strip()
    value = parse_value(word)
    if value == word and not re.fullmatch(r"[A-Za-z_][\w.-]*", word):  # no JSON
        raise ConfigError(f"search: {text}: expected numbers, words or JSON, got {word}")
    return value


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _is_number(value: Any, is_integer: bool) -> bool:
    kinds = int if is_integer else int | float
    return isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)
