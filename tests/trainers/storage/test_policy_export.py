"""Policies without their training: `trainers.load_policy` and programs of torch.export."""

import subprocess
import sys

import pytest
import torch
from gymnasium import spaces
from toy_core import Identity

import trainers
from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError, MissingExtraError
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.cli.export import export_command
from trainers.config.train_config import TrainConfig
from trainers.models.action_heads import action_spec, make_head
from trainers.models.networks import Network
from trainers.models.normalization import ObservationNormalizer
from trainers.models.policy import GreedyPolicy, Policy
from trainers.runner.trainer import Trainer
from trainers.storage.policy_export import export_policy

TINY = PPOConfig(rollout_length=4, num_epochs=1, num_minibatches=1, hidden_sizes=(8,))


def train(out, env_id, **changes):
    settings = {"num_envs": 4, "total_steps": 64, "eval_episodes": 0, "num_threads": 1, "learner": TINY, **changes}
    Trainer(TrainConfig(env_id, **settings), out).run()
    return out


def policy_for(space, **body):
    config = PPOConfig(hidden_sizes=(8,), **body)
    action = action_spec(space)
    head, spec = make_head(action), {**config.spec(5), "action": action}
    actor = Network(spec, head.num_params, 3.0, torch.Generator().manual_seed(1))  # it cares for what it sees
    policy = Policy(spec, ObservationNormalizer(5), actor, head)
    policy.normalizer.update(3 * torch.randn((100, 5), generator=torch.Generator().manual_seed(2)) + 1)
    return policy


@pytest.mark.parametrize(
    "space", [spaces.Discrete(3), spaces.MultiDiscrete([2, 3]), spaces.Box(-2, 2, (2,))], ids=["one", "many", "box"]
)
def test_exported_policy_returns_the_actions_of_the_policy(space, tmp_path):
    policy = policy_for(space)
    export_policy(policy, tmp_path / "p.pt2")
    program = torch.export.load(tmp_path / "p.pt2").module()
    for size in (1, 5, 300):
        obs = 3 * torch.randn((size, 5))
        action, parameters = program(obs)
        assert torch.allclose(action, policy.act(obs, greedy=True))
        assert torch.allclose(parameters, policy.actor(policy.normalizer(obs)))
    assert len(program(3 * torch.randn(300, 5))[0].unique(dim=0)) > 1
    assert ("net.head.log_std" in torch.export.load(tmp_path / "p.pt2").state_dict) == isinstance(space, spaces.Box)


@pytest.mark.variations
@pytest.mark.parametrize("masked", [True, False])
def test_exported_recurrent_policy_returns_its_hidden_state(masked, tmp_path):
    policy = policy_for(spaces.Discrete(3), network="gru")
    signature = export_policy(policy, tmp_path / "p.pt2", masked=masked)
    takes = "obs (N, 5), mask (N, 3), hidden_state (N, 8)" if masked else "obs (N, 5), hidden_state (N, 8)"
    assert signature == f"{takes} -> action (N) int64, parameters, next_hidden_state"
    program = torch.export.load(tmp_path / "p.pt2").module()
    hidden_state, memory = torch.zeros(16, 8), policy.initial_hidden_state(16)
    arguments = {"mask": torch.tensor([True, False, True]).expand(16, 3)} if masked else {}
    for _ in range(5):
        obs = 3 * torch.randn((16, 5))
        action, _, hidden_state = program(obs, **arguments, hidden_state=hidden_state)
        assert torch.equal(action, policy.act(obs, arguments.get("mask"), greedy=True, hidden_state=memory))
        assert torch.allclose(hidden_state, memory, atol=1e-6)


def test_module_of_a_policy_shares_its_weights_and_gives_its_actions():
    policy = policy_for(spaces.Discrete(3))
    module, obs = policy.module(), 3 * torch.randn((64, 5))
    assert dict(module.named_parameters()).keys() == {f"net.{name}" for name, _ in policy.net.named_parameters()}
    action, logits = module(obs)
    assert torch.equal(action, policy.act(obs, greedy=True))
    module.requires_grad_()
    module(obs)[1].sum().backward()
    assert all(weight.grad is not None for weight in policy.actor.parameters())
    assert torch.equal(logits.argmax(1), action)


def test_export_to_onnx_without_it_names_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match="an export to ONNX needs onnx: pip install "):
        export_policy(policy_for(spaces.Discrete(3)), tmp_path / "p.onnx")
    assert list(tmp_path.iterdir()) == []


def test_exported_policy_takes_image_observations(tmp_path):
    policy = policy_for(spaces.Discrete(3), network="cnn", image=(1, 2, 2), conv_filters=(4,))
    export_policy(policy, tmp_path / "p.pt2")
    obs = 3 * torch.randn((64, 5))
    action = torch.export.load(tmp_path / "p.pt2").module()(obs)[0]
    assert torch.equal(action, policy.act(obs, greedy=True))


