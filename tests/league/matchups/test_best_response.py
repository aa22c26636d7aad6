"""Best responses that are learned: only from the learner's own steps, the same for the same seed, and good."""

import dataclasses

import pytest
import torch
from always import PURE

from gpu_envs.errors import ConfigError, GpuEnvsError
from league.game import Game
from league.matchups.best_response import BestResponseTraining, train_best_response
from league.matchups.matchup_distribution import LEARNER, MatchupDistribution
from league.policies.random import RandomPolicy
from trainers.algorithms import algorithm_specs
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.config.train_config import TrainConfig
from trainers.runner.initial_weights import begin_from

RPS, KUHN = "RockPaperScissors-v0", "KuhnPoker-v0"
QUICK = {"rollout_length": 4, "hidden_sizes": (8,)}
REPLAYED = {**QUICK, "learning_starts": 16, "batch_size": 16}


def config(env_id: str, algorithm: str = "ppo", learner: dict | None = None, **changes) -> TrainConfig:
    settings = algorithm_specs.find(algorithm).settings(**(QUICK if learner is None else learner))
    return TrainConfig(
        env_id, **{"num_envs": 8, "total_steps": 640, "algorithm": algorithm, "learner": settings, **changes}
    )


def weights(net: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in net.state_dict().items()}


