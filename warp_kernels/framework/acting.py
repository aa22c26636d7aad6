"""Functions in which agents act by policies, or randomly: dense networks as phases of a rollout."""

from typing import Any

import warp as wp

from warp_kernels.episode import IO
from warp_kernels.framework.actions import keep_inputs, prepare_of, wait_of, write_of
from warp_kernels.framework.memo import entry_size, memo_of
from warp_kernels.framework.policies import NO_POLICY, Acting, Policies, PolicyKind, Trace, decides_of, policy_of
from warp_kernels.framework.schedules import sample_of
from warp_kernels.framework.tile_acting import read_outputs
from warp_kernels.generated_source import compiled
from warp_kernels.networks.activations import vector
from warp_kernels.networks.mlp import Mlp
from warp_kernels.networks.rows import forward_rows
from warp_kernels.rules import Rules

_ONE = (
    "params: Params, state: State, io: IO, policies: Policies, trace: Trace, t: int, greedy: int, env: int, agent: int"
)
_SEVERAL = (
    "params: wp.array(dtype=Params), state: State, io: IO, policies: Policies, trace: Trace, t: int, greedy: int, "
    "world: int, last: int"
)


def act_all(rules: Rules, acting: Acting, together: int) -> Any:
    """Build the function in which all agents of the worlds from ``world`` to ``last`` act."""
    constants, lines = _types(rules), list[str]()
    for number, (first, end, kinds) in enumerate(_ranges(acting.kinds_of)):
        constants[f"act{number}"] = _act_in_worlds(rules, acting, kinds, together)
        lines += [
            f"agent{number} = int({first})",
            f"while agent{number} < {end}:",
            f"    act{number}(params, state, io, policies, trace, t, greedy, world, last, agent{number})",
            f"    agent{number} += 1",
        ]
    return compiled("act_all", _SEVERAL, lines, constants)


def act_one(rules: Rules, acting: Acting) -> Any:
    """Build the agent phase in which one agent acts."""
    constants, lines = _types(rules), list[str]()
    for number, (_, end, kinds) in enumerate(_ranges(acting.kinds_of)):
        constants[f"act{number}"] = _act_in_world(rules, acting, kinds)
        lines += [
            f"{'elif' if number else 'if'} agent < {end}:",
            f"    act{number}(params, state, io, policies, trace, t, greedy, env, agent)",
        ]
    return compiled("act_one", _ONE, lines, constants)


def _types(rules: Rules) -> dict[str, Any]:
    """Return the types of parameters by name, for generated functions."""
    return {
        "Params": rules.params,
        "State": rules.state,
        "IO": IO,
        "Policies": Policies,
        "Trace": Trace,
    }


def _ranges(kinds_of: tuple[tuple[int, ...], ...]) -> list[tuple[int, int, tuple[int, ...]]]:
    """Return the ranges of agents with the same kinds: first, end and kinds."""
    ranges: list[tuple[int, int, tuple[int, ...]]] = []
    for agent, kinds in enumerate(kinds_of):
        if ranges and ranges[-1][2] == kinds:
            ranges[-1] = (ranges[-1][0], agent + 1, kinds)
        else:
            ranges.append((agent, agent + 1, kinds))
    return ranges


def _act_in_world(rules: Rules, acting: Acting, kinds: tuple[int, ...]) -> Any:
    """Build the function in which an agent of one world acts by a policy of one of these kinds, or randomly."""
    single = {kind: _random(rules, acting) if kind == NO_POLICY else _act_alone(rules, acting, kind) for kind in kinds}
    if len(kinds) == 1:
        return single[kinds[0]]
    constants = _types(rules) | {"policy_of": policy_of(acting.shared)}
    lines = ["policy = policy_of(policies, env, agent)", f"kind = int({NO_POLICY})"]
    lines += ["if policy >= 0:", "    kind = policies.kinds[policy]"]
    for number, kind in enumerate(kinds):
        constants[f"act{number}"] = single[kind]
        lines += [
            f"{'elif' if number else 'if'} kind == {kind}:",
            f"    act{number}(params, state, io, policies, trace, t, greedy, env, agent)",
        ]
    return compiled("act_by_kind", _ONE, lines, constants, kind="wp.func")


