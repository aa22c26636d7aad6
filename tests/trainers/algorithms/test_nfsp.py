"""NFSP: modes of episodes, what the reservoir holds, the update of the average policy by hand, and its policy."""

import copy
import dataclasses

import pytest
import torch
from gymnasium import spaces
from toy_core import Corridor, Identity

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core
from trainers.algorithms.off_policy.nfsp import NFSP, NFSPConfig
from trainers.base.learner_spec import LearnerSpec
from trainers.base.transition import Transition
from trainers.runner.initial_weights import begin_from

SMALL = {"rollout_length": 8, "updates": 1, "batch_size": 16, "hidden_sizes": (8,), "replay_size": 1024}
SMALL |= {"learning_starts": 10**9, "reservoir_size": 4096}


def learner_of(core, **settings):
    """Return a small learner for all agents of a core."""
    space = core.action_spaces[core.possible_agents[0]]
    spec = LearnerSpec(
        core.obs_width, space, core.num_envs, core.num_agents, 100_000,
        has_action_mask=core.action_mask is not None, turn_based=core.to_move is not None,
    )  # fmt: skip
    return NFSP(NFSPConfig(**{**SMALL, **settings}), spec)


def play(core, learner, rollouts):
    """Play and learn; yield (obs, mask, to_move, alive, action, mode, begins) of every step."""
    info = core.reset(seed=0)[1]
    for _ in range(rollouts):
        for _ in range(learner.config.rollout_length):
            begins, obs, alive = core.elapsed_steps == 0, core.obs.clone(), info["alive"].clone()
            mask, to_move = (info[name].clone() if name in info else None for name in ("action_mask", "to_move"))
            action = learner.act(obs, mask, to_move)
            info = core.step(action.clone())[4]
            transition = Transition(
                core.reward, core.terminated, core.truncated, core.valid, core.obs, core.final_obs,
                info.get("to_move"), info.get("action_mask"), core.elapsed_steps == 0,
            )  # fmt: skip
            learner.observe(transition)
            yield obs, mask, to_move, alive, action.clone(), learner.is_response.clone(), begins
        learner.update()


def kuhn():
    return make_core("KuhnPoker-v0", 64, "cpu", seed=0, reuse_buffers=True)


def corridor():
    return Corridor(16)


# ---------------------------------------------------------------- modes


@pytest.mark.parametrize("make", [kuhn, corridor])
def test_modes_are_drawn_once_per_episode_at_the_given_rate(make):
    core, episodes, responses = make(), 0, 0
    learner = learner_of(core, anticipatory_param=0.3)
    earlier = torch.zeros_like(learner.is_response)
    for *_, mode, begins in play(core, learner, 40):
        assert torch.equal(mode[~begins], earlier[~begins])
        episodes += int(begins.sum()) * core.num_agents
        responses += int(mode[begins].sum())
        earlier = mode
    assert episodes > 500
    deviation = (episodes * 0.3 * 0.7) ** 0.5
    assert abs(responses - 0.3 * episodes) < 4 * deviation


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_agents_act_by_the_network_of_their_mode(rate):
    core = kuhn()
    learner = learner_of(core, anticipatory_param=rate, epsilon=0.0, normalize_obs=False)
    with torch.no_grad():
        learner.actor.module.body[-1].weight.zero_()
        learner.actor.module.body[-1].bias.copy_(torch.tensor([0.0, 2.0]))
        learner.response.module.body[-1].weight.zero_()
        learner.response.module.body[-1].bias.copy_(torch.tensor([1.0, 0.0]))
    actions = torch.cat([action[to_move] for _, _, to_move, _, action, *_ in play(core, learner, 10)])
    if rate == 1.0:
        assert not actions.any(), "the greedy action is 0"
    else:
        expected = float(torch.tensor([0.0, 2.0]).softmax(-1)[1])
        deviation = (expected * (1 - expected) / len(actions)) ** 0.5
        assert float(actions.float().mean()) == pytest.approx(expected, abs=4 * deviation)


# ---------------------------------------------------------------- the reservoir


@pytest.mark.parametrize("make", [kuhn, corridor])
def test_reservoir_holds_the_decisions_of_best_responses_only(make):
    """In order: there is room for all of them. Dead agents and those not to move decide nothing."""
    core = make()
    learner = learner_of(core, anticipatory_param=0.4, epsilon=1.0, epsilon_final=1.0)
    shape = (core.num_envs, core.num_agents)
    expected = [[[] for _ in range(shape[1])] for _ in range(shape[0])]
    waiting = 0
    for obs, _, to_move, alive, action, mode, _ in play(core, learner, 10):
        decides = alive if to_move is None else alive & to_move
        waiting += int((mode & ~decides).sum())
        for env, agent in (mode & decides).nonzero().tolist():
            expected[env][agent].append((obs[env, agent].tolist(), int(action[env, agent])))
    assert waiting > 10
    buffers = learner.reservoir.buffers
    for env in range(shape[0]):
        for agent in range(shape[1]):
            count = int(learner.reservoir.counts[env, agent])
            rows = zip(
                buffers["obs"][:count, env, agent].tolist(), buffers["action"][:count, env, agent].tolist(), strict=True
            )
            assert list(rows) == expected[env][agent]
    assert int(learner.reservoir.counts.sum()) > 50


def test_without_best_responses_the_average_policy_stays():
    core = kuhn()
    learner = learner_of(core, anticipatory_param=0.0, learning_starts=0)
    initial = copy.deepcopy(learner.actor.state_dict())
    for _ in play(core, learner, 3):
        pass
    assert learner.gradient_steps == 3
    assert int(learner.reservoir.counts.sum()) == 0
    for name, tensor in learner.actor.state_dict().items():
        assert torch.equal(tensor, initial[name])


