"""Tutorials run as in a notebook kernel, have the required parts, and something runs each.

`make docs` runs the cells of those that the site executes, and fails with them.
"""

import re
import shlex
import traceback
from pathlib import Path

import pytest

from docs.scripts import notebook
from trainers.cli.options import parse_train

TESTS = Path(__file__).parents[1]
RUN = [path for path in notebook.notebooks() if notebook.executed(path)]
OTHERS = [path for path in notebook.notebooks() if path not in RUN]
PAGE = """---
mystnb:
  execution_mode: 'off'
---

# A page

```{code-cell} ipython3
:tags: [hide-input]

one = 1
print("first", one)
```

<!-- printed -->
```text
stale
```
<!-- end -->

```python
raise AssertionError("only shown")
```

```{code-cell} ipython3
:tags: [remove-output]
two = one + 1
print("second", two)
```
"""


def name(path):
    return str(path.relative_to(notebook.TUTORIALS).with_suffix(""))


# ---------------------------------------------------------------- how a page is run


def test_cells_share_a_namespace_and_other_blocks_are_only_shown(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert notebook.run(page)["two"] == 2
    assert not notebook.executed(page)


def test_errors_name_the_line_of_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("two = one + 1", "two = one + 1\nthree = nothing"))
    with pytest.raises(NameError) as error:
        notebook.run(page)
    last = traceback.extract_tb(error.value.__traceback__)[-1]
    assert (last.filename, last.line) == (str(page), "three = nothing")


def test_printed_output_follows_its_cell_once(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    expected = PAGE.replace("stale", "first 1")
    for _ in range(2):
        page.write_text(notebook.printed(page))
        assert page.read_text() == expected
    page.write_text(re.sub(r"<!-- printed -->.*<!-- end -->\n\n", "", PAGE, flags=re.DOTALL))
    assert notebook.printed(page) == expected


def test_page_without_cells_raises(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Nothing\n")
    with pytest.raises(AssertionError, match="no Python"):
        notebook.run(page)
    with pytest.raises(AssertionError, match="no section"):
        notebook.run(page, heading="Elsewhere")


def test_commands_of_cells_run(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("```{code-cell} ipython3\n!gpu-envs list\nprint(len('two'))\n```\n")
    notebook.run(page)
    out = capsys.readouterr().out
    assert "SimpleTag-v0" in out
    assert out.endswith("3\n")


@pytest.mark.parametrize(
    ("line", "error"), [("gpu-envs list --nonsense", "exit code 2"), ("rm -r out", "expected a command of gpu-envs")]
)
def test_failed_and_foreign_commands_stop_the_page(line, error, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"```{{code-cell}} ipython3\n!{line}\n```\n")
    with pytest.raises(RuntimeError, match=error):
        notebook.run(page)


# ---------------------------------------------------------------- the pages


def test_tutorials_show_commands_as_users_type_them():
    for path in notebook.notebooks():
        text = path.read_text(encoding="utf-8")
        for hidden in ("assert main(", "from gpu_envs.cli import main", "tempfile", "mkdtemp"):
            assert hidden not in text, f"{path.name}: {hidden}"


def test_every_tutorial_is_run():
    """It runs with the site, which stops at errors, or with the tests of its library; no test names a missing page."""
    site = (TESTS.parent / "docs" / "conf.py").read_text()
    assert 'nb_execution_mode = "force"' in site
    assert "nb_execution_raise_on_error = True" in site
    assert "nb_execution_excludepatterns" not in site
    tests = [path.read_text() for path in sorted((TESTS / "libraries").glob("test_*.py"))]
    named = set(re.findall(r'"(\w+)\.md"', "".join(text for text in tests if "notebook.run(" in text)))
    assert {path.stem for path in OTHERS} == {stem for stem in named if stem != "libraries"}
    assert len(RUN) >= 10


@pytest.mark.parametrize("path", notebook.notebooks(), ids=name)
def test_tutorials_have_the_required_beginning_and_end(path):
    """Tutorials state their result, duration and next step; they have outputs only if the site has none."""
    text = path.read_text(encoding="utf-8")
    opening = text.split("\n# ", 1)[1].split("\n## ")[0]
    assert "At the end you will" in opening
    assert re.search(r"minutes? to read", opening)
    assert "\n## " + text.rpartition("\n## ")[2].split("\n")[0] == "\n## Next steps"
    assert "name: python3" in text
    assert "<!-- printed -->" not in text or path in OTHERS


def test_training_commands_of_tutorials_are_valid():
    """The parser accepts every training command of a page."""
    lines = [line for path in notebook.notebooks() for line in path.read_text().splitlines()]
    command_lines = [line.removeprefix("!") for line in lines if re.match(r"!?gpu-envs train \w", line)]
    assert len(command_lines) >= 4
    for line in command_lines:
        assert parse_train(shlex.split(line)[2:])[0].env_id
