"""OneStepEconomy-v0 (5 agents): Workers choose labor, a planner taxes."""

from dataclasses import dataclass

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView, any_bits, index, integers, params_of, roster
from gpu_envs.descriptions import ANY, ObservationBlock, flags
from gpu_envs.envs.games.scene import GOLD, PAPER
from gpu_envs.envs.games.seven_segment import numbers
from gpu_envs.errors import ConfigError
from gpu_envs.rendering.scene import (
    BLUE,
    DARK,
    GRAY,
    GREEN,
    ORANGE,
    PURPLE,
    Color,
    Pen,
    Scene,
    boxes,
    join,
)
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.economy import one_step
from warp_kernels.economy.saez_taxes import SAMPLES as SAEZ_SAMPLES

AGENT_REWARDS = ("coin_minus_labor_cost", "isoelastic_coin_minus_labor")
"""Utilities of the workers."""
PLANNER_REWARDS = ("inv_income_weighted_utility", "coin_eq_times_productivity")
"""Social welfare, the planner's objective."""
TAX_MODELS = ("model_wrapper", "saez", "us-federal-single-filer-2018-scaled", "fixed-bracket-rates")
"""Sources of the tax rates."""
BRACKET_SPACINGS = ("us-federal", "linear", "log")
"""Places of the brackets."""
US_CUTOFFS = (0.0, 9700.0, 39475.0, 84200.0, 160725.0, 204100.0, 510300.0)
"""Lowest income of the US federal brackets of 2018 [USD]."""
US_RATES = (0.1, 0.12, 0.22, 0.24, 0.32, 0.35, 0.37)
"""Their rates."""
SAMPLES = 1000  # samples of skills, whose mean by rank the workers have
MAX_RATES = 200  # largest number of rates to choose from


