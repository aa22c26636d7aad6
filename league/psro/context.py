"""The view of a PSRO run that its variants and oracles work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from gpu_envs.utils.progress import Progress
from league.evaluation.tabular_game import TabularGame
from league.game import Game
from league.policies.population import Population
from league.psro.config import PSROConfig
from league.solvers import MetaStrategy
from league.storage.run_store import RunStore
from trainers.config.train_config import TrainConfig

__all__ = ["PSROContext"]


@dataclass(frozen=True)
class PSROContext:
    """A run during one iteration, for reading. Variants and oracles return tasks and updates; the loop runs them."""

    iteration: int
    """Number of the iteration."""
    game: Game
    """Game of the run."""
    config: PSROConfig
    """Settings of the run."""
    store: RunStore
    """Records of the run."""
    populations: Mapping[str, Population]
    """Populations by role."""
    home_device: str
    """Device on which this process keeps policies and states."""
    train: TrainConfig | None
    """Training settings; None with the exact oracle."""
    tabular: TabularGame | None
    """Tabular form of the game; None if it is too large or policies are recurrent."""
    strategy: MetaStrategy | None
    """Meta-strategy of the previous iteration; None in the first one."""
    meta_game: Callable[[], Tensor]
    """Function that returns the current payoffs (S, N_1, ..., N_S)."""
    solve: Callable[[Tensor], MetaStrategy]
    """Function that applies the meta-solver to payoffs (S, N_1, ..., N_S)."""
    progress: Progress | None = None
    """Called with the progress of trainings."""

    @property
    def opponents(self) -> MetaStrategy:
        """Meta-strategy of the previous iteration, to which the policies of this one respond."""
        assert self.strategy is not None
        return self.strategy

    @property
    def scheduled_steps(self) -> int:
        """Environment steps over which the schedules of resumed learners extend: joint training and all responses."""
        assert self.train is not None
        iterations = int(self.store.config.get("iterations", self.config.iterations))  # of the run at its start
        return self.config.joint_steps + iterations * self.train.total_steps

    def require_tabular(self) -> TabularGame:
        """Return the tabular form of the game, which exact oracles and payoffs have."""
        assert self.tabular is not None
        return self.tabular
