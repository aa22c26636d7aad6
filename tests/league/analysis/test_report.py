"""Reports: their numbers are those of the functions, whatever does not apply is left out, the page needs nothing."""

import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from gpu_envs.errors import ConfigError
from league import measures, ratings, solvers, tables
from league.baselines import SelfPlayBuilder, SelfPlayConfig
from league.compare import compare
from league.evaluation import UNKNOWN
from league.exact import Tree
from league.game import Game
from league.league import League, LeagueConfig
from league.population import RandomPolicy
from league.psro import PSRO, PSROConfig
from league.report import Reading, report
from league.run import opened, table_of
from league.store import Store

RPS, KUHN, TAG = Game.of("RockPaperScissors-v0", {"num_steps": 1}), Game.of("KuhnPoker-v0"), Game.of("SimpleTag-v0")


def psro(path: Path, game: Game, **settings) -> Path:
    config = PSROConfig(**{"oracle": "exact", "meta_solver": "nash", "episodes": 60, **settings})
    with opened(path, game, "psro", config) as store:
        PSRO(store, config).run()
    return path


def league(path: Path, game: Game, iterations: int, **settings) -> Path:
    train = {"num_envs": 8, "learner.rollout_length": 4, "learner.hidden": (8,), **settings}
    config = LeagueConfig(iterations=iterations, steps=32, episodes=20, train=train)
    builder = SelfPlayBuilder(SelfPlayConfig("pfsp", freeze_every=32))
    with opened(path, game, "pfsp", config) as store:
        League(store, config, builder).run()
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return {
        "rps": psro(folder / "rps", RPS, iterations=4),
        "kuhn": psro(folder / "kuhn", KUHN, iterations=4, payoffs="exact"),
        "sampled": psro(folder / "sampled", KUHN, iterations=3),
        "league": league(folder / "league", RPS, 2),
    }


@pytest.fixture
def run(runs, tmp_path, request) -> Path:
    """A copy of one of them."""
    return Path(shutil.copytree(runs[request.param], tmp_path / request.param))


def column(made, role: str, name: str) -> list[float]:
    return [entry[name] for entry in made.policies[role]]


@pytest.mark.parametrize("run", ["rps", "league"], indirect=True)
def test_numbers_of_one_population_are_those_of_the_functions(run):
    made = report(run)
    with Store.open(run, write=False) as store:
        table = table_of(store)
        names = [entry.name for entry in store.populations["player"].entries]
    game = table.meta_game()
    assert made.rated == {"player": len(names)}
    assert column(made, "player", "name") == names
    assert made.payoffs["mean"] == game.tolist()
    assert made.payoffs["half_width"] == table.half_width.tolist()
    assert made.payoffs["count"] == table.count.tolist()
    assert made.payoffs["win_rate"] == table.win_rate().tolist()
    assert made.measures == pytest.approx(
        {
            "expected_cardinality/player": measures.expected_cardinality(game[0]),
            "effective_diversity": measures.effective_diversity(game),
            "transitive_share": measures.shape(game).transitive_share,
            "cyclic_share": measures.shape(game).cyclic_share,
        }
    )
    assert column(made, "player", "alpharank") == pytest.approx(torch.stack(ratings.alpharank(game)).mean(0).tolist())
    averages = torch.stack(ratings.nash_average(game).ratings).mean(0)
    assert column(made, "player", "nash_average") == pytest.approx(averages.tolist(), abs=1e-9)
    elo = ratings.elo(table.win_rate(), table.count.triu(1))
    assert column(made, "player", "elo") == pytest.approx(elo.tolist())
    if "league" in str(run):  # its meta-strategies are the report's
        assert made.strategy is not None
        assert not made.strategy["of_the_run"]
        own = solvers.by_role(solvers.solve("nash", game), RPS)["player"].tolist()
        assert made.strategy["weights"] == [own, own]
        assert column(made, "player", "weight") == own


