"""Tests of the viewer's answers about finished and running leagues."""

import numpy as np
import pytest
import torch
import toy
from toy_league import digests
from watch_runs import RPS, array, ask, until

from league import league_algorithms
from league.analysis.run_tables import RunTables
from league.executors.tasks import LocalExecutor
from league.game import Game
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.storage.open_run import open_run
from league.storage.run_config import table_of
from league.storage.run_store import RunStore
from league.watch.api import UnknownAnswerError


def test_answers_describe_a_league(league, watched):
    api = watched(league)
    run, answer = ask(api, "run"), ask(api, "league")
    assert (run["kind"], run["algorithm"], run["roles"]) == ("league", "psro", ["player"])
    assert [seat["role"] for seat in run["seats"]] == ["player", "player"]
    with RunStore.open(league, write=False) as store:
        table, entries, rows = table_of(store), store.populations["player"].entries, store.iterations()
    names = [entry.name for entry in entries]
    assert run["policies"] == {"player": names}
    payoff = answer["payoff"]
    assert payoff["shape"] == [len(names)] * 2
    assert payoff["mean"] == table.mean.flatten(1).tolist()
    assert payoff["half"][1] == table.half_width[1].flatten().tolist()
    assert payoff["count"] == [table.count.flatten().tolist()] * 2
    assert [record["player"] for record in answer["strategies"]] == [row["meta_strategy"][0] for row in rows.values()]
    assert [pair[0] for pair in answer["exploitability"]] == list(rows)
    assert [record["name"] for record in answer["ratings"]] == [record["name"] for record in answer["lineage"]] == names
    assert all(isinstance(record["elo"], float) for record in answer["ratings"])
    assert [record["weight"] for record in answer["lineage"]] == [record["weight"] for record in answer["ratings"]]
    assert answer["learned_responses"] is None
    tables = {record["title"]: record for record in answer["tables"]}
    assert list(tables)[:3] == ["Summary", "Iterations", "Policies of player"]
    assert [row[0] for row in tables["Policies of player"]["rows"]] == names
    assert tables["Summary"]["head"] == []
    numeric = dict(zip(tables["Policies of player"]["head"], tables["Policies of player"]["numeric"], strict=True))
    assert (numeric["policy"], numeric["kind"], numeric["iteration"], numeric["Elo"]) == (False, False, True, True)
    curves = ask(api, "metrics")
    assert curves["x"] == "iteration"
    assert [row[curves["columns"].index("iteration")] for row in curves["rows"]] == list(rows)


def test_latest_policy_of_psro_is_the_mixture_of_its_meta_strategy(league, watched):
    api = watched(league)
    run = ask(api, "run")
    assert (run["state"], run["done"], run["total"]) == ("finished", 2, 2)
    assert run["mixture"] == "meta-strategy"
    assert run["latest"] == {"player": "meta-strategy"}
    rollout = ask(api, "rollout", "worlds=16")
    assert [seat["policy"] for seat in rollout["seats"]] == ["meta-strategy"] * 2
    weights = {entry["name"]: entry["weight"] for entry in ask(api, "league")["lineage"]}
    allowed = np.zeros((2, 16), bool)  # each world plays like one policy with a weight
    for name in (name for name, weight in weights.items() if weight > 0):
        alone = array(ask(api, "rollout", f"policies={name}&worlds=16")["action"])
        allowed |= (alone[0, :, :].T == array(rollout["action"])[0].T) | (name == "random")
    assert allowed.all()


def test_latest_policy_of_a_league_is_a_main_agent(tmp_path, watched):
    config = league_algorithms.find("alphastar").config_type(
        iterations=1, steps=64, episodes_per_matchup=10, train_overrides={"num_envs": 8, "learner.rollout_length": 4}
    )
    game = Game.of("RockPaperScissors-v0", {"num_repetitions": 1})
    with open_run(tmp_path, game, "alphastar", config) as store:
        league_algorithms.find("alphastar").make(store, config, None, LocalExecutor()).run()
    api = watched(tmp_path)
    run = ask(api, "run")
    assert run["policies"]["player"][-1].startswith("league_exploiter")
    assert run["latest"] == {"player": "main_0:2"}
    assert run["mixture"] == "meta-strategy"
    assert (run["colors"]["player_0"], run["colors"]["player_1"]) == ("blue", "red")


def test_parents_are_given_by_name(tmp_path, watched, monkeypatch):
    from toy_league import loop

    from league.watch.sources import league as league_source

    toy.announce(monkeypatch)
    loop(tmp_path, iterations=1)
    with RunStore.open(tmp_path, write=False) as store:
        monkeypatch.setattr(RunTables, "measure", lambda *_: None)  # the toy has other agents than this game
        league = league_source._league(league_source.read_report(store).to_json(), store.game)
    assert [(entry["name"], entry["parent"]) for entry in league["lineage"][:2]] == [
        ("random", None),
        ("first-1", "random"),
    ]


def test_running_league_is_not_disturbed(tmp_path, league, watched):
    config = PSROConfig(iterations=1, oracle="exact", meta_solver="nash", episodes_per_matchup=30)
    with open_run(tmp_path, RPS, "psro", config) as store:
        api = watched(tmp_path)
        first = ask(api, "run")
        assert first["writing"]
        assert not [name for names in first["policies"].values() for name in names]
        with pytest.raises(UnknownAnswerError, match="player: there is no policy yet"):
            ask(api, "rollout")
        PSRO(store, config).run()
        until(lambda: ask(api, "run")["version"] > first["version"])
        until(lambda: len(ask(api, "league")["strategies"]) == 2)
    assert not ask(api, "run")["writing"]
    contents = digests(tmp_path)
    ask(api, "rollout", "worlds=2")
    ask(watched(tmp_path), "league")
    assert digests(tmp_path) == contents


def test_rollout_of_a_payoff_cell_uses_its_policies(league, watched):
    api = watched(league)
    (names,) = ask(api, "run")["policies"].values()
    rollout = ask(api, "rollout", f"policies={names[0]},{names[1]}&worlds=3")
    assert [seat["policy"] for seat in rollout["seats"]] == names[:2]
    assert ask(api, "rollout", f"policies={names[1]}&worlds=1")["seats"][0]["policy"] == names[1]
    best = array(ask(api, "rollout", f"policies={names[1]},{names[2]}&worlds=2")["action"])
    with RunStore.open(league, write=False) as store:
        pool = store.populations["player"]
        core = RPS.core(2, autoreset="disabled")
        obs, _ = core.reset(seed=0)
        for seat, name in enumerate(names[1:3]):  # pure policies
            first = pool[pool.named(name).index].act(obs[:, seat : seat + 1], greedy=True)
            assert torch.equal(torch.tensor(best[0, :, seat]), first[:, 0].float())