@dataclass(frozen=True)
class Config:
    """Settings of OneStepEconomy-v0, with the names and defaults of ai-economist and of its two components."""

    n_agents: int = setting(4, ge=2, le=100)
    """Number of workers."""
    episode_length: int = setting(2, ge=1, le=MAX_INT)
    """Length of an episode [steps]. With 2 the planner sets taxes in the first step and workers work in the second."""
    agent_reward_type: str = setting("coin_minus_labor_cost", choices=AGENT_REWARDS)
    """Utility of a worker: coin minus a power of labor, or isoelastic in coin and linear in labor."""
    isoelastic_eta: float = setting(0.23, ge=0.0, le=1.0)
    """Shape of the isoelastic utility; 0 is linear, 1 the logarithm."""
    labor_exponent: float = setting(2.0, gt=1.0, le=10.0)
    """Exponent of labor in "coin_minus_labor_cost"."""
    labor_cost: float = setting(1.0, ge=0.0, le=1e6)
    """Coefficient of labor in utilities."""
    planner_reward_type: str = setting("inv_income_weighted_utility", choices=PLANNER_REWARDS)
    """Social welfare: mean utility weighted by inverse income, or equality of coin times mean coin."""
    mixing_weight_gini_vs_coin: float = setting(0.0, ge=0.0, le=1.0)
    """Weight of coin in "coin_eq_times_productivity"; with 1 equality has none."""
    mask_first_step: bool = True
    """Let workers not work in the first step."""
    payment_max_skill_multiplier: float = setting(3.0, ge=1.0, le=1e6)
    """Largest skill [coin/hour]."""
    pareto_param: float = setting(4.0, gt=0.0, le=1e3)
    """Shape of the Pareto distribution of skills."""
    skills: tuple[float, ...] | None = setting(None, ge=0.0, le=1e6)
    """Skills of the workers [coin/hour]; None: means by rank of 1,000 samples."""
    skill_seed: int = setting(0, ge=0, le=MAX_INT)
    """Random seed of these samples, which all worlds share."""
    disable_taxes: bool = False
    """Collect no taxes."""
    tax_model: str = setting("model_wrapper", choices=TAX_MODELS)
    """Source of the rates: the planner's actions; the formula of Saez, with random rates at first; US federal taxes of
    2018; or `fixed_bracket_rates`."""
    period: int = setting(2, ge=1, le=MAX_INT)
    """Length of a tax period [steps]: the planner sets rates in its first step, and taxes are due in its last."""
    rate_min: float = setting(0.0, ge=0.0, le=1.0)
    """Smallest rate of the planner and of the formula of Saez."""
    rate_max: float = setting(1.0, ge=0.0, le=1.0)
    """Largest rate."""
    rate_disc: float = setting(0.05, gt=0.0, lt=1.0)
    """Distance of the rates that the planner can choose."""
    tax_limit: float = setting(1.0, ge=0.0, le=1.0)
    """Largest rate at present, as a fraction of `rate_max`. A training can anneal this parameter, as
    `tax_annealing_schedule` of the original does."""
    n_brackets: int = setting(5, ge=2, le=20)
    """Number of tax brackets; "us-federal" has 7."""
    top_bracket_cutoff: float = setting(100.0, ge=10.0, le=1e9)
    """Lowest income of the last bracket [coin]; not of "us-federal"."""
    usd_scaling: float = setting(1000.0, gt=0.0, le=1e9)
    """Divisor of the US federal cutoffs [USD/coin]."""
    bracket_spacing: str = setting("us-federal", choices=BRACKET_SPACINGS)
    """Places of the brackets."""
    fixed_bracket_rates: tuple[float, ...] | None = setting(None, ge=0.0, le=1.0)
    """Rate of every bracket with `tax_model="fixed-bracket-rates"`."""
    pareto_weight_type: str = setting("inverse_income", choices=("inverse_income", "uniform"))
    """Weights of incomes in the formula of Saez."""
    saez_fixed_elas: float | None = setting(None, ge=0.0, le=1e6)
    """Elasticity of incomes in the formula of Saez; None: estimated."""

    def __post_init__(self) -> None:
        """Check the sizes of lists and the rates."""
        if self.skills is not None and len(self.skills) != self.n_agents:
            raise ConfigError(f"skills: expected {self.n_agents} numbers, one per worker, got {len(self.skills)}")
        if self.rate_min > self.rate_max:
            raise ConfigError(f"rate_min: expected at most rate_max = {self.rate_max}, got {self.rate_min}")
        if self.tax_model.startswith("us-federal") and self.bracket_spacing != "us-federal":
            raise ConfigError(f"bracket_spacing: expected 'us-federal' with US taxes, got {self.bracket_spacing!r}")
        brackets = len(self.cutoffs)
        if self.tax_model == "fixed-bracket-rates" and len(self.fixed_bracket_rates or ()) != brackets:
            actual = None if self.fixed_bracket_rates is None else len(self.fixed_bracket_rates)
            raise ConfigError(f"fixed_bracket_rates: expected {brackets} rates, one per bracket, got {actual}")
        if self.chooses and not 2 <= len(self.rates) <= MAX_RATES:
            raise ConfigError(
                f"rate_disc: expected 2 to {MAX_RATES} rates between rate_min and rate_max, got {len(self.rates)}"
            )

    @property
    def chooses(self) -> bool:
        """Whether the planner chooses the rates."""
        return self.tax_model == "model_wrapper" and not self.disable_taxes

    @property
    def saez(self) -> bool:
        """Whether the formula of Saez sets the rates."""
        return self.tax_model == "saez" and not self.disable_taxes

    @property
    def cutoffs(self) -> np.ndarray:
        """Lowest income of every bracket [coin], (B,)."""
        count, top = self.n_brackets, self.top_bracket_cutoff
        if self.bracket_spacing == "us-federal":
            return np.array(US_CUTOFFS) / self.usd_scaling
        if self.bracket_spacing == "linear":
            return np.linspace(0.0, top, count)
        return np.concatenate([[0.0], top * 2.0 ** np.arange(2.0 - count, 1.0)])

    @property
    def rates(self) -> np.ndarray:
        """Rates that the planner chooses from, (R,), or the fixed rates of the brackets, (B,); 0 with Saez's rule."""
        if self.disable_taxes or self.tax_model == "saez":
            return np.zeros(len(self.cutoffs))
        if self.tax_model == "fixed-bracket-rates":
            return np.array(self.fixed_bracket_rates)
        if self.tax_model != "model_wrapper":
            return np.array(US_RATES)
        rates = np.arange(self.rate_min, self.rate_max + self.rate_disc, self.rate_disc)
        return rates[rates <= self.rate_max]

    @property
    def worker_skills(self) -> np.ndarray:
        """Skills of the workers [coin/hour], (n,)."""
        if self.skills is not None:
            return np.array(self.skills)
        uniform = np.random.Generator(np.random.Philox(self.skill_seed)).random((SAMPLES, self.n_agents))
        samples = (1.0 - uniform) ** (-1.0 / self.pareto_param) - 1.0  # of the Lomax distribution
        limit = self.payment_max_skill_multiplier
        return np.sort(np.minimum(limit, (limit - 1.0) * samples + 1.0), 1).mean(0)

    @property
    def sizes(self) -> one_step.Sizes:
        """Constants of the rules."""
        return one_step.Sizes(
            workers=self.n_agents,
            brackets=len(self.cutoffs),
            rates=len(self.rates) if self.chooses else 0,
            isoelastic=self.agent_reward_type == "isoelastic_coin_minus_labor",
            weighs_equality=self.planner_reward_type == "coin_eq_times_productivity",
            saez=self.saez,
        )


