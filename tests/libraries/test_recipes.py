"""The recipes of docs/guides/libraries.md, with little training."""

import pytest

from docs.scripts import notebook

SECTIONS = ("RSL-RL", "CleanRL", "Minari")


@pytest.mark.parametrize("section", SECTIONS)
def test_recipe_of_the_page_runs(section, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    blocks = notebook.blocks(notebook.LIBRARIES.read_text(encoding="utf-8"), notebook.PYTHON, section)
    assert len(blocks) == 2
    space = {}
    for block in blocks:
        exec(compile(block.code.replace("learn(100,", "learn(2,"), section, "exec"), space)
    if section == "CleanRL":
        assert "episodic_return" in capsys.readouterr().out
    if section == "Minari":
        assert space["dataset"].total_episodes == 10
        assert space["again"].spec.max_episode_steps == 25
