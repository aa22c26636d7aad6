"""DQN in complete training: invalid rows, seeds, resumed runs and solved tasks."""

import pytest
import torch
from dqn_learners import drive, learner_for
from toy_core import Corridor, Identity, make_toy

from gpu_envs.errors import CheckpointError
from trainers.algorithms.off_policy.dqn import DQN, DQNConfig
from trainers.base.learner_spec import LearnerSpec
from trainers.base.transition import Transition
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint

# ---------------------------------------------------------------- isolation of invalid rows


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("poison", [1e9, float("nan")])
def test_dead_agents_do_not_change_losses_or_statistics(poison, prioritized):
    results = []
    for value in (None, poison):
        learner = learner_for(Corridor(8), learning_starts=0, n_step=3, prioritized=prioritized, batch_size=256)
        r, g = learner.rollout, torch.Generator().manual_seed(5)
        for _ in range(3):
            r.all_obs.copy_(torch.randn(r.all_obs.shape, generator=g))
            r.action.copy_(torch.randint(2, r.action.shape, generator=g))
            r.reward.copy_(torch.randn(r.reward.shape, generator=g))
            # agents of worlds 0 and 1 die at step 2; world 2's are dead until step 4; world 3's second is cut at step 5
            r.valid.fill_(True)
            r.valid[3:, :2] = False
            r.terminated[2, :2] = True
            r.valid[:4, 2] = False
            r.valid[6:, 3, 1] = False
            r.truncated[5, 3, 1] = True
            r.final_obs[0] = 0.5
            r.final_slot[5, 3, 1] = 0
            if value is not None:
                r.obs[~r.valid] = value
                r.last_obs[~r.valid[-1]] = value
                r.reward[~r.valid] = value
                r.final_obs[1:] = value
            r.t = r.length
            metrics = learner.update()
        results.append((learner.net.state_dict(), metrics))
    (clean, first), (dirty, second) = results
    assert all(torch.equal(tensor, dirty[name]) for name, tensor in clean.items())
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert all(tensor.isfinite().all() for tensor in dirty.values())


def test_run_resumes_only_from_its_newest_checkpoint(tmp_path):
    learner = DQNConfig(rollout_length=8, learning_starts=0, replay_size=256, hidden_sizes=(8,))
    config = TrainConfig(
        "Corridor",
        num_envs=8,
        total_steps=384,
        checkpoint_interval=2,
        eval_episodes=0,
        algorithm="dqn",
        learner=learner,
    )
    trainer = Trainer(config, tmp_path, None, make_toy)
    for _ in range(4):
        trainer.iterate()
    trainer.log.close()
    older, newest = (checkpoint.load(tmp_path / "checkpoints" / f"00000000{i}") for i in (2, 4))
    files = sorted(tmp_path.rglob("*"))
    with pytest.raises(CheckpointError, match=r"000000002: only the newest .* resume from .*000000004 "):
        Trainer(config, None, older, make_toy)
    assert sorted(tmp_path.rglob("*")) == files
    assert Trainer(config, None, newest, make_toy).run().name == "000000006"


# ---------------------------------------------------------------- learning


@pytest.mark.variations
@pytest.mark.parametrize(
    "changes",
    [{}, {"dueling": True, "n_step": 3}, {"prioritized": True}, {"double": False, "tau": 1.0, "target_every": 20}],
)
def test_dqn_solves_corridor_with_agents_that_die_one_by_one(changes):
    core = Corridor(16)
    learner = learner_for(core, **changes)
    drive(core, learner, 40)
    assert learner.policy().act(torch.eye(7)[:6]).tolist() == [1] * 6


def test_dqn_solves_identity_under_masks():
    core = Identity(16, "discrete", limit=4, masked=True)
    learner = learner_for(core, gamma=0.5)
    core.groups = {"even": (0, 2), "odd": (1,)}
    part = DQN(
        learner.config, LearnerSpec(core.obs_width, core.action_spaces["even_0"], 16, 2, 5_000, has_action_mask=True)
    )
    core.reset()
    rows = [0, 2]
    for _ in range(40):
        for _ in range(8):
            action = core.sample_actions()
            action[:, rows] = part.act(core.obs[:, rows], core.mask[:, rows])
            core.step(action)  # the toy asserts that every action is legal
            tensors = (core.reward, core.terminated, core.truncated, core.valid, core.obs, core.final_obs)
            part.observe(Transition(*(tensor[:, rows] for tensor in tensors), next_mask=core.mask[:, rows]))
        part.update()
    answer = part.policy().act(core.obs[:, rows], core.mask[:, rows])
    assert torch.equal(answer, core.obs[:, rows].argmax(-1))