def build(config: Config) -> EnvDefinition:
    s = config.sizes
    workers, brackets = s.workers, s.brackets
    choices = [s.rates + 1] * brackets if s.rates else [1]
    rates = config.rates
    named = roster(
        {"worker": workers, "planner": 1},
        {"worker": one_step.worker_width(s), "planner": one_step.planner_width(s)},
        {"worker": spaces.MultiDiscrete([one_step.HOURS + 1]), "planner": spaces.MultiDiscrete(choices)},
    )
    per_worker = ("coin", "labor", "production", "income", "last_income", "sorted_income", "last_marginal_rate")
    return EnvDefinition(
        **named,
        rules=one_step.rules(s),
        params=params_of(
            config,
            one_step.Params,
            saez_fixed_elas=-1.0 if config.saez_fixed_elas is None else config.saez_fixed_elas,
            uniform_pareto_weights=int(config.pareto_weight_type == "uniform"),
        ),
        bounds={"mask_first_step": (0, 1), "uniform_pareto_weights": (0, 1), "saez_fixed_elas": (-1.0, 1e6)},
        fixed_params=("episode_length", "period", "rate_min", "rate_max", "uniform_pareto_weights"),
        state={
            "skill": (workers,),
            "cutoff": (brackets,),
            "rate": (len(rates),),
            "rate_index": index((brackets,), max(s.rates, 1)),
            "period_step": index((), config.period),
            **dict.fromkeys(per_worker, (workers,)),
            "utility": (workers + 1,),
            "key": any_bits(()),
            "fresh": integers((), 0, 1),
            "elasticity": (),
            "num_samples": integers((), 0, 2 * SAEZ_SAMPLES - 1),
            **s.saez_shapes(),
        },
        scratch=("bin",),
        initial={
            "skill": config.worker_skills.astype(np.float32),
            "cutoff": config.cutoffs.astype(np.float32),
            **({} if s.saez else {"rate": rates.astype(np.float32)}),
        },
        roles={"worker": ("worker",), "planner": ("planner",)},
        max_episode_steps=config.episode_length,
        time_limit_terminates=True,
        draw=draw,
        render_fps=1,
    )


