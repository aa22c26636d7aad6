"""Actor-critics whose critic gets the global state."""

import climbers
import pytest
import torch
from actor_critics import KINDS, learner_for, trainer_of
from toy import announce
from toy_core import Corridor, Identity

from gpu_envs.errors import ConfigError
from trainers.algorithms.off_policy.qmix import QMIXConfig
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.base.transition import Transition
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint


def test_mappo_critic_uses_global_state_and_actor_its_own_observation(tmp_path):
    trainer = trainer_of(Identity(8), KINDS["mappo"][1], tmp_path, "mappo")
    trainer.collector.collect()
    trainer.log.close()
    even, odd = trainer.assignments["even"].learner, trainer.assignments["odd"].learner
    assert (even.net.critic_input.width, odd.net.critic_input.width) == (9 + 2, 9)  # one agent needs no number
    original, policy = even.batch(), even.policy()
    obs = even.rollout.obs.clone()
    actions = policy.act(obs, greedy=True)
    even.rollout.state[:, :, 3:6] += 1.0  # observation of odd_1
    after = even.batch()
    assert not torch.isclose(original["value"], after["value"]).any()
    assert torch.equal(original["obs"], after["obs"])
    assert torch.equal(policy.act(obs, greedy=True), actions)
    assert policy.obs_width == 3
    assert not any(name.startswith("critic") for name in policy.net.state_dict())
    pair = after["value"].view(8, 8, 2)
    assert not torch.isclose(pair[..., 0], pair[..., 1]).any()  # the critic distinguishes the two even agents


@pytest.mark.parametrize("kind", ["mappo", "a2c, all else"])
def test_global_state_critic_values_final_state_at_truncation(kind):
    # V(state) = state and rewards 0, gamma = lambda = 1: the target of every step is the value at its trajectory's
    # end
    exact = {"gamma": 1.0, "gae_lambda": 1.0, "normalize_advantage": False, "critic_input": "state", "network": "mlp"}
    core = Corridor(2)
    core.num_agents = 1
    learner = learner_for(kind, core, state_width=1, rollout_length=4, **exact)
    learner.net.critic = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(learner.net.critic.weight)
    zero, three = torch.zeros(2, 1), torch.full((2, 1), 3.0)
    for t in range(4):
        learner.act(torch.zeros(2, 1, 7), state=zero)
        cut = torch.tensor([[t == 1], [t == 2]])
        final = torch.tensor([[5.0], [7.0]]).masked_fill(~cut, torch.nan)  # world 0 is cut at step 1, world 1 at 2
        obs = torch.zeros(2, 1, 7)
        learner.observe(Transition(zero, zero.bool(), cut, zero == 0, obs, obs, next_state=three, final_state=final))
    returns = learner.batch()["returns"].view(4, 2)
    torch.testing.assert_close(returns, torch.tensor([[5.0, 7.0], [5.0, 7.0], [3.0, 7.0], [3.0, 3.0]]))


