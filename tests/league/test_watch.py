"""The viewer's answers about a training and a league, while they are written too, its rollouts and its export."""

import base64
import json
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from toy_league import digests

from gpu_envs.errors import CheckpointError, ConfigError
from league.game import Game
from league.psro import PSRO, PSROConfig
from league.run import opened, table_of
from league.store import Store
from league.watch import export as exporting
from league.watch import rollouts as playing
from league.watch.api import Api, NotThere, rollout_path
from league.watch.commands import watch_command
from league.watch.rollouts import Rollouts, record
from league.watch.source import Latest, open_run
from league.watch.training_run import metrics
from trainers import recordings
from trainers.config import TrainConfig, make_core
from trainers.loop import Trainer
from trainers.ppo import PPOConfig

PAGE = '<!doctype html><html><head><script>"</body>"</script></head><body><p>stand-in</p></body></html>'
RPS = Game.of("RockPaperScissors-v0", {"num_steps": 2})


def trainer(out: Path, iterations: int = 4) -> Trainer:
    learner = PPOConfig(rollout_length=5, hidden=(4,), epochs=1, minibatches=1)
    settings = {"num_envs": 4, "checkpoint_every": 2, "eval_episodes": 4, "learner": learner}
    env = {"max_cycles": 7}
    return Trainer(TrainConfig("SimpleTag-v0", env, total_steps=iterations * 20, **settings), out)


@pytest.fixture(scope="module")
def training(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("run") / "tag"
    trainer(path).run()
    return path


@pytest.fixture(scope="module")
def league(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("run") / "rps"
    config = PSROConfig(iterations=2, oracle="exact", meta_solver="nash", episodes=30)
    with opened(path, RPS, "psro", config) as store:
        PSRO(store, config).run()
    return path


@pytest.fixture
def watched():
    """Function that gives the Api of a run."""
    opened_ = []

    def watch(path: Path) -> Api:
        api = Api(Latest(open_run(path)), Rollouts())
        opened_.append(api)
        return api

    yield watch
    for api in opened_:
        api.latest.close()
        api.rollouts.close()


def ask(api: Api, name: str, query: str = ""):
    return json.loads(api.answer(name, query))


def array(packed) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["data"]), "<f4").reshape(packed["shape"])


def until(told) -> None:
    """Waits for another thread."""
    deadline = time.monotonic() + 20.0
    while not told():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# ---------------------------------------------------------------- a training


def test_what_a_training_is(training, watched):
    told = ask(watched(training), "run")
    assert (told["name"], told["kind"], told["env_id"]) == ("tag", "training", "SimpleTag-v0")
    assert (told["algorithm"], told["config"]["learner"]["hidden"]) == ("ppo", [4])
    assert told["roles"] == ["adversary", "agent"]
    assert told["policies"] == {role: ["random", "000000002", "000000004"] for role in told["roles"]}
    assert told["groups"] == {"adversary": ["adversary_0", "adversary_1", "adversary_2"], "agent": ["agent_0"]}
    assert (told["writing"], told["problem"]) == (False, None)


def test_curves_are_those_of_metrics_csv(training, watched):
    told = ask(watched(training), "metrics")
    columns = told["columns"]
    assert told["x"] == "steps"
    assert [row[columns.index("steps")] for row in told["rows"]] == [20, 40, 60, 80]
    scores = [row[columns.index("eval/score")] for row in told["rows"]]
    assert [score is None for score in scores] == [True, False, True, False]
    with pytest.raises(NotThere, match="api/league: there is no such answer of this run; there are run, metrics, roll"):
        ask(watched(training), "league")


def test_long_curves_are_means_of_neighbours():
    rows = [{"iteration": str(i), "steps": str(10 * i), "a": "" if i % 2 else str(i)} for i in range(1, 6)]
    told = metrics(rows, most=2)
    assert (told["every"], told["rows"]) == (3, [[3, 30, 2.0], [5, 50, 4.0]])