def _act_in_worlds(rules: Rules, acting: Acting, kinds: tuple[int, ...], together: int) -> Any:
    """Build the function in which an agent of several worlds acts.

    Worlds in which it has the same policy share the loads of the weights.
    """
    policy_kinds = [kind for kind in kinds if kind != NO_POLICY]
    if together > 1 and len(kinds) == 1 and policy_kinds and acting.shared:
        return _act_together(rules, acting, acting.kinds[policy_kinds[0]], together)
    constants = _types(rules) | {"one": _act_in_world(rules, acting, kinds), "policy_of": policy_of(acting.shared)}
    lines, branch = list[str](), "if"
    if together > 1 and policy_kinds:
        lines += ["policy = policy_of(policies, world, agent)", f"kind = int({NO_POLICY})"]
        lines += ["if policy >= 0:", "    kind = policies.kinds[policy]"]
        if not acting.shared:
            for r in range(1, together):
                lines += [f"if policy_of(policies, wp.min(world + {r}, last - 1), agent) != policy:"]
                lines += [f"    kind = {NO_POLICY}"]
        for kind in policy_kinds:
            constants[f"together{kind}"] = _act_together(rules, acting, acting.kinds[kind], together)
            lines += [f"{branch} kind == {kind}:"]
            lines += [f"    together{kind}(params, state, io, policies, trace, t, greedy, world, last, agent)"]
            branch = "elif"
        lines += ["else:"]
    pad = "    " if lines else ""
    row = "params[wp.min(env, params.shape[0] - 1)]"
    lines += [f"{pad}env = int(world)", f"{pad}while env < last:"]
    lines += [f"{pad}    one({row}, state, io, policies, trace, t, greedy, env, agent)", f"{pad}    env += 1"]
    return compiled("act_in_worlds", f"{_SEVERAL}, agent: int", lines, constants, kind="wp.func")


def _random(rules: Rules, acting: Acting) -> Any:
    """Build the function in which an agent takes a random legal action."""
    Params, State, size, continuous = rules.params, rules.state, rules.action_size, rules.continuous
    sample, keep, traced = sample_of(rules).run, keep_inputs(rules), acting.traced

    @wp.func
    def act(
        params: Params,
        state: State,
        io: IO,
        policies: Policies,
        trace: Trace,
        t: int,
        greedy: int,
        env: int,
        agent: int,
    ):
        if wp.static(traced):
            keep(io, trace, t, env, agent)
        sample(params, state, io, env, agent)
        if wp.static(traced):
            for k in range(size):
                if wp.static(continuous):
                    trace.control[t, env, agent, k] = io.control[env, agent, k]
                else:
                    trace.choice[t, env, agent, k] = io.choice[env, agent, k]
            trace.log_prob[t, env, agent] = 0.0

    return act


def _act_alone(rules: Rules, acting: Acting, number: int) -> Any:
    """Build the function in which an agent of one world acts by its policy, whose kind has this number."""
    Params, State, num_agents, kind = rules.params, rules.state, rules.num_agents, acting.kinds[number]
    keep, of_agent, decides = keep_inputs(rules), policy_of(acting.shared), decides_of(rules.turn_based)
    write, wait, traced = write_of(rules, acting, kind), wait_of(rules, acting), acting.traced
    if acting.memo:
        parameters_of = _recalled(rules, kind, entry_size(rules.num_choices * rules.action_size, acting.kinds))
    else:
        outputs_of = read_outputs(kind.mlp) if acting.rows_of_tile(number) else _compute_outputs(kind.mlp)
        parameters_of = _prepared(rules, kind, outputs_of)

    @wp.func
    def act(
        params: Params,
        state: State,
        io: IO,
        policies: Policies,
        trace: Trace,
        t: int,
        greedy: int,
        env: int,
        agent: int,
    ):
        if wp.static(traced):
            keep(io, trace, t, env, agent)
        if decides(io, env, agent):
            policy = of_agent(policies, env, agent)
            parameters = parameters_of(io, policies, policy, env * num_agents + agent)
            write(io, policies, trace, t, greedy, env, agent, policy, parameters)
        else:
            wait(io, trace, t, env, agent)

    return act