def equal(first: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return first.keys() == other.keys() and all(torch.equal(first[name], other[name]) for name in first)


ALGORITHMS = [
    ("ppo", QUICK),
    ("ppo", {**QUICK, "network": "gru"}),
    ("dqn", REPLAYED),
    ("mappo", QUICK),
    ("a2c", QUICK),
    ("sac", REPLAYED),
    ("dqn", {**REPLAYED, "network": "gru", "window": 2, "burn_in": 1}),
]


@pytest.mark.variations(quick=3)
@pytest.mark.parametrize(("algorithm", "settings"), ALGORITHMS)
def test_opponents_and_their_normalizers_do_not_change(algorithm, settings):
    game = Game.of(RPS, {"num_repetitions": 6})
    for learns in (False, True):
        draw = MatchupDistribution(
            torch.tensor([[LEARNER, 1], [LEARNER, LEARNER]]), learns=torch.tensor([[learns, False]] * 2)
        )
        training = BestResponseTraining(game, draw, {"player": PURE}, config(RPS, algorithm, settings))
        learner = training.learner("player")
        previous = weights(learner.net)
        for _ in range(4):
            training.iterate()
        assert equal(previous, weights(learner.net)) is not learns


@pytest.mark.variations(quick=3)
@pytest.mark.parametrize(("algorithm", "settings"), ALGORITHMS)
def test_learner_ignores_actions_of_other_policies_in_its_rows(algorithm, settings):
    """The learner plays both seats and learns from one; whatever stands in the other's rows makes no difference."""
    game = Game.of(RPS, {"num_repetitions": 6})
    draw = MatchupDistribution.against(game, "player", [torch.tensor([0.5, 0.5])] * 2)
    states = []
    for spoiled in (False, True):
        training = BestResponseTraining(game, draw, {"player": PURE[:2]}, config(RPS, algorithm, settings))
        learner = training.learner("player")
        for iteration in range(4):
            training.collector.collect()
            rollout = learner.rollout
            invalid = ~rollout.valid
            assert bool((invalid.sum(-1) == 1).all())
            if spoiled:
                rollout.obs[invalid] = 3.0
                rollout.action[invalid] = 2
                rollout.log_prob[invalid] = 5.0
                rollout.reward[invalid] = torch.nan
            training.learners.update(iteration, str)
        states.append(weights(learner.net))
    assert equal(*states)


@pytest.mark.parametrize(
    ("algorithm", "settings"), [("ppo", {**QUICK, "num_epochs": 1, "num_minibatches": 1}), ("dqn", REPLAYED)]
)
def test_equal_seeds_give_equal_policies(algorithm, settings):
    """This includes opponents that draw from their own random streams, used before."""
    game = Game.of(KUHN)
    draw = MatchupDistribution.against(game, "player_1", [torch.ones(2) / 2, torch.ones(1)])
    pools = {"player_0": [RandomPolicy.of(game, "player_0"), PURE[1]]}
    responses = [
        train_best_response(
            pools,
            game=game,
            role="player_1",
            draw=draw,
            train=config(KUHN, algorithm, settings, total_steps=320),
            seed=seed,
        )
        for seed in (3, 3, 4)
    ]
    policies = [weights(response.policy.net) for response in responses]
    assert equal(policies[0], policies[1])
    assert not equal(policies[0], policies[2])
    first = responses[0]
    assert first.steps == 320
    assert first.tally.matchups.tolist() == [[0, LEARNER], [1, LEARNER]]
    assert first.episodes == int(first.tally.count.sum()) > 100
    assert torch.equal(first.tally.total[:, 0], -first.tally.total[:, 1])
    assert first.seconds > 0


def test_only_the_learning_role_has_a_learner():
    game = Game.of("SimpleTag-v0")
    draw = MatchupDistribution.against(game, "adversary", [torch.ones(1)] * 2)
    pools = {"agent": [RandomPolicy.of(game, "agent")]}
    training = BestResponseTraining(game, draw, pools, config("SimpleTag-v0"))
    assert list(training.learners.assignments) == ["adversary"]
    assert training.opponents.learns[0].tolist() == [True, True, True, False]
    with pytest.raises(ConfigError, match="expected a role with a learner \\(adversary\\), got 'agent'"):
        training.learner("agent")
    self_play = BestResponseTraining(game, MatchupDistribution.self_play(game), {}, config("SimpleTag-v0"))
    assert list(self_play.learners.assignments) == ["adversary", "agent"]
    row = self_play.iterate()
    assert {"adversary/policy_loss", "agent/policy_loss", "return", "score"} <= row.keys()


def test_training_starts_from_weights_of_policy_or_learner():
    game = Game.of(KUHN)
    draw = MatchupDistribution.against(game, "player_0", [torch.ones(1)] * 2)
    pools = {"player_1": [PURE[0]]}
    for algorithm, settings in (("ppo", QUICK), ("dqn", REPLAYED)):
        first = BestResponseTraining(game, draw, pools, config(KUHN, algorithm, settings))
        for _ in range(3):
            first.iterate()
        learner = first.learner("player_0")
        fresh = BestResponseTraining(game, draw, pools, config(KUHN, algorithm, settings, seed=9)).learner("player_0")
        begin_from(fresh, learner.policy(), "player_0")
        assert equal(weights(fresh.policy().net), weights(learner.policy().net))
        assert not equal(weights(fresh.net), weights(learner.net)), "a policy has no critic"
        if algorithm == "dqn":
            assert equal(weights(fresh.target), weights(fresh.actor))
        begin_from(fresh, learner.state_dict(), "player_0")
        assert equal(weights(fresh.net), weights(learner.net))
        with pytest.raises(ConfigError, match="expected shape"):
            BestResponseTraining(
                game,
                draw,
                pools,
                config(KUHN, algorithm, {**settings, "hidden_sizes": (9,)}),
                {"player_0": learner.policy()},
            )
    with pytest.raises(ConfigError, match="found no weights"):
        begin_from(fresh, {}, "player_0")


def test_training_stops_early_and_reports_progress():
    game, reports = Game.of(RPS, {"num_repetitions": 1}), []
    draw = MatchupDistribution.against(game, "player", [torch.ones(1)] * 2)
    response = train_best_response(
        {"player": PURE[2:]},
        game=game,
        role="player",
        draw=draw,
        train=config(RPS),
        until=lambda row: row["steps"] >= 96,
        progress=lambda steps, text: reports.append((steps, text)),
    )
    assert response.steps == 96 == response.episodes
    assert [steps for steps, _ in reports] == [32, 64, 96]
    assert reports[0][1].startswith("player: return ")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env_id": "TicTacToe-v0"}, "expected the environment of the game"),
        ({"env": {"num_players": 3}}, "expected the environment of the game"),
        ({"until_return": 1.0}, "train.until_return: expected none in a league, got 1.0"),
    ],
)
def test_training_settings_of_another_game_raise_config_error(changes, message):
    game = Game.of(KUHN)
    draw = MatchupDistribution.against(game, "player_0", [torch.ones(1)] * 2)
    with pytest.raises(ConfigError, match=message):
        train_best_response(
            {"player_1": PURE},
            game=game,
            role="player_0",
            draw=draw,
            train=dataclasses.replace(config(KUHN), **changes),
        )


