"""The recipes of docs/guides/libraries.md, with little training."""

import gymnasium
import minari
import pytest

import gpu_envs  # noqa: F401 it registers the environments
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


def test_minari_records_only_the_agents_turns_with_skip_waiting(tmp_path, monkeypatch):
    """Player 1 of tic-tac-toe has two to four turns; the opponent's moves are no steps."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    game = gymnasium.make("gpu_envs/TicTacToe-v0", agent="player_1", skip_waiting=True)
    env = minari.DataCollector(game)
    for seed in range(5):
        _, info = env.reset(seed=seed)
        over = False
        while not over:
            assert info["to_move"]
            *_, terminated, truncated, info = env.step(env.action_space.sample(info["action_mask"]))
            over = terminated or truncated
    dataset = env.create_dataset("tic-tac-toe/random-v0", algorithm_name="random")
    assert {len(episode.rewards) for episode in dataset.iterate_episodes()} <= {2, 3, 4}
    assert dataset.recover_environment().unwrapped.skip_waiting