# ---------------------------------------------------------------- updates


def by_hand(mask):
    """Return a learner with linear networks on two inputs and three actions, whose reservoir has two decisions."""
    config = NFSPConfig(**{**SMALL, "normalize_obs": False, "batch_size": 3, "max_grad_norm": None})
    spec = LearnerSpec(2, spaces.Discrete(3), 2, 1, 100, has_action_mask=mask is not None)
    learner = NFSP(config, spec)

    class Linear(torch.nn.Linear):
        def forward(self, obs, mask=None):
            return super().forward(obs)

    learner.actor = Linear(2, 3, bias=False)
    learner.actor.weight.data.copy_(torch.tensor([[0.5, -1.0], [1.0, 0.0], [0.0, 2.0]]))
    learner.optimizers["average"] = torch.optim.SGD(learner.actor.parameters(), lr=0.5)
    rows = {
        "obs": torch.tensor([[1.0, 2.0], [-1.0, 0.5]]).view(1, 2, 1, 2),
        "action": torch.tensor([2, 0]).view(1, 2, 1),
    }
    if mask is not None:
        rows["mask"] = mask.view(1, 2, 1, 3)
    learner.reservoir.add(rows, torch.ones((1, 2, 1), dtype=torch.bool), learner.stream)
    zero = torch.tensor([0, 0, 0])
    learner.reservoir.draw = lambda *_: (zero, torch.tensor([0, 1, 1]), zero)
    return learner


@pytest.mark.parametrize("legal", [[[1, 1, 1], [1, 1, 1]], [[0, 1, 1], [1, 1, 0]]])
def test_average_policy_steps_along_the_gradient_of_the_cross_entropy(legal):
    """The gradient of the loss with respect to a logit is its probability minus 1 for the action of the decision."""
    mask = torch.tensor(legal, dtype=torch.bool)
    learner = by_hand(None if mask.all() else mask)
    weight, loss, gradient = learner.actor.weight.detach().clone(), 0.0, torch.zeros(3, 2)
    for obs, action, row in (([1.0, 2.0], 2, 0), ([-1.0, 0.5], 0, 1), ([-1.0, 0.5], 0, 1)):
        inputs = torch.tensor(obs)
        weights = (weight @ inputs).exp() * mask[row]
        probability = weights / weights.sum()
        loss -= float(probability[action].log()) / 3
        probability[action] -= 1.0
        gradient += torch.outer(probability, inputs) / 3
    metrics = learner._average_step()
    assert float(metrics["average_loss"]) == pytest.approx(loss, rel=1e-5)
    assert float(metrics["average_grad_norm"]) == pytest.approx(float(gradient.norm()), rel=1e-5)
    torch.testing.assert_close(learner.actor.weight.detach(), weight - 0.5 * gradient)


def test_values_learn_by_squared_errors_and_as_those_of_dqn():
    core = kuhn()
    learner = learner_of(core)
    value, target = torch.tensor([0.0, 3.0]), torch.tensor([2.0, 2.5])
    assert learner._value_loss(value, target).tolist() == [4.0, 0.25]
    optimized = {id(tensor) for group in learner.optimizers["adam"].param_groups for tensor in group["params"]}
    assert optimized == {id(tensor) for tensor in learner.response.parameters()}


def test_illegal_actions_are_never_taken():
    core = Identity(16, masked=True)  # which asserts it
    learner = learner_of(core, anticipatory_param=0.5, epsilon=0.5, epsilon_final=0.5, learning_starts=0)
    for _, mask, _, _, action, *_ in play(core, learner, 5):
        assert mask.gather(-1, action.unsqueeze(-1)).all()
    assert int(learner.reservoir.counts.sum()) > 100


# ---------------------------------------------------------------- the policy


def test_policy_is_the_average_policy():
    learner = learner_of(kuhn())
    obs, mask = torch.ones((1, learner.learner_spec.obs_width)), torch.ones((4000, 2), dtype=torch.bool)
    with torch.no_grad():
        learner.actor.module.body[-1].bias.copy_(torch.tensor([0.0, 1.0]))
        probability = float(learner.actor(learner.normalizer(obs)).softmax(-1)[0, 1])
    policy = learner.policy()
    assert policy.spec["action"] == {"kind": "discrete", "sizes": [2]}
    share = float(policy.act(obs.expand(4000, -1), mask).float().mean())
    assert share == pytest.approx(probability, abs=4 * (probability * (1 - probability) / 4000) ** 0.5)


def test_kernels_are_refused():
    core = kuhn()
    learner = learner_of(core)
    assert learner.kernel_policy() is None
    spec = dataclasses.replace(learner.learner_spec, engine="kernel")
    with pytest.raises(ConfigError, match=r"^engine = 'kernel': agents act by two networks; use engine = 'auto'"):
        NFSP(learner.config, spec).kernel_policy()


def test_training_begins_with_the_average_policy_of_another():
    first, second = learner_of(kuhn()), learner_of(kuhn())
    with torch.no_grad():
        for parameter in first.actor.parameters():
            parameter.add_(1.0)
    response = copy.deepcopy(second.response.state_dict())
    begin_from(second, first.policy(), "player")
    for name, tensor in first.actor.state_dict().items():
        assert torch.equal(second.actor.state_dict()[name], tensor)
    for name, tensor in response.items():
        assert torch.equal(second.response.state_dict()[name], tensor)
        assert torch.equal(second.target.state_dict()[name], tensor)
