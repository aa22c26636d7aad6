"""AlphaStar's league: main agents, main exploiters and league exploiters.

Source: Vinyals et al. 2019, "Grandmaster level in StarCraft II using multi-agent reinforcement learning": the
supplementary pseudocode (`PSEUDOCODE`) and the text of Methods (`NATURE`), which differ. Where an opponent that a rule
asks for does not exist yet, its share goes to what comes next in that rule, and at last to self-play.

Two faults of the pseudocode are not followed: exploiters are frozen before they are reset, not after, and a league
exploiter's age is its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gpu_envs.errors import ConfigError
from league.builder import (
    Change,
    Freeze,
    LeagueBuilder,
    LeagueResult,
    Match,
    Player,
    Reset,
    Roster,
    live,
    merged,
    one_each,
    uniformly,
    weighted,
)
from league.game import Game
from league.matchmaking import pfsp, without_monotonic_suffix
from trainers.settings import check_settings, setting

MAIN, MAIN_EXPLOITER, LEAGUE_EXPLOITER = "main", "main_exploiter", "league_exploiter"  # kinds of players


@dataclass(frozen=True)
class FreezeRules:
    """When players of a kind are frozen, and what becomes of them then."""

    count: int = setting(1, ">= 0")
    """Players of the kind, per role."""
    min_steps: int = setting(100_000, ">= 0")
    """Steps of worlds before a copy is frozen, since the last. The paper's 2e9 are of StarCraft: scale them."""
    timeout: int = setting(200_000, ">= 0")
    """Steps after which one is frozen whatever its win rates."""
    win_rate: float = setting(0.7, "in [0, 1]")
    """Win rate against each of its opponents that has it frozen before the timeout."""
    reset_probability: float = setting(0.0, "in [0, 1]")
    """Probability of going back to the first weights after being frozen."""

    def __post_init__(self) -> None:
        """Raises ConfigError on the first bad value."""
        check_settings(self)
        if self.timeout < self.min_steps:
            raise ConfigError(f"timeout = {self.timeout}: expected at least min_steps = {self.min_steps}")


@dataclass(frozen=True)
class MainMatches:
    """Whom main agents meet."""

    pfsp: float = setting(0.5, "in [0, 1]")
    """Share of matches against all frozen players, the harder the likelier."""
    verification: float = setting(0.15, "in [0, 1]")
    """Share against frozen exploiters and forgotten versions, where there are any that it does not beat."""
    pfsp_weighting: str = "squared"
    """See `league.matchmaking.WEIGHTINGS`."""
    exploited_below: float = setting(0.3, "in [0, 1]")
    """A frozen main exploiter is one to be met again where the win rate against any of them is lower."""
    forgotten_below: float = setting(0.7, "in [0, 1]")
    """Forgotten versions are met again where the win rate against any of them is lower."""
    too_strong_below: float = setting(0.3, "in [0, 1]")
    """Self-play against a main agent goes to its earlier versions where the win rate is no higher; 0: never."""

    def __post_init__(self) -> None:
        """Raises ConfigError on the first bad value."""
        check_settings(self)
        pfsp([], self.pfsp_weighting)
        if self.pfsp + self.verification > 1:
            raise ConfigError(f"pfsp + verification = {self.pfsp + self.verification}: expected at most 1")


@dataclass(frozen=True)
class ExploiterMatches:
    """Whom main exploiters and league exploiters meet."""

    beatable_above: float = setting(0.1, "in [0, 1]")
    """Main exploiters meet a main agent as it is where their win rate is higher, else its earlier versions."""
    history: float = setting(1.0, "in [0, 1]")
    """Share of matches that then goes to the earlier versions; the rest stays with the main agent."""
    league_weighting: str = "linear_capped"
    """How league exploiters choose among all frozen players."""

    def __post_init__(self) -> None:
        """Raises ConfigError on the first bad value."""
        check_settings(self)
        pfsp([], self.league_weighting)


@dataclass(frozen=True)
class AlphaStarConfig:
    """An AlphaStar league. The defaults are the pseudocode's, steps scaled down."""

    main: FreezeRules = field(default_factory=FreezeRules)
    """Of main agents, which are what the league is for."""
    main_exploiter: FreezeRules = field(default_factory=lambda: FreezeRules(count=1, reset_probability=1.0))
    """Of those who look for weaknesses of main agents."""
    league_exploiter: FreezeRules = field(default_factory=lambda: FreezeRules(count=2, reset_probability=0.25))
    """Of those who look for weaknesses of all frozen players."""
    main_matches: MainMatches = field(default_factory=MainMatches)
    """Whom main agents meet."""
    exploiter_matches: ExploiterMatches = field(default_factory=ExploiterMatches)
    """Whom exploiters of both kinds meet."""
    freeze_start: bool = True
    """Copies of the main agents' first weights can be met from the beginning."""

    def __post_init__(self) -> None:
        """Raises ConfigError if there are no main agents."""
        if self.main.count < 1:
            raise ConfigError("main.count = 0: expected at least one main agent of each role")


def preset(name: str = "pseudocode", min_steps: int = 100_000) -> AlphaStarConfig:
    """The rules of "pseudocode" or "nature" (else ConfigError), with `min_steps` in place of their 2e9 steps."""
    rules = FreezeRules(min_steps=min_steps, timeout=2 * min_steps)
    config = AlphaStarConfig(
        main=rules,
        main_exploiter=replace(rules, reset_probability=1.0),
        league_exploiter=replace(rules, count=2, reset_probability=0.25),
    )
    if name == "pseudocode":
        return config
    if name != "nature":
        raise ConfigError(f"rules = {name!r}: expected pseudocode or nature")
    return replace(
        config,
        main=replace(rules, timeout=min_steps),  # whatever its win rates
        league_exploiter=replace(config.league_exploiter, timeout=min_steps),
        main_matches=MainMatches(too_strong_below=0.0),
        exploiter_matches=ExploiterMatches(beatable_above=0.2, history=0.5, league_weighting="linear"),
    )