def action_names(config: Config, row: int) -> list[list[str]]:
    """Return the names of the choices of every component of the agent in this row."""
    if row < config.n_agents:
        return [["keep the labor", *(f"work {hours} h" for hours in range(1, one_step.HOURS + 1))]]
    if not config.chooses:
        return [["nothing"]]
    return [["keep the rate", *(f"rate {100 * rate:.4g} %" for rate in config.rates)]] * len(config.cutoffs)


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    workers = config.n_agents
    ranks = [f"rank {rank}" for rank in range(workers)]
    system = [
        flags(
            "rate of the bracket from this income on",
            [f"{cutoff:g} coin" for cutoff in config.cutoffs.astype(np.float32)],
        ),
        ObservationBlock("1 in the first step of a tax period"),
        ObservationBlock("1 in its last step"),
        ObservationBlock("incomes of the last period per step, ascending", "coin", 0, ANY, workers, ranks),
    ]
    phase, time = ObservationBlock("step of the tax period / `period`"), ObservationBlock("time", "`episode_length`")
    if row < workers:
        skill = ObservationBlock("own skill / `payment_max_skill_multiplier`", "coin/h", 0, ANY)
        return [*system, ObservationBlock("own marginal rate"), phase, skill, time]
    return [
        *system,
        phase,
        time,
        ObservationBlock("equality of coin: 1 - Gini index"),
        ObservationBlock("mean coin / 1000", "coin", 0, ANY),
        ObservationBlock(
            "of each worker: its marginal rate, its income of the last period per step, and the marginal rate on that",
            "",
            0,
            ANY,
            3 * workers,
            ("marginal rate", "income", "rate on it"),
        ),
    ]


_SKIN, _EMPTY = (0.96, 0.80, 0.62), (0.93, 0.93, 0.94)
_WIDTH, _HEIGHT = 12.0, 12.0
_TABLE = 2.6
"""Left side of the tax table."""
_TALL = 3.4
"""Height of a bar that is full."""
_TAXES, _WORK = 7.5, 2.8
"""Heights of the feet of the bars."""


def _person(pen: Pen, color: Color) -> list[torch.Tensor]:
    """Return persons: head and body, 1.7 high."""
    return [
        pen.line((-0.2, -0.45), (0.2, -0.45), 0.7, color),
        pen.box(0.0, -0.65, (0.55, 0.2), color),
        pen.disc(0.0, 0.3, 0.42, _SKIN),
        pen.ring(0.0, 0.3, 0.42, DARK, 0.07),
        pen.disc(-0.14, 0.36, 0.06, DARK),
        pen.disc(0.14, 0.36, 0.06, DARK),
    ]


def _crown(pen: Pen) -> list[torch.Tensor]:
    """Return the crown of a person."""
    points = [(-0.36, 0.95), (0.0, 1.02), (0.36, 0.95)]
    return [
        pen.box(0.0, 0.68, (0.38, 0.1), GOLD),
        *[pen.line((0.8 * x, 0.68), (x, y), 0.16, GOLD) for x, y in points],
        *[pen.disc(x, y, 0.09, ORANGE) for x, y in points],
    ]


def _percent(pen: Pen) -> list[torch.Tensor]:
    return [
        pen.line((-0.2, -0.3), (0.2, 0.3), 0.1, DARK),
        pen.ring(-0.22, 0.18, 0.13, DARK, 0.09),
        pen.ring(0.22, -0.18, 0.13, DARK, 0.09),
    ]


def _clock(pen: Pen) -> list[torch.Tensor]:
    return [
        pen.disc(0.0, 0.0, 0.36, PAPER),
        pen.ring(0.0, 0.0, 0.36, DARK, 0.09),
        pen.line((0.0, 0.0), (0.0, 0.22), 0.08, DARK),
        pen.line((0.0, 0.0), (0.14, -0.1), 0.08, DARK),
    ]


def _coin(pen: Pen) -> list[torch.Tensor]:
    return [
        pen.disc(0.0, 0.0, 0.36, GOLD),
        pen.ring(0.0, 0.0, 0.36, BLUE, 0.09),
        pen.line((0.0, -0.14), (0.0, 0.14), 0.1, BLUE),
    ]


