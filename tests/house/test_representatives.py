"""The environments of `REPRESENTATIVES` have every trait that the code around the rules handles differently."""

from small_environments import REPRESENTATIVES, small_definition

from gpu_envs.definition.registry import list_envs

OF_RULES = (
    "continuous", "observe_slots", "legal", "reset", "reset_agent", "masked", "illegal_noop", "turn_based", "relayout",
    "stake", "shared_stake", "num_choices",
)  # fmt: skip
OF_DEFINITION = (
    "time_limit_terminates", "roles", "symmetric", "zero_sum", "initial", "info", "reset_options", "global_state_size",
)  # fmt: skip


def traits(env_id):
    """Return the traits of an environment with the settings of the general tests."""
    definition = small_definition(env_id)
    rules = definition.rules
    names = {f"rules with {name}" for name in OF_RULES if getattr(rules, name)}
    names |= {name for name in OF_DEFINITION if getattr(definition, name)}
    masked = "masked" if rules.masked else "any"
    names |= {f"{masked} {type(space).__name__} actions" for space in definition.action_spaces.values()}
    names |= {f"{min(rules.num_agents, 3)} agents or more", f"{min(len(definition.groups), 2)} groups or more"}
    spaces = {"actions": definition.action_spaces, "observations": definition.observation_spaces}
    return names | {
        f"unequal {name}" for name, by_agent in spaces.items() if len({str(s) for s in by_agent.values()}) > 1
    }


def test_representatives_have_all_traits():
    by_id = {env_id: traits(env_id) for env_id in list_envs()}
    missing = set.union(*by_id.values()) - set.union(*(by_id[env_id] for env_id in REPRESENTATIVES))
    assert not missing, {trait: [env_id for env_id in by_id if trait in by_id[env_id]] for trait in missing}
