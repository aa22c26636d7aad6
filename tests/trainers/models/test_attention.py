"""Attention to entities: what it depends on, its normalization, and trainings with it."""

import pytest
import torch
from actor_critics import trainer_of

from gpu_envs.errors import ConfigError
from trainers.algorithms import algorithm_specs
from trainers.base.learner_spec import ObservationLayout
from trainers.models.action_heads import make_head
from trainers.models.networks import Network, NetworkConfig, with_block
from trainers.models.normalization import ObservationNormalizer
from trainers.models.policy import Policy
from trainers.storage.policy_export import export_policy

ACTION = {"kind": "discrete", "sizes": [3]}
BLOCKS = {"units": (4, 3), "time": (1,), "others": (2, 3), "bag": (2,)}
"""Of a row of 21 numbers: 4 units with 3 numbers each, and 3 others with 2 numbers each, by feature."""


def spec_of(blocks=BLOCKS, by_feature=("others",), targets=None, **settings) -> dict:
    width = sum(torch.Size(shape).numel() for shape in blocks.values())
    config = NetworkConfig(**{"network": "attention", "hidden_sizes": (8, 6), **settings})
    return {
        **config.spec(width, ObservationLayout(blocks, by_feature=by_feature, targets=targets or {})),
        "action": ACTION,
    }


def network(**settings) -> Network:
    return Network(spec_of(**settings), 3, 1.0, torch.Generator().manual_seed(0))


def rows(count: int, seed: int = 1) -> torch.Tensor:
    return torch.randn((count, 21), generator=torch.Generator().manual_seed(seed))


def in_another_order(x: torch.Tensor) -> torch.Tensor:
    """Return rows with other orders of the units and of the teammates."""
    units, time, teammates, bag = x.split([12, 1, 6, 2], -1)
    units = units.unflatten(-1, (4, 3))[..., [2, 0, 3, 1], :].flatten(-2)
    teammates = teammates.unflatten(-1, (2, 3))[..., [1, 2, 0]].flatten(-2)
    return torch.cat([units, time, teammates, bag], -1)


@pytest.mark.parametrize("settings", [{}, {"hidden_sizes": (5,), "activation": "relu"}], ids=str)
def test_outputs_depend_on_every_number_and_not_on_the_order_of_entities(settings):
    net, x = network(**settings), rows(64).requires_grad_()
    torch.testing.assert_close(net(x), net(in_another_order(x)))
    assert not torch.allclose(net(x), net(x.roll(1, -1)))
    net(x).sum().backward()
    assert x.grad is not None
    assert bool((x.grad != 0.0).any(0).all())


def test_outputs_that_choose_an_entity_follow_it():
    """Two outputs, then one for each unit, three for the others, and one more."""
    spec = spec_of(targets={"others": 6, "units": 2})
    net, x = Network(spec, 10, 1.0, torch.Generator().manual_seed(0)), rows(64)
    order = [0, 1, *(2 + unit for unit in (2, 0, 3, 1)), *(6 + other for other in (1, 2, 0)), 9]
    torch.testing.assert_close(net(x)[:, order], net(in_another_order(x)))
    assert not torch.allclose(net(x), net(in_another_order(x)))
    dueling = {**spec, "action": {"kind": "greedy", "sizes": [10], "dueling": True}}
    net, order = Network(dueling, 11, 1.0, torch.Generator().manual_seed(0)), [0, *(1 + place for place in order)]
    torch.testing.assert_close(net(x)[:, order], net(in_another_order(x)))
    critic = Network(spec, 1, 1.0, torch.Generator().manual_seed(0), "critic")
    torch.testing.assert_close(critic(x), critic(in_another_order(x)))


def test_entities_of_zeros_are_absent():
    """The weights do not depend on the number of entities."""
    net, x = network(), rows(6)
    fewer = network(blocks={**BLOCKS, "units": (2, 3)})
    fewer.load_state_dict(net.state_dict())
    x[:, :6] = 0.0
    torch.testing.assert_close(net(x), fewer(x[:, 6:]))
    x[:, 13:19] = 0.0
    assert bool(net(x).isfinite().all())


def test_a_row_of_entities_only_has_attention():
    net = network(blocks={"units": (4, 3)}, by_feature=())
    x = rows(5)[:, :12]
    torch.testing.assert_close(net(x), net(x.view(5, 4, 3).flip(1).flatten(1)))


