"""Checkpoints: whole or absent, verified when read, pruned to the last ones and the best."""

import shutil

import pytest
import torch
from gymnasium import spaces

from gpu_envs.errors import CheckpointError
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.learner_spec import LearnerSpec
from trainers.base.serialization import write_json, write_tensors
from trainers.models.policy import Policy
from trainers.storage import checkpoint

STATE = {"a": torch.arange(6).view(2, 3), "flag": torch.tensor([True, False]), "count": 3, "name": "x"}


def policy(seed: int = 0) -> Policy:
    return PPO(PPOConfig(hidden_sizes=(8,)), LearnerSpec(4, spaces.MultiDiscrete([3, 2]), 2, 1, 10, seed=seed)).policy()


def save(folder, iteration=1, score=None, keep_last_checkpoints=3):
    config = {"env_id": "Toy-v0", "seed": 5}
    return checkpoint.save(
        folder, iteration, iteration * 10, config, STATE, {"main": policy()}, score, keep_last_checkpoints
    )


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_saved_checkpoint_is_loaded(tmp_path):
    path = save(tmp_path / "checkpoints", 7, score=1.5)
    for means in (path, path.parent, tmp_path):  # the checkpoint, their folder, the run
        loaded = checkpoint.load(means)
        assert (loaded.path, loaded.iteration, loaded.steps, loaded.score) == (path, 7, 70, 1.5)
        assert loaded.config == {"env_id": "Toy-v0", "seed": 5}
        assert loaded.state.keys() == STATE.keys()
        assert torch.equal(loaded.state["a"], STATE["a"])
        assert torch.equal(loaded.state["flag"], STATE["flag"])
        assert (loaded.state["count"], loaded.state["name"]) == (3, "x")


def test_policies_play_alike_after_a_round_trip(tmp_path):
    save(tmp_path)
    obs = torch.randn(50, 4, generator=torch.Generator().manual_seed(1))
    mine, loaded = policy(), checkpoint.load(tmp_path).policy("main")
    assert torch.equal(mine.act(obs, greedy=True), loaded.act(obs, greedy=True))
    mine.seed(3)
    loaded.seed(3)
    assert torch.equal(mine.act(obs), loaded.act(obs))
    with pytest.raises(CheckpointError, match="expected a policy among main, got 'other'"):
        checkpoint.load(tmp_path).policy("other")


def test_last_checkpoints_and_best_are_kept(tmp_path):
    for iteration, score in enumerate([0.1, 0.9, 0.2, None, 0.3, 0.4], start=1):
        save(tmp_path, iteration, score, keep_last_checkpoints=2)
    assert names(tmp_path) == ["000000002", "000000005", "000000006"]
    assert checkpoint.best(tmp_path) == tmp_path / "000000002"
    save(tmp_path, 7, 0.95, keep_last_checkpoints=2)
    assert names(tmp_path) == ["000000006", "000000007"]


def test_damaged_manifest_does_not_stop_the_run(tmp_path):
    for iteration, score in enumerate([0.9, 0.5, 0.1], start=1):
        save(tmp_path, iteration, score, keep_last_checkpoints=3)
    (tmp_path / "000000001" / "manifest.json").write_text("{")
    save(tmp_path, 4, 0.2, keep_last_checkpoints=1)
    assert checkpoint.best(tmp_path) == tmp_path / "000000002"
    assert names(tmp_path) == ["000000002", "000000004"]


def test_error_of_a_damaged_checkpoint_names_the_last_intact_one(tmp_path):
    for iteration in range(1, 5):
        save(tmp_path / "checkpoints", iteration, keep_last_checkpoints=4)
    for damaged, file in (("000000004", "manifest.json"), ("000000003", "state.safetensors")):
        (tmp_path / "checkpoints" / damaged / file).write_bytes(b"{")
    with pytest.raises(CheckpointError, match=r"4/manifest.json: .*; the last intact one before it is .*000000002$"):
        checkpoint.load(tmp_path)
    with pytest.raises(CheckpointError, match=r"3/state.safetensors: .*\(damaged\); .*000000002$"):
        checkpoint.load(tmp_path / "checkpoints" / "000000003")


def test_killed_write_leaves_the_previous_checkpoint(tmp_path, monkeypatch):
    save(tmp_path, 1)

    def killed(*_):
        raise KeyboardInterrupt

    for step in ("write_tensors", "write_json"):
        with monkeypatch.context() as patch:
            patch.setattr(checkpoint, step, killed)
            with pytest.raises(KeyboardInterrupt):
                save(tmp_path, 2)
        assert checkpoint.load(tmp_path).iteration == 1
    save(tmp_path, 2)  # also clears away what was left
    assert names(tmp_path) == ["000000001", "000000002"]


