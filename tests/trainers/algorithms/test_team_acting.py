"""How QMIX's agents act: with hidden states, agent indices, and in several groups."""

import pytest
import torch
from team_learners import drive, gru, learner_for
from toy_core import Identity, RecallOfThree, TwoStep

from gpu_envs.errors import ConfigError
from trainers.base.transition import Transition
from trainers.evaluation.policy_evaluation import evaluate_policies
from trainers.models.networks import with_ids
from trainers.models.policy import Policy
from trainers.models.policy_set import PolicyRunner
from trainers.runner.agent_assignment import CriticState
from trainers.storage.policy_export import export_policy


def test_windows_start_with_the_hidden_state_of_acting():
    core = RecallOfThree(4)
    learner = gru(core, learning_starts=10**9, normalize_obs=False, epsilon=0.0, epsilon_final=0.0)
    central = CriticState(core, learner.central_input)
    core.reset()
    acted = []
    for _ in range(2):
        for _ in range(8):
            core.step(learner.act(core.obs, None, None, central.now()))
            acted.append(learner.hidden_states.state.clone())
            learner.observe(
                Transition(
                    core.reward, core.terminated, core.truncated, core.valid, core.obs, core.final_obs,
                    restarted=core.elapsed_steps == 0, next_state=central.now(), final_state=central.final(),
                )
            )  # fmt: skip
        learner.update()
    acted = torch.stack(acted)
    for start in (0, 1, 2):  # an episode starts at 0: 1 and 2 are in the middle of it
        states = learner.hidden_states
        states.burn_in, states.window = 0, 16 - start
        window = states.sample(learner.replay, torch.full((4,), start), torch.arange(4))
        inputs, past = learner._inputs(window["obs"]), window["hidden_state"]
        torch.testing.assert_close(states.unroll(learner.actor, inputs, window, past)[1], acted[start:])
        assert window["episode_starts"][:, 0].nonzero().flatten().tolist() == [
            t - start for t in range(start, 16) if t % 3 == 0
        ]
        states.burn_in = 5
        torch.testing.assert_close(states.unroll(learner.actor, inputs, window, past)[1], acted[start:])
    stale = torch.full_like(past, 7.0)  # no hidden state crosses episodes
    torch.testing.assert_close(states.unroll(learner.actor, inputs, window, stale)[1][1:], acted[3:])
    assert not learner.replay.buffers["hidden_state"][learner.replay.buffers["episode_starts"]].any()


@pytest.mark.parametrize("burn_in", [0, 2])
def test_gradients_depend_on_the_stored_hidden_state(burn_in):
    """The same window gives different gradients after different past steps."""
    losses = []
    for shift in (0.0, 1.0):
        core = RecallOfThree(4)
        learner = gru(core, learning_starts=10**9, burn_in=burn_in)
        drive(core, learner, 4)
        learner.replay.buffers["hidden_state"] += shift
        learner.replay.buffers["episode_starts"].zero_()
        losses.append(float(learner._learn()["q_loss"]))
    assert losses[0] != losses[1]


def test_recurrent_policy_solves_recall_and_is_restored_from_disk(tmp_path):
    core = RecallOfThree(16)
    learner = gru(
        core,
        kind="vdn",
        burn_in=1,
        learning_rate=1e-2,
        batch_size=32,
        epsilon_fraction=0.3,
        updates=4,
        gamma=0.9,
        tau=0.2,
    )
    drive(core, learner, 40)
    policy = learner.policy()
    policy.save(tmp_path / "policy")
    for player in (policy, Policy.load(tmp_path / "policy")):
        assert evaluate_policies(core, {"player": player}, seed=1).returns["player"].mean == 2.0


def test_agents_get_one_hot_indices():
    x = torch.zeros((4, 3, 2))
    assert torch.equal(with_ids(x, 3)[2, :, 2:], torch.eye(3))
    assert with_ids(x, 0) is x
    learner = learner_for(TwoStep(2))
    policy = learner.policy()
    assert policy.act(torch.zeros(5, 2, 3)).shape == (5, 2)
    with pytest.raises(
        ConfigError, match=r"policy with indices of 2 agents: expected observations \(..., 2, D\), got \(5, 3\)"
    ):
        policy.act(torch.zeros(5, 3))


@pytest.mark.parametrize("body", ["mlp", "gru"])
def test_exported_policy_plays_a_team(body, tmp_path):
    policy = learner_for(TwoStep(2), network=body, hidden_sizes=(8,)).policy()
    signature = export_policy(policy, tmp_path / "p.pt2", masked=True)  # compares the exported program with the policy
    takes = "obs (N, 2, 3), mask (N, 2, 2)" + (", hidden_state (N, 2, 8)" if body == "gru" else "")
    assert signature == f"{takes} -> action (N, 2) int64, parameters{', next_hidden_state' if body == 'gru' else ''}"


def test_agents_of_several_groups_act_as_one_team():
    core = Identity(4)  # two groups, rows (0, 2) and (1,)
    learner = learner_for(core, "vdn")
    policy = learner.policy()
    core.reset()
    cast = PolicyRunner(core, {"even": policy, "odd": policy})
    rows = [0, 2, 1]
    expected = policy.act(core.obs[:, rows])
    assert torch.equal(cast.act(core.obs, core.info)[:, rows], expected)
    assert evaluate_policies(core, {"even": policy, "odd": policy}, seed=1).episodes == 4
