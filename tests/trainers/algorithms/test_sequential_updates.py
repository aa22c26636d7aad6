"""HAPPO and HATRPO against hand computations: order of updates, factors, and the step of the trust region."""

import dataclasses

import pytest
import torch
from actor_critics import trainer_of
from torch.distributions import Categorical, Normal, kl_divergence
from toy_core import Corridor, Identity

from gpu_envs.errors import ConfigError
from trainers.algorithms import algorithm_specs
from trainers.algorithms.on_policy.advantages import minibatch
from trainers.algorithms.on_policy.sequential.hatrpo import conjugate_gradient, flatten
from trainers.config.train_config import TrainConfig
from trainers.runner.learner_group import LearnerGroup

SMALL = {"rollout_length": 8, "hidden_sizes": (8,), "normalize_obs": False}
GRU = {"network": "gru"}
TRAINERS = ("happo", "hatrpo")


def trainer_for(algorithm, core, out, sharing=None, **learner):
    settings = algorithm_specs.find(algorithm).settings(**{**SMALL, **learner})
    return trainer_of(core, settings, out, algorithm, sharing=sharing, total_steps=10_000, engine="torch")


def ratio_by_hand(learner, rollout):
    """Return the product (T, E) of a policy's ratios over its agents, from the buffers of its first rollout."""
    obs, valid = rollout["all_obs"][:-1], rollout["valid"]
    if learner.recurrent_state is None:
        logits = learner.actor(obs)
    else:
        begins = rollout["episode_starts"][:-1].repeat_interleave(valid.shape[2], 1)
        hidden = torch.zeros(valid[0].numel(), learner.actor.hidden_width)
        logits = learner.actor.unroll(obs.flatten(1, 2), hidden, begins)[0].view(*valid.shape, -1)
    ratio = (Categorical(logits=logits).log_prob(rollout["action"]) - rollout["log_prob"]).exp()
    return torch.where(valid, ratio, 1.0).prod(-1)


@pytest.mark.parametrize("network", ["mlp", "gru"])
@pytest.mark.parametrize("algorithm", TRAINERS)
@pytest.mark.parametrize(("make", "sharing"), [(Identity, "group"), (Identity, None), (Corridor, None)])
def test_factor_is_the_product_of_earlier_ratios(make, sharing, algorithm, network, tmp_path, monkeypatch):
    """A shared policy is one member of the order; walkers of the corridor die before their world ends."""
    trainer = trainer_for(algorithm, make(5, limit=6), tmp_path, sharing, network=network, learning_rate=0.05)
    learners = {name: assignment.learner for name, assignment in trainer.assignments.items()}
    assert len(learners) == {Identity: 3 if sharing is None else 2, Corridor: 2}[make]
    trainer.collector.collect()
    order, rollouts = [], {name: learner.rollout.copies() for name, learner in learners.items()}
    for name, learner in learners.items():
        monkeypatch.setattr(learner, "_learn", lambda name=name, learn=learner._learn: (order.append(name), learn())[1])
    trainer.learners.update(1, str)
    trainer.log.close()
    assert sorted(order) == sorted(learners)
    assert make is Identity or not all(bool(rollout["valid"].all()) for rollout in rollouts.values())
    factor = torch.ones(8, 5)
    with torch.no_grad():
        for name in order:
            torch.testing.assert_close(learners[name].factor, factor)
            ratio = ratio_by_hand(learners[name], rollouts[name])
            assert float((ratio - 1).abs().max()) > 1e-3
            factor = factor * ratio


@pytest.mark.parametrize("network", ["mlp", "gru"])
@pytest.mark.parametrize("fixed_shapes", [False, True])
def test_factor_multiplies_the_normalized_advantages(network, fixed_shapes, tmp_path):
    trainer = trainer_for("happo", Corridor(5, limit=6), tmp_path, "group", network=network)
    trainer.collector.collect()
    trainer.log.close()
    learner = trainer.assignments["walker"].learner
    plain, valid = learner.batch(fixed_shapes=fixed_shapes), learner.rollout.valid
    learner.factor.copy_(torch.rand(8, 5) + 0.5)
    weighted, factor = learner.batch(fixed_shapes=fixed_shapes), learner.factor.unsqueeze(-1).expand(8, 5, 2)
    rows = factor.flatten() if fixed_shapes else factor[valid]
    factor = factor.flatten(1).t() if network == "gru" else rows
    torch.testing.assert_close(weighted["advantage"], plain["advantage"] * factor)
    counts = plain["advantage"][plain["valid"]] if "valid" in plain else plain["advantage"]
    assert float(counts.mean()) == pytest.approx(0.0, abs=1e-5)
    assert float(counts.std(correction=0)) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("more", [{}, GRU])