def test_exported_policy_takes_legal_actions_only(tmp_path):
    policy = policy_for(spaces.Discrete(3))
    signature = export_policy(policy, tmp_path / "p.pt2", masked=True)
    assert signature == "obs (N, 5), mask (N, 3) -> action (N) int64, parameters"
    obs, mask = 3 * torch.randn((64, 5)), torch.nn.functional.one_hot(torch.arange(64) % 3, 3).bool()
    action, parameters = torch.export.load(tmp_path / "p.pt2").module()(obs, mask=mask)
    assert action.tolist() == [i % 3 for i in range(64)]
    assert torch.equal(policy.act(obs, greedy=True), parameters.argmax(1))


def test_different_actions_of_the_program_raise_an_error(tmp_path, monkeypatch):
    wrong = policy_for(spaces.Box(-2, 2, (2,)))
    forward = GreedyPolicy.forward
    monkeypatch.setattr(GreedyPolicy, "forward", lambda self, obs: (forward(self, obs)[0] + 0.1, obs.clone()))
    with pytest.raises(GpuEnvsError, match=r"p\.pt2: the exported program returns other values"):
        export_policy(wrong, tmp_path / "p.pt2")


def test_command_exports_a_policy_by_name(tmp_path, capsys):
    run = train(tmp_path / "run", "SimpleTag-v0")
    file = tmp_path / "new" / "policy.pt2"
    for error, message, argv in [
        (CheckpointError, "expected a policy among adversary, agent, got no name$", [str(file)]),
        (CheckpointError, "expected a policy among adversary, agent, got 'x'$", [str(file), "--policy", "x"]),
        (
            ConfigError,
            "--output: expected a file name that ends in .pt2 or .onnx, got .*policy.h5",
            [str(tmp_path / "policy.h5")],
        ),
        (ConfigError, f"{tmp_path}: expected a file, got a folder", [str(tmp_path)]),
        (CheckpointError, "env_id: expected CartPole-v1, got SimpleTag-v0", [str(file), "--env-id", "CartPole-v1"]),
    ]:
        with pytest.raises(error, match=message) as caught:
            export_command([str(run), "--output", *argv])
        assert "\n" not in str(caught.value)
    assert not file.parent.exists()
    assert export_command([str(run), "--output", str(file), "--policy", "agent"]) == 0
    assert "agent of " in capsys.readouterr().out
    policy = trainers.load_policy(run, "agent")
    obs = torch.randn((9, policy.obs_width))
    assert torch.equal(torch.export.load(file).module()(obs)[0], policy.act(obs, greedy=True))


def test_command_exports_a_mask_input_if_actions_can_be_illegal(tmp_path, capsys):
    run = train(tmp_path / "run", "TicTacToe-v0", sharing="all")
    assert export_command([str(run), "--output", str(tmp_path / "p.pt2")]) == 0
    assert "mask (N, 9) -> action (N) int64" in capsys.readouterr().out


def test_load_policy(tmp_path):
    config = TrainConfig("Identity", num_envs=4, total_steps=64, eval_episodes=0, learner=TINY)
    Trainer(config, tmp_path, None, lambda config, num_envs, seed: Identity(num_envs, seed=seed)).run()
    policy = trainers.load_policy(str(tmp_path), "odd", seed=4)
    obs = torch.eye(3).repeat(10, 1)
    restored = trainers.load_policy(tmp_path / "checkpoints" / "000000004", "odd", seed=4)
    assert torch.equal(policy.act(obs), restored.act(obs))
    for name, text in ((None, "no name"), ("x", "'x'")):
        with pytest.raises(CheckpointError, match=f"000000004: expected a policy among even, odd, got {text}$"):
            trainers.load_policy(tmp_path, name)
    (tmp_path / "checkpoints" / "000000004" / "policy-odd.safetensors").write_bytes(b"x")
    with pytest.raises(CheckpointError, match=r"policy-odd\.safetensors: expected sha256 .* \(damaged\)"):
        trainers.load_policy(tmp_path, "odd")
    assert trainers.load_policy(tmp_path, "even")  # nothing else is read


def test_loading_a_policy_needs_no_training_code(tmp_path):
    run = train(tmp_path / "run", "CartPole-v1")
    code = """
import sys, trainers
assert "torch" not in sys.modules
policy = trainers.load_policy(sys.argv[1])
import torch
assert policy.act(torch.zeros(2, 4)).shape == (2,)
heavy = {"tyro", "tensorboard", "matplotlib", "imageio", "trainers.runner.trainer",
"trainers.algorithms.on_policy.ppo", "trainers.cli.train"}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code, str(run)], check=True)


def test_trainers_has_no_other_names():
    with pytest.raises(AttributeError, match="no attribute 'load_polcy'"):
        trainers.load_polcy  # noqa: B018
