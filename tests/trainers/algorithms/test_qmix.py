"""VDN, QMIX and QPLEX: representable functions, targets by hand, and isolation of invalid rows."""

import pytest
import torch
from gymnasium import spaces
from team_learners import GRU, TWO, drive, gru, learner_for
from toy_core import Corridor, Identity, RecallOfThree, TwoStep

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.algorithms import algorithm_specs
from trainers.algorithms.off_policy.mixers import QMIXMixer, QPLEXMixer
from trainers.algorithms.off_policy.qmix import QMIX, QMIXConfig
from trainers.base.gradients import GradientReducer
from trainers.base.learner_spec import LearnerSpec
from trainers.base.transition import Transition
from trainers.evaluation.policy_evaluation import evaluate_policies

# ---------------------------------------------------------------- mixers


def test_team_value_is_monotonic_in_agent_values():
    generator = torch.Generator().manual_seed(0)
    mixer = QMIXMixer(3, 5, 8, generator)
    values = torch.randn((100, 3), generator=generator, requires_grad=True)
    states = 3 * torch.randn((100, 5), generator=generator)
    team = mixer(values, states)
    assert team.shape == (100,)
    (slope,) = torch.autograd.grad(team.sum(), values)
    assert bool((slope >= 0).all())
    assert bool((slope > 0).any(0).all()), "every agent counts somewhere"
    assert float(slope.std(0).min()) > 0, "and not everywhere alike"
    assert bool((mixer.first(states) < 0).any()), "as it is made so, not by chance"


@pytest.mark.parametrize(("agents", "state_width", "width"), [(2, 4, 32), (3, 54, 32), (5, 150, 32), (10, 300, 64)])
def test_slopes_of_the_team_value_start_near_1(agents, state_width, width):
    """With slopes of 10 and more the values grow without bound in SMAX-v0."""
    generator = torch.Generator().manual_seed(0)
    mixer = QMIXMixer(agents, state_width, width, generator)
    values = torch.randn((1000, agents), generator=generator, requires_grad=True)
    team = mixer(values, torch.randn((1000, state_width), generator=generator))
    (slope,) = torch.autograd.grad(team.sum(), values)
    for mean in slope.mean(0).tolist():
        assert 0.6 < mean < 1.2


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
@pytest.mark.parametrize(("kind", "earned"), [("qmix", 8.0), ("qplex", 8.0), ("vdn", 7.0)])
def test_qmix_and_qplex_solve_the_two_step_game_and_vdn_does_not(kind, earned, seed):
    """Rashid et al. 2018, section 6 and table 1, with random exploration throughout."""
    core = TwoStep(8, seed)
    learner = learner_for(core, kind, seed=seed, epsilon_final=1.0, updates=4, learning_rate=1e-2)
    drive(core, learner, 40)
    outcome = evaluate_policies(core, {"player": learner.policy()}, seed=1)
    assert outcome.returns["player"].mean == 2 * earned  # both agents get the reward


def qplex_mixer(agents: int, choices: int, state_width: int) -> QPLEXMixer:
    return QPLEXMixer(agents, choices, state_width, 8, 4, torch.Generator().manual_seed(0))