@pytest.mark.parametrize("run", ["kuhn"], indirect=True)
def test_numbers_of_exact_payoffs_are_those_of_the_run_and_of_the_tree(run):
    made, tree = report(run), Tree.of(KUHN)
    with Store.open(run, write=False) as store:
        rows = store.iterations()
        tables_ = Reading(store).small.know(store.populations)
    game = tree.payoffs(tables_)
    assert made.payoffs["exact"]
    assert made.payoffs["mean"] == game.tolist()
    assert not np.any(made.payoffs["half_width"])
    for got, row in zip(made.iterations, rows.values(), strict=True):
        assert [got[key] for key in ("nash_conv", "exploitability", "best_so_far")] == [
            row[key] for key in ("nash_conv", "exploitability", "best_so_far")
        ]
        assert got["strategy"] == row["meta_strategy"]
    assert made.iterations[0]["nash_conv"] == pytest.approx(0.9167, abs=1e-4)
    gain = solvers.nash_gap(game, solvers.MetaStrategy(tuple(torch.eye(len(each))[0].double() for each in tables_)))
    assert made.iterations[0]["population_gain"] == pytest.approx(gain)
    assert gain <= made.iterations[0]["nash_conv"] + 1e-9
    assert made.iterations[-1]["population_gain"] is None
    least = min(rows.values(), key=lambda row: row["nash_conv"])
    assert made.best["nash_conv"] == least["nash_conv"]
    for seat, role in enumerate(("player_0", "player_1")):
        assert column(made, role, "weight") == rows[4]["meta_strategy"][seat]
        assert column(made, role, "alpharank") == pytest.approx(ratings.alpharank(game)[seat].tolist())
        assert column(made, role, "nash_average") == pytest.approx(ratings.nash_average(game).ratings[seat].tolist())
        assert "elo" not in made.policies[role][0]
    assert made.measures["expected_cardinality/player_1"] == measures.expected_cardinality(game[1].T)
    assert "no episodes" in made.left_out["Elo"]
    for name in ("effective diversity", "transitive and cyclic share"):
        assert "player_0, player_1 have their own" in made.left_out[name]


@pytest.mark.parametrize("run", ["kuhn", "league"], indirect=True)
def test_nash_conv_is_that_of_the_run_or_pending(run):
    """It is found out while the run goes on: meanwhile nothing else stands for it."""
    whole = report(run)
    with Store.open(run) as store:
        rows = store.iterations()
        with store.step("as it was before"):
            for number in list(rows)[1:]:
                store.put_iteration(number, rows[number] | UNKNOWN)
        made = report(store)
    measures_ = ("nash_conv", "exploitability", "best_so_far")
    assert all(whole.iterations[0][name] is not None for name in measures_)
    assert made.iterations[0] == whole.iterations[0]
    assert [row[name] for row in made.iterations[1:] for name in measures_] == [None] * 3 * (len(rows) - 1)
    assert made.best == {name: whole.iterations[0][name] for name in ("iteration", "nash_conv", "exploitability")}
    assert "pending" in made.left_out["NashConv from iteration 1 on"]
    assert "pending" in made.text(200)
    assert not any("NashConv" in name for name in whole.left_out)


def test_a_run_that_finds_out_no_nash_conv_is_asked_once_more_or_says_why(tmp_path):
    """Of a game that is not declared to sum to 0 the report finds it out; who remembers has no table."""
    general = Game.of("RockPaperScissors-v0", {"num_steps": 1}, zero_sum=False)
    made = report(league(tmp_path / "general", general, 1))
    assert all(row["nash_conv"] >= 0 for row in made.iterations)
    gru = {"total_steps": 32, "learner.rollout_length": 4, "learner.hidden": (8,), "learner.body": "gru"}
    for made in (
        report(league(tmp_path / "gru", RPS, 1, **gru)),
        report(psro(tmp_path / "psro", RPS, iterations=1, oracle="learned", train={"num_envs": 8, **gru})),
    ):
        assert all(row["nash_conv"] is None for row in made.iterations)
        assert "recurrent" in made.left_out["exact NashConv"]


