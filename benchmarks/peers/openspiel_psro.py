"""OpenSpiel's PSRO, `psro_v2`, on the games of gpu-envs."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.utils._pytree

from league import solvers

GAMES = {"KuhnPoker-v0": "kuhn_poker", "LeducPoker-v0": "leduc_poker"}
DQN: dict[str, Any] = {
    "hidden_layers_sizes": [256] * 4,
    "batch_size": 32,
    "learning_rate": 1e-2,
    "update_target_network_every": 500,
    "learn_every": 10,
}
"""Settings of learned responses in OpenSpiel's psro_v2_example.py, which trains each for 10,000 episodes."""


def load() -> tuple[Any, Any, Any]:
    """`psro_v2`, its module of exact responses and the class of learned ones.

    Some imports need packages that it does not ask for. Instead of them: cvxpy by nothing, because the equilibrium
    comes
    from the linear program of gpu-envs; for its learners in JAX its own in PyTorch; for dm-tree, which those use to
    write to their
    replay, torch's map over structures.
    """
    tree, cvxpy, jax = ModuleType("tree"), ModuleType("cvxpy"), ModuleType("open_spiel.python.jax")
    cvxpy.__dict__.update(ECOS="")
    tree.__dict__.update(map_structure=torch.utils._pytree.tree_map)
    with _with_modules({"tree": tree}):
        from open_spiel.python.pytorch import dqn, policy_gradient
    jax.__dict__.update(dqn=dqn, policy_gradient=policy_gradient)
    learners = {"open_spiel.python.jax.dqn": dqn, "open_spiel.python.jax.policy_gradient": policy_gradient}
    with _with_modules({"cvxpy": cvxpy, "open_spiel.python.jax": jax, **learners}):
        from open_spiel.python.algorithms.psro_v2 import best_response_oracle, psro_v2, rl_oracle, rl_policy
    return psro_v2, best_response_oracle.BestResponseOracle, (rl_oracle.RLOracle, rl_policy.DQNPolicy)


def load_dqn() -> ModuleType:
    """Return the module of OpenSpiel's DQN in PyTorch, with `load`'s substitute for dm-tree."""
    tree = ModuleType("tree")
    tree.__dict__.update(map_structure=torch.utils._pytree.tree_map)
    with _with_modules({"tree": tree}):
        from open_spiel.python.pytorch import dqn
    return dqn


@contextlib.contextmanager
def _with_modules(modules: dict[str, ModuleType]) -> Iterator[None]:
    """Make stub modules importable within the block for packages that are not installed."""
    added = [name for name in modules if name not in sys.modules and not _installed(name)]
    sys.modules.update({name: modules[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            del sys.modules[name]


def _installed(name: str) -> bool:
    return "." not in name and importlib.util.find_spec(name) is not None


class Theirs:
    """A run of it: Nash, responses exact or learned by its DQN, payoffs from its own loop over episodes."""

    def __init__(self, env_id: str, oracle: str, episodes: int, training_episodes: int = 10_000, seed: int = 1) -> None:
        """`episodes` per payoff cell; `training_episodes` per learned response; `oracle` "exact" or "learned"."""
        import random

        import pyspiel
        from open_spiel.python import policy, rl_environment

        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 (it draws from there)
        psro, exact, (learned, dqn) = load()
        self.game = pyspiel.load_game(GAMES[env_id])
        if oracle == "exact":
            chosen: Any = exact(game=self.game, policy=policy.UniformRandomPolicy(self.game))
            first = [policy.TabularPolicy(self.game) for _ in range(2)]
        else:
            env = rl_environment.Environment(self.game)
            sizes = {
                "state_representation_size": env.observation_spec()["info_state"][0],
                "num_actions": env.action_spec()["num_actions"],
            }
            chosen = learned(
                env, dqn, {**DQN, **sizes}, number_training_episodes=training_episodes, self_play_proportion=0.0
            )
            first = [dqn(env, player, **sizes, **DQN) for player in range(2)]
            for agent in first:
                agent.freeze()
        with contextlib.redirect_stdout(io.StringIO()):
            self.solver = psro.PSROSolver(
                self.game,
                chosen,
                initial_policies=first,
                training_strategy_selector="probabilistic",
                sims_per_entry=episodes,
                meta_strategy_method=_nash,
                sample_from_marginals=True,
                number_policies_selected=1,
            )

    def iterate(self) -> None:
        """Compute one response per player, their payoff cells, and the Nash mixture."""
        self.solver.iteration()

    def nash_conv(self) -> float:
        """Return the exact NashConv of the mixture."""
        from open_spiel.python.algorithms import exploitability, policy_aggregator

        aggregate = policy_aggregator.PolicyAggregator(self.game).aggregate(
            range(2), self.solver.get_policies(), self.solver.get_meta_strategies()
        )
        return 2 * float(exploitability.exploitability(self.game, aggregate))


def _nash(solver: Any, return_joint: bool = False) -> Any:
    payoffs = torch.as_tensor(np.stack(solver.get_meta_game()))
    first, second = payoffs
    shifted = torch.stack([(first - second) / 2, (second - first) / 2])  # sums of sampled payoffs are rounded
    marginals = [marginal.numpy() for marginal in solvers.solve("nash", shifted).marginals]
    return (marginals, marginals) if return_joint else marginals


def cell(env_id: str, episodes: int, seed: int) -> Any:
    """Return the returns of one payoff cell of two random tabular policies, by the loop of psro_v2."""
    import pyspiel
    from open_spiel.python import policy

    load()
    sample = sys.modules["open_spiel.python.algorithms.psro_v2.abstract_meta_trainer"].sample_episode  # type: ignore[attr-defined]
    game = pyspiel.load_game(GAMES[env_id])
    rng, players = np.random.default_rng(seed), []
    for _ in range(2):
        table = policy.TabularPolicy(game)
        weights = rng.random(table.action_probability_array.shape) * table.legal_actions_mask
        table.action_probability_array[:] = weights / weights.sum(1, keepdims=True)
        players.append(table)
    return sum(sample(game.new_initial_state(), players) for _ in range(episodes)) / episodes