def mixed(mixer: QPLEXMixer, values: torch.Tensor, action: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    """Return the team values (B,) of actions (B, n), from values (B, n, choices)."""
    value = values.gather(-1, action.unsqueeze(-1)).squeeze(-1)
    return mixer(value, state, values.amax(-1), torch.eye(values.shape[-1])[action])


def test_best_joint_action_of_qplex_is_that_of_the_agents():
    mixer, generator = qplex_mixer(3, 4, 5), torch.Generator().manual_seed(1)
    joint = torch.cartesian_prod(*[torch.arange(4)] * 3)
    for _ in range(20):
        values, state = torch.randn((3, 4), generator=generator), 3 * torch.randn(5, generator=generator)
        team = mixed(mixer, values.expand(64, 3, 4), joint, state.expand(64, 5))
        assert joint[team.argmax()].tolist() == values.argmax(-1).tolist()
        assert float(team.detach().std()) > 0.1


def test_team_value_of_qplex_matches_hand_computation():
    """Equations 8 to 11, head by head, for two agents of which the first acts best and the second does not."""
    mixer, generator = qplex_mixer(2, 3, 4), torch.Generator().manual_seed(2)
    values, state = torch.randn((1, 2, 3), generator=generator), torch.randn((1, 4), generator=generator)
    values.requires_grad_()
    best, action = values.detach().amax(-1), values.detach().argmax(-1)
    action[0, 1] = (action[0, 1] + 1) % 3
    team = mixed(mixer, values, action, state)
    joint = torch.cat([state, torch.eye(3)[action].flatten(1)], -1)
    expected = torch.zeros(())
    for agent in range(2):
        weight = mixer.weight(state)[0, agent].abs()
        importance = sum(
            mixer.head_weight(state)[0, head].abs()
            * mixer.agent_weight(state)[0, 2 * head + agent].sigmoid()
            * mixer.action_weight(joint)[0, 2 * head + agent].sigmoid()
            for head in range(4)
        )
        advantage = weight * (values[0, agent, action[0, agent]] - best[0, agent])
        expected = expected + weight * best[0, agent] + mixer.bias(state)[0, agent] + importance * advantage
        assert (agent == 0) == (float(advantage.detach()) == 0.0)
    torch.testing.assert_close(team[0], expected)
    (slope,) = torch.autograd.grad(team.sum(), values)
    slopes = slope.gather(-1, action.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(slopes, mixer.weight(state).abs(), msg="lambda - 1 has no gradient for the values")


# ---------------------------------------------------------------- targets


def linear(weights: list[list[float]], bias: float) -> torch.nn.Module:
    net = torch.nn.Linear(len(weights[0]), len(weights))
    net.weight.data.copy_(torch.tensor(weights))
    net.bias.data.fill_(bias)
    net.step = lambda x, hidden_state: (net(x), hidden_state)
    net.hidden_width = 0
    return net


def test_team_targets_match_hand_computation():
    """Three worlds of two agents: world 0 loses agent 0, then both; world 1 is truncated; world 2 continues.

    Agent values of observation x are (x, 2x) + 1 for the learning network and (3x, x) + 10 for the target, whose value
    of the best action is x + 10. Team values are sums, plus 100 for the target.
    """
    config = QMIXConfig(mixer="vdn", rollout_length=2, gamma=0.5, learning_starts=10**9, normalize_obs=False)
    learner = QMIX(config, LearnerSpec(1, TWO, 3, 2, 100))
    learner.actor = linear([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]], 1.0)
    learner.target_actor = linear([[3.0, 0.0, 0.0], [1.0, 0.0, 0.0]], 10.0)
    learner.target_mixer.forward = lambda values, *_: values.sum(-1) + 100
    for t in range(2):
        obs = torch.tensor([[[1.0], [2.0]]]).repeat(3, 1, 1) + t
        valid = torch.ones(3, 2).bool()
        terminated, truncated = torch.zeros(3, 2).bool(), torch.zeros(3, 2).bool()
        terminated[0, t] = truncated[1, :] = True
        truncated[1] = t == 1
        if t == 1:
            valid[0, 0], obs[0, 0] = False, torch.nan
        learner.act(obs)
        reward = torch.tensor([[2.0, 4.0]]).repeat(3, 1).masked_fill(~valid, torch.nan)
        following = obs + 1
        following[0, : t + 1] = torch.nan
        if t == 1:
            following[1] = 9.0  # observation of the next episode
        final = torch.full((3, 2, 1), torch.nan).masked_fill(truncated.unsqueeze(-1), 5.0)
        learner.observe(Transition(reward, terminated, truncated, valid, following, final))
    learner.update()
    batch = learner.replay.buffers
    assert batch["reward"][:2].tolist() == [[3.0] * 3, [2.0, 3.0, 3.0]]  # the dead agent earns nothing
    assert batch["follows"][:2].int().tolist() == [[[0, 1], [1, 1], [1, 1]], [[0, 0], [1, 1], [1, 1]]]
    time, env = torch.tensor([0, 1, 0, 1, 0, 1]), torch.tensor([0, 0, 1, 1, 2, 2])
    learner.replay.draw = lambda *_: (time, env)
    losses = {}

    class Seen(GradientReducer):
        def step(self, optimizer, loss, max_norm=None):
            return losses.setdefault("loss", loss.detach())

    learner.reducer = Seen()
    learner._learn()
    action = batch["action"][time, env]
    x = torch.tensor([[1.0, 2.0], [0.0, 3.0], [1.0, 2.0], [2.0, 3.0], [1.0, 2.0], [2.0, 3.0]])
    team = (x * (1 + action)).sum(-1) + torch.tensor([2, 1, 2, 2, 2, 2])
    after = torch.tensor([3 + 10, -100, 5 + 20, 10 + 20, 5 + 20, 7 + 20]) + 100.0  # world 0 ends: no next value
    target = torch.tensor([3.0, 2.0, 3.0, 3.0, 3.0, 3.0]) + 0.5 * after
    torch.testing.assert_close(losses["loss"], (team - target).square().mean())


def test_illegal_next_actions_have_no_value_and_cut_steps_are_unknown():
    core = Identity(4, "discrete", limit=4, masked=True)
    learner = learner_for(core, "vdn")
    drive(core, learner, 4)  # the toy asserts that every action is legal
    is_known = learner.replay.buffers["known"][:32]
    assert is_known.float().mean() == 0.75, "every fourth step was cut"
    assert learner.replay.buffers["next_mask"][:32].float().mean() == pytest.approx(2 / 3)


def test_qplex_takes_the_best_legal_action_of_each_step():
    core = Identity(4, "discrete", limit=4, masked=True)
    learner = learner_for(core, "qplex")
    drive(core, learner, 4)
    mask, next_mask, starts = (learner.replay.buffers[name][:32] for name in ("mask", "next_mask", "episode_starts"))
    assert torch.equal(mask[1:][~starts[1:]], next_mask[:-1][~starts[1:]])
    values, seen = torch.tensor([5.0, 1.0, 3.0]).expand(1, 1, 3, 3), []
    alive, legal = torch.tensor([[[True, True, False]]]), torch.tensor([[[[False, True, True]] * 3]])
    batch = {"mask": legal, "state": torch.zeros(1, 1, learner.state_width)}
    learner._team_value(lambda *x: seen.extend(x) or x[0], values, torch.tensor([[[1, 2, 1]]]), alive, batch, "")
    value, _, best, action = seen
    assert (value.tolist(), best.tolist()) == ([[[1.0, 3.0, 0.0]]], [[[3.0, 3.0, 0.0]]])
    assert action.int().tolist() == [[[[0, 1, 0], [0, 0, 1], [0, 0, 0]]]]


def test_truncation_uses_the_state_before_the_next_episode():
    core = Identity(2, limit=4)
    learner = learner_for(core)
    drive(core, learner, 1)
    buffers = learner.replay.buffers
    state, next_state = buffers["state"][:8], buffers["next_state"][:8]
    assert torch.equal(next_state[:3], state[1:4])
    assert torch.equal(next_state[3], state[3]), "the toy's targets last for an episode"
    assert not torch.equal(next_state[3], state[4])


# ---------------------------------------------------------------- isolation of invalid rows


@pytest.mark.parametrize("kind", ["qmix", "qplex"])
@pytest.mark.parametrize("body", ["mlp", "gru"])
@pytest.mark.parametrize("poison", [1e9, float("nan")])
def test_dead_agents_do_not_change_losses_or_statistics(poison, body, kind):
    results = []
    for value in (None, poison):
        learner = learner_for(Corridor(8), kind, learning_starts=0, **(GRU if body == "gru" else {}))
        r, g = learner.rollout, torch.Generator().manual_seed(5)
        r.state = torch.zeros((9, 8, 14))
        r.final_state = torch.zeros((9, 8, 14))
        for _ in range(3):
            r.all_obs.copy_(torch.randn(r.all_obs.shape, generator=g))
            r.state.copy_(torch.randn(r.state.shape, generator=g))
            r.action.copy_(torch.randint(2, r.action.shape, generator=g))
            r.reward.copy_(torch.randn(r.reward.shape, generator=g))
            # one agent of world 0 dies at step 2, both of world 1; the second of world 2 is dead until step 4
            r.valid.fill_(True)
            r.valid[3:, 0, 0] = False
            r.valid[3:, 1] = False
            r.terminated[2, 0, 0] = r.terminated[2, 1] = True
            r.valid[:4, 2, 1] = False
            if value is not None:
                r.obs[~r.valid] = value
                r.last_obs[~r.valid[-1]] = value
                r.reward[~r.valid] = value
                r.final_obs.fill_(value)
                r.final_state.fill_(value)  # no episode is cut
                r.state[:-1][~r.valid.any(-1)] = value
                learner.hidden_states.remembered[~r.valid] = value
            r.t = r.length
            metrics = learner.update()
        results.append((learner.net.state_dict(), metrics))
    (clean, first), (dirty, second) = results
    assert all(torch.equal(tensor, dirty[name]) for name, tensor in clean.items())
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert all(tensor.isfinite().all() for tensor in dirty.values())


def test_state_of_wrong_shape_is_refused():
    first, other = gru(RecallOfThree(4)), gru(RecallOfThree(4))
    state = first.state_dict()
    del state["carried.hidden_state"]
    message = r"learner state carried: hidden_state: expected shape \(4, 2, 16\), got noth"
    with pytest.raises(CheckpointError, match=message):
        other.load_state_dict(state)


# ---------------------------------------------------------------- refusals


def test_unsupported_specs_are_refused():
    team = LearnerSpec(3, TWO, 2, 2, 100, turn_based=True, state_width=6)
    with pytest.raises(ConfigError, match="expected agents that all act at every step, got a turn-based game"):
        QMIX(QMIXConfig(), team)
    with pytest.raises(ConfigError, match=r"learner.mixer='qmix': expected an environment with a global state"):
        QMIX(QMIXConfig(), LearnerSpec(3, TWO, 2, 2, 100))
    with pytest.raises(ConfigError, match=r"learner.replay_size = 1000000000000000: needs"):
        QMIX(QMIXConfig(replay_size=10**15), LearnerSpec(3, TWO, 2, 2, 100, state_width=6))
    with pytest.raises(ConfigError, match=r"action values: expected Discrete actions"):
        QMIX(QMIXConfig(mixer="vdn"), LearnerSpec(3, spaces.Box(-1, 1, (2,)), 2, 2, 100))
    with pytest.raises(ConfigError, match=r"learner.mixer: expected 'vdn', which vdn fixes, got 'qmix'"):
        algorithm_specs.find("vdn").settings(mixer="qmix")
    with pytest.raises(ConfigError, match=r"learner.window: expected an int >= 1, got 0"):
        QMIXConfig(window=0)


def test_vdn_needs_no_state():
    assert learner_for(TwoStep(4), "vdn").state_width == 0
