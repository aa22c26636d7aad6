"""Commands without standard streams, in narrow terminals, in locales without "±", in a deleted folder."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_envs.cli import dispatch
from gpu_envs.cli.dispatch import MIN_COLUMNS, READABLE
from gpu_envs.utils.paths import utf8_name

ROOT = Path(__file__).parents[3]


def run_in_shell(words, prefix=""):
    """Run `gpu-envs` with words of a shell, such as redirections, after other commands; return exit code and output."""
    code = "import sys; from gpu_envs.cli import main; sys.exit(main())"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    command = ["bash", "-c", f'{prefix}"$0" -P -c "$1" {words}', sys.executable, code]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        ("list --ids >&-", 0, ""),
        ("nothing 2>&-", 2, ""),
        ("nothing <&- >&-", 2, "gpu-envs: error: no command named 'nothing'"),
        ("list --ids >/dev/full", 2, "gpu-envs: error: No space left on device\n"),
    ],
)
@pytest.mark.slow
def test_closed_or_full_streams_are_no_defect(words, code, error):
    ended = run_in_shell(words)
    assert ended[:2] == (code, "")
    assert ended[2].startswith(error)
    assert bool(ended[2]) == bool(error)


@pytest.mark.slow
def test_cache_of_kernels_that_cannot_be_made_names_the_variable():
    words = "bench CartPole-v1 --device cpu --num-envs 2 --seconds 0.1"
    code, out, error = run_in_shell(words, prefix="export WARP_CACHE_PATH=/dev/null/cache; ")
    assert (code, out) == (2, "")
    reason = "Warp caches compiled kernels there (Not a directory); set WARP_CACHE_PATH to another folder"
    assert error == f"gpu-envs: error: {reason}: /dev/null/cache\n"


@pytest.mark.slow
def test_deleted_working_folder_is_one_line(tmp_path):
    code, out, error = run_in_shell(
        "list --ids", prefix=f"mkdir '{tmp_path}/x'; cd '{tmp_path}/x'; rmdir '{tmp_path}/x'; "
    )
    assert (code, out) == (2, "")
    assert error.startswith(
        "gpu-envs: error: the working folder cannot be used (No such file or directory); change to "
    )
    assert len(error.splitlines()) == 1


def test_narrow_terminal_has_the_layout_of_a_wider_one(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "1")
    assert dispatch.main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= MIN_COLUMNS + 20, "a column of ids is never cut"
    assert [line for line in lines if line.startswith("CartPole-v1 ")]
    with pytest.raises(SystemExit) as stop:
        dispatch.main(["list", "--help"])
    assert stop.value.code == 0


@pytest.mark.parametrize(
    ("text", "encoding", "written"),
    [
        ("3 ± 1…", "ascii", b"3 +- 1..."),
        ("3 ± 1", "latin-1", b"3 \xb1 1"),
        ("é 世", "ascii", b"e \\u4e16"),
        ("r\udce9", "utf-8", b"r\xe9"),  # a file name that is no UTF-8 comes out as it is
        ("r\udce9", "ascii", b"r\xe9"),
    ],
)
def test_output_falls_back_to_ascii(text, encoding, written):
    assert text.encode(encoding, READABLE) == written


def test_command_prints_in_a_locale_without_its_characters(monkeypatch):
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setattr(dispatch, "run_command", lambda args: print("22.42 ± 1.32") or 0)
    assert dispatch.main(["eval"]) == 0
    assert output.buffer.getvalue() == b"22.42 +- 1.32\n"


def test_names_that_are_no_utf8_have_another_name(tmp_path):
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/r\xe9sum"))
    folder.mkdir()
    (folder / "file").write_text("3")
    with utf8_name(folder) as name:
        assert Path(name.encode("utf-8").decode(), "file").read_text() == "3"
    with utf8_name(tmp_path) as name:
        assert name == str(tmp_path)
