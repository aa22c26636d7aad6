"""Summaries of leagues and their policies."""

import torch

from league.game import Game
from league.policies.mixture import MixturePolicy
from league.policies.random import RandomPolicy
from league.policies.tabular import TablePolicy
from league.policies.team import TeamPolicy
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.storage.open_run import open_run
from trainers import load_policy


def test_policies_show_actions_members_and_weights():
    game = Game.of("KuhnPoker-v0")
    random = RandomPolicy.of(game, game.roles[0])
    table = TablePolicy(torch.eye(3), torch.full((3, 2), 0.5))
    assert repr(random) == "<RandomPolicy: action=Discrete(2), device=cpu>"
    assert repr(table) == "<TablePolicy: observation=Box(3,), action=Discrete(2), observations=3, device=cpu>"
    mixture = repr(MixturePolicy([random, table], torch.tensor([1.0, 3.0])))
    assert mixture.startswith("<MixturePolicy: members=2, device=cpu; member 1: weight 0.75, policy <TablePolicy")
    assert "member 0: weight 0.25, policy <RandomPolicy: action=Discrete(2), device=cpu>" in mixture
    team = repr(TeamPolicy([load_policy("zoo:simple-tag-ppo", "agent")], [[0, 1]]))
    assert team.startswith("<TeamPolicy: agents=2, device=cpu; agents [0, 1]: policy <Policy: observation=Box(14,)")


def test_run_shows_settings_and_populations(tmp_path):
    game, config = Game.of("KuhnPoker-v0", shared=False), PSROConfig(iterations=1, oracle="exact", meta_solver="nash")
    store = open_run(tmp_path / "run", game, "psro", config)
    psro = PSRO(store, config)
    first = "<PSRO KuhnPoker-v0: variant=standard, nash, exact responses, iterations=1, device=cpu, path="
    assert repr(psro).startswith(first)
    assert repr(psro).endswith("player_1: seats player_1, policies 0, newest none>")
    psro.run()
    store.close()
    assert repr(psro).endswith("player_1: seats player_1, policies 2, newest player_1-1>")
    assert repr(store).startswith("<RunStore KuhnPoker-v0: algorithm=psro, path=")
    assert ">player_1-1<" in store._repr_html_()
    population = store.populations["player_1"]
    assert repr(population) == "<Population player_1: policies=2, newest=player_1-1, device=cpu>"
    assert ">newest<" in population._repr_html_()
