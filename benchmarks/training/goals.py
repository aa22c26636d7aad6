"""Evaluation of goals: matchups of a run's policies with random, scripted and earlier ones, and what they reach."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.training.economy_measures import EconomyMeasures
from benchmarks.training.tasks import Goal
from gpu_envs.runtime.core import Core
from trainers.config.train_config import TrainConfig, make_eval_core, members_by_policy
from trainers.evaluation.formation_policies import FormationPolicy
from trainers.evaluation.policy_evaluation import EvaluationResult, estimate, evaluate_policies
from trainers.evaluation.scripted_policies import SCRIPTED, DeafListener, has_script, scripted_policy
from trainers.models.policy import Policy, PolicyProtocol
from trainers.storage import checkpoint, model_zoo
from trainers.storage.checkpoint import Checkpoint

RANDOM = "random"
"""Name of random policies in goals."""
TRAINED = "trained"
"""Name of a run's final policies in goals."""


class Matches:
    """Matchups of one run's policies in one batch of environments; each is played once."""

    def __init__(self, run: Path, episodes: int, seed: int, params: Sequence[tuple[str, float]] = ()) -> None:
        """Load the final policies of a run and create environments.

        Args:
            run: Run folder or checkpoint.
            episodes: Episodes per matchup, one per environment.
            seed: Random seed of environments and actions.
            params: Environment parameters that differ from the run's.
        """
        self.run, self.seed = run, seed
        self.saved = checkpoint.load(run)
        self.config = TrainConfig.from_json(self.saved.config)
        self.core: Core = make_eval_core(self.config, episodes, seed)
        if params:
            self.core.set_params(**dict(params))
        self.sides = members_by_policy(self.config, self.core)
        members = {member for side in self.sides.values() for member in side}
        self._single = [agent for agent in self.core.possible_agents if agent in members - set(self.core.groups)]
        self._policies: dict[Path, dict[str, Policy]] = {}
        self._results: dict[tuple[tuple[tuple[str, str], ...], bool], dict[str, list[float]]] = {}

    def policies(self, saved: Checkpoint) -> dict[str, Policy]:
        """Return the policies of a checkpoint of the run by name."""
        if saved.path not in self._policies:
            self._policies[saved.path] = {name: saved.policy(name) for name in self.sides}
        return self._policies[saved.path]

    def play(self, sources: Mapping[str, str], greedy: bool) -> dict[str, list[float]]:
        """Play a matchup, or return its earlier results.

        Args:
            sources: Name of a source of policies by policy name, see `players_of`.
            greedy: True for the most probable actions instead of samples.

        Returns:
            Mean and half-width of the 95 % interval by measure, see `measures` and `MEASURES`.
        """
        key = (tuple(sorted(sources.items())), greedy)
        if key not in self._results:
            players: dict[str, PolicyProtocol] = {}
            for name in self.sides:  # the order of policies sets their seeds
                policies = players_of(self, name, sources[name])
                players |= {member: policy for member, policy in policies.items() if policy is not None}
            measure = MEASURES[self.core.id](self.core) if self.core.id in MEASURES else None
            results = self.core.definition.results
            outcome = evaluate_policies(self.core, players, self.seed, greedy, last_info=results, after_step=measure)
            self._results[key] = measures(outcome, self._single)
            if measure is not None:
                means = {name: estimate(samples) for name, samples in measure.results().items()}
                self._results[key] |= {name: [mean.mean, mean.half] for name, mean in means.items()}
        return self._results[key]


