"""Pages with figures for newcomers: the README, the comparison of libraries and the performance page."""

import re
from pathlib import Path

import pytest

from benchmarks.pages import results
from docs.scripts import notebook, readme

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme_fits_on_two_screens():
    assert len(TEXT.splitlines()) <= 110
    assert "2 player" not in TEXT


def test_readme_begins_with_the_benefit_the_figure_and_the_picture():
    order = [
        "Fast multi-agent",
        "On two CPU cores",
        "docs/tag.webp",
        "**Hardware.**",
        "make train",
        "```python",
        "JaxMARL",
    ]
    assert [TEXT.index(part) for part in order[:-1]] == sorted(TEXT.index(part) for part in order[:-1])
    assert TEXT.index("nothing has run on a GPU yet") < TEXT.index("## Installation")


def test_example_is_short():
    example = notebook.blocks(TEXT, notebook.PYTHON)[0]
    lines = [line for line in example.code.splitlines() if line.strip() and not line.startswith(("import", "from"))]
    assert len(lines) <= 10


def test_example_with_fewer_worlds_prints_about_what_the_page_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert "num_envs=4096" in TEXT
    (tmp_path / "README.md").write_text(TEXT.replace("num_envs=4096", "num_envs=256"), encoding="utf-8")
    notebook.run(tmp_path / "README.md", notebook.PYTHON)
    expected, output = notebook.blocks(TEXT, "text")[0].code, capsys.readouterr().out
    number = r"\d+\.\d"
    assert re.sub(number, "", output) == re.sub(number, "", expected)
    values = [[float(value) for value in re.findall(number, text)] for text in (output, expected)]
    assert values[0] == pytest.approx(values[1], abs=0.5)


@pytest.mark.slow
@pytest.mark.optimized  # thousands of worlds
def test_example_prints_what_the_page_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    notebook.run(ROOT / "README.md", notebook.PYTHON)
    assert capsys.readouterr().out == notebook.blocks(TEXT, "text")[0].code


def test_headline_has_the_ratios_of_the_result_files():
    simulation, training = (float(ratio) for ratio in re.findall(r"([\d.]+) times", readme.headline())[:2])
    result = results.published_result()
    assert simulation <= results.pair(result, *readme.SIMULATION).ratio < simulation + 1
    assert training <= results.pair(result, *readme.TRAINING).ratio < training + 0.1


def test_headline_is_refused_if_another_library_is_faster(monkeypatch):
    real = results.pair
    monkeypatch.setattr(results, "pair", lambda *round_: real(*round_)._replace(other="VMAS"))
    with pytest.raises(AssertionError, match="the fastest library is VMAS"):
        readme.headline()


def test_ratios_are_rounded_down():
    assert [readme._times(ratio) for ratio in (26.97, 9.99, 2.748, 1.0)] == ["26", "9.9", "2.7", "1"]


def test_comparison_page_names_every_library_and_its_ratios():
    page = (ROOT / "docs" / "which_library.md").read_text(encoding="utf-8")
    for name in ("JaxMARL", "VMAS", "PettingZoo", "PufferLib", "EnvPool", "Isaac Lab"):
        section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
        assert "**Choose it**" in section
        assert "**Choose gpu-envs**" in section
    assert "\n## Limits of gpu-envs\n" in page
    assert readme.against() in page
