"""Result files: lines, digits and fields."""

import json

import pytest

from benchmarks.hardware.result_files import dumps, rounded
from benchmarks.pages import results
from benchmarks.throughput.target import BENCH, Figure

DATA = {"machine": {}, "parts": {"é": {"rows": [{"a": [1, 2.5]}, {"a": None}]}}}


def test_rows_of_the_outer_levels_have_a_line_each():
    assert dumps(DATA, levels=4) == (
        '{\n"machine":{},\n"parts":{\n"é":{\n"rows":[\n{"a":[1,2.5]},\n{"a":null}\n]\n}\n}\n}\n'
    )


@pytest.mark.parametrize("levels", range(7))
def test_every_layout_holds_the_same_data(levels):
    assert json.loads(dumps(DATA, levels)) == DATA


def test_floats_have_six_digits_and_integers_all_of_theirs():
    assert rounded({"a": [2593347.698, 0.123456789, 12345678]}) == {"a": [2593350.0, 0.123457, 12345678]}


def test_figures_without_their_default_fields_are_read_as_they_were():
    figures = [
        Figure("a", "s", None, note="absent"),
        Figure("b", "s", 0.0, 0.0, 1.5, target="<= 2", curve="c", at=1, along="worlds", row={"rate": 1.0}),
    ]
    entries = results.group("A title", "make bench", BENCH, 0.0, figures)["figures"]
    assert entries[0] == {"what": "a", "unit": "s", "value": None, "note": "absent"}
    assert [Figure(**entry) for entry in entries] == figures
