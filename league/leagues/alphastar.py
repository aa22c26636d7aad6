"""AlphaStar's league: main agents, main exploiters and league exploiters.

Source: Vinyals et al. 2019, "Grandmaster level in StarCraft II using multi-agent reinforcement learning". The
supplementary pseudocode and the text of Methods differ; `preset` gives the rules of either. If a rule names opponents
that do not exist yet, their share of matches goes to the next opponents of the rule, and finally to self-play.

Two errors of the pseudocode are corrected. Exploiters are frozen before they are reset, not after. The age of a league
exploiter is counted per player.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import check_settings, setting
from league.game import Game
from league.leagues.builder import (
    LeagueBuilder,
    LeagueResult,
    Roster,
    groups_across_roles,
    merge_matches,
    players_per_role,
    uniform_matches,
    weighted_matches,
)
from league.leagues.matchmaking import WEIGHTINGS, pfsp, weighting_function, without_monotonic_suffix
from league.leagues.player import Change, Copy, Freeze, Match, Player, Reset
from league.leagues.training_group import TrainingGroup

MAIN, MAIN_EXPLOITER, LEAGUE_EXPLOITER = "main", "main_exploiter", "league_exploiter"  # kinds of players


@dataclass(frozen=True)
class FreezeRules:
    """Rules for freezing the players of one kind."""

    count: int = setting(1, ge=0)
    """Number of players of the kind, per role."""
    min_steps: int = setting(100_000, ge=0)
    """Minimum environment steps between two frozen copies. The paper's 2e9 steps are for StarCraft: scale them."""
    timeout: int = setting(200_000, ge=0)
    """Environment steps after which a copy is frozen regardless of its win rates."""
    win_rate: float = setting(0.7, ge=0, le=1)
    """Win rate against each opponent above which a copy is frozen before the timeout."""
    reset_probability: float = setting(0.0, ge=0, le=1)
    """Probability of resetting the player after it is frozen."""
    reset_to: str = setting("first", choices=("first", "main"))
    """Weights after a reset: "first", the weights with which the player entered, or "main", the weights of a main agent
    of its role. StarCraft's players enter with weights from supervised learning. Where first weights are random, an
    exploiter that starts from a main agent finds weaknesses sooner."""
    share_of_steps: float = setting(1.0, gt=0, le=1)
    """Environment steps per iteration, as a share of `LeagueConfig.steps`."""

    def __post_init__(self) -> None:
        """Raise ConfigError on the first invalid value."""
        check_settings(self)
        if self.timeout < self.min_steps:
            raise ConfigError(f"timeout: expected at least min_steps = {self.min_steps}, got {self.timeout}")


@dataclass(frozen=True)
class MainMatches:
    """Matches of main agents."""

    pfsp: float = setting(0.5, ge=0, le=1)
    """Share of matches against all frozen players, stronger ones more often."""
    verification: float = setting(0.15, ge=0, le=1)
    """Share of matches against frozen exploiters and forgotten versions, if any of them wins too often."""
    pfsp_weighting: str = setting("squared", choices=tuple(WEIGHTINGS), by_name=True)
    """Weighting of opponents by win rate: "variance", "linear", "linear_capped" or "squared".
    "module:NAME" is a function of your own from win rates (opponents,) to weights."""
    exploited_below: float = setting(0.3, ge=0, le=1)
    """Win rate below which frozen main exploiters are sampled for verification."""
    forgotten_below: float = setting(0.7, ge=0, le=1)
    """Win rate below which earlier versions of main agents count as forgotten and are sampled for verification."""
    too_strong_below: float = setting(0.3, ge=0, le=1)
    """Win rate up to which self-play uses earlier versions of a main agent instead of the agent; 0: never."""

    def __post_init__(self) -> None:
        """Raise ConfigError on the first invalid value."""
        check_settings(self)
        if self.pfsp + self.verification > 1:
            raise ConfigError(f"pfsp + verification: expected at most 1, got {self.pfsp + self.verification}")


@dataclass(frozen=True)
class ExploiterMatches:
    """Matches of main exploiters and league exploiters."""

    beatable_above: float = setting(0.1, ge=0, le=1)
    """Win rate above which main exploiters play the current main agent, and below which its earlier versions."""
    history: float = setting(1.0, ge=0, le=1)
    """Share of matches against earlier versions while the win rate is below `beatable_above`.
    The other matches are against the current main agent."""
    league_weighting: str = setting("linear_capped", choices=tuple(WEIGHTINGS), by_name=True)
    """Weighting of all frozen players as opponents of league exploiters; values as for `pfsp_weighting`."""

    def __post_init__(self) -> None:
        """Raise ConfigError on the first invalid value."""
        check_settings(self)