def test_policy_does_not_depend_on_the_order_either_and_keeps_absent_entities():
    spec = spec_of()
    normalizer, x = ObservationNormalizer(21, spec), 3.0 * rows(50) + torch.arange(21.0)
    x[::3, 3:6] = 0.0
    normalizer.update(x[:30])
    normalizer.update(x[30:])
    units = x[:, :12].view(50, 4, 3)
    torch.testing.assert_close(normalizer.mean[:12].view(4, 3)[1], units.mean((0, 1)))
    torch.testing.assert_close(normalizer.var[:12].view(4, 3)[2], units.flatten(0, 1).var(0, correction=0))
    assert bool((normalizer(x)[:, 3:6] == 0.0).all(-1).equal(torch.arange(50) % 3 == 0))
    policy = Policy(spec, normalizer, Network(spec, 3, 1.0, torch.Generator().manual_seed(0)), make_head(ACTION))
    torch.testing.assert_close(policy.module()(x)[1], policy.module()(in_another_order(x))[1])
    plain = ObservationNormalizer(21, {**spec, "network": "mlp"})
    plain.update(x)
    torch.testing.assert_close(plain.mean, x.mean(0))


def test_code_of_an_action_and_index_of_an_agent_belong_to_the_agent():
    spec = with_block(with_block(spec_of(), "agent", 2), "action", 3)
    net, x = Network(spec, 1, 1.0, torch.Generator().manual_seed(0), "critic"), rows(4)
    code = torch.eye(5)[:4]
    outputs = net(torch.cat([x, code], -1))
    torch.testing.assert_close(outputs, net(torch.cat([in_another_order(x), code], -1)))
    assert not torch.allclose(outputs, net(torch.cat([x, code.roll(1, 0)], -1)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"blocks": {"observation": (4,)}, "by_feature": ()},
            "blocks of entities, .* got observation \\(4,\\); use mlp",
        ),
        ({"hidden_sizes": ()}, r"learner.hidden_sizes: expected at least the width of entities, got \(\)"),
    ],
)
def test_wrong_inputs_and_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        network(**settings)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "SimpleTag-v0"])
def test_environment_without_entities_is_refused(env_id):
    config = algorithm_specs.find("ppo").settings(network="attention")
    with pytest.raises(ConfigError, match=r"^learner.network: attention: expected an environment with blocks of ent"):
        trainer_of(env_id, config, None)


SHORT = {"hidden_sizes": (8,), "rollout_length": 4}
REPLAY = {**SHORT, "batch_size": 8, "updates": 1, "learning_starts": 8, "replay_size": 64}


@pytest.mark.parametrize(
    ("algorithm", "env_id", "settings", "env_settings"),
    [
        ("mappo", "SMAX-v0", SHORT, {"scenario": "3m"}),
        pytest.param("ppo", "TagContinuous-v0", SHORT, {"num_runners": 6}, marks=pytest.mark.slow),
        pytest.param("impala", "CollectTreasure-v0", SHORT, {}, marks=pytest.mark.slow),
        pytest.param("dqn", "LevelBasedForaging-v0", REPLAY, {}, marks=pytest.mark.slow),
        pytest.param("qmix", "SMAX-v0", REPLAY, {"scenario": "3m"}, marks=pytest.mark.slow),
        pytest.param("sac", "SimpleSpread-v0", REPLAY, {}, marks=pytest.mark.slow),
        pytest.param("td3", "SimpleSpread-v0", REPLAY, {"continuous_actions": True}, marks=pytest.mark.slow),
        pytest.param("masac", "SimpleSpread-v0", REPLAY, {}, marks=pytest.mark.slow),
    ],
)
def test_learner_attends_to_the_entities_of_an_environment_and_its_policy_is_saved(
    algorithm, env_id, settings, env_settings, tmp_path
):
    config = algorithm_specs.find(algorithm).settings(network="attention", **settings)
    trainer = trainer_of(env_id, config, tmp_path / "run", algorithm, total_steps=64, num_envs=4, env=env_settings)
    learner = next(iter(trainer.assignments.values())).learner
    previous = {name: value.clone() for name, value in learner.actor.state_dict().items()}
    trainer.run()
    changed = {name for name, value in learner.actor.state_dict().items() if not torch.equal(value, previous[name])}
    assert {"agent_embedding.0.weight", "kinds.0.0.weight", "queries.0.weight", "body.0.weight"} <= changed
    learner.policy().save(tmp_path / "policy")
    policy, x = Policy.load(tmp_path / "policy"), torch.rand((5, learner.spec["obs_width"]))
    ids = (learner.spec["ids"],) if learner.spec.get("ids") else ()
    x = x.unsqueeze(-2).expand(5, *ids, -1) if ids else x
    assert torch.equal(policy.module()(x)[1], learner.policy().module()(x)[1])
    masked = learner.spec.get("has_action_mask", False)
    assert "parameters" in export_policy(policy, tmp_path / "policy.pt2", masked)