def _compute_outputs(mlp: Mlp) -> Any:
    """Build ``outputs_of(io, policies, policy, row)``, in which a thread computes the outputs of a row."""
    forward = forward_rows(mlp, 1, True)

    @wp.func(inline=True)
    def outputs_of(io: IO, policies: Policies, policy: int, row: int):
        obs = wp.array(ptr=io.obs.ptr, shape=(io.obs.shape[0] * io.obs.shape[1], io.obs.shape[2]), dtype=float)
        return forward(policies.addresses[policy], obs, row)

    return outputs_of


def _prepared(rules: Rules, kind: PolicyKind, outputs_of: Any) -> Any:
    """Build ``parameters_of(io, policies, policy, row)``, which returns the parameters of a row's distribution."""
    prepare = prepare_of(rules, kind)

    @wp.func(inline=True)
    def parameters_of(io: IO, policies: Policies, policy: int, row: int):
        return prepare(io, outputs_of(io, policies, policy, row), row)

    return parameters_of


def _recalled(rules: Rules, kind: PolicyKind, size: int) -> Any:
    """Build ``parameters_of`` of `_prepared` with a memo, whose entries have the length ``size``."""
    choices = rules.num_choices * rules.action_size if rules.masked else 0
    memo, V = memo_of(kind.mlp, choices, size), vector(kind.mlp.head_width)
    compute, find, read, write = _prepared(rules, kind, _compute_outputs(kind.mlp)), memo.find, memo.read, memo.write

    @wp.func
    def parameters_of(io: IO, policies: Policies, policy: int, row: int):
        obs = io.obs.ptr + wp.uint64(4) * wp.uint64(row) * wp.uint64(io.obs.shape[2])
        mask = io.action_mask.ptr + wp.uint64(row) * wp.uint64(io.action_mask.shape[2])
        entry = find(obs, mask, policy, policies.memo, policies.memo_owners)
        v = V()
        if entry >= 0:
            v = read(entry, policies.memo)
        else:
            v = compute(io, policies, policy, row)
            write(-1 - entry, obs, mask, policy, v, policies.memo, policies.memo_owners)
        return v

    return parameters_of


def _act_together(rules: Rules, acting: Acting, kind: PolicyKind, together: int) -> Any:
    """Build the function in which an agent of several worlds acts by one policy."""
    envs = [f"env{r}" for r in range(together)]
    decides = "io.alive[{env}, agent]"
    if rules.turn_based:
        decides += " and io.to_move[{env}, agent]"
    if not acting.traced:
        decides += " and not trace.finished[{env}, agent]"
    lines = [
        "policy = policy_of(policies, world, agent)",
        f"obs = wp.array(ptr=io.obs.ptr, shape=(io.obs.shape[0] * {rules.num_agents}, io.obs.shape[2]), dtype=float)",
    ]
    for r, env in enumerate(envs):
        lines += [f"{env} = wp.min(world + {r}, last - 1)", f"d{r} = {decides.format(env=env)}"]
        if acting.traced:
            lines += [f"keep(io, trace, t, {env}, agent)"]
    lines += [f"if {' or '.join(f'd{r}' for r in range(together))}:"]
    lines += [
        f"    {', '.join(f'o{r}' for r in range(together))} = forward("
        f"policies.addresses[policy], obs, {', '.join(f'{env} * {rules.num_agents} + agent' for env in envs)})"
    ]
    for r, env in enumerate(envs):
        parameters = f"prepare(io, o{r}, {env} * {rules.num_agents} + agent)"
        lines += [f"    if d{r}:", f"        write(io, policies, trace, t, greedy, {env}, agent, policy, {parameters})"]
    for r, env in enumerate(envs):
        lines += [f"if not d{r}:", f"    wait(io, trace, t, {env}, agent)"]
    constants = _types(rules) | {
        "forward": forward_rows(kind.mlp, together, True),
        "keep": keep_inputs(rules),
        "policy_of": policy_of(acting.shared),
        "prepare": prepare_of(rules, kind),
        "wait": wait_of(rules, acting),
        "write": write_of(rules, acting, kind),
    }
    return compiled("act_together", f"{_SEVERAL}, agent: int", lines, constants, kind="wp.func")
