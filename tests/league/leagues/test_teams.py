"""Leagues of seats whose agents differ in action space: every policy is a team with one network per action space."""

import contextlib
import dataclasses

import pytest
import torch
from small_league import builder, equal, league, records, training

from gpu_envs.cli import main
from gpu_envs.errors import ConfigError
from league.evaluation.approximate_exploitability import approximate_exploitability
from league.executors.process import ProcessExecutor
from league.game import Game
from league.matchups.matchup_distribution import LEARNER, MatchupDistribution
from league.matchups.matchups import simulate_matchups
from league.matchups.opponent_sampler import OpponentSampler
from league.policies.team import TeamPolicy, policy_from_state, random_policy
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.storage.open_run import open_run
from league.storage.run_config import training as training_config
from league.storage.run_store import RunStore
from league.watch.rollouts import record_rollout
from league.watch.sources.base import MIXTURE
from league.watch.sources.league import LeagueRun
from trainers.models.kernel_networks import kernel_policies
from trainers.storage import checkpoint

SHORT = {"max_cycles": 2}
GAME = Game.of("SimpleWorldComm-v0", SHORT)
NAMES = ("leadadversary", "adversary")
SMALL = [f"--train-overrides=learner.{setting}=1" for setting in ("num_epochs", "num_minibatches")]


def test_parts_of_a_seat_are_its_agents_with_one_action_space():
    assert GAME.roles == ("adversary", "agent")
    assert [[part.members for part in parts] for parts in GAME.parts] == [
        [("leadadversary",), ("adversary",)],
        [("agent",)],
    ]
    assert [part.places for part in GAME.parts[0]] == [(0,), (1, 2, 3)]
    assert GAME.learners_of("adversary") == NAMES
    assert GAME.learner_of_member == {"leadadversary": "leadadversary", "adversary": "adversary", "agent": "agent"}
    mixed = Game.of("SimpleWorldComm-v0", roles={"adversary": ("agent", "leadadversary"), "other": ("adversary",)})
    assert mixed.learners_of("adversary") == ("agent", "leadadversary")
    assert mixed.learner_of_member["adversary"] == "other"
    alone = Game.of("SimpleWorldComm-v0", {"num_adversaries": 1})
    assert alone.learners_of("adversary") == ("adversary",)


def test_learner_of_a_part_has_another_name_than_a_role():
    roles = {"hunters": ("leadadversary", "adversary"), "adversary": ("agent",)}
    game = Game.of("SimpleWorldComm-v0", roles=roles)
    assert game.learners_of("hunters") == ("leadadversary", "hunters-adversary")
    assert len(set(game.learner_of_member.values())) == 3


def test_seats_of_one_role_must_have_equal_parts():
    seats = (("leadadversary", "agent_0"), ("adversary", "agent_1"))
    with pytest.raises(ConfigError, match="role side: expected seats with equal action spaces in the same order"):
        Game.of("SimpleWorldComm-v0", roles={"side": seats})


def test_random_team_acts_in_every_action_space_and_is_stored(tmp_path):
    team = random_policy(GAME, "adversary", seed=3)
    assert isinstance(team, TeamPolicy)
    action = team.act(torch.zeros(500, 4, 34))
    assert action[:, 0].unique().tolist() == list(range(20))
    assert action[:, 1:].unique().tolist() == list(range(5))
    team.save(tmp_path / "team")
    loaded = TeamPolicy.load(tmp_path / "team")
    for policy in (team, loaded):
        policy.seed(7)
    assert torch.equal(team.act(torch.zeros(9, 4, 34)), loaded.act(torch.zeros(9, 4, 34)))