def test_a_training_that_goes_on(tmp_path, watched):
    run = trainer(tmp_path)
    run.iterate()
    api = watched(tmp_path)
    first = ask(api, "run")
    assert first["writing"]
    assert first["policies"] == {"adversary": ["random"], "agent": ["random"]}
    with (tmp_path / "metrics.csv").open("a") as file:
        file.write(
            (tmp_path / "metrics.csv").read_text().splitlines()[-1][:-1]
        )  # all cells are there, one is cut short
    until(lambda: ask(api, "run")["version"] > first["version"])
    assert len(ask(api, "metrics")["rows"]) == 1
    for _ in range(3):
        run.iterate()
    run.log.close()
    until(lambda: ask(api, "run")["policies"]["agent"] == ["random", "000000002", "000000004"])
    assert not ask(api, "run")["writing"]


def test_a_training_that_is_quiet_has_ended(tmp_path, watched, monkeypatch):
    run = trainer(tmp_path)
    run.iterate()
    run.log.close()
    api, now = watched(tmp_path), time.time()
    monkeypatch.setattr(time, "time", lambda: now + 50.0)
    assert ask(api, "run")["writing"]
    monkeypatch.setattr(time, "time", lambda: now + 70.0 + 3.0 * run.seconds)
    assert not ask(api, "run")["writing"]


def test_what_cannot_be_read_again_is_said_until_it_can(tmp_path, watched):
    run = trainer(tmp_path)
    run.iterate()
    run.log.close()
    api, whole = watched(tmp_path), (tmp_path / "metrics.csv").read_bytes()
    (tmp_path / "metrics.csv").unlink()
    (tmp_path / "metrics.csv").mkdir()
    until(lambda: ask(api, "run")["problem"] is not None)
    assert len(ask(api, "metrics")["rows"]) == 1  # that of before
    (tmp_path / "metrics.csv").rmdir()
    (tmp_path / "metrics.csv").write_bytes(whole)
    until(lambda: ask(api, "run")["problem"] is None)


# ---------------------------------------------------------------- a league


def test_what_a_league_is(league, watched):
    api = watched(league)
    run, told = ask(api, "run"), ask(api, "league")
    assert (run["kind"], run["algorithm"], run["roles"]) == ("league", "psro", ["player"])
    assert [seat["role"] for seat in run["seats"]] == ["player", "player"]
    with Store.open(league, write=False) as store:
        table, entries, rows = table_of(store), store.populations["player"].entries, store.iterations()
    names = [entry.name for entry in entries]
    assert run["policies"] == {"player": names}
    payoff = told["payoff"]
    assert payoff["shape"] == [len(names)] * 2
    assert payoff["mean"] == table.mean.flatten(1).tolist()
    assert payoff["half"][1] == table.half_width[1].flatten().tolist()
    assert payoff["count"] == [table.count.flatten().tolist()] * 2
    assert [each["player"] for each in told["strategies"]] == [row["meta_strategy"][0] for row in rows.values()]
    assert [pair[0] for pair in told["exploitability"]] == list(rows)
    assert [each["name"] for each in told["ratings"]] == [each["name"] for each in told["lineage"]] == names
    assert all(isinstance(each["elo"], float) for each in told["ratings"])
    curves = ask(api, "metrics")
    assert curves["x"] == "iteration"
    assert [row[curves["columns"].index("iteration")] for row in curves["rows"]] == list(rows)


def test_parents_are_told_by_name(tmp_path, watched):
    from toy_league import loop

    from league.watch import league_run

    loop(tmp_path, iterations=1)
    with Store.open(tmp_path, write=False) as store, pytest.MonkeyPatch.context() as patch:
        report = league_run.Reading
        patch.setattr(report, "_measure", lambda *_: None)  # there is no such game
        told = league_run._league(report(store).report(0, None, None, None).to_json(), store.game)
    assert [(each["name"], each["parent"]) for each in told["lineage"][:2]] == [("random", None), ("first-1", "random")]


