"""Networks "module:Name": the interface of modules, every place that uses them, and errors about them."""

import re
import sys
import types
from pathlib import Path

import pytest
import torch
from actor_critics import trainer_of
from torch import nn

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.algorithms import algorithm_specs
from trainers.models.action_heads import make_head
from trainers.models.networks import Network, NetworkConfig
from trainers.models.normalization import ObservationNormalizer
from trainers.models.policy import Policy
from trainers.storage.policy_export import export_policy

DISCRETE = {"kind": "discrete", "sizes": [3]}


class Plain(nn.Module):
    """The layers of the MLP with hidden_sizes (8,), and the rows and masks of its last call."""

    def __init__(self, spec) -> None:
        super().__init__()
        self.spec = spec
        self.body = nn.Sequential(nn.Linear(spec.width, 8), nn.Tanh(), nn.Linear(8, spec.outputs))

    def forward(self, obs, mask, hidden):
        self.last = obs, mask
        return self.body(obs), hidden


class Memory(nn.Module):
    hidden_size = 6

    def __init__(self, spec) -> None:
        super().__init__()
        self.initial_hidden = nn.Parameter(torch.full((6,), 0.5))
        self.cell = nn.LSTMCell(spec.width, 3)
        self.out = nn.Linear(3, spec.outputs)

    def forward(self, obs, mask, hidden):
        h, c = self.cell(obs, tuple(hidden.split(3, -1)))
        return self.out(h), torch.cat([h, c], -1)


class RecurrentCritic(nn.Module):
    """Critics are `Memory`, actors are `Plain`."""

    def __init__(self, spec) -> None:
        super().__init__()
        self.module = (Memory if spec.role == "critic" else Plain)(spec)
        self.hidden_size = getattr(self.module, "hidden_size", 0)

    def forward(self, obs, mask, hidden):
        return self.module(obs, mask, hidden)


class TooNarrow(Plain):
    def forward(self, obs, mask, hidden):
        return self.body(obs)[:, :1], hidden


class OutputsOnly(Plain):
    def forward(self, obs, mask, hidden):
        return self.body(obs)


class Decides(Plain):
    """A module with a choice that depends on the numbers, which a program of torch.export cannot make."""

    def forward(self, obs, mask, hidden):
        return self.body(obs if obs.sum() > 0.0 else -obs), hidden


class Raises(nn.Module):
    def __init__(self, spec) -> None:
        raise ValueError("two\nlines")


def named(kind: type) -> str:
    return f"{kind.__module__}:{kind.__name__}"


def spec_of(kind: type, **more) -> dict:
    return {**NetworkConfig(network=named(kind), hidden_sizes=(8,)).spec(4), "action": DISCRETE, **more}


def network(kind: type, seed: int = 0, **more) -> Network:
    return Network(spec_of(kind, **more), 3, 0.01, torch.Generator().manual_seed(seed))


def test_module_is_built_from_blocks_sizes_and_settings():
    spec = network(Plain, blocks={"own": [1], "units": [1, 3]}).module.spec
    assert (spec.blocks, spec.outputs, spec.sizes, spec.role) == ({"own": (1,), "units": (1, 3)}, 3, (3,), "actor")
    assert (spec.hidden_sizes, spec.activation) == ((8,), "tanh")
    assert spec.split(torch.arange(8.0).view(2, 4))["units"].tolist() == [[[1, 2, 3]], [[5, 6, 7]]]


def test_weights_depend_on_the_generator_and_leave_the_global_stream():
    state = torch.get_rng_state()
    first, same, other = (network(Plain, seed).state_dict()["body.0.weight"] for seed in (0, 0, 1))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert torch.equal(state, torch.get_rng_state())


def test_hidden_state_starts_at_the_declared_one():
    net, x = network(Memory), torch.randn((2, 5, 4))
    begins = torch.zeros((2, 5), dtype=torch.bool)
    outputs = net.unroll(x, torch.zeros(5, 6), begins)[0]
    expected, after = net.module(x[0], None, net.module.initial_hidden.expand(5, 6))
    torch.testing.assert_close(outputs[0], expected)
    torch.testing.assert_close(outputs[1], net.module(x[1], None, after)[0])
    begins[1, 0] = True
    outputs[1, 0] = net.module(x[1], None, net.module.initial_hidden.expand(5, 6))[0][0]
    torch.testing.assert_close(net.unroll(x, torch.zeros(5, 6), begins)[0], outputs)


def test_policies_give_masks_to_the_module_and_critics_do_not():
    net, critic = (
        network(Plain, has_action_mask=True),
        Network(spec_of(Plain, has_action_mask=True), 1, 1.0, None, "critic"),
    )
    mask = torch.tensor([[True, False, True], [False, False, False]])
    net(torch.zeros(2, 4), mask)
    assert net.module.last[1].tolist() == [[True, False, True], [True, True, True]]  # one agent has left
    critic(torch.zeros(2, 4), mask)
    assert critic.module.last[1] is None


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (TooNarrow, r"expected forward to return .* of shapes \(\(2, 3\), None\) for 2 rows, got \(\(2, 1\), None\)"),
        (OutputsOnly, r"expected forward to return .* got \(\(2, 3\)\); the actor has 3 outputs"),
        (Raises, r"expected Raises\(spec\) to build it, got ValueError: two lines$"),
        (dict, "expected a subclass of Module named dict in builtins"),
    ],
)
def test_wrong_module_is_refused_in_one_line(kind, message):
    with pytest.raises(ConfigError, match=rf"^learner.network '{named(kind)}': {message}"):
        network(kind)