@pytest.mark.parametrize(
    ("rules", "continuous"),
    [
        ("alone", False),
        ("latest", True),
        *(pytest.param("alphastar", continuous, marks=pytest.mark.slow) for continuous in (False, True)),
        pytest.param("latest", False, marks=pytest.mark.slow),
    ],
)
def test_league_trains_one_network_per_action_space(rules, continuous, tmp_path):
    game = Game.of("SimpleWorldComm-v0", {**SHORT, "continuous_actions": continuous})
    rules = builder("latest", shared_worlds=False) if rules == "alone" else rules  # roles learn in separate worlds
    running = league(tmp_path, rules, game=game, iterations=2, num_envs=8)
    running.begin()
    name = "main_adversary_0"
    previous = running.store.state(f"live.{name}")
    running.iterate(1)
    group = next(key for key in ("+".join((name, "main_agent_0")), name) if running.store.has_state(f"learner.{key}"))
    state, live = running.store.state(f"learner.{group}"), running.store.state(f"live.{name}")
    for number, learner in enumerate(NAMES):
        weights = {
            key.removeprefix(f"part.{number}."): value for key, value in live.items() if f"part.{number}." in key
        }
        first = {
            key.removeprefix(f"part.{number}."): value for key, value in previous.items() if f"part.{number}." in key
        }
        assert not equal(weights, first)
        assert all(
            torch.equal(value, state[f"learner.{learner}.{key}"])
            for key, value in weights.items()
            if key.startswith("net.")
        )
    assert training(running, group).learner("adversary").policy().places == [[0], [1, 2, 3]]
    rows = running.run()
    assert rows[-1]["episodes"][name] > 0
    population = running.store.populations["adversary"]
    assert [entry.kind for entry in population.entries] == ["team"] * len(population)
    assert bool(running.evaluate().mean.isfinite().all())
    running.store.close()


@pytest.mark.slow
def test_resumed_and_distributed_leagues_are_equal(tmp_path):
    uninterrupted = league(tmp_path / "whole", "alphastar", game=GAME, iterations=2)
    uninterrupted.run()
    uninterrupted.store.close()
    part = league(tmp_path / "parts", "alphastar", game=GAME, iterations=2)
    part.begin()
    part.iterate(1)
    part.store.close()
    with contextlib.closing(ProcessExecutor(1, threads=torch.get_num_threads())) as executor:
        part = league(tmp_path / "parts", "alphastar", game=GAME, iterations=2, executor=executor)
        part.run()
        part.store.close()
    assert records(tmp_path / "whole") == records(tmp_path / "parts")


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["standard", "pipeline", "self_play"])
def test_psro_adds_teams_to_the_population(variant, tmp_path):
    overrides = {"num_envs": 8, "total_steps": 64, "learner.rollout_length": 4, "learner.hidden_sizes": [4]}
    config = PSROConfig(
        iterations=2, variant=variant, response_init="warm_start", episodes_per_matchup=10, train_overrides=overrides
    )
    if variant == "pipeline":
        config = dataclasses.replace(config, response_init="scratch", pipeline_depth=1, num_segments=1)
    with open_run(tmp_path, GAME, "psro", config) as store:
        rows = PSRO(store, config).run()
        kinds = [entry.kind for entry in store.populations["adversary"].entries]
        assert kinds[0] == "team"
        assert kinds.count("team") >= 2
        assert rows[-1]["policies"]["adversary"] == len(kinds)
        team = store.populations["adversary"][len(kinds) - 1 if variant != "self_play" else 1]
        assert isinstance(team, TeamPolicy)
        copy = policy_from_state(team.state_dict())
        obs = torch.randn(5, 4, 34)
        assert torch.equal(team.act(obs, greedy=True), copy.act(obs, greedy=True))


def trained_teams(count):
    """Return populations with `count` trained policies of both roles."""
    train = training_config(GAME, "cpu", {"num_envs": 8, "total_steps": 8, "learner.rollout_length": 1})
    random = {role: [random_policy(GAME, role)] for role in GAME.roles}
    ones = [torch.ones(1, dtype=torch.float64)] * 2
    bound = approximate_exploitability(GAME, random, ones, train, episodes=2, num_responses=count)
    return {role: [*random[role], *bound.responses[role]] for role in GAME.roles}


@pytest.mark.slow
def test_teams_in_kernels_earn_what_they_earn_between_steps():
    pools, matchups = trained_teams(2), [(0, 1), (1, 0), (1, 1), (2, 1), (2, 2)]
    game = Game.of("SimpleWorldComm-v0")
    generator = torch.Generator().manual_seed(0)
    for role in GAME.roles:
        for policy in pools[role][1:]:
            for member in getattr(policy, "members", [policy]):
                for tensor in member.net.parameters():  # strong preferences, so that swapped members would show
                    tensor += torch.randn(tensor.shape, generator=generator)
    result, other = (
        simulate_matchups(pools, game=game, matchups=matchups, episodes=300, seed=3, engine=engine)
        for engine in ("kernel", "torch")
    )
    squares = (result.square + other.square) / 300 - result.mean**2 - other.mean**2
    spread = squares.clamp(min=0).div(300).sqrt()
    assert ((result.mean - other.mean).abs() <= 4.5 * spread + 1e-9).all()
    assert not torch.equal(result.total, other.total)