@pytest.mark.parametrize("run", ["sampled"], indirect=True)
def test_the_result_of_an_anytime_run_is_that_of_its_summary(run):
    with Store.open(run) as store:
        rows = store.iterations()
        store.config["anytime"] = True
        with store.step("chosen"):
            store.put_iteration(3, rows[3] | UNKNOWN | {"best_iteration": 1})
        made = report(store)
    assert made.strategy["iteration"] == 1
    assert made.strategy["weights"] == rows[1]["meta_strategy"]


def test_ratings_of_two_populations_of_one_size_never_take_them_for_one(runs, tmp_path):
    made = report(runs["sampled"], tmp_path)
    with Store.open(runs["sampled"], write=False) as store:
        table = table_of(store)
    first, second = table.shape
    assert first == second
    wide = [torch.nn.functional.pad(each, (0, 1)) for each in (table.win_rate(), table.count)]  # one who never played
    expected = ratings.elo(*wide)
    elo = torch.tensor(column(made, "player_0", "elo") + column(made, "player_1", "elo"), dtype=torch.float64)
    expected = expected[:-1] - expected[:-1].mean()
    assert (elo - expected).abs().max() < 1.0  # the one more shares in the prior


@pytest.mark.parametrize("run", ["rps", "league", "kuhn"], indirect=True)
def test_the_page_needs_nothing_else_and_names_every_policy(run):
    made = report(run)
    folder = run / "report"
    page = (folder / "report.html").read_text()
    assert "http:" not in page
    assert "https:" not in page
    sources = re.findall(r'(?:src|href)="([^"]{0,40})', page)
    assert sources
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert "prefers-color-scheme: dark" in page
    for entries in made.policies.values():
        for entry in entries:
            assert f"<td>{entry['name']}</td>" in page
    for name, why in made.left_out.items():
        assert name in page
        assert why.split("'")[0] in page
    pictures = {path.name for path in folder.glob("*.png")}
    assert {"payoffs.png", "exploitability.png", "meta_strategy.png"} <= pictures
    assert len(sources) == len(pictures)
    assert sorted(made.files) == sorted(map(str, folder.iterdir()))
    read = json.loads((folder / "report.json").read_text(), parse_constant=pytest.fail)  # NaN is no JSON
    assert read["measures"] == made.measures


@pytest.mark.parametrize("run", ["league"], indirect=True)
def test_matches_are_counted_by_role_kinds_and_pair(run):
    made = report(run)
    with Store.open(run, write=False) as store:
        rows = store.iterations().values()
    whole = sum(sum(met.values()) for row in rows for met in row.get("matches", {}).values())
    assert whole > 0
    assert sum(made.matches["by_role"].values()) == whole
    assert sum(count for *_, count in made.matches["by_pair"]) == whole
    kinds = {}
    for row in rows:
        for kind, count in row.get("matches_by_kind", {}).items():
            kinds[kind] = kinds.get(kind, 0) + count
    assert made.matches["by_kind"] == kinds


def test_matches_of_psro_are_those_of_its_store(tmp_path):
    with Store.create(tmp_path / "run", KUHN, {"algorithm": "psro"}) as store:
        with store.step("begin"):
            for role in KUHN.roles:
                store.add_policy(role, RandomPolicy.of(KUHN, role), "random", "random")
            store.add_matches(1, "player_0", [[-1, 0]], [5])
            store.add_matches(2, "player_0", [[-1, 0]], [2])
            store.add_matches(1, "player_1", [[0, -1]], [4])
        made = report(store)
    assert made.matches["by_role"] == {"player_0": 7, "player_1": 4}
    assert made.matches["by_kind"] == {"learner - random": 11}
    assert ["player_0, iteration 1", "random", 5] in made.matches["by_pair"]


