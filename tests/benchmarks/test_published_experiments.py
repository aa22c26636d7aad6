"""Published experiments: their part of docs/learning.md, and the scores of other programs in their files."""

import pytest
import yaml

from benchmarks.experiments import publish
from benchmarks.hardware.page_files import PART, filled


def file_of(name):
    return yaml.safe_load((publish.FILES / f"{name}.yaml").read_text())


@pytest.mark.slow
def test_page_equals_the_recorded_evaluations(tmp_path):
    parts = {name: publish.section(name, tmp_path) for name in publish.names()}
    assert filled(publish.PAGE, parts) == publish.PAGE.read_text(), "python -m benchmarks.experiments.publish"
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in publish.FIGURES.iterdir()}


def test_zoo_on_the_page_is_that_of_the_package():
    assert filled(publish.PAGE, {"zoo": publish.zoo()}) == publish.PAGE.read_text()


def test_all_parts_of_the_page_are_written():
    assert {name for _, name, _ in PART.findall(publish.PAGE.read_text())} == {*publish.names(), "zoo"}


@pytest.mark.parametrize("name", publish.names())
def test_recorded_runs_are_those_of_the_file(name):
    file, rows = file_of(name), publish.evaluations(name)
    assert {row["task"] for row in rows} <= file["tasks"].keys()
    assert {row["algorithm"] for row in rows} <= {*file["algorithms"], *file.get("baselines", ())}
    trained = [row for row in rows if row["algorithm"] in file["algorithms"]]
    assert {row["seed"] for row in trained} == {*range(file["seeds"])}


def test_page_of_an_environment_links_to_the_comparison_of_its_algorithms():
    assert "a2c" in publish.algorithms_on("CartPole-v1")["classic_control"]
    assert publish.algorithms_on("PatrolTheDragon-v0") == {}
