"""Made-up answers for the viewer's page, see `league.watch.api` for their form, and the frame that the page shows."""

import base64
import contextlib
import json
import threading
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
from playwright.sync_api import expect

from league.watch.server import serve

PAGE = Path(__file__).parents[2] / "league" / "watch" / "static" / "index.html"
WAIT = 60_000  # timeout on a busy machine [ms]
HOME = "http://viewer.test/"
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
STORIES = [f"{kind}_{i}" for kind in ("main", "main_exploiter", "league_exploiter") for i in range(4)]


def packed(values) -> dict:
    values = np.ascontiguousarray(values, "<f4")
    return {"shape": list(values.shape), "data": base64.b64encode(values.tobytes()).decode()}


def rollout(shapes, places, **values) -> dict:
    """Make a rollout of `shapes` (T + 1, W, M, 10) and `places` (T + 1, W, A, 3); obs is 1000 t + 100 w + 10 a + d."""
    frames, worlds, agents = places.shape[:3]
    index = np.indices((frames, worlds, agents, 4))
    return {
        "env_id": "MadeUp-v0",
        "fps": 60,
        "agents": [f"agent_{i}" for i in range(agents)],
        "groups": {"team": list(range(agents))},
        "seats": [{"name": "team", "role": "team", "policy": "000000020"}],
        "worlds": worlds,
        "steps": frames - 1,
        "complete": [True] * worlds,
        "bounds": [[0, 0, 10, 10]] * worlds,
        "background": [1, 1, 1],
        "surround": [0.9, 0.9, 0.9],
        "border": None,
        "margin": 0.1,
        "shapes": packed(shapes),
        "places": packed(places),
        "obs": packed(1000 * index[0] + 100 * index[1] + 10 * index[2] + index[3]),
        "obs_widths": [3] * agents,
        "alive": packed(np.ones((frames, worlds, agents))),
        "action": packed(np.arange(agents) + np.zeros((frames - 1, worlds, agents))),
        "reward": packed(np.full((frames - 1, worlds, agents), 0.5)),
        "obs_names": None,
        "action_names": None,
        "action_parts": None,
        **values,
    }


def moving(agents: int, frames: int, worlds: int = 1) -> dict:
    """Make a rollout of agents that move in circles, each a disc with a line and a ring."""
    t, world, agent = np.indices((frames, worlds, agents))
    angle = 0.04 * t + agent + world
    reach = 0.5 + 4 * (agent + 1) / agents
    places = np.stack([5 + reach * np.cos(angle), 5 + reach * np.sin(angle), np.full_like(reach, 0.12)], -1)
    x, y, radius = np.moveaxis(places, -1, 0)
    ones, color = np.ones_like(x), np.where(agent[..., None] % 5 == 0, (0.84, 0.24, 0.16), (0.13, 0.47, 0.77))
    ring = np.stack([0 * ones, x, y, 0.3 * ones, 0.3 * ones, 0.03 * ones], -1)
    line = np.stack([2 * ones, x, y, 0.2 * np.cos(angle), 0.2 * np.sin(angle), 0.05 * ones], -1)
    disc = np.stack([0 * ones, x, y, radius, radius, 0 * ones], -1)
    shapes = np.concatenate(
        [
            np.concatenate([shape, color, alpha * ones[..., None]], -1)
            for shape, alpha in ((ring, 0.5), (line, 1), (disc, 1))
        ],
        2,
    )
    return rollout(shapes, places)


def training(played: dict, rows: int = 50) -> dict[str, dict]:
    """Return answers about a training by path, without the query."""
    run = {
        "name": "made-up",
        "kind": "training",
        "env_id": "MadeUp-v0",
        "env": {},
        "algorithm": "ppo",
        "config": {"seed": 0, "learner": {"gamma": 0.99}},
        "writing": True,
        "state": "running",
        "done": 20,
        "total": 40,
        "latest": {"team": "000000020"},
        "mixture": None,
        "colors": {"team": "blue"},
        "version": 1,
        "problem": None,
        "roles": ["team"],
        "seats": [{"name": "team", "role": "team"}],
        "policies": {"team": ["random", "000000020"]},
        "agents": played["agents"],
        "groups": {"team": played["agents"]},
    }
    return {"api/run": run, "api/metrics": metrics(rows), "api/rollout": played}


def league(played: dict, count: int) -> dict[str, dict]:
    """Return answers about a two-player league with `count` policies per seat; i against j earns i - j."""
    names = [f"p{i}" for i in range(count)]
    seats = [{"name": name, "role": name} for name in ("left", "right")]
    mean = np.subtract.outer(np.arange(count), np.arange(count)).ravel()
    payoff = {"shape": [count, count], "exact": True, "mean": [mean.tolist(), (-mean).tolist()], "count": None}
    empty = {name: [] for name in ("ratings", "strategies", "lineage", "exploitability")}
    run = {**training(played)["api/run"], "kind": "league", "algorithm": "psro", "writing": False, "state": "finished"}
    run |= {"roles": ["left", "right"], "seats": seats, "policies": {"left": names, "right": names}}
    run |= {"latest": {"left": names[-1], "right": names[-1]}, "colors": {"left": "blue", "right": "red"}}
    league_answer = {**empty, "version": 1, "roles": run["roles"], "seats": seats, "measures": {}, "left_out": {}}
    league_answer |= {"learned_responses": None, "tables": []}
    league_answer["payoff"] = {**payoff, "half": [[0.0] * count**2] * 2}
    return {"api/run": run, "api/league": league_answer, "api/metrics": metrics(5), "api/rollout": played}


