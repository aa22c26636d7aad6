"""Best responses that are learned: only from the learner's own steps, the same for the same seed, and good."""

import dataclasses

import pytest
import torch
from always import PURE

from gpu_envs.errors import ConfigError, GpuEnvsError
from league.game import Game
from league.population import RandomPolicy
from league.response import Training, begin_from, respond
from league.seating import LEARNER, Draw
from trainers import algorithms
from trainers.config import TrainConfig
from trainers.ppo import PPOConfig

RPS, KUHN = "RockPaperScissors-v0", "KuhnPoker-v0"
QUICK = {"rollout_length": 4, "hidden": (8,)}
REPLAYED = {**QUICK, "learning_starts": 16, "batch_size": 16}


def config(env_id: str, algorithm: str = "ppo", learner: dict | None = None, **changes) -> TrainConfig:
    settings = algorithms.find(algorithm).settings(**(QUICK if learner is None else learner))
    return TrainConfig(
        env_id, **{"num_envs": 8, "total_steps": 640, "algorithm": algorithm, "learner": settings, **changes}
    )


def weights(net: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in net.state_dict().items()}


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


ALGORITHMS = [
    ("ppo", QUICK),
    ("ppo", {**QUICK, "body": "gru"}),
    ("mappo", QUICK),
    ("a2c", QUICK),
    ("dqn", REPLAYED),
    ("sac", REPLAYED),
]


@pytest.mark.parametrize(("algorithm", "settings"), ALGORITHMS)
def test_who_never_learns_stays_as_it_was_normaliser_included(algorithm, settings):
    game = Game.of(RPS, {"num_steps": 6})
    for learns in (False, True):
        draw = Draw(torch.tensor([[LEARNER, 1], [LEARNER, LEARNER]]), learns=torch.tensor([[learns, False]] * 2))
        training = Training(game, draw, {"player": PURE}, config(RPS, algorithm, settings))
        learner = training.learner("player")
        before = weights(learner.net)
        for _ in range(4):
            training.iterate()
        assert equal(before, weights(learner.net)) is not learns


@pytest.mark.parametrize(("algorithm", "settings"), ALGORITHMS)
def test_what_others_do_in_a_learners_rows_is_never_read(algorithm, settings):
    """The learner plays both seats and learns from one; whatever stands in the other's rows makes no difference."""
    game = Game.of(RPS, {"num_steps": 6})
    draw = Draw.against(game, "player", [torch.tensor([0.5, 0.5])] * 2)
    found = []
    for spoiled in (False, True):
        training = Training(game, draw, {"player": PURE[:2]}, config(RPS, algorithm, settings))
        learner = training.learner("player")
        for iteration in range(4):
            training.collector.collect()
            rollout = learner.rollout
            others = ~rollout.valid
            assert bool((others.sum(-1) == 1).all())
            if spoiled:
                rollout.obs[others] = 3.0
                rollout.action[others] = 2
                rollout.log_prob[others] = 5.0
                rollout.reward[others] = torch.nan
            training.collector.update(iteration, str)
        found.append(weights(learner.net))
    assert equal(*found)


@pytest.mark.parametrize(("algorithm", "settings"), [("ppo", QUICK), ("dqn", REPLAYED)])
def test_the_same_seed_gives_the_same_policy(algorithm, settings):
    """Opponents that draw from streams of their own, used before, included."""
    game = Game.of(KUHN)
    draw = Draw.against(game, "player_1", [torch.ones(2) / 2, torch.ones(1)])
    pools = {"player_0": [RandomPolicy.of(game, "player_0"), PURE[1]]}
    found = [respond(game, "player_1", draw, pools, config(KUHN, algorithm, settings), seed=seed) for seed in (3, 3, 4)]
    policies = [weights(response.policy.net) for response in found]
    assert equal(policies[0], policies[1])
    assert not equal(policies[0], policies[2])
    first = found[0]
    assert first.steps == 640
    assert first.tally.matchups.tolist() == [[0, LEARNER], [1, LEARNER]]
    assert first.episodes == int(first.tally.count.sum()) > 200
    assert torch.equal(first.tally.total[:, 0], -first.tally.total[:, 1])
    assert first.seconds > 0


def test_only_who_learns_has_a_learner():
    game = Game.of("SimpleTag-v0")
    draw = Draw.against(game, "adversary", [torch.ones(1)] * 2)
    pools = {"agent": [RandomPolicy.of(game, "agent")]}
    training = Training(game, draw, pools, config("SimpleTag-v0"))
    assert list(training.collector.seats) == ["adversary"]
    assert training.seating.learns[0].tolist() == [True, True, True, False]
    with pytest.raises(ConfigError, match="role 'agent' has no learner, only adversary"):
        training.learner("agent")
    both = Training(game, Draw.self_play(game), {}, config("SimpleTag-v0"))
    assert list(both.collector.seats) == ["adversary", "agent"]
    row = both.iterate()
    assert {"adversary/policy_loss", "agent/policy_loss", "return", "score"} <= row.keys()


