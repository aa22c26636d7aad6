"""The recipes of docs/guides/libraries.md, with little training."""

import shlex
import subprocess
import sys

import gymnasium
import minari
import onnx
import pytest
import torch
from gymnasium import spaces
from onnx.reference import ReferenceEvaluator

import gpu_envs  # noqa: F401 it registers the environments
from docs.scripts import notebook
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.models.action_heads import action_spec, make_head
from trainers.models.networks import Network
from trainers.models.normalization import ObservationNormalizer
from trainers.models.policy import Policy
from trainers.storage.policy_export import export_policy

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


def test_agents_of_openspiel_learn_from_whole_games():
    (block,) = notebook.blocks(notebook.LIBRARIES.read_text(encoding="utf-8"), notebook.PYTHON, "OpenSpiel's agents")
    space = {}
    exec(compile(block.code.replace("range(1000)", "range(60)"), "OpenSpiel", "exec"), space)
    assert sorted(space["state"].rewards) in ([-1, 1], [0, 0])
    for player in space["players"]:
        values = [value for actions in player._q_values.values() for value in actions.values()]
        assert min(values) < 0 < max(values)  # it has won and lost games


def test_command_of_rl_zoo_trains_with_the_file_of_the_page(tmp_path):
    page = notebook.LIBRARIES.read_text(encoding="utf-8")
    (settings,), (command,) = (notebook.blocks(page, kind, "RL Zoo") for kind in ("yaml", "sh"))
    (tmp_path / "cartpole.yml").write_text(settings.code)
    program, *words = shlex.split(command.code)
    assert program == "python"
    done = subprocess.run(
        [sys.executable, *words, "--n-timesteps", "512"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("logs/ppo/*/*.zip"))) == 1


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


@pytest.mark.parametrize(("network", "masked"), [("mlp", False), ("mlp", True), ("gru", True)])
def test_onnx_program_has_named_outputs_and_the_actions_of_the_policy(network, masked, tmp_path):
    action = action_spec(spaces.Discrete(3))
    head, spec = make_head(action), {**PPOConfig(hidden_sizes=(8,), network=network).spec(5), "action": action}
    actor = Network(spec, head.num_params, 3.0, torch.Generator().manual_seed(1))
    policy = Policy(spec, ObservationNormalizer(5), actor, head)
    text = export_policy(policy, tmp_path / "policy.onnx", masked)
    program = onnx.load(tmp_path / "policy.onnx").graph
    inputs = ["obs", *(["mask"] if masked else []), *(["hidden_state"] if network == "gru" else [])]
    outputs = ["action", "parameters", *(["next_hidden_state"] if network == "gru" else [])]
    assert [value.name for value in program.input] == inputs
    assert [value.name for value in program.output] == outputs
    assert text.endswith(", ".join(["parameters", *outputs[2:]]))
    obs = 3 * torch.randn((7, 5))
    mask = torch.tensor([True, False, True]).expand(7, 3)
    hidden_state = policy.initial_hidden_state(7)
    feeds = {"obs": obs, "mask": mask, "hidden_state": hidden_state}
    chosen = ReferenceEvaluator(str(tmp_path / "policy.onnx")).run(None, {name: feeds[name].numpy() for name in inputs})
    expected = policy.act(obs, mask if masked else None, greedy=True, hidden_state=hidden_state)
    assert chosen[0].tolist() == expected.tolist()
