"""docs/scaling.md is what was recorded, and its estimate is what its constants say."""

import pytest

from benchmarks.league import executor_scaling, scaling_page
from benchmarks.league.scaling_page import GPUS, LINK, PER_NODE, SHARING, Load, full_at, loads_of, shortest


def test_page_equals_the_recorded_results(monkeypatch, tmp_path):
    written = scaling_page.PAGE.read_text(encoding="utf-8")
    monkeypatch.setattr(scaling_page, "PAGE", tmp_path / "scaling.md")
    scaling_page.write(executor_scaling.recorded())
    assert (tmp_path / "scaling.md").read_text(encoding="utf-8") == written, (
        "python -m benchmarks.league.executor_scaling --write"
    )
    assert [row["workers"] for row in executor_scaling.recorded()["dispatch"]] == list(executor_scaling.WORKERS)


def test_load_is_full_at_the_limit_of_its_resource():
    constant = Load("x", "", lambda gpus: 0.01)
    assert shortest(constant) == pytest.approx(SHARING * GPUS * 0.01)
    assert full_at(constant, 20.0) == pytest.approx(20.0 / 0.01 / SHARING)
    growing = Load("x", "", lambda gpus: 1e-6 * gpus)
    assert SHARING * 1e-6 * full_at(growing, 20.0) ** 2 == pytest.approx(20.0)


def test_cost_of_a_best_response():
    costs = {
        "response": {"ms_per_call": 10.0, "commit_ms": 8.0},
        "payoffs": {"ms_per_call": 2.0, "commit_ms": 1.0, "result_bytes": 100},
    }
    game = {"policy_bytes": 1_000, "state_bytes": 5_000}
    time, commits, link, policies = (load.of(80.0) for load in loads_of(game, costs))
    calls = scaling_page.PAYOFF_CALLS
    assert time == pytest.approx((10 + 2 * calls) / 1e3)
    assert commits == pytest.approx((8 + calls) / 1e3)
    assert link == pytest.approx((2 * 5_000 + 1_000 + 100 * calls) / LINK)
    assert policies == pytest.approx(1_000 * 80 / PER_NODE / LINK)