class AlphaStarLeagueBuilder(LeagueBuilder):
    """Main agents that hold against everybody, and exploiters that find what they do not hold against."""

    def __init__(self, config: AlphaStarConfig | None = None) -> None:
        """None: the pseudocode's rules."""
        self.config = config or AlphaStarConfig()
        self.rules = {
            MAIN: self.config.main,
            MAIN_EXPLOITER: self.config.main_exploiter,
            LEAGUE_EXPLOITER: self.config.league_exploiter,
        }

    def players(self, game: Game) -> list[Player]:
        """As many of every kind as its rules say, for every role."""
        return [player for kind, rules in self.rules.items() for player in one_each(game, kind, rules.count)]

    def frozen_at_start(self, player: Player) -> bool:
        """The main agents are."""
        return self.config.freeze_start and player.kind == MAIN

    def matches(self, roster: Roster, player: Player) -> list[Match]:
        """By the kind of the player."""
        rules = {MAIN: self._main, MAIN_EXPLOITER: self._main_exploiter, LEAGUE_EXPLOITER: self._league_exploiter}
        return merged(rules[player.kind](roster, player))

    def _main(self, roster: Roster, player: Player) -> list[Match]:
        c, rates = self.config.main_matches, roster.win_rates
        everybody = roster.frozen(roster.facing(player))
        share = c.pfsp if everybody else 0.0
        matches = weighted(everybody, pfsp(rates.against(player.name, everybody), c.pfsp_weighting), share)
        mains = live(roster, player, MAIN)
        for opponent in mains:
            found = self._to_verify(roster, player, opponent)
            verified = c.verification / len(mains) if found else 0.0
            matches += [Match(match.opponent, match.probability * verified) for match in found]
            matches += self._self_play(roster, player, opponent, (1 - share) / len(mains) - verified)
        return matches

    def _to_verify(self, roster: Roster, player: Player, opponent: str) -> list[Match]:
        """Past main exploiters if one of them wins too often, else forgotten versions of a main agent, if any."""
        c, rates = self.config.main_matches, roster.win_rates
        exploiters = roster.frozen(roster.facing(player), MAIN_EXPLOITER)
        against = rates.against(player.name, exploiters)
        if len(against) and against.min() < c.exploited_below:
            return weighted(exploiters, pfsp(against, c.pfsp_weighting), 1.0)
        versions = roster.frozen(parent=opponent)
        against = rates.against(player.name, versions)
        kept = without_monotonic_suffix(against)
        if kept and against[:kept].min() < c.forgotten_below:
            return weighted(versions[:kept], pfsp(against[:kept], c.pfsp_weighting), 1.0)
        return []

    def _self_play(self, roster: Roster, player: Player, opponent: str, share: float) -> list[Match]:
        """Against a main agent as it is, or against its history where it is too strong."""
        c, rates = self.config.main_matches, roster.win_rates
        versions = roster.frozen(parent=opponent)
        strong = 0 < c.too_strong_below >= rates.rate(player.name, opponent)
        if strong and versions:
            return weighted(versions, pfsp(rates.against(player.name, versions), "variance"), share)
        return [Match(opponent, share)]

    def _main_exploiter(self, roster: Roster, player: Player) -> list[Match]:
        c, rates = self.config.exploiter_matches, roster.win_rates
        mains = live(roster, player, MAIN)
        matches = []
        for opponent in mains:
            share, versions = 1 / len(mains), roster.frozen(parent=opponent)
            if rates.rate(player.name, opponent) > c.beatable_above or not versions:
                matches.append(Match(opponent, share))
                continue
            chosen = pfsp(rates.against(player.name, versions), "variance")
            matches += weighted(versions, chosen, share * c.history)
            matches += [Match(opponent, share * (1 - c.history))] if c.history < 1 else []
        return matches

    def _league_exploiter(self, roster: Roster, player: Player) -> list[Match]:
        everybody = roster.frozen(roster.facing(player))
        if not everybody:
            return uniformly(live(roster, player, MAIN))
        against = roster.win_rates.against(player.name, everybody)
        return weighted(everybody, pfsp(against, self.config.exploiter_matches.league_weighting), 1.0)

    def build_league(self, result: LeagueResult) -> list[Change]:
        """Freezes who is ready; exploiters may begin anew."""
        changes: list[Change] = []
        for name in result.roster.learning():
            player = result.roster.players[name]
            if self.ready(result, player):
                changes.append(Freeze(name))
                if result.rng.random() < self.rules[player.kind].reset_probability:
                    changes.append(Reset(name))
        return changes

    def ready(self, result: LeagueResult, player: Player) -> bool:
        """Whether a player has learned long enough, and beats all of those that its kind is judged by."""
        rules, steps, roster = self.rules[player.kind], result.steps[player.name], result.roster
        if steps < rules.min_steps:
            return False
        judges = live(roster, player, MAIN) if player.kind == MAIN_EXPLOITER else roster.frozen(roster.facing(player))
        against = roster.win_rates.against(player.name, judges)
        return steps >= rules.timeout or (len(against) > 0 and float(against.min()) > rules.win_rate)
