"""The tutorial is followed to the letter, in an empty folder: write, check, break, test, train, use."""

import ast
import io
import json
import os
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

from docs.scripts import notebook
from gpu_envs.cli import main
from gpu_envs.cli.new import TEMPLATES, written

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "write_an_environment.md"
TEXT = PAGE.read_text(encoding="utf-8")


def blocks(kind):
    """Return the code blocks of a language, in order."""
    return [block.code for block in notebook.blocks(TEXT, kind)]


def code_lines(source):
    """Return the number of lines without blank lines, comments and docstrings."""
    documented = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            documented |= set(range(node.lineno, node.end_lineno + 1))
    silent = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type not in silent]
    return len({line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - documented)


def test_pages_say_how_many_lines_an_environment_has():
    sources = [written("meet")[name] for name in ("rules.py", "__init__.py")]
    lines, code = sum(len(source.splitlines()) for source in sources), sum(map(code_lines, sources))
    assert f"in two files of {lines} lines, {code} of them code;" in TEXT
    environments = (PAGE.parents[1] / "environments.md").read_text(encoding="utf-8")
    assert f"two files with {code} lines of code." in environments


@pytest.mark.slow
@pytest.mark.parametrize("template", TEMPLATES)
def test_environment_of_a_template_passes_its_test(template, tmp_path):
    """Its test contains all checks of `gpu-envs check`."""
    assert main(["new", "own_game", "--template", template, "--folder", str(tmp_path)]) == 0
    paths = os.pathsep.join([str(PAGE.parents[2]), str(tmp_path)])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "own_game"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_template_has_the_same_files_and_its_names(template):
    files = written("own_game", template)
    assert list(files) == ["rules.py", "__init__.py", "test_own_game.py", "README.md"]
    for file, text in files.items():
        assert "OwnGame" in text
        assert "$" not in text
        if file.endswith(".py"):
            ast.parse(text)


@pytest.mark.slow
@pytest.mark.optimized  # trains, which takes many steps
def test_commands_of_the_tutorial_run(tmp_path):
    def run(command, code=0):
        words = command.split()
        program = {"gpu-envs": [str(Path(sys.executable).with_name("gpu-envs"))], "python": [sys.executable]}[words[0]]
        paths = os.pathsep.join(filter(None, (str(PAGE.parents[2]), os.environ.get("PYTHONPATH"))))
        done = subprocess.run(
            [*program, *words[1:]],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    commands = [line for block in blocks("sh") for line in block.splitlines()]
    assert [command.split()[1] for command in commands] == ["new", "check", "check", "-m", "train"]
    new, check, debug, test, train = commands
    run(new)
    of_files = [block for block in blocks("python") if block.startswith(("# file: ", "# change in: "))]
    rules, _, change, use, ship = of_files
    path = tmp_path / "meet" / "rules.py"
    assert path.read_text() == rules.removeprefix("# file: meet/rules.py\n")
    run(check)
    original, after = change.removeprefix("# change in: meet/rules.py\n").split("# to\n")
    assert original in rules
    path.write_text(path.read_text().replace(original, after))
    assert " ".join(blocks("text")[0].split()) in " ".join(run(check, code=2).split())
    path.write_text(rules.removeprefix("# file: meet/rules.py\n"))
    run(debug)
    assert "2 passed" in run(test)
    run(f"{train} --no-video --eval-episodes 64 --run-dir out/meet")
    random, trained = json.loads((tmp_path / "out/meet/cross_play.json").read_text())["matchups"]
    assert random["policies"] == {"walker": "random"}
    assert trained["returns"]["walker"]["mean"] > random["returns"]["walker"]["mean"] + 50
    (tmp_path / "use_meet.py").write_text(use)
    run("python use_meet.py")
    original, after = map(str.strip, ship.removeprefix("# change in: meet/__init__.py\n").split("# to\n"))
    path = tmp_path / "meet" / "__init__.py"
    assert original in path.read_text()
    path.write_text(path.read_text().replace(original, after))
    assert "gamma: 0.95" in run(f"{train} --print-config")
    assert "other: scripted" in run("gpu-envs eval out/meet --opponents scripted --allow-import meet")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["Meet"], "small letters"),
        (["json"], "a module of this name"),
        (["simple_tag"], "SimpleTag-v0 is taken"),
        ([], "expected NAME, got none"),
    ],
)
def test_invalid_names_print_one_line(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "my_own_game", "--folder", "games"]) == 0
    (tmp_path / "games" / "my_own_game" / "rules.py").write_text("mine")
    assert main(["new", "my_own_game", "--folder", "games"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "games" / "my_own_game" / "rules.py").read_text() == "mine"


def test_missing_module_prints_an_error(capsys):
    assert main(["check", "nowhere_at_all:Meet-v0"]) == 2
    assert "No module named 'nowhere_at_all'" in capsys.readouterr().err