@pytest.mark.parametrize("algorithm", ["mappo", "qmix"])
def test_episodes_cut_by_the_limit_are_valued_by_their_last_global_state(monkeypatch, algorithm, tmp_path):
    """Both agents climb, one of them leaves at the top; heights and who is alive are the environment's own state."""
    announce(monkeypatch, "Climbers-v0", climbers)
    settings = {"rollout_length": 12, "hidden_sizes": (8,)}
    if algorithm == "mappo":
        exact = {"gamma": 1.0, "gae_lambda": 1.0, "normalize_advantage": False, "num_minibatches": 1}
        config = PPOConfig(**settings, **exact, critic_input="state")
    else:
        config = QMIXConfig(**settings, replay_size=10_000, network="mlp")
    env = {"env": {"max_steps": 5, "top": 7}}
    trainer = trainer_of("Climbers-v0", config, tmp_path, algorithm, num_envs=6, **env)
    learner = trainer.assignments["climber"].learner
    trainer.collector.collect()
    trainer.log.close()
    r = learner.rollout
    height, last = torch.zeros(6, 2), torch.zeros(12, 6, 4)
    for t in range(12):  # the true last states, by the rules
        height = torch.where(r.valid[t], height + r.reward[t], float(climbers.GONE))
        left = r.terminated[t] | ~r.valid[t]
        last[t] = torch.cat([height, (~left).float()], 1)
        height = height.masked_fill(r.episode_starts[t + 1].unsqueeze(1), 0.0)
    cut = (r.truncated & r.valid).any(2)
    assert cut.sum() >= 6
    assert torch.equal(r.next_state()[cut], last[cut])
    assert torch.equal(r.next_state()[~cut], r.state[1:][~cut])
    if algorithm == "mappo":  # whose agents also reach the top; V(state) = the height of climber_1 / 4
        learner.net.critic = torch.nn.Linear(4 + 2, 1, bias=False)
        learner.net.critic.weight.data = torch.tensor([[0.0, 0.25, 0.0, 0.0, 0.0, 0.0]])
        assert r.terminated.any()
        target = torch.where(r.truncated, 0.25 * last[..., 1:2], torch.zeros(()))  # after the last step
        after = 0.25 * r.state[-1][:, 1:2].expand(6, 2)
        expected = torch.zeros(12, 6, 2)
        for t in reversed(range(12)):
            after = torch.where(r.terminated[t], 0.0, torch.where(r.truncated[t], target[t], after))
            after = expected[t] = r.reward[t] + after
        returns = torch.zeros(12 * 6 * 2)
        batch = learner.batch()
        returns[batch["rows"]] = batch["returns"]
        torch.testing.assert_close(returns.view(12, 6, 2)[r.valid], expected[r.valid])


def test_truncation_without_final_state_raises():
    core = Corridor(2)
    learner = learner_for("mappo", core, state_width=1, rollout_length=1)
    zero, obs = torch.zeros(2, 2), torch.zeros(2, 2, 7)
    learner.act(obs, state=torch.zeros(2, 1))
    with pytest.raises(ConfigError, match=r"Transition.final_state: expected a state \(E, S\)"):
        learner.observe(Transition(zero, zero.bool(), zero == 0, zero == 0, obs, obs, next_state=torch.zeros(2, 1)))


@pytest.mark.parametrize(
    ("env_id", "env", "widths"),
    [
        ("SimpleSpread-v0", {}, [3 * 18 + 3]),
        ("SimpleSpeakerListener-v0", {}, [3 + 11, 3 + 11]),  # true widths of one speaker and one listener
        ("TagContinuous-v0", {"num_taggers": 2, "num_runners": 3, "episode_length": 6}, None),
    ],
)
def test_mappo_trains_on_real_environments(env_id, env, widths, tmp_path):
    """TagContinuous has its own global state; its evaluation uses truncated episodes."""
    config = TrainConfig(
        env_id, env, num_envs=4, total_steps=64, eval_episodes=4, num_threads=1, checkpoint_interval=1,
        algorithm="mappo",
        learner=KINDS["mappo"][1],
    )  # fmt: skip
    trainer = Trainer(config, tmp_path)
    trainer.run()
    actual = [seat.learner.net.critic_input.width for seat in trainer.assignments.values()]
    if widths is not None:
        assert actual == widths
    for seat in trainer.assignments.values():
        assert float(seat.learner.net.critic_input.normalizer.count) == 64
    assert checkpoint.load(tmp_path).policies


def test_mappo_and_ippo_fix_the_critic_input():
    assert TrainConfig("SimpleSpread-v0", algorithm="mappo").learner.critic_input == "state"
    with pytest.raises(ConfigError, match=r"learner\.critic_input: expected 'state', which mappo fixes, got 'obs'"):
        TrainConfig("SimpleSpread-v0", algorithm="mappo", learner=PPOConfig())
    with pytest.raises(ConfigError, match=r"learner\.critic_input: expected 'obs', which ippo fixes, got 'state'"):
        TrainConfig("SimpleSpread-v0", algorithm="ippo", learner=PPOConfig(critic_input="state"))
    assert (
        TrainConfig("SimpleSpread-v0", algorithm="ppo", learner=PPOConfig(critic_input="state")).learner.central_input
        == "state"
    )