def test_happo_of_one_policy_is_mappo(more, tmp_path):
    states = []
    for algorithm in ("mappo", "happo"):
        trainer = trainer_for(algorithm, Corridor(6), tmp_path / algorithm, "all", normalize_obs=True, **more)
        for _ in range(3):
            trainer.iterate()
        trainer.log.close()
        states.append(trainer.assignments["shared"].learner.state_dict())
    first, second = states
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]) if isinstance(value, torch.Tensor) else value == second[name], name


def test_order_is_random_and_follows_the_seed():
    def orders(seed):
        learner = algorithm_specs.find("happo").settings(**SMALL)
        config = TrainConfig("Toy", algorithm="happo", num_envs=2, seed=seed, learner=learner)
        group, drawn = LearnerGroup(config, Identity(2)), []
        for name, assignment in group.assignments.items():
            assignment.learner.update = lambda name=name: (drawn.append(name), {})[1]
        for _ in range(12):
            group._update_learners(0)
        return [tuple(drawn[i : i + 3]) for i in range(0, 36, 3)]

    first = orders(0)
    assert all(len(set(order)) == 3 for order in first)
    assert len(set(first)) > 3
    assert orders(0) == first != orders(1)


def test_factor_leaves_out_policies_of_other_roles(tmp_path):
    core = Identity(4)
    core.definition.roles = {"even": ("even",), "odd": ("odd",)}
    trainer = trainer_for("happo", core, tmp_path, None, learning_rate=0.05)
    for _ in range(3):
        trainer.iterate()
        learners = {name: assignment.learner for name, assignment in trainer.assignments.items()}
        factors = {name: bool((learner.factor != 1).any()) for name, learner in learners.items()}
        assert not factors["odd_0"]
        assert factors["even_0"] != factors["even_1"], "the one that was first has no factor"
    trainer.log.close()


def test_policies_that_do_not_learn_yet_have_ratio_one(tmp_path):
    trainer = trainer_for("happo", Identity(4), tmp_path, "group")
    trainer.log.close()
    group = trainer.learners
    group.config = dataclasses.replace(group.config, learn_after={"even": 9_000})
    trainer.collector.collect()
    group.update(1, str)
    odd = group.assignments["odd"].learner
    assert torch.equal(odd.factor, torch.ones(8, 4))
    assert not torch.equal(odd.ratio, odd.factor)


@pytest.mark.parametrize("algorithm", TRAINERS)
def test_every_agent_has_its_own_policy_by_default(algorithm):
    assert TrainConfig("SimpleSpread-v0", algorithm=algorithm).sharing == "agent"
    assert TrainConfig("SimpleSpread-v0", algorithm=algorithm, sharing="group").sharing == "group"
    assert TrainConfig("SimpleSpread-v0").sharing == "group"


@pytest.mark.parametrize("algorithm", TRAINERS)
def test_kernels_are_refused(algorithm, tmp_path):
    settings = algorithm_specs.find(algorithm).settings(**SMALL)
    with pytest.raises(ConfigError, match=r"kernels do not weight advantages .* use engine = 'auto' or 'torch'"):
        trainer_of("SimpleSpread-v0", settings, tmp_path, algorithm, engine="kernel")


# ---------------------------------------------------------------- the trust region


def linear_learner(out, **settings):
    """Return a learner whose policy is softmax(W o + b), in double precision, and its first batch."""
    trainer = trainer_for("hatrpo", Identity(16), out, "group", hidden_sizes=(), cg_step=40, **settings)
    trainer.collector.collect()
    trainer.log.close()
    learner = trainer.assignments["even"].learner
    return learner, {
        name: value.double() if value.is_floating_point() else value for name, value in learner.batch().items()
    }


def fisher_by_hand(learner, obs):
    """Return E[(o o^T) x (diag(p) - p p^T)] for the parameters W, b of a softmax, (P, P)."""
    p = learner.actor(obs).softmax(-1)
    by_logits = torch.diag_embed(p) - p.unsqueeze(-1) * p.unsqueeze(-2)
    n, width, choices = len(obs), obs.shape[1], p.shape[1]
    # d logit_i / d W_jk = 1[i = j] o_k, d logit_i / d b_j = 1[i = j]
    identity = torch.eye(choices, dtype=obs.dtype)
    by_weight = torch.einsum("ij,nk->nijk", identity, obs).reshape(n, choices, choices * width)
    jacobian = torch.cat([by_weight, identity.expand(n, choices, choices)], -1)
    return torch.einsum("nia,nij,njb->ab", jacobian, by_logits, jacobian) / n


