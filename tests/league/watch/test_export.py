"""Tests of the exported page: it holds every answer, is bounded, and is written as a whole."""

import json
import shutil
from pathlib import Path

import pytest
from toy_league import digests
from watch_runs import ask

from gpu_envs.errors import ConfigError
from league.cli.watch import watch_command
from league.watch import export as exporting
from league.watch.api import rollout_path

PAGE = '<!doctype html><html><head><script>"</body>"</script></head><body><p>stand-in</p></body></html>'


@pytest.fixture
def page(tmp_path, monkeypatch) -> Path:
    path = tmp_path / "index.html"
    path.write_text(PAGE, encoding="utf-8")
    monkeypatch.setattr(exporting, "PAGE", path)
    return path


@pytest.mark.parametrize("kind", ["training", "league"])
def test_export_holds_every_answer(kind, request, page, tmp_path, watched, capsys):
    path, file = request.getfixturevalue(kind), tmp_path / "new" / "run.html"
    contents = digests(path)
    assert watch_command([str(path), "--export", str(file)]) == 0
    assert digests(path) == contents
    html = file.read_text(encoding="utf-8")
    head, script, tail = html.partition('<script type="application/json" id="recorded">')
    text, _, end = tail.partition("</script>")
    start, report, tables = head.partition('<section id="report">')
    assert bool(report) == (kind == "league")
    assert (start + tables.rpartition("</section>\n")[2] + end.lstrip("\n")) == PAGE
    assert script
    answers, api = json.loads(text), watched(path)
    answers_of_run = answers["api/run"]
    for name in ("run", "metrics", *(["league"] if kind == "league" else [])):
        assert answers.pop(f"api/{name}") == ask(api, name)
    usual = ask(api, "run")["latest"]
    latest = tuple(usual[seat["role"]] for seat in ask(api, "run")["seats"])
    assert answers_of_run["state"] == "finished"
    assert next(iter(answers)) == rollout_path(latest, 0, 4)
    assert len(answers) >= 4
    for question, answer in answers.items():
        assert answer == ask(api, "rollout", question.partition("?")[2])
    size = f"{file.stat().st_size / 1e6:.1f} MB"
    assert f"{file}: {size}" in capsys.readouterr().out
    assert not [entry for entry in tmp_path.iterdir() if entry not in (file.parent, page)]
    assert [*file.parent.iterdir()] == [file]


def test_export_is_bounded_and_cannot_end_its_script_element(training, page, tmp_path, watched, monkeypatch):
    monkeypatch.setattr(exporting, "MAX_BYTES", 1)
    api = watched(training)
    api.latest.get()[0].answers["run"]["note"] = "</script><script>"
    assert exporting.export(api, tmp_path / "run.html") == (1, [])
    html = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert html.count("</script>") == 2
    assert json.loads(html.partition('id="recorded">')[2].partition("</script>")[0])["api/run"]["note"]


def test_export_leaves_out_removed_checkpoints(training, page, tmp_path, watched):
    path = Path(shutil.copytree(training, tmp_path / "copy"))
    api = watched(path)
    shutil.rmtree(path / "checkpoints" / "000000002")
    played, (line, *_) = exporting.export(api, tmp_path / "run.html")
    assert played >= 2
    assert "000000002" in line


def test_export_needs_a_built_page(training, page, tmp_path, watched):
    page.write_text("<html>")
    with pytest.raises(ConfigError, match="expected a page with a body that ends"):
        exporting.export(watched(training), tmp_path / "run.html")
    page.unlink()
    with pytest.raises(ConfigError, match="the viewer's page is not there; build it"):
        exporting.export(watched(training), tmp_path / "run.html")
    with pytest.raises(ConfigError, match=f"--export {tmp_path}: expected a file, got a folder"):
        watch_command([str(training), "--export", str(tmp_path)])


def test_rollout_paths_are_encoded_as_by_the_page():
    assert rollout_path(("a b", "c,d/é"), 7, 2) == "api/rollout?policies=a%20b,c%2Cd%2F%C3%A9&seed=7&worlds=2"
