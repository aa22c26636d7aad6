"""Scripted policies of OneStepEconomy-v0: exact best responses of workers, and the flat tax of Saez's formula."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from gpu_envs.runtime.core import Core
from trainers.evaluation.state_policy import StatePolicy
from warp_kernels.economy.one_step import HOURS


class EconomyPolicy(StatePolicy):
    """Work as pays best after taxes, or tax all incomes by the optimal flat rate; has the interface of `Policy`.

    A worker maximizes its utility after this step, as if taxes were due then and the other workers did not work. This
    is its best response where utility is linear in coin and episodes have two steps.

    The planner knows the skills. Its rate t follows Saez 2001 for n workers, who receive an n-th of their own taxes:
    `t' / (1 - t') = (1 - g) / (e (1 - g / n))` with `t' = t (n - 1) / n`. Here e is the elasticity of incomes. Welfare
    weights are inverse incomes, and g is their mean weighted by incomes.
    """

    env_ids: ClassVar[tuple[str, ...]] = ("OneStepEconomy-v0",)

    def __init__(self, core: Core, member: str) -> None:
        """Control a group or an agent of a core, see `StatePolicy`."""
        super().__init__(core, member)
        self.plans: bool = self.agent_rows[0] == core.num_agents - 1
        self.script = "flat tax of Saez's formula" if self.plans else "best response to the taxes"
        self.hours: Tensor = torch.arange(HOURS + 1.0, device=core.device)

    def _act(self, mask: Tensor | None) -> Tensor:
        return self._tax(mask) if self.plans else self._work()

    def _work(self) -> Tensor:
        """Return the labor of the workers (E, n, 1)."""
        state, p = self.core.world_state, {name: value[:, None, None] for name, value in self.core.get_params().items()}
        workers, labor = (
            state["coin"].shape[1],
            torch.maximum(self.hours, state["labor"][..., None] * (self.hours == 0)),
        )
        earned = state["skill"][..., None] * self.hours  # (E, n, L)
        income = state["income"][..., None] + earned
        cutoff = state["cutoff"]
        widths = torch.cat([cutoff.diff(dim=1), torch.full_like(cutoff[:, :1], torch.inf)], 1)
        parts = torch.minimum((income[..., None] - cutoff[:, None, None]).clamp(min=0.0), widths[:, None, None])
        tax = (parts * self._rates()[:, None, None]).sum(-1)
        coin = state["coin"][..., None] + earned - (1.0 - 1.0 / workers) * tax
        if self.core.config.agent_reward_type == "isoelastic_coin_minus_labor":
            power = 1.0 - p["isoelastic_eta"]
            gain = torch.where(power > 0, (coin.clamp(min=0.0) ** power - 1.0) / power, coin.clamp(min=1.0).log())
            utility = gain - p["labor_cost"] * labor
        else:
            utility = coin - p["labor_cost"] * labor ** p["labor_exponent"]
        return utility.argmax(-1)[:, self.rows].unsqueeze(-1)

    def _rates(self) -> Tensor:
        """Return the present rate of every bracket, (E, B)."""
        state, params = self.core.world_state, self.core.get_params()
        if self.core.config.chooses:
            return state["rate"].gather(1, state["rate_index"].long())
        return torch.minimum(state["rate"], (params["tax_limit"] * params["rate_max"])[:, None])

    def _tax(self, mask: Tensor | None) -> Tensor:
        """Return the choices of the planner, (E, 1, B)."""
        core, config = self.core, self.core.config
        brackets = len(config.cutoffs)
        if not config.chooses or mask is None:
            return torch.zeros((core.num_envs, 1, 1), dtype=torch.int64, device=core.device)
        params, skill = core.get_params(), core.world_state["skill"]
        eta = params["isoelastic_eta"]
        isoelastic = config.agent_reward_type == "isoelastic_coin_minus_labor"
        elasticity = ((1.0 - eta) / eta if isoelastic else 1.0 / (params["labor_exponent"] - 1.0))[:, None]
        income, count = skill ** (1.0 + elasticity), skill.shape[1]
        weight = count**2 / (income.sum(1) * (1.0 / income).sum(1))
        odds = (1.0 - weight) / (elasticity[:, 0] * (1.0 - weight / count))
        rate = odds / (1.0 + odds) * count / (count - 1)
        table = torch.nn.functional.pad(core.world_state["rate"], (1, 0), value=torch.inf)  # no rate for the choice 0
        distance = (table - rate[:, None]).abs().unsqueeze(1).expand(-1, brackets, -1)
        distance = distance.masked_fill(~mask[:, 0, : distance[0].numel()].view(distance.shape), torch.inf)
        return distance.argmin(-1).unsqueeze(1)