def test_writing_an_iteration_again_replaces_it(tmp_path):
    save(tmp_path, 1, score=1.0)
    save(tmp_path, 1, score=2.0)
    assert checkpoint.load(tmp_path).score == 2.0
    assert names(tmp_path) == ["000000001"]


@pytest.mark.parametrize("file", ["state.safetensors", "policy-main.safetensors", "policy-main.json"])
def test_error_names_a_damaged_file(tmp_path, file):
    path = save(tmp_path) / file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(CheckpointError, match=rf"{file}: expected sha256 \w+, got \w+ \(damaged\)$"):
        checkpoint.load(tmp_path)
    path.unlink()
    with pytest.raises(CheckpointError, match=f"{file}: expected a readable file, got No such file"):
        checkpoint.load(tmp_path)


# ---------------------------------------------------------------- replays

WITH_REPLAY = {**STATE, "learner.main.replay.obs": torch.arange(10.0), "learner.main.replay_filled": 10}


def save_replay(folder, iteration, score=None, keep_last_checkpoints=3):
    config = {"env_id": "Toy-v0", "seed": 5}
    policies = {"main": policy()}
    return checkpoint.save(
        folder, iteration, iteration * 10, config, WITH_REPLAY, policies, score, keep_last_checkpoints
    )


def replays(folder):
    return sorted(path.parent.name for path in folder.glob("*/replay.safetensors"))


def test_only_the_newest_checkpoint_has_a_replay(tmp_path):
    for iteration, score in enumerate([0.9, 0.1, 0.2, 0.3], start=1):
        path = save_replay(tmp_path, iteration, score, keep_last_checkpoints=2)
        assert replays(tmp_path) == [path.name]
    assert names(tmp_path) == ["000000001", "000000003", "000000004"]
    newest = checkpoint.load(tmp_path)
    assert torch.equal(newest.state["learner.main.replay.obs"], WITH_REPLAY["learner.main.replay.obs"])
    newest.check_resumable()
    older = checkpoint.load(tmp_path / "000000001")  # the best: what it learned is all there
    assert older.state.keys() == WITH_REPLAY.keys() - {"learner.main.replay.obs"}
    assert torch.equal(older.policy("main").actor.module.body[0].weight, policy().actor.module.body[0].weight)
    with pytest.raises(
        CheckpointError,
        match=r"000000001: only the newest .* resume from .*000000004 \(this",
    ):
        older.check_resumable()
    shutil.copytree(older.path, tmp_path / "elsewhere" / "000000001")
    with pytest.raises(
        CheckpointError, match=r"000000001: only the newest checkpoint keeps its replay; .* the newest of"
    ):
        checkpoint.load(tmp_path / "elsewhere" / "000000001").check_resumable()


@pytest.mark.parametrize("at", ["write_tensors", "write_json", "fsync_folder", "best", "shutil.rmtree"])
def test_newest_checkpoint_keeps_its_replay_after_a_kill(tmp_path, monkeypatch, at):
    save_replay(tmp_path, 1)
    (tmp_path / ".writing-1").mkdir()  # so that there is something to clear away

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        owner = checkpoint.shutil if "." in at else checkpoint
        patch.setattr(owner, at.rpartition(".")[2], killed)
        with pytest.raises(KeyboardInterrupt):
            save_replay(tmp_path, 2)
    newest = checkpoint.load(tmp_path)
    newest.check_resumable()
    assert "learner.main.replay.obs" in newest.state
    save_replay(tmp_path, 3)
    assert replays(tmp_path) == ["000000003"]


def test_full_disk_raises_an_operating_system_error(tmp_path):
    """A folder stands for what the file system refuses."""
    with pytest.raises(OSError, match=rf"{tmp_path}: cannot be written") as caught:
        write_tensors(tmp_path, {"a": torch.zeros(2)})
    assert "\n" not in str(caught.value)


def test_failed_json_write_leaves_no_file(tmp_path):
    (tmp_path / "table.json").mkdir()
    with pytest.raises(OSError, match="directory") as caught:
        write_json(tmp_path / "table.json", {})
    assert caught.value.filename == str(tmp_path / "table.json")
    assert names(tmp_path) == ["table.json"]
    with pytest.raises(TypeError):
        write_json(tmp_path / "other.json", {"a": object()})
    assert names(tmp_path) == ["table.json"]


def test_nothing_there_is_named(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(CheckpointError, match=f"{path}: expected a checkpoint, or a run .* got neither"):
            checkpoint.load(path)
