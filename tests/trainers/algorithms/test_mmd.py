"""MMD: the closed form of its update, the old policy and the magnet."""

import pytest
import torch
from test_ppo import drive
from test_vtrace_learners import collect, learner_of
from toy_core import Corridor

from trainers.algorithms.on_policy.mmd import MagneticObjective
from trainers.algorithms.on_policy.objective import Minibatch
from trainers.models.action_heads import CategoricalHead, kl_divergence
from trainers.models.networks import target_copy


def test_minimum_of_the_loss_is_the_closed_form_of_the_update():
    """Sokota et al. 2023: proportional to (pi_old * magnet^(alpha eta) * exp(eta A))^(1 / (1 + alpha eta))."""
    alpha, eta, head = 0.3, 2.5, CategoricalHead([4], multi=False)
    old, magnet, advantage = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows, actions = (4, 4), torch.arange(4)
    settings = {"kl_coef": 1 / eta, "magnet_coef": alpha, "clip_range": 1e9, "clip_range_vf": None}
    settings |= {"value_coef": 0.0, "entropy_coef": 0.0}
    old_log_prob = old.log_softmax(-1)
    logits = old.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([logits], max_iter=200, tolerance_grad=1e-12, tolerance_change=1e-14)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        params = logits.expand(rows)
        log_prob, entropy = head.evaluate(params, actions, None)
        kl = {"old": kl_divergence(head, params, head, old.expand(rows), None)}
        kl["magnet"] = kl_divergence(head, params, head, magnet.expand(rows), None)
        weighted = 4 * old_log_prob.exp() * advantage  # the mean over the four actions is then that of the old policy
        zero = torch.zeros(4, dtype=torch.float64)
        batch = Minibatch(log_prob, entropy, params, zero, old_log_prob, zero, weighted, zero, settings, kl)
        loss, metrics = MagneticObjective().loss(batch)
        torch.testing.assert_close(metrics["magnet_kl"], kl["magnet"][0])
        loss.backward()
        return loss

    optimizer.step(closure)
    expected = (old_log_prob + alpha * eta * magnet.log_softmax(-1) + eta * advantage) / (1 + alpha * eta)
    torch.testing.assert_close(logits.detach().log_softmax(-1), expected.log_softmax(-1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("network", ["mlp", "gru"])
def test_loss_compares_with_the_policy_before_the_update_and_with_the_magnet(network):
    learner = learner_of("mmd", Corridor(6), network=network, num_epochs=1, num_minibatches=2, magnet_tau=0.25)
    initial = target_copy(learner.actor)
    first = drive(Corridor(6), learner, 1)[0]
    assert first["old_kl"] == first["magnet_kl"] > 0, "the initial policy is both"
    magnet = learner.references["magnet"].actor
    for start, moved, present in zip(
        initial.parameters(), magnet.parameters(), learner.actor.parameters(), strict=True
    ):
        torch.testing.assert_close(moved, start.lerp(present, 0.25))
    second = drive(Corridor(6), learner, 1)[0]
    assert second["magnet_kl"] > second["old_kl"] > 0
    assert {name for name in learner.net.state_dict() if name.startswith("magnet.")}


def test_without_divergences_an_update_is_that_of_ppo():
    cores = Corridor(6), Corridor(6)
    ppo = learner_of("ppo", cores[0], entropy_coef=0.0, entropy_coef_final=0.0)
    mmd = learner_of("mmd", cores[1], kl_coef=0.0, magnet_coef=0.0, magnet_coef_final=0.0)
    for core, learner in zip(cores, (ppo, mmd), strict=True):
        collect(learner, core)
        learner.update()
    for expected, weights in zip(ppo.actor.parameters(), mmd.actor.parameters(), strict=True):
        assert torch.equal(expected, weights)