@pytest.mark.parametrize("run", ["league"], indirect=True)
def test_policies_whose_payoffs_are_missing_are_listed_and_not_rated(run):
    before = report(run)
    with Store.open(run) as store:
        with store.step("3/more"):
            store.add_policy("player", RandomPolicy.of(RPS, "player"), "random", "late", iteration=3)
            store.put_iteration(3, {})
        made = report(store)
        assert report(run).to_json() == made.to_json()  # by another handle, beside the one that writes
    assert made.rated == before.rated
    assert made.measures == before.measures
    assert made.policies["player"][-1]["name"] == "late"
    assert made.policies["player"][-1]["elo"] is None
    assert "not all played" in made.left_out["measures of the last policies"]
    assert made.to_json()["payoffs"]["mean"][0][0][-1] is None
    assert "late" in made.text()


WRITER = """
import sys
from league.store import Store
with Store.open(sys.argv[1]) as store:
    print("writing", flush=True)
    for number in range(10**9):
        with store.step(f"more/{number}"):
            store.put("number", number)
"""


@pytest.mark.parametrize("run", ["rps"], indirect=True)
def test_a_run_that_another_process_writes_is_reported(run):
    before = report(run).to_json()
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(run)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        assert report(run).to_json() == before
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("populated", [False, True])
def test_a_run_without_iterations_says_so(tmp_path, populated):
    with Store.create(tmp_path / "run", KUHN, {"algorithm": "psro"}) as store:
        if populated:
            with store.step("begin"):
                for role in KUHN.roles:
                    store.add_policy(role, RandomPolicy.of(KUHN, role), "random", "random")
    made = report(tmp_path / "run", exploit_steps=10)
    assert made.finished is None
    assert made.strategy is None
    assert made.exploit is None
    assert not made.measures
    assert made.left_out["ratings and measures"] == "no iteration is over yet"
    assert "none yet" in made.text()
    assert (tmp_path / "run" / "report" / "report.html").is_file()


def test_a_folder_without_a_run_is_one_clear_line(tmp_path):
    with pytest.raises(ConfigError) as error:
        report(tmp_path / "nowhere")
    assert "\n" not in str(error.value)
    assert "expected the folder of a league's run" in str(error.value)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("run", ["kuhn"], indirect=True)
def test_text_is_a_table_with_rich_and_without(run, monkeypatch):
    made = report(run)
    rich = made.text()
    monkeypatch.setitem(sys.modules, "rich", None)
    plain = made.text()
    for text in (rich, plain):
        assert "NashConv" in text
        assert "player_1-4" in text
        assert f"{made.best['nash_conv']:.4f}" in text
        assert "\x1b" not in text
    assert [line.split() for line in rich.splitlines() if "player_1-4" in line] == [
        line.split() for line in plain.splitlines() if "player_1-4" in line
    ]


def test_the_gain_by_own_policies_is_as_sure_as_the_payoffs(runs, tmp_path):
    """Against a pure strategy it is the difference of two cells for each seat."""
    made = report(runs["sampled"], tmp_path)
    mean, half = torch.tensor(made.payoffs["mean"]), torch.tensor(made.payoffs["half_width"])
    best = int(mean[0, :, 0].argmax()), int(mean[1, 0].argmax())
    first = made.iterations[0]
    gain = mean[0, best[0], 0] - mean[0, 0, 0] + mean[1, 0, best[1]] - mean[1, 0, 0]
    assert first["population_gain"] == pytest.approx(float(gain), abs=1e-6)
    assert min(best) > 0
    spread = half[0, best[0], 0].hypot(half[0, 0, 0]) + half[1, 0, best[1]].hypot(half[1, 0, 0])
    assert first["population_gain_half_width"] == pytest.approx(float(spread), rel=1e-5)
    assert f"± {spread:.4f}" in made.text(200)
    exact = report(runs["kuhn"], tmp_path / "kuhn")
    assert exact.iterations[0]["population_gain_half_width"] == 0


def test_numbers_are_short_and_say_nothing_where_there_are_none():
    assert [tables.number(each) for each in (None, math.nan, -0.0, 0.25, 1e-16)] == [
        "",
        "",
        "0.0000",
        "0.2500",
        "1.0e-16",
    ]