@dataclass(frozen=True)
class AlphaStarConfig:
    """Settings of an AlphaStar league; the defaults are the pseudocode's with fewer steps."""

    main: FreezeRules = field(default_factory=FreezeRules)
    """Rules of main agents, whose copies are the result of the league."""
    main_exploiter: FreezeRules = field(default_factory=lambda: FreezeRules(count=1, reset_probability=1.0))
    """Rules of main exploiters, which look for weaknesses of main agents."""
    league_exploiter: FreezeRules = field(default_factory=lambda: FreezeRules(count=2, reset_probability=0.25))
    """Rules of league exploiters, which look for weaknesses of all frozen players."""
    main_matches: MainMatches = field(default_factory=MainMatches)
    """Matches of main agents."""
    exploiter_matches: ExploiterMatches = field(default_factory=ExploiterMatches)
    """Matches of both kinds of exploiters."""
    shared_worlds: bool = True
    """Train main agents of different roles in the same worlds: when they meet, all of them learn.
    Exploiters train in their own worlds. StarCraft's agents share a role, so the paper has no such groups."""
    freeze_start: bool = True
    """Add frozen copies of the main agents' first weights at the start."""

    def __post_init__(self) -> None:
        """Raise ConfigError if there are no main agents."""
        if self.main.count < 1:
            raise ConfigError("main.count: expected at least one main agent of each role, got 0")
        if self.main.reset_to != "first":
            raise ConfigError(f"main.reset_to: expected 'first', got {self.main.reset_to!r}; it is for exploiters")


def alphastar_preset(name: str = "pseudocode", min_steps: int = 100_000) -> AlphaStarConfig:
    """Return the rules of "pseudocode" or "nature", with `min_steps` in place of their 2e9 environment steps.

    Raises:
        ConfigError: The name is unknown.
    """
    rules = FreezeRules(min_steps=min_steps, timeout=2 * min_steps)
    config = AlphaStarConfig(
        main=rules,
        main_exploiter=replace(rules, reset_probability=1.0),
        league_exploiter=replace(rules, count=2, reset_probability=0.25),
    )
    if name == "pseudocode":
        return config
    if name != "nature":
        raise ConfigError(f"rules: expected pseudocode or nature, got {name!r}")
    return replace(
        config,
        main=replace(rules, timeout=min_steps),  # frozen regardless of win rates
        league_exploiter=replace(config.league_exploiter, timeout=min_steps),
        main_matches=MainMatches(too_strong_below=0.0),
        exploiter_matches=ExploiterMatches(beatable_above=0.2, history=0.5, league_weighting="linear"),
    )