def _purse(pen: Pen) -> list[torch.Tensor]:
    return [
        pen.line((-0.12, 0.36), (0.12, 0.36), 0.12, GREEN),
        pen.line((0.0, 0.14), (0.0, 0.32), 0.14, GREEN),
        pen.line((-0.1, -0.06), (0.1, -0.06), 0.54, GREEN),
        pen.line((-0.14, 0.2), (0.14, 0.2), 0.07, GOLD),
        pen.disc(0.0, -0.06, 0.13, GOLD),
    ]


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    Above is the planner with the rate of every tax bracket in percent, a full box for 100 %, and below it the income
    where the bracket begins. Below are the workers with their labor (clock), income (coin) and coin (purse), scaled to
    the largest of the world.
    """
    state = {name: tensor[envs] for name, tensor in core.world_state.items()}
    sizes, device = core.config.sizes, core.device

    def bars(share: torch.Tensor, places: torch.Tensor, low: float, half: float, color: Color) -> torch.Tensor:
        """Return bars of a share (W, N) of their whole height at places (N,), and what is missing of it."""

        def column(height: torch.Tensor, color: Color) -> torch.Tensor:
            centers = torch.stack([places.expand_as(height), low + 0.5 * height], -1)
            return boxes(centers, torch.stack([torch.full_like(height, half), 0.5 * height], -1), color)

        return join(column(torch.full_like(share, _TALL), _EMPTY), column(_TALL * share, color))

    def along(places: torch.Tensor, up: float) -> torch.Tensor:
        """Return points (W, N, 2) of one height."""
        return torch.stack([places, torch.full_like(places, up)], -1).expand(len(envs), -1, -1)

    def spread(count: int, left: float) -> torch.Tensor:
        return left + (torch.arange(count, device=device) + 0.5) * ((_WIDTH - left) / count)

    rate, cutoff = state["rate"], state["cutoff"]
    if sizes.rates:
        rate = rate.gather(1, state["rate_index"].long())
    brackets, room = spread(sizes.brackets, _TABLE), (_WIDTH - _TABLE) / sizes.brackets
    size = min(1.0, _WIDTH / sizes.workers / 3.0)
    step = 0.9 * size
    workers = spread(sizes.workers, 0.0)
    income = torch.maximum(state["production"], state["coin"]).amax(1, keepdim=True).clamp(min=1e-6)
    hours = state["labor"].amax(1, keepdim=True).clamp(min=1e-6)
    planner = Pen(along(torch.tensor([1.2], device=device), 8.7), scale=1.2)
    people = Pen(along(workers, 0.95), scale=size)
    columns = [
        (-step, state["labor"] / hours, GRAY, _clock),
        (0.0, state["production"] / income, BLUE, _coin),
        (step, state["coin"] / income, GREEN, _purse),
    ]
    shapes = join(
        bars(rate, brackets, _TAXES, 0.42 * room, ORANGE),
        boxes(along(brackets, _TAXES + 0.5 * _TALL), torch.tensor([0.42 * room, 0.5 * _TALL]), DARK, line_width=0.07),
        numbers(along(brackets, _TAXES + _TALL + 0.5), (100.0 * rate).round(), 0.7 * room, 0.55, DARK, largest=100.0),
        numbers(along(brackets - 0.5 * room, _TAXES - 0.5), cutoff, 0.7 * room, 0.4, GRAY),
        *_percent(Pen(along(torch.tensor([2.1], device=device), _TAXES + _TALL + 0.5), scale=0.8)),
        *_person(planner, PURPLE),
        *_crown(planner),
        *[bars(share.clamp(0.0, 1.0), workers + right, _WORK, 0.4 * size, color) for right, share, color, _ in columns],
        *[shape for right, _, _, icon in columns for shape in icon(Pen(along(workers + right, 2.25), scale=size))],
        *_person(people, BLUE),
    )
    agents = [pen.disc(0.0, 0.3, 0.42, color) for pen, color in ((people, BLUE), (planner, PURPLE))]
    return Scene(shapes, (0.0, 0.0, _WIDTH, _HEIGHT), agents=join(*agents))
