"""Variants return work: only the loop executes tasks and writes to the store."""

import pytest
import torch
from psro_runs import QUICK, contents, play, psro
from shuffled import Shuffled

from league.game import Game
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.psro.work import BestResponseTask, ComputedUpdate, StoreUpdate
from league.storage.open_run import open_run

PIPELINE = {**QUICK, "variant": "pipeline", "pipeline_depth": 2}


@pytest.mark.parametrize("variant", ["standard", "anytime", "self_play", "pipeline"])
def test_variant_submits_and_writes_nothing_itself(variant, tmp_path, monkeypatch):
    run = psro(tmp_path, iterations=1, **{**QUICK, "variant": variant})
    advance, kinds = run.variant.advance, set()

    def watched(context):
        batches = advance(context)
        while True:
            previous = run.store.tasks(), run.coordinator.executor.pending
            batch = next(batches, None)
            assert (run.store.tasks(), run.coordinator.executor.pending) == previous
            if batch is None:
                return
            kinds.update(type(work) for work in batch)
            yield batch

    monkeypatch.setattr(run.variant, "advance", watched)
    with run.store:
        run.run()
    assert kinds == ({ComputedUpdate, StoreUpdate} if variant == "pipeline" else {BestResponseTask})


@pytest.mark.slow
def test_payoff_cells_of_a_pipeline_are_simulated_by_the_executor_with_equal_results(tmp_path):
    torch.set_num_threads(1)
    play(tmp_path / "local", iterations=2, **PIPELINE)
    executor, config = Shuffled(seed=0), PSROConfig(iterations=2, **PIPELINE)
    with open_run(tmp_path / "other", Game.of("KuhnPoker-v0"), "psro", config) as store:
        PSRO(store, config, executor=executor).run()
    assert [key for key in executor.order if "/meet/" in key] == ["1/meet/1", "2/meet/0", "2/meet/1"]
    local, other = contents(tmp_path / "local"), contents(tmp_path / "other")
    assert local["cells"] == other["cells"]
    assert local == other