def test_a_training_starts_from_the_weights_of_a_policy_or_of_a_learner():
    game = Game.of(KUHN)
    draw = Draw.against(game, "player_0", [torch.ones(1)] * 2)
    pools = {"player_1": [PURE[0]]}
    for algorithm, settings in (("ppo", QUICK), ("dqn", REPLAYED)):
        first = Training(game, draw, pools, config(KUHN, algorithm, settings))
        for _ in range(3):
            first.iterate()
        learner = first.learner("player_0")
        fresh = Training(game, draw, pools, config(KUHN, algorithm, settings, seed=9)).learner("player_0")
        begin_from(fresh, learner.policy(), "player_0")
        assert equal(weights(fresh.policy().net), weights(learner.policy().net))
        assert not equal(weights(fresh.net), weights(learner.net)), "a policy has no critic"
        if algorithm == "dqn":
            assert equal(weights(fresh.target), weights(fresh.actor))
        begin_from(fresh, learner.state_dict(), "player_0")
        assert equal(weights(fresh.net), weights(learner.net))
        with pytest.raises(ConfigError, match="expected shape"):
            Training(
                game,
                draw,
                pools,
                config(KUHN, algorithm, {**settings, "hidden": (9,)}),
                {"player_0": learner.policy()},
            )
    with pytest.raises(ConfigError, match="found no weights"):
        begin_from(fresh, {}, "player_0")


def test_a_training_ends_early_and_tells_how_it_goes():
    game, told = Game.of(RPS, {"num_steps": 1}), []
    draw = Draw.against(game, "player", [torch.ones(1)] * 2)
    response = respond(
        game,
        "player",
        draw,
        {"player": PURE[2:]},
        config(RPS),
        until=lambda row: row["steps"] >= 96,
        progress=lambda steps, text: told.append((steps, text)),
    )
    assert response.steps == 96 == response.episodes
    assert [steps for steps, _ in told] == [32, 64, 96]
    assert told[0][1].startswith("player: return ")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env_id": "TicTacToe-v0"}, "expected the environment of the game"),
        ({"env": {"num_players": 3}}, "expected the environment of the game"),
        ({"until_return": 1.0}, "train.until_return = 1.0: expected none"),
    ],
)
def test_a_configuration_of_something_else_is_refused(changes, message):
    game = Game.of(KUHN)
    draw = Draw.against(game, "player_0", [torch.ones(1)] * 2)
    with pytest.raises(ConfigError, match=message):
        respond(game, "player_0", draw, {"player_1": PURE}, dataclasses.replace(config(KUHN), **changes))


def test_what_cannot_learn_a_response_is_refused():
    game = Game.of(KUHN)
    draw = Draw.against(game, "player_0", [torch.ones(1)] * 2)
    with pytest.raises(ConfigError, match="only one that learns, but the draw seats player_1, too"):
        respond(game, "player_0", Draw.self_play(game), {}, config(KUHN))
    with pytest.raises(ConfigError, match="role 'player_1' has no learner"):
        respond(game, "player_1", draw, {"player_1": PURE}, config(KUHN))
    tag = Game.of("SimpleTag-v0", {"continuous_actions": True})
    draw = Draw.against(tag, "agent", [torch.ones(1)] * 2)
    pools = {"adversary": [RandomPolicy.of(tag, "adversary")]}
    with pytest.raises(ConfigError, match="critics need a learner of every policy"):
        respond(tag, "agent", draw, pools, config("SimpleTag-v0", "maddpg", REPLAYED))
    rps = Game.of(RPS)
    with pytest.raises(ConfigError, match="takes all seats for one team"):
        respond(rps, "player", Draw.self_play(rps), {}, config(RPS, "qmix", REPLAYED))


def test_a_training_that_comes_apart_is_ended():
    game = Game.of(KUHN)
    draw = Draw.against(game, "player_0", [torch.ones(1)] * 2)
    wild = config(KUHN, learner={**QUICK, "learning_rate": 1e38, "learning_rate_end": 1e38})
    with pytest.raises(GpuEnvsError, match="nothing of this training was kept"):
        respond(game, "player_0", draw, {"player_1": PURE}, wild)


def test_the_best_response_to_a_mixture_that_is_drawn_per_episode():
    """Half rock, some paper, some scissors: paper, which earns 0.5 - 0.2, in either seat."""
    game = Game.of(RPS, {"num_steps": 1})
    draw = Draw.against(game, "player", [torch.tensor([0.5, 0.3, 0.2])] * 2)
    ppo = PPOConfig(rollout_length=4, learning_rate=0.03, entropy=0.0, entropy_end=0.0, hidden=(16,), gamma=1.0)
    train = TrainConfig(RPS, num_envs=256, total_steps=40 * 1024, learner=ppo, threads=1)
    response = respond(game, "player", draw, {"player": PURE}, train, seed=1)
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
def test_a_learned_best_response_in_kuhn_poker_earns_nearly_all_that_can_be_had(role):
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
        rollout_length=16, learning_rate=0.01, gamma=1.0, gae_lambda=1.0, entropy=0.02, entropy_end=0.0, hidden=(32,)
    )
    train = TrainConfig(KUHN, num_envs=128, total_steps=60 * 2048, learner=ppo, threads=1)
    draw = Draw.against(game, role, [torch.ones(1)] * 2)
    response = respond(game, role, draw, pools, train, seed=2)
    learned = spiel_policy.TabularPolicy(uniform.game, players=(seat,))
    for state, row in zip(learned.states, learned.action_probability_array, strict=True):
        seen = torch.tensor(state.information_state_tensor(seat)).expand(10_000, -1)  # what we show, too
        row[1] = float(response.policy.act(seen).double().mean())
        row[0] = 1 - row[1]
    players = [learned, uniform] if seat == 0 else [uniform, learned]
    earned = policy_value(uniform.game.new_initial_state(), players)[seat]
    assert earned >= 0.95 * exact
    assert earned <= exact + 1e-9
