"""Training in bfloat16: networks compute in it, weights, moments, losses and stored values stay float32."""

import dataclasses

import pytest
import torch

from trainers.algorithms import algorithm_specs
from trainers.algorithms.algorithm_specs import ALGORITHMS
from trainers.config.train_config import TrainConfig, autocast
from trainers.models.networks import Network, NetworkConfig
from trainers.runner.trainer import Trainer

SIZES = {"rollout_length": 8, "hidden_sizes": (8,), "learning_starts": 32, "batch_size": 8, "replay_size": 1000}
QUICK = [("SimpleTag-v0", "ppo", {}), ("SimpleTag-v0", "masac", {}), ("SimpleSpread-v0", "qmix", {"network": "gru"})]
CASES = [
    *(("SimpleTag-v0", name, {}) for name in ALGORITHMS if name not in ("ddpg", "td3", "ppo", "masac")),
    *(("Pendulum-v1", name, {}) for name in ("ppo", "sac", "ddpg", "td3")),
    ("SimpleSpread-v0", "ppo", {"network": "gru"}),
    ("SimpleSpread-v0", "ppo", {"critic_input": "state"}),
    ("TicTacToe-v0", "ppo", {"network": "cnn", "image": (2, 3, 3), "conv_filters": (4,)}),
]


def config_of(env_id, name, learner, **settings):
    algorithm = algorithm_specs.find(name)
    fields = {field.name for field in dataclasses.fields(algorithm.config_type)}
    chosen = {key: value for key, value in {**SIZES, **learner}.items() if key in fields}
    arguments = {"num_envs": 4, "total_steps": 96, "eval_episodes": 0, "num_threads": 1, "sharing": "agent"}
    if name == "pg":  # learns from episodes that end within a rollout
        arguments["env"] = {"max_cycles": 4}
    return TrainConfig(env_id, algorithm=name, learner=algorithm.settings(**chosen), **{**arguments, **settings})


@pytest.mark.parametrize(
    "case",
    [*QUICK, *(pytest.param(case, marks=pytest.mark.slow) for case in CASES)],
    ids=lambda case: "-".join((case[0], case[1], *map(str, case[2].values()))),
)
def test_every_algorithm_trains_in_bfloat16_with_float32_weights(case, tmp_path):
    trainer = Trainer(config_of(*case, precision="bfloat16"), tmp_path)
    initial = {name: value.clone() for name, value in trainer.state_dict().items() if ".net." in name}
    products = []
    linear = torch.nn.functional.linear

    def observed(*args):
        result = linear(*args)
        products.append(result.dtype)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "linear", observed)
        trainer.run()
    state = trainer.state_dict()
    assert torch.bfloat16 in products or case[2].get("network") == "gru"  # whose cell is one operation
    assert all(value.dtype != torch.bfloat16 for value in state.values() if isinstance(value, torch.Tensor))
    assert any(not torch.equal(initial[name], state[name]) for name in initial if name.endswith("weight"))


@pytest.mark.parametrize("network", ["mlp", "gru"])
def test_bfloat16_outputs_and_gradients_are_close_to_float32(network):
    spec = NetworkConfig(network=network, hidden_sizes=(32, 32)).spec(12)
    net = Network(spec, 5, 1.0, torch.Generator().manual_seed(0))
    x = torch.randn((4, 64, 12), generator=torch.Generator().manual_seed(1))
    begins = torch.zeros((4, 64), dtype=torch.bool)

    def outputs(precision):
        net.zero_grad()
        hidden = torch.zeros(64, net.hidden_width)
        with autocast(config_of("CartPole-v1", "ppo", {}, precision=precision)):
            y = net.unroll(x, hidden, begins)[0]
        y.square().mean().backward()
        assert y.dtype == torch.float32
        return y.detach(), torch.cat([parameter.grad.flatten() for parameter in net.parameters()])

    exact, rounded = outputs("float32"), outputs("bfloat16")
    for left, right in zip(exact, rounded, strict=True):
        error = float((left - right).norm() / left.norm())
        assert 1e-4 < error < 2e-2  # bfloat16 has 8 bits: 2^-9 per product


def test_matmul_precision_holds_within_the_training_only():
    config = config_of("CartPole-v1", "ppo", {}, matmul_precision="medium")
    precision = torch.get_float32_matmul_precision()
    with config.in_force():
        assert torch.get_float32_matmul_precision() == "medium"
        with config_of("CartPole-v1", "ppo", {}).in_force():
            assert torch.get_float32_matmul_precision() == "medium"
    assert torch.get_float32_matmul_precision() == precision == "highest"