def players_of(matches: Matches, name: str, source: str) -> dict[str, PolicyProtocol | None]:
    """Return the policies of the members of a policy name, by group or agent; None for random ones.

    Args:
        matches: Matchups of a run.
        name: Name of a policy of the run.
        source: "random"; "trained", the final policy; "scripted", in which agents without a script are random; "fixed
            places", agents of SimpleFormation-v0 that each go to their own place, whatever the others do; "checkpoint
            SHARE", the checkpoint nearest to a fraction of the training; "zoo NAME", of the same name in the model zoo.

    Raises:
        ValueError: The source is unknown.
    """
    members, (kind, _, argument) = matches.sides[name], source.partition(" ")
    if kind == RANDOM:
        return dict.fromkeys(members)
    if kind == SCRIPTED and has_script(matches.core.id):
        return {member: scripted_policy(matches.core, member) for member in members}
    if kind == SCRIPTED:
        return {member: DeafListener() if member == "listener" else None for member in members}
    if kind == "fixed":
        return {member: FormationPolicy(matches.core, member, fixed=True) for member in members}
    if kind == TRAINED:
        saved = matches.saved
    elif kind == "checkpoint":
        target = float(argument) * matches.saved.steps
        checkpoints = map(checkpoint.load, checkpoint.every(matches.run / checkpoint.FOLDER))
        saved = min(checkpoints, key=lambda saved: abs(saved.steps - target))
    elif kind == "zoo":
        saved = model_zoo.load(argument)
    else:
        raise ValueError(f"source of policies: expected one of `players_of`, got {source}")
    return dict.fromkeys(members, matches.policies(saved)[name])


MEASURES: dict[str, Callable[[Core], EconomyMeasures]] = {"GatherTradeBuild-v0": EconomyMeasures}
"""Further measures of episodes by id of the environment."""


def measures(outcome: EvaluationResult, agents: Iterable[str] = ()) -> dict[str, list[float]]:
    """Return mean and half-width of the 95 % interval by name of the measure.

    Args:
        outcome: Result of an evaluation.
        agents: Agents of groups whose agents have different policies.

    Returns:
        "GROUP" for the return of a group, "AGENT" for the return of one of these agents, "survivors GROUP" [agents],
        "length" [steps], and "RESULT GROUP" for results that the environment declares, such as "won_battle ally".
    """
    survivors = {f"survivors {group}": value for group, value in outcome.survivors.items()}
    results = {f"{name} {group}": value for name, by in outcome.last_info.items() for group, value in by.items()}
    single = {agent: outcome.agent_returns[agent] for agent in agents}
    estimates = {**outcome.returns, **single, **survivors, **results, "length": outcome.length}
    return {name: [value.mean, value.half] for name, value in estimates.items()}


def sources_of(goal: Goal, sides: Iterable[str], judged: str = TRAINED) -> dict[str, str]:
    """Return the matchup of a goal: the source of policies by policy name, see `players_of`.

    Args:
        goal: The goal.
        sides: Names of all policies.
        judged: Source of the policies that are judged.
    """
    return {name: judged if name in goal.playing or not goal.playing else goal.against for name in sides}


def evaluate_goals(
    goals: Sequence[Goal], run: Path, episodes: int, seed: int, params: Sequence[tuple[str, float]] = ()
) -> dict[str, list[list[float] | None] | dict[str, dict[str, list[float]]]]:
    """Evaluate the goals of a run, and the policies that its bounds name.

    Args:
        goals: The goals.
        run: Run folder or checkpoint.
        episodes: Episodes per matchup.
        seed: Random seed of environments and actions.
        params: Environment parameters that differ from the run's.

    Returns:
        "reached": mean and half-width of the 95 % interval of each goal, None for goals that are not evaluated;
        "others": all measures of random play ("random"), and of the matchups of the bounds by `Goal.reference`.
    """
    matches = Matches(run, episodes, seed, params)
    reached: list[list[float] | None] = []
    references = {RANDOM: matches.play(dict.fromkeys(matches.sides, RANDOM), False)}
    for goal in goals:
        if goal.of == "seconds":
            reached.append(None)
            continue
        reached.append(matches.play(sources_of(goal, matches.sides), goal.greedy)[goal.measure])
        if (bound := goal.reference) is not None:
            references[bound] = matches.play(sources_of(goal, matches.sides, str(goal.bound)), goal.greedy)
    return {"reached": reached, "others": references}