def story(players: list[str], stages: int = 2) -> dict[str, dict]:
    """Return answers about a league of one role, whose players have several stages."""
    answers = league(moving(2, 4), 1 + stages * len(players))
    names = ["random", *(f"{name}:{stage}" for stage in range(1, 1 + stages) for name in players)]
    entries = [(name, name.partition(":")[0] if ":" in name else None) for name in names]
    common = {"role": "left", "kind": "policy", "parent": None, "weight": 0.1}
    lineage = [{**common, "name": name, "player": owner, "iteration": i // len(players)} for i, (name, owner) in
               enumerate(entries)]  # fmt: skip
    answers["api/league"] |= {"lineage": lineage}
    answers["api/league"]["ratings"] = [
        {"role": "left", "name": entry["name"], "iteration": entry["iteration"], "elo": 10.0 * i}
        for i, entry in enumerate(lineage)
    ]
    policies = {"left": names, "right": names}
    answers["api/run"] |= {"policies": policies, "roles": ["left"], "latest": {"left": "main_0:2", "right": "main_0:2"}}
    answers["api/run"]["mixture"] = "meta-strategy"
    return answers


def experiment(played: dict) -> dict[str, dict]:
    """Return answers about an experiment of two tasks, two algorithms and two seeds, and about one of its runs."""
    run = {**training(played)["api/run"], "name": "paper", "kind": "experiment", "algorithm": "ppo, a2c"}
    cells = []
    for task in ("pole", "tag"):
        for i, algorithm in enumerate(("ppo", "a2c")):
            names = [f"runs/{task}/{algorithm}/seed-{seed}" for seed in range(2)]
            states = [{"share": 1.0, "complete": True}, {"share": None if i else 0.839, "complete": False}]
            runs = [{"name": name, "seed": seed, **states[seed]} for seed, name in enumerate(names)]
            curve = [[100 * step, step + i, step + i - 0.5, step + i + 0.5] for step in range(1, 5)]
            cells.append({"task": task, "algorithm": algorithm, "curve": curve, "final": [2.5, 1, 4], "runs": runs})
    tasks = {"pole": {"score": "eval/score", "threshold": 3}, "tag": {"score": "eval/won", "threshold": None}}
    answers = training(played)
    answers["api/run"] |= {"name": "seed-1"}
    answers = {path.replace("api/", "api/runs/tag/ppo/seed-1/"): answer for path, answer in answers.items()}
    return {**answers, "api/run": run, "api/experiment": {"version": 1, "tasks": tasks, "cells": cells}}


def metrics(rows: int, version: int = 1) -> dict:
    columns = ["iteration", "env_steps", "team/episode_return_mean", "team/entropy", "eval/team/return"]
    lines = [[i + 1, 100 * (i + 1), 0.1 * i, 2 - 0.01 * i, i if i % 10 == 0 else None] for i in range(rows)]
    return {"version": version, "x": "env_steps", "every": 1, "columns": columns, "rows": lines}


def answering(answers: dict[str, dict]):
    """Return a handler for a page's route; an answer that is a string is an error."""

    def handle(route) -> None:
        path = route.request.url.removeprefix(HOME).partition("?")[0]
        if not path:
            return route.fulfill(path=PAGE, content_type="text/html; charset=utf-8")
        answer = answers.get(path, "there is no such answer")
        if isinstance(answer, str):
            return route.fulfill(status=404, json={"error": answer})
        return route.fulfill(body=json.dumps(answer), content_type="application/json")

    return handle


def asked_policies(request) -> list[str]:
    """Return the policies that a request for a rollout names."""
    return [unquote(name) for name in parse_qs(urlsplit(request.url).query)["policies"][0].split(",")]


def frame(page) -> int:
    return int(page.get_by_role("slider", name="Step", exact=True).input_value())


def expect_frame(page, number: int) -> None:
    expect(page.get_by_role("slider", name="Step", exact=True)).to_have_value(str(number))


@contextlib.contextmanager
def serving(api):
    """Serve the page with an API; give its address."""
    running, ready = {}, threading.Event()

    def started(url, server) -> None:
        running.update(url=url, server=server)
        ready.set()

    thread = threading.Thread(target=serve, args=(api, "127.0.0.1", 0, started))
    thread.start()
    assert ready.wait(300)
    try:
        yield running["url"]
    finally:
        running["server"].should_exit = True
        thread.join(60)