def test_unsupported_response_trainings_raise_config_error():
    game = Game.of(KUHN)
    draw = MatchupDistribution.against(game, "player_0", [torch.ones(1)] * 2)
    with pytest.raises(ConfigError, match="the only learner of the matchups, got learners of player_1, too"):
        train_best_response(
            {}, game=game, role="player_0", draw=MatchupDistribution.self_play(game), train=config(KUHN)
        )
    with pytest.raises(ConfigError, match="expected a role with a learner \\(player_0\\), got 'player_1'"):
        train_best_response({"player_1": PURE}, game=game, role="player_1", draw=draw, train=config(KUHN))
    tag = Game.of("SimpleTag-v0", {"continuous_actions": True})
    draw = MatchupDistribution.against(tag, "agent", [torch.ones(1)] * 2)
    pools = {"adversary": [RandomPolicy.of(tag, "adversary")]}
    with pytest.raises(ConfigError, match="critics need a learner of every policy"):
        train_best_response(pools, game=tag, role="agent", draw=draw, train=config("SimpleTag-v0", "maddpg", REPLAYED))
    rps = Game.of(RPS)
    with pytest.raises(ConfigError, match="treats all seats as one team"):
        train_best_response(
            {}, game=rps, role="player", draw=MatchupDistribution.self_play(rps), train=config(RPS, "qmix", REPLAYED)
        )


def test_diverged_training_raises_error():
    game = Game.of(KUHN)
    draw = MatchupDistribution.against(game, "player_0", [torch.ones(1)] * 2)
    wild = config(KUHN, learner={**QUICK, "learning_rate": 1e38, "learning_rate_final": 1e38})
    with pytest.raises(GpuEnvsError, match="nothing of this training was kept"):
        train_best_response({"player_1": PURE}, game=game, role="player_0", draw=draw, train=wild)


def test_best_response_to_mixture_sampled_per_episode():
    """Half rock, some paper, some scissors: paper, which earns 0.5 - 0.2, in either seat."""
    game = Game.of(RPS, {"num_repetitions": 1})
    draw = MatchupDistribution.against(game, "player", [torch.tensor([0.5, 0.3, 0.2])] * 2)
    ppo = PPOConfig(
        rollout_length=4, learning_rate=0.03, entropy_coef=0.0, entropy_coef_final=0.0, hidden_sizes=(16,), gamma=1.0
    )
    train = TrainConfig(RPS, num_envs=256, total_steps=25 * 1024, learner=ppo, num_threads=1)
    response = train_best_response({"player": PURE}, game=game, role="player", draw=draw, train=train, seed=1)
    core = game.core(2000)
    action = response.policy.act(core.reset(seed=0)[0])
    assert float((action == 1).float().mean()) > 0.95
    gains = (
        response.tally.total[:, 0].sum() / response.episodes
    )  # the learner in one seat loses what it wins in the other
    assert abs(float(gains)) < 0.05
    assert response.tally.mean_return() > 0.2


@pytest.mark.learning
@pytest.mark.parametrize("role", ["player_0", "player_1"])
def test_learned_best_response_in_kuhn_poker_is_nearly_exact(role):
    pyspiel = pytest.importorskip("pyspiel")
    from open_spiel.python import policy as spiel_policy
    from open_spiel.python.algorithms import best_response
    from open_spiel.python.algorithms.expected_game_score import policy_value

    uniform = spiel_policy.UniformRandomPolicy(pyspiel.load_game("kuhn_poker"))
    seat = int(role[-1])
    oracle = best_response.BestResponsePolicy(uniform.game, seat, uniform)
    exact = oracle.value(uniform.game.new_initial_state())
    game = Game.of(KUHN)
    other = f"player_{1 - seat}"
    pools = {other: [RandomPolicy.of(game, other)]}
    ppo = PPOConfig(
        rollout_length=16,
        learning_rate=0.01,
        gamma=1.0,
        gae_lambda=1.0,
        entropy_coef=0.02,
        entropy_coef_final=0.0,
        hidden_sizes=(32,),
    )
    train = TrainConfig(KUHN, num_envs=128, total_steps=60 * 2048, learner=ppo, num_threads=1)
    draw = MatchupDistribution.against(game, role, [torch.ones(1)] * 2)
    response = train_best_response(pools, game=game, role=role, draw=draw, train=train, seed=2)
    learned = spiel_policy.TabularPolicy(uniform.game, players=(seat,))
    for state, row in zip(learned.states, learned.action_probability_array, strict=True):
        obs = torch.tensor(state.information_state_tensor(seat)).expand(10_000, -1)  # also the observation in gpu-envs
        row[1] = float(response.policy.act(obs, torch.ones(10_000, 2, dtype=torch.bool)).double().mean())
        row[0] = 1 - row[1]
    players = [learned, uniform] if seat == 0 else [uniform, learned]
    earned = policy_value(uniform.game.new_initial_state(), players)[seat]
    assert earned >= 0.95 * exact
    assert earned <= exact + 1e-9
