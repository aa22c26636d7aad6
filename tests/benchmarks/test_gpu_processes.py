"""Processes of the GPU report: what they print, crash and hang."""

import time

from part_processes import Clock, gone, run

from benchmarks.gpu import process


def test_all_lines_and_rows_of_a_part_are_read(tmp_path):
    outcome, rows, lines = run(tmp_path, "print('one'); print('ROW {\"a\": 1}'); print('ROW {\"a'); print('two')")
    assert (outcome.status, outcome.output) == ("done", ())
    assert (rows, lines) == ([{"a": 1}], ["one", 'ROW {"a', "two"])  # a row that was cut off is a line


def test_failed_part_returns_its_error(tmp_path):
    outcome, _, lines = run(tmp_path, "import sys; print('one', flush=True); sys.exit('no such library')")
    assert outcome.status == "failed (1): no such library"
    assert set(outcome.output) == {"one", "no such library"}  # two streams have no common order
    assert lines == ["one"]
    assert run(tmp_path, "import sys; sys.exit(3)")[0] == process.Outcome("failed (3): no output")


def test_crashed_part_returns_the_signal_and_the_place(tmp_path):
    outcome, *_ = run(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    assert outcome.status == "crashed: SIGSEGV"
    assert "Fatal Python error: Segmentation fault" in outcome.output
    assert '  File "<string>", line 2 in <module>' in outcome.output


SLEEPS = "import os, time; print(os.getpid()); print('sleeps', flush=True); time.sleep(60)"


def test_hanging_part_is_killed_with_its_children(tmp_path, monkeypatch):
    """Lines printed before the limit are kept, no process survives, and the place of the hang is known."""
    monkeypatch.setattr(process, "GRACE", 20.0)  # they end at once
    monkeypatch.setattr(process, "time", Clock(tmp_path / "log", "sleeps"))
    outcome, _, lines = run(
        tmp_path, f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEPS!r}]).wait()", 50.0
    )
    assert outcome.status == "cut after 50 s"
    assert any("subprocess.py" in line and "wait" in line for line in outcome.output)
    assert gone(lines[0])


def test_part_that_ignores_signals_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "GRACE", 0.3)
    monkeypatch.setattr(process, "time", Clock(tmp_path / "log", "ignores"))
    code = "import os, signal, time; signal.signal(signal.SIGABRT, signal.SIG_IGN)"
    outcome, _, lines = run(tmp_path, f"{code}; print(os.getpid()); print('ignores', flush=True); time.sleep(60)", 50.0)
    assert outcome.status == "cut after 50 s"
    assert gone(lines[0])


def test_ended_part_whose_child_keeps_the_output_open_is_done(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "GRACE", 0.3)
    start = time.monotonic()
    sleeper = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    outcome, _, lines = run(tmp_path, f"import subprocess, sys; print({sleeper}.pid, flush=True)", 500.0)
    assert outcome.status == "done"
    assert time.monotonic() - start < 300.0  # the child sleeps for 600
    assert gone(lines[0])
