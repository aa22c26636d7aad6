"""Settings of PSRO."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gpu_envs.definition.id_modules import named_object
from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import check_settings, setting
from league import solvers
from trainers.base.random_streams import SEEDS

DEFAULTS: dict[str, dict[str, Any]] = {"prd": {"iterations": 50_000, "gamma": 1e-10}}
"""Default settings of meta-solvers by name, from OpenSpiel 2.0.2's psro_v2_example.py."""
VARIANT_NAMES = ("standard", "rectified", "pipeline", "anytime", "self_play", "xdo")
"""Names of the variants."""


@dataclass(frozen=True)
class PSROConfig:
    """Settings of PSRO."""

    iterations: int = setting(10, ge=0)
    """Number of iterations; each adds a best response to every population, which starts with a random policy."""
    meta_solver: str = setting("auto", choices=("auto", *solvers.SOLVERS), by_name=True)
    """Meta-solver, see `league.solvers`. "auto" is nash in two-player zero-sum games, else prd.
    With cce, best responses are to the joint distribution of the other seats. With ce there is one best response per
    recommended policy, to the joint distribution conditional on it, as in JPSRO(CE) (Marris et al. 2021).
    "module:NAME" is a function of your own from payoffs (S, N_1, ..., N_S) to one distribution per seat."""
    meta_solver_kwargs: dict[str, Any] = field(default_factory=dict)
    """Arguments of the meta-solver, see its function. Without any, prd takes OpenSpiel's PSRO arguments."""
    max_recommendations: int | None = setting(3, ge=1, requires={"meta_solver": "ce"})
    """Meta-solver ce: largest number of best responses per role and iteration; None: no limit.
    Exact responses are to the recommendations with the largest gains, learned ones to the most probable."""
    oracle: str = setting("learned", choices=("learned", "exact"), by_name=True)
    """Source of best responses: "learned" trains them with an algorithm of `trainers`.
    "exact" computes them on the tree of a small game.
    "module:NAME" is a class of your own derived from `LearnedOracle` or `ExactOracle` in `league.psro.oracles`."""
    payoff_estimation: str = setting("sampled", choices=("sampled", "exact"))
    """Source of payoffs: "sampled" simulates episodes; "exact" computes them on the tree of a small game."""
    variant: str = setting("standard", choices=VARIANT_NAMES, by_name=True)
    """Variant of PSRO, see `league.psro.variants`: "standard" (Lanctot et al. 2017), "rectified" (PSRO-rN),
    "pipeline" (Pipeline PSRO), "anytime" (Anytime PSRO), "self_play" (SP-PSRO) or
    "xdo" (extensive-form double oracle, exact responses only).
    "anytime" has the least exploitable mixture of each population as meta-strategy.
    So has "self_play" in two-player zero-sum games with exact responses and meta_solver="auto".
    "module:NAME" is a class of your own derived from `league.psro.variants.standard.StandardVariant`."""
    pipeline_depth: int = setting(3, ge=1, requires={"variant": "pipeline"})
    """Pipeline: number of responses of a role that train simultaneously."""
    asynchronous: bool = setting(False, requires={"variant": "pipeline"})
    """Pipeline: train every level again at once when its segment ends, without waiting for the others.
    The result depends on the order in which workers finish."""
    plateau_tolerance: float | None = setting(None, ge=0, requires={"variant": "pipeline"})
    """Pipeline: a response is finished once a segment of its training raises its return by at most this number.
    None: it is finished after `total_steps` of `train_overrides`."""
    num_segments: int = setting(10, ge=1)
    """Pipeline: number of segments of a training.
    Self-play: number of policies in the time average, one from each segment."""
    restricted_tolerance: float = setting(1e-3, gt=0, requires={"variant": "xdo"})
    """XDO: largest NashConv of the solution of a restricted game among its own policies, in units of the return."""
    keep_best_strategy: bool = False
    """Report the least exploitable meta-strategy of all iterations as the result, instead of the last one.
    The summaries name its iteration, `best_iteration`.
    Without NashConv, it is the one with the smallest lower bound among the final policies."""
    response_init: str = setting("scratch", choices=("scratch", "warm_start", "resume"))
    """Initial weights of a learned response: "scratch", "warm_start" or "resume".
    "scratch" initializes them at random.
    "warm_start" copies the weights of the role's latest policy, critics included; it learns sooner but explores less.
    "resume" continues the learner of that policy, with its optimizer; schedules extend over all `iterations`.
    The variants "anytime" and "self_play" treat "resume" as "warm_start"; "pipeline" always continues its learners."""
    joint_steps: int = setting(0, ge=0)
    """Environment steps of training before the first iteration, in which all roles learn in the same worlds.
    Snapshots join the populations. With "warm_start" or "resume", responses start from the last ones. 0: none."""
    joint_snapshots: int = setting(5, ge=1)
    """Number of policies per role that joint training adds, one from each of its equal segments."""
    joint_overrides: dict[str, Any] = field(default_factory=dict)
    """Training setting of the joint training that replaces the one in `train_overrides`, such as a higher entropy."""
    recent_policies: int | None = setting(None, ge=1)
    """Number of latest policies of each population that the meta-strategy can mix; None: all.
    It does not apply to meta-strategies of "anytime", "xdo" and "self_play" with exact responses."""
    episodes_per_matchup: int = setting(1_000, ge=1)
    """Number of episodes per cell of the payoff table."""
    ci_half_width: float | None = setting(None, gt=0)
    """Simulate further episodes until the half-width of every 95 % confidence interval is at most this return.
    None: simulate `episodes_per_matchup` only."""
    eval_num_envs: int = setting(16_384, ge=1)
    """Largest number of environments that play payoff cells at once."""
    seed: int = setting(0, ge=0, lt=SEEDS)
    """Random seed of the run."""
    device: str = "cpu"
    """Device for training and simulation: "cpu", "cuda" or "cuda:<i>". On the command line a GPU is the default."""
    callback: tuple[str, ...] = setting((), by_name=True)
    """Functions "module:NAME" that are called after every iteration with its summary, a dictionary."""
    train_overrides: dict[str, Any] = field(default_factory=dict)
    """Training setting of all learners that replaces the preset's, such as num_envs=128 or learner.gamma=0.95."""

    @property
    def has_exact_responses(self) -> bool:
        """Whether the oracle computes best responses on the tree of the game."""
        if ":" in self.oracle:
            return getattr(named_object("oracle", self.oracle, object), "is_exact", False)
        return self.oracle == "exact"

    def __post_init__(self) -> None:
        """Check all settings; raise ConfigError on the first invalid value."""
        check_settings(self)
        if self.asynchronous and self.variant != "pipeline":
            raise ConfigError(f"asynchronous=True: expected variant='pipeline', got {self.variant!r}; leave it out")
        if self.meta_solver == "ce" and self.variant != "standard":
            raise ConfigError(
                f"meta_solver='ce': expected variant='standard', got {self.variant!r}, which does not respond to "
                "recommendations; use meta_solver='cce'"
            )