def test_hessian_is_the_fisher_matrix_and_the_direction_its_exact_solution(tmp_path):
    learner, batch = linear_learner(tmp_path)
    learner.actor.double()
    with torch.no_grad():
        for parameter in learner.actor.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
        fisher = fisher_by_hand(learner, batch["obs"])
    surrogate, kl, _ = learner._measures(batch, None)()
    gradient, hessian = learner._derivatives(surrogate, kl)
    unit = torch.eye(len(gradient), dtype=torch.float64)
    damped = fisher + 0.1 * unit
    torch.testing.assert_close(torch.stack([hessian(row) for row in unit]), damped)
    (expected,) = torch.autograd.grad(learner._measures(batch, None)()[0], [list(learner.actor.parameters())[-1]])
    torch.testing.assert_close(gradient[-len(expected) :], expected)
    direction = conjugate_gradient(hessian, gradient, 40)
    torch.testing.assert_close(direction, torch.linalg.solve(damped, gradient))


def test_step_stays_in_the_trust_region_along_the_natural_gradient(tmp_path):
    learner, batch = linear_learner(tmp_path)
    obs = batch["obs"].float()
    with torch.no_grad():
        damped = fisher_by_hand(learner, obs).double() + 0.1 * torch.eye(12)
        old, start = learner.actor(obs), flatten(learner.policy_parameters)
    gradient = learner._derivatives(*learner._measures(learner.batch(), None)()[:2])[0].double()
    metrics = learner.update()
    with torch.no_grad():
        new, moved = learner.actor(obs), flatten(learner.policy_parameters) - start
    kl = kl_divergence(Categorical(logits=old), Categorical(logits=new)).mean()
    assert float(metrics["kl"]) == pytest.approx(float(kl), rel=1e-3)
    assert 0 < float(kl) < 0.01
    part = minibatch(batch, None, None)
    ratio = (Categorical(logits=new).log_prob(part["action"]) - part["log_prob"]).exp()
    rise = ((ratio - 1) * part["advantage"]).mean()
    assert float(metrics["improvement"]) == pytest.approx(float(rise), rel=1e-3)
    direction = torch.linalg.solve(damped, gradient)
    full = direction * torch.sqrt(2 * 0.01 / (direction @ damped @ direction))
    share = float(moved.double() @ full / (full @ full))
    assert share in [pytest.approx(0.8**number, rel=1e-3) for number in range(10)]
    torch.testing.assert_close(moved.double(), share * full, rtol=1e-3, atol=1e-5)
    assert float(rise) > 0.5 * share * float(gradient @ full)


def test_policy_stays_if_no_step_is_accepted(tmp_path):
    learner, _ = linear_learner(tmp_path, kl_threshold=2.0, ls_step=2, accept_ratio=0.99)
    start, critic = flatten(learner.policy_parameters).clone(), flatten(learner.critic.parameters()).clone()
    metrics = learner.update()
    assert torch.equal(flatten(learner.policy_parameters), start)
    assert (float(metrics["accepted"]), float(metrics["kl"]), float(metrics["improvement"])) == (0.0, 0.0, 0.0)
    assert not torch.equal(flatten(learner.critic.parameters()), critic)
    torch.testing.assert_close(learner.ratio, torch.ones_like(learner.ratio))


def test_trust_region_includes_the_deviation_of_a_gaussian(tmp_path):
    trainer = trainer_for("hatrpo", Identity(16, "continuous"), tmp_path, "group")
    trainer.collector.collect()
    trainer.log.close()
    learner = trainer.assignments["even"].learner
    obs, old = learner.batch()["obs"], learner.head.log_std.detach().clone()
    mean = learner.actor(obs).detach()
    metrics = learner.update()
    assert not torch.equal(learner.head.log_std, old)
    first, second = Normal(mean, old.exp()), Normal(learner.actor(obs), learner.head.log_std.exp())
    assert float(metrics["kl"]) == pytest.approx(float(kl_divergence(first, second).sum(-1).mean().detach()), rel=1e-3)


@pytest.mark.parametrize("algorithm", TRAINERS)
@pytest.mark.parametrize("network", ["gru", "attention"])
def test_other_networks_learn(algorithm, network, tmp_path):
    settings = algorithm_specs.find(algorithm).settings(**{**SMALL, "network": network})
    trainer = trainer_of("SimpleSpread-v0", settings, tmp_path, algorithm, total_steps=10_000)
    actor = trainer.assignments["agent_0"].learner.actor
    initial = flatten(actor.parameters()).clone()
    trainer.iterate()
    trainer.log.close()
    weights = flatten(actor.parameters())
    assert not torch.equal(initial, weights)
    assert bool(weights.isfinite().all())