def test_a_league_that_goes_on_is_not_disturbed(tmp_path, league, watched):
    config = PSROConfig(iterations=1, oracle="exact", meta_solver="nash", episodes=30)
    with opened(tmp_path, RPS, "psro", config) as store:
        api = watched(tmp_path)
        first = ask(api, "run")
        assert first["writing"]
        assert not [name for names in first["policies"].values() for name in names]
        with pytest.raises(NotThere, match="player: there is no policy yet"):
            ask(api, "rollout")
        PSRO(store, config).run()
        until(lambda: ask(api, "run")["version"] > first["version"])
        until(lambda: len(ask(api, "league")["strategies"]) == 2)
    assert not ask(api, "run")["writing"]
    before = digests(tmp_path)
    ask(api, "rollout", "worlds=2")
    ask(watched(tmp_path), "league")
    assert digests(tmp_path) == before


def test_a_cell_of_the_payoff_table_is_played(league, watched):
    api = watched(league)
    (names,) = ask(api, "run")["policies"].values()
    told = ask(api, "rollout", f"policies={names[0]},{names[1]}&worlds=3")
    assert [seat["policy"] for seat in told["seats"]] == names[:2]
    assert ask(api, "rollout", f"policies={names[1]}&worlds=1")["seats"][0]["policy"] == names[1]
    best = array(ask(api, "rollout", f"policies={names[1]},{names[2]}&worlds=2")["action"])
    with Store.open(league, write=False) as store:
        pool = store.populations["player"]
        core = RPS.core(2, autoreset="disabled")
        obs, _ = core.reset(seed=0)
        for seat, name in enumerate(names[1:3]):  # they are pure
            first = pool[pool.named(name).index].act(obs[:, seat : seat + 1], greedy=True)
            assert torch.equal(torch.tensor(best[0, :, seat]), first[:, 0].float())


# ---------------------------------------------------------------- rollouts


def test_a_rollout_is_what_was_played(training, watched):
    """Random play comes from the worlds' own streams, so another recorder sees the same."""
    api = watched(training)
    told = ask(api, "rollout", "policies=random&seed=3&worlds=2")
    stage = api.latest.get()[0].stage
    episodes, _ = recordings.record(make_core(stage.config, 2, 0), {}, seed=3)
    assert told["steps"] == 7
    assert told["complete"] == [True, True]
    for world, episode in enumerate(sorted(episodes, key=lambda each: each.world)):
        for name in ("obs", "action", "reward"):
            assert np.array_equal(array(told[name])[:7, world], getattr(episode, name).float().numpy()), name
    assert array(told["shapes"]).shape[:2] == array(told["places"]).shape[:2] == (8, 2)
    alive = array(told["alive"])
    assert alive[:7].all()
    assert not alive[7].any()
    places = array(told["places"])
    assert np.isfinite(places).all()  # at the end too
    assert not np.array_equal(places[7], places[6])
    assert told["obs_widths"] == [16, 16, 16, 14]


def test_rollouts_are_the_same_again_and_kept(training, watched, monkeypatch):
    query = "policies=000000004,000000002&seed=5&worlds=2"
    one, other = watched(training), watched(training)
    answer = one.answer("rollout", query)
    assert answer == other.answer("rollout", query)
    assert answer != one.answer("rollout", query.replace("seed=5", "seed=6"))
    monkeypatch.setattr("league.watch.api.record", None)
    assert one.answer("rollout", query) is answer


def test_who_is_first_forgotten():
    rollouts, made = Rollouts(kept=5), []

    def make(name: str) -> bytes:
        return rollouts.get(name, lambda: made.append(name) or b"12")

    for name in ("a", "b", "a", "c", "a", "b"):
        make(name)
    rollouts.close()
    assert made == ["a", "b", "c", "b"]


def test_a_rollout_that_fails_is_tried_again():
    rollouts = Rollouts()
    with pytest.raises(CheckpointError):
        rollouts.get("a", lambda: (_ for _ in ()).throw(CheckpointError("gone")))
    assert rollouts.get("a", lambda: b"there") == b"there"
    rollouts.close()