def test_learned_responses_are_reported_as_a_lower_bound(runs, tmp_path):
    with Store.open(runs["sampled"], write=False) as store:
        store.config["train"] = {"num_envs": 32, "learner.rollout_length": 4, "learner.hidden": [8]}
        made = report(store, tmp_path, exploit_steps=500)
    assert made.exploit is not None
    assert made.exploit["lower_bound"]
    assert made.exploit["steps"] >= 500
    assert made.exploit["nash_conv"] - made.exploit["half_width"] <= made.iterations[-1]["nash_conv"]
    assert made.exploit["nash_conv"] == pytest.approx(sum(seat["response"] for seat in made.exploit["seats"]))
    assert "a lower bound" in made.text(200)
    assert json.loads((tmp_path / "report.json").read_text())["exploit"]["half_width"] == made.exploit["half_width"]


def test_uneven_seats_have_a_picture_each_and_a_strategy_in_the_simplex(tmp_path):
    game = Game.of("SimpleTag-v0", {"max_cycles": 5})
    made = report(league(tmp_path / "tag", game, 1))
    names = {Path(path).name for path in made.files}
    assert {"payoffs.png", "payoffs_agent.png", "lineage_adversary.png", "lineage_agent.png"} <= names
    assert made.strategy is not None
    assert made.strategy["solver"] == "prd"
    for weights in made.strategy["weights"]:
        assert min(weights) >= 0
        assert sum(weights) == pytest.approx(1)
    assert "zero-sum" in made.left_out["Nash averaging"]


def test_three_seats_have_what_is_not_for_two(tmp_path):
    game = Game.of("KuhnPoker-v0", {"num_players": 3})
    made = report(psro(tmp_path / "three", game, iterations=1, payoffs="exact", meta_solver="uniform"))
    assert torch.tensor(made.payoffs["mean"]).shape == (3, 2, 2, 2)
    assert {"Elo", "Nash averaging", "picture of payoffs"} <= made.left_out.keys()
    assert "three" in made.files[0]
    assert not any("payoffs" in Path(path).name for path in made.files)
    assert set(made.policies) == {"player_0", "player_1", "player_2"}
    for entries in made.policies.values():
        assert all({"weight", "alpharank"} <= entry.keys() for entry in entries)


def test_two_runs_are_compared_by_all_matchups_between_them(tmp_path):
    """Rock and scissors, against all three: the second run always has an answer."""
    from league.exact import TablePolicy

    tree = Tree.of(RPS)
    stores = []
    for name, actions in (("first", (0, 2)), ("second", (0, 1, 2))):
        store = Store.create(tmp_path / name, RPS, {})
        stores.append(store)
        with store.step("begin"):
            for action in actions:
                table = torch.eye(3, dtype=torch.float64)[[action]]
                store.add_policy("player", TablePolicy.of(tree, table, 0), "table")
    found = compare(*stores, episodes=20)
    # against (rock, paper, scissors): rock earns (0, -1, 1), scissors (-1, 1, 0); the equilibrium gives -1/3
    assert found.performance == pytest.approx(-1 / 3, abs=1e-6)
    assert found.half_width == 0
    assert compare(*stores[::-1], episodes=20).performance == pytest.approx(1 / 3, abs=1e-6)
    with Store.create(tmp_path / "kuhn", KUHN, {}) as other, pytest.raises(ConfigError, match="same game"):
        compare(stores[0], other)
    for store in stores:
        store.close()


def test_seats_with_populations_of_their_own_are_compared_both_ways(runs):
    with Store.open(runs["kuhn"], write=False) as one, Store.open(runs["sampled"], write=False) as other:
        found, back = compare(one, other, episodes=300), compare(other, one, episodes=300)
    assert found.performance == pytest.approx(sum(found.seats.values()) / 2)
    assert abs(found.performance + back.performance) < 2 * (found.half_width + back.half_width)
    assert found.episodes == 300 * (5 * 4 + 4 * 5)
    assert found.half_width > 0