class AlphaStarLeagueBuilder(LeagueBuilder):
    """Builder of an AlphaStar league: robust main agents, and exploiters that look for their weaknesses."""

    def __init__(self, config: AlphaStarConfig | None = None) -> None:
        """Use the pseudocode's rules if `config` is None."""
        self.config: AlphaStarConfig = config or AlphaStarConfig()
        for name in (self.config.main_matches.pfsp_weighting, self.config.exploiter_matches.league_weighting):
            weighting_function(name)  # raises an error before the league starts
        self.rules: dict[str, FreezeRules] = {
            MAIN: self.config.main,
            MAIN_EXPLOITER: self.config.main_exploiter,
            LEAGUE_EXPLOITER: self.config.league_exploiter,
        }

    def players(self, game: Game) -> list[Player]:
        """Return the players of every kind and role."""
        return [player for kind, rules in self.rules.items() for player in players_per_role(game, kind, rules.count)]

    def frozen_at_start(self, player: Player) -> bool:
        """Return whether the player is a main agent and `freeze_start` is set."""
        return self.config.freeze_start and player.kind == MAIN

    def matches(self, roster: Roster, player: Player, role: str) -> list[Match]:
        """Return the matches against a role by the rules of the player's kind."""
        rules = {MAIN: self._main, MAIN_EXPLOITER: self._main_exploiter, LEAGUE_EXPLOITER: self._league_exploiter}
        return merge_matches(rules[player.kind](roster, player, role))

    def _main(self, roster: Roster, player: Player, role: str) -> list[Match]:
        c, rates = self.config.main_matches, roster.win_rates
        frozen = roster.frozen(role)
        share = c.pfsp if frozen else 0.0
        matches = weighted_matches(frozen, pfsp(rates.against(player.name, frozen), c.pfsp_weighting), share)
        mains = roster.learning(role, MAIN)
        for opponent in mains:
            verification = self._to_verify(roster, player, opponent)
            verified = c.verification / len(mains) if verification else 0.0
            matches += [Match(match.opponent, match.probability * verified) for match in verification]
            matches += self._self_play(roster, player, opponent, (1 - share) / len(mains) - verified)
        return matches

    def _to_verify(self, roster: Roster, player: Player, opponent: str) -> list[Match]:
        """Return past main exploiters if one wins too often, else forgotten versions of the main agent, if any."""
        c, rates = self.config.main_matches, roster.win_rates
        exploiters = roster.frozen(roster.players[opponent].role, MAIN_EXPLOITER)
        against = rates.against(player.name, exploiters)
        if len(against) and against.min() < c.exploited_below:
            return weighted_matches(exploiters, pfsp(against, c.pfsp_weighting), 1.0)
        versions = roster.frozen(parent=opponent)
        against = rates.against(player.name, versions)
        length = without_monotonic_suffix(against)
        if length and against[:length].min() < c.forgotten_below:
            return weighted_matches(versions[:length], pfsp(against[:length], c.pfsp_weighting), 1.0)
        return []

    def _self_play(self, roster: Roster, player: Player, opponent: str, share: float) -> list[Match]:
        """Return matches against the main agent, or against its earlier versions if it is too strong."""
        c, rates = self.config.main_matches, roster.win_rates
        versions = roster.frozen(parent=opponent)
        strong = 0 < c.too_strong_below >= rates.rate(player.name, opponent)
        if strong and versions:
            return weighted_matches(versions, pfsp(rates.against(player.name, versions), "variance"), share)
        return [Match(opponent, share)]

    def _main_exploiter(self, roster: Roster, player: Player, role: str) -> list[Match]:
        c, rates = self.config.exploiter_matches, roster.win_rates
        mains = roster.learning(role, MAIN)
        matches = []
        for opponent in mains:
            share, versions = 1 / len(mains), roster.frozen(parent=opponent)
            if rates.rate(player.name, opponent) > c.beatable_above or not versions:
                matches.append(Match(opponent, share))
                continue
            chosen = pfsp(rates.against(player.name, versions), "variance")
            matches += weighted_matches(versions, chosen, share * c.history)
            matches += [Match(opponent, share * (1 - c.history))] if c.history < 1 else []
        return matches

    def _league_exploiter(self, roster: Roster, player: Player, role: str) -> list[Match]:
        frozen = roster.frozen(role)
        if not frozen:
            return uniform_matches(roster.learning(role, MAIN))
        against = roster.win_rates.against(player.name, frozen)
        return weighted_matches(frozen, pfsp(against, self.config.exploiter_matches.league_weighting), 1.0)

    def training_groups(self, roster: Roster) -> list[TrainingGroup]:
        """Return main agents in groups of one per role, unless `shared_worlds` is off, and exploiters alone."""
        return groups_across_roles(roster, MAIN) if self.config.shared_worlds else super().training_groups(roster)

    def build_league(self, result: LeagueResult) -> list[Change]:
        """Freeze players that are ready, and reset exploiters with their reset probability."""
        changes: list[Change] = []
        for name in result.roster.learning():
            player = result.roster.players[name]
            if self.ready(result, player):
                changes.append(Freeze(name))
                if result.rng.random() < self.rules[player.kind].reset_probability:
                    changes.append(self._reset(result, player))
        return changes

    def _reset(self, result: LeagueResult, player: Player) -> Change:
        """Return the reset of a player to its first weights, or to the weights of a random main agent of its role."""
        if self.rules[player.kind].reset_to == "first":
            return Reset(player.name)
        mains = result.roster.learning(player.role, MAIN)
        return Copy(player.name, mains[int(result.rng.integers(len(mains)))])

    def share_of_steps(self, roster: Roster, group: TrainingGroup) -> float:
        """Return the share of steps of the kind of the group's players."""
        return self.rules[roster.players[group[0]].kind].share_of_steps

    def ready(self, result: LeagueResult, player: Player) -> bool:
        """Return whether a player has trained long enough, and wins against every opponent it is measured by."""
        rules, steps, roster = self.rules[player.kind], result.steps[player.name], result.roster
        if steps < rules.min_steps:
            return False
        facing = roster.facing(player)
        facing = tuple(role for role in facing if role != player.role) or facing  # partners may share the reward
        opponents = roster.learning(facing, MAIN) if player.kind == MAIN_EXPLOITER else roster.frozen(facing)
        against = roster.win_rates.against(player.name, opponents)
        return steps >= rules.timeout or (len(against) > 0 and float(against.min()) > rules.win_rate)
