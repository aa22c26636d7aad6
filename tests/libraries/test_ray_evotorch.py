"""The recipe of docs/guides/libraries.md for EvoTorch, which needs Ray."""

import torch

from docs.scripts import notebook


def test_recipe_of_the_page_finds_a_policy_that_balances_the_pole():
    space = notebook.run(notebook.LIBRARIES, notebook.PYTHON, "EvoTorch")
    assert space["search"].status["best_eval"] == 500
    weights = space["search"].status["best"].values.expand(space["core"].num_envs, -1)
    assert torch.equal(space["fitness"](weights), torch.full((64,), 500.0))