def test_a_world_that_is_over_stays_as_it_was(watched, tmp_path):
    class Stage:
        seats = Game.of("TicTacToe-v0").seats

        def core(self, num_envs):
            return Game.of("TicTacToe-v0").core(num_envs, autoreset="disabled")

        def policy(self, place, name):
            return None

    told = record(Stage(), ["random", "random"], seed=1, worlds=8)
    alive, shapes, reward = (array(told[name]) for name in ("alive", "shapes", "reward"))
    length = alive.any(2).sum(0)
    assert len(set(length)) > 1
    assert told["steps"] == length.max()
    for world, last in enumerate(length):
        assert (shapes[last:, world] == shapes[last, world]).all()
        assert not np.array_equal(shapes[last, world], shapes[last - 1, world])  # the last move is seen
        assert not reward[last:, world].any()


def test_what_is_too_large_has_fewer_worlds_then_no_observations_then_fewer_steps(training, watched):
    stage = watched(training).latest.get()[0].stage

    def size(told) -> int:
        return sum(array(told[name]).nbytes for name in ("shapes", "places", "obs", "alive") if told[name])

    def played(budget: int):
        return record(stage, ["random", "random"], 0, 4, budget)

    whole = played(playing.BUDGET)
    budget = size(whole)
    fewer = played(budget * 2 // 3)
    assert (whole["worlds"], fewer["worlds"]) == (4, 2)
    assert fewer["obs"]
    blind = played(budget // 4 - 200)
    assert (blind["worlds"], blind["obs"], blind["steps"], blind["complete"]) == (1, None, 7, [True])
    short = played(budget // 16)
    assert (short["worlds"], short["complete"]) == (1, [False])
    assert 1 <= short["steps"] < 7
    assert size(short) <= budget // 16


def test_every_environment_can_be_watched(env_id, small_core):
    class Stage:
        seats = ()

        def core(self, num_envs):
            return small_core(env_id, num_envs, autoreset="disabled")

        def policy(self, place, name):
            return None

    told = record(Stage(), [], seed=0, worlds=2)
    assert array(told["shapes"]).shape[:2] == (told["steps"] + 1, 2)
    assert np.isfinite(array(told["shapes"])).all()
    assert json.loads(json.dumps(told, allow_nan=False)) == told


# ---------------------------------------------------------------- wrong questions and folders


@pytest.mark.parametrize(
    ("name", "query", "error", "words"),
    [
        ("nothing", "", NotThere, "api/nothing: there is no such answer of this run; there are run, metrics, rollout"),
        ("rollout", "policies=nobody", NotThere, "policies: adversary: there is no policy 'nobody' of adversary"),
        ("rollout", "policies=random,000000003", NotThere, "agent: there is no policy '000000003' of agent"),
        ("rollout", "policies=..%2F..%2Fconfig,random", NotThere, "there is no policy '../../config'"),
        ("rollout", "policies=a,b,c", ConfigError, "expected one, or one for each of adversary, agent, got 3"),
        ("rollout", "worlds=17", ConfigError, "worlds: expected a whole number from 1 to 16, got '17'"),
        ("rollout", "seed=-1", ConfigError, "seed: expected a whole number from 0 to 9223372036854775807, got '-1'"),
        ("rollout", "sed=1", ConfigError, "no parameter 'sed'; there are policies, seed, worlds"),
    ],
)
def test_wrong_questions(training, watched, name, query, error, words):
    with pytest.raises(error) as caught:
        ask(watched(training), name, query)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_wrong_folders(tmp_path):
    with pytest.raises(ConfigError, match=r"expected the folder of a run, with league.db .* got neither"):
        open_run(tmp_path)
    with pytest.raises(ConfigError, match="got no folder"):
        open_run(tmp_path / "nothing")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"config.json: expected JSON"):
        open_run(tmp_path)
    (tmp_path / "league.db").write_text("no database")
    with pytest.raises(CheckpointError, match="damaged"):
        open_run(tmp_path)


def test_a_module_is_imported_only_where_it_is_named(training, tmp_path):
    recorded = json.loads((training / "config.json").read_text()) | {"env_id": "not_to_be_imported:Meet-v0"}
    (tmp_path / "config.json").write_text(json.dumps(recorded))
    with pytest.raises(ConfigError, match=r"is imported only where you name it: gpu-envs watch .* --id not_to_be_imp"):
        open_run(tmp_path)
    with pytest.raises(ConfigError, match="--id Meet-v0: expected not_to_be_imported:Meet-v0"):
        open_run(tmp_path, "Meet-v0")


# ---------------------------------------------------------------- export


@pytest.fixture
def page(tmp_path, monkeypatch) -> Path:
    path = tmp_path / "index.html"
    path.write_text(PAGE, encoding="utf-8")
    monkeypatch.setattr(exporting, "PAGE", path)
    return path


@pytest.mark.parametrize("kind", ["training", "league"])
def test_an_export_holds_every_answer(kind, request, page, tmp_path, watched, capsys):
    path, file = request.getfixturevalue(kind), tmp_path / "run.html"
    before = digests(path)
    assert watch_command([str(path), "--export", str(file)]) == 0
    assert digests(path) == before
    html = file.read_text(encoding="utf-8")
    head, script, tail = html.partition('<script type="application/json" id="recorded">')
    text, _, end = tail.partition("</script>")
    assert (head + end.lstrip("\n")) == PAGE
    assert script
    answers, api = json.loads(text), watched(path)
    for name in ("run", "metrics", *(["league"] if kind == "league" else [])):
        assert answers.pop(f"api/{name}") == ask(api, name)
    names = ask(api, "run")["policies"]
    latest = tuple(names[seat["role"]][-1] for seat in ask(api, "run")["seats"])
    assert next(iter(answers)) == rollout_path(latest, 0, 4)
    assert len(answers) >= 4
    for question, answer in answers.items():
        assert answer == ask(api, "rollout", question.partition("?")[2])
    assert f"{file}: 0." in capsys.readouterr().out
    assert not [each for each in tmp_path.iterdir() if each not in (file, page)]


def test_an_export_is_bounded_and_nothing_in_it_ends_the_element(training, page, tmp_path, watched, monkeypatch):
    monkeypatch.setattr(exporting, "BYTES", 1)
    api = watched(training)
    api.latest.get()[0].answers["run"]["told"] = "</script><script>"
    assert exporting.export(api, tmp_path / "run.html") == (1, [])
    html = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert html.count("</script>") == 2
    assert json.loads(html.partition('id="recorded">')[2].partition("</script>")[0])["api/run"]["told"]


def test_an_export_leaves_out_what_has_gone_meanwhile(training, page, tmp_path, watched):
    import shutil

    path = Path(shutil.copytree(training, tmp_path / "copy"))
    api = watched(path)
    shutil.rmtree(path / "checkpoints" / "000000002")
    played, (line, *_) = exporting.export(api, tmp_path / "run.html")
    assert played >= 2
    assert "000000002" in line


def test_an_export_needs_a_page_that_was_built(training, page, tmp_path, watched):
    page.write_text("<html>")
    with pytest.raises(ConfigError, match="expected a page with a body that ends"):
        exporting.export(watched(training), tmp_path / "run.html")
    page.unlink()
    with pytest.raises(ConfigError, match="the viewer's page is not there; build it"):
        exporting.export(watched(training), tmp_path / "run.html")
    with pytest.raises(ConfigError, match=f"--export {tmp_path}: expected a file, got a folder"):
        watch_command([str(training), "--export", str(tmp_path)])


def test_paths_of_rollouts_are_as_the_page_writes_them():
    assert rollout_path(("a b", "c,d/é"), 7, 2) == "api/rollout?policies=a%20b,c%2Cd%2F%C3%A9&seed=7&worlds=2"