def test_one_network_for_agents_of_different_action_spaces_is_refused():
    pools = trained_teams(1)
    with pytest.raises(ConfigError, match="seat adversary: policy 1: expected a team, because its agents differ"):
        simulate_matchups(
            {**pools, "adversary": pools["agent"]}, game=GAME, matchups=[(1, 1)], episodes=2, seed=0, engine="torch"
        )
    team = pools["adversary"][1]
    swapped = TeamPolicy(team.members[::-1], team.places[::-1])
    simulate_matchups(
        {**pools, "adversary": [swapped]}, game=GAME, matchups=[(0, 1)], episodes=2, seed=0, engine="torch"
    )
    wrong = TeamPolicy(team.members, [[1, 0], [2, 3]])
    with pytest.raises(ConfigError, match="policy 0: expected members for agents of one action space, got"):
        simulate_matchups(
            {**pools, "adversary": [wrong]}, game=GAME, matchups=[(0, 1)], episodes=2, seed=0, engine="torch"
        )


def test_exported_teams_have_one_policy_per_action_space(tmp_path, capsys):
    run = tmp_path / "run"
    words = ["--algorithm", "self_play", "--env-arg", "max_cycles=2", "--iterations", "1", "--steps", "32"]
    words += ["--episodes-per-matchup", "4", "--device", "cpu", "--train-overrides", "num_envs=4"]
    words += ["--train-overrides", "learner.rollout_length=4", *SMALL, "--run-dir", str(run)]
    assert main(["league", "train", "SimpleWorldComm-v0", *words]) == 0, capsys.readouterr().err
    assert main(["league", "export", str(run), "--output", str(tmp_path / "saved")]) == 0
    saved = checkpoint.load(tmp_path / "saved")
    assert set(saved.policies) == {*NAMES, "agent"}
    with RunStore.open(run, write=False) as store:
        team = store.populations["adversary"][1]
        assert isinstance(team, TeamPolicy)
        for name, member in zip(NAMES, team.members, strict=True):
            assert equal(saved.policy(name).state_dict(), member.state_dict())
    common = ["--steps", "8", "--episodes", "10", "--num-responses", "1", "--device", "cpu"]
    common += ["--train-overrides", "num_envs=4", *SMALL]
    for path, more in ((run, []), (tmp_path / "saved", ["--response-init", "warm_start"])):
        folder = tmp_path / f"responses-{path.name}"
        assert main(["exploit", str(path), *common, *more, "--save-responses", str(folder)]) == 0
        assert set(checkpoint.load(folder / "response-0").policies) == {*NAMES, "agent"}
    assert "adversary" in capsys.readouterr().out
    assert main(["eval", str(tmp_path / "saved"), "--episodes", "4", "--device", "cpu"]) == 0


def test_kernels_have_the_network_of_every_agent_of_a_team():
    pools, names = trained_teams(2), ["leadadversary", "adversary", "agent"]
    draw = MatchupDistribution(torch.tensor([[1, LEARNER], [2, LEARNER], [0, LEARNER], [LEARNER, 1]]))
    core = GAME.core(4)
    sampler = OpponentSampler(core, GAME, draw, pools)
    assert sampler.learners == tuple(names)
    policies, index = sampler.kernel_table(names)
    (first, second), prey = (pools["adversary"][index].members for index in (1, 2)), pools["agent"][1]
    rows = [
        [first[0], *[first[1]] * 3, 2, 2],
        [second[0], *[second[1]] * 3, 2, 2],
        [-1, -1, -1, -1, 2, 2],
        [0, 1, 1, 1, prey, prey],
    ]
    for row, expected in zip(index.tolist(), rows, strict=False):
        for entry, policy in zip(row, expected, strict=True):
            if isinstance(policy, int):  # the number of a learner, or random actions
                assert entry == policy
            else:
                (alone,) = kernel_policies([policy], core.device, 0)
                assert torch.equal(policies[entry - len(names)].weights, alone.weights)


def test_viewer_plays_the_mixture_of_teams(tmp_path):
    running = league(tmp_path, "uniform", game=GAME, iterations=1)
    running.run()
    running.store.close()
    read = LeagueRun(tmp_path).read()
    answer = record_rollout(read.stage, (MIXTURE, MIXTURE), seed=1, worlds=2)
    assert answer["steps"] == 2
    assert [seat["policy"] for seat in answer["seats"]] == [MIXTURE, MIXTURE]