@pytest.mark.parametrize("algorithm", ["dqn", "sac", "td3", "maddpg", "bc"])
def test_hidden_state_is_refused_where_it_is_not_supported(algorithm):
    with pytest.raises(ConfigError, match=r"learner.network: expected one without a hidden state for .*, got Memory"):
        network(Memory).check_feedforward(algorithm)


def test_saved_policy_records_the_name_and_is_refused_without_its_module(tmp_path, monkeypatch):
    trainer = trainer_of(
        "SimpleSpread-v0", algorithm_specs.find("ppo").settings(network=named(Memory), rollout_length=4), None,
        total_steps=64, num_envs=2,
    )  # fmt: skip
    learner = trainer.assignments["agent"].learner
    assert learner.reason_for_torch == f"network: expected 'mlp', got '{named(Memory)}'"
    learner.policy().save(tmp_path / "policy")
    policy, obs = Policy.load(tmp_path / "policy", seed=3), torch.randn((2, 3, learner.spec["obs_width"]))
    hidden = [policy.initial_hidden_state(2, 3) for _ in range(2)]
    actions = [p.act(obs, greedy=True, hidden_state=h) for p, h in zip((policy, learner.policy()), hidden, strict=True)]
    assert torch.equal(*actions)
    assert torch.equal(*hidden)
    assert "parameters, next_hidden_state" in export_policy(policy, tmp_path / "policy.pt2")
    monkeypatch.delitem(sys.modules, Memory.__module__)
    with pytest.raises(CheckpointError, match=r"policy.json: learner.network .* add --allow-import test_named"):
        Policy.load(tmp_path / "policy")


def test_network_that_cannot_be_exported_is_named_in_one_line(tmp_path):
    spec = spec_of(Decides)
    policy = Policy(spec, ObservationNormalizer(4), network(Decides), make_head(DISCRETE))
    with pytest.raises(ConfigError, match=rf"^export: .* torch.export supports, got '{named(Decides)}': \w+: [^\n]*$"):
        export_policy(policy, tmp_path / "policy.pt2")
    assert not list(tmp_path.iterdir())


SHORT = {"rollout_length": 4, "normalize_obs": False}
REPLAY = {"batch_size": 8, "updates": 1, "learning_starts": 8, "replay_size": 64}


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        ("sac", "expected an actor with a hidden state where the critic has one for sac, got RecurrentCritic; .* ppo$"),
        ("masac", "expected one without a hidden state for masac, got RecurrentCritic; use qmix or ppo$"),
    ],
)
def test_critic_that_alone_has_a_hidden_state_is_refused_in_one_line(algorithm, message):
    config = algorithm_specs.find(algorithm).settings(network=named(RecurrentCritic), **REPLAY)
    with pytest.raises(ConfigError, match=f"^(?s:learner.network: {message})"):
        trainer_of("SimpleSpread-v0", config, None, algorithm, total_steps=64, num_envs=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "kind", "settings"),
    [
        ("ppo", Memory, {}),
        ("ppo", RecurrentCritic, {}),
        ("mappo", Plain, {}),
        ("impala", Memory, {}),
        ("dqn", Plain, REPLAY),
        ("qmix", Memory, {**REPLAY, "window": 4, "burn_in": 2}),
        ("sac", Plain, REPLAY),
        ("masac", Plain, REPLAY),
    ],
)
def test_every_network_of_a_learner_is_the_module_and_learns(algorithm, kind, settings, tmp_path):
    config = algorithm_specs.find(algorithm).settings(network=named(kind), **SHORT, **settings)
    trainer = trainer_of("SimpleSpread-v0", config, tmp_path / "run", algorithm, total_steps=256, num_envs=4)
    learner = trainer.assignments["agent"].learner
    modules = [module for module in learner.net.modules() if isinstance(module, Network)]
    assert all(isinstance(module.module, kind) for module in modules)
    previous = {name: value.clone() for name, value in learner.net.state_dict().items()}
    trainer.run()
    changed = {name for name, value in learner.net.state_dict().items() if not torch.equal(value, previous[name])}
    assert any("actor" in name for name in changed)


def test_centralized_critic_of_a_module_gets_the_inputs_of_the_mlp(tmp_path):
    values = []
    for network in ("mlp", named(Plain)):
        config = algorithm_specs.find("masac").settings(network=network, hidden_sizes=(8,), activation="tanh", **REPLAY)
        critic = trainer_of(
            "SimpleSpread-v0", config, None, "masac", total_steps=256, num_envs=2
        ).assignments["agent"].learner.critics[0]  # fmt: skip
        generator = torch.Generator().manual_seed(1)
        state = {
            name: torch.randn(value.shape, generator=generator) if value.is_floating_point() else value
            for name, value in sorted(critic.state_dict().items())
        }
        critic.load_state_dict(state)
        values.append(critic(torch.randn((5, critic.state_width + 3 * 5), generator=generator)))
    torch.testing.assert_close(*values, atol=1e-4, rtol=1e-4)


def test_network_on_the_page_is_accepted(monkeypatch):
    page = (Path(__file__).parents[3] / "docs" / "guides" / "algorithms.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    module = types.ModuleType("mine")
    exec(text, vars(module))
    monkeypatch.setitem(sys.modules, "mine", module)
    net = Network({**spec_of(Plain), "network": "mine:Net"}, 3, 0.01)
    assert net(torch.zeros(5, 4)).shape == (5, 3)
