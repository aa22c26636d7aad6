"""Steps of SMAX of JaxMARL 0.2.0 from the states of SMAX-v0, with the random numbers of the latter.

The recorded traces of the quick tests are made by this module:

    .nox/jaxmarl/bin/python -m libraries.smax_oracle   # in the folder tests
"""

from unittest import mock

import jax
import jax.numpy as jnp
import jaxmarl
import numpy as np
from jaxmarl.environments.smax import Scenario, map_name_to_scenario
from jaxmarl.environments.smax.heuristic_enemy import HeuristicPolicyState
from jaxmarl.environments.smax.heuristic_enemy_smax_env import State as EnemyState
from jaxmarl.environments.smax.smax_env import State
from parity.smax.smax_replay import PATH, TRACES, compare, played, write

from gpu_envs.envs.smax.smax import STATS, Config

STEP, NEAR = 1, 1e-5
OURS = ("enemy", "unit_types", "time_limit", "enemy_shoots", "attack_mode", "unit_type_names")


# ---------------------------------------------------------------- random numbers


def philox(counter, key):
    """Return four random words of Philox4x32-10 in NumPy, (..., 4) uint64, for counters (..., 4) and keys (...)."""
    low = np.uint64(0xFFFFFFFF)
    c = [counter[..., index].astype(np.uint64) for index in range(4)]
    k0, k1 = key & low, key >> np.uint64(32)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ k0, p1 & low, (p0 >> np.uint64(32)) ^ c[3] ^ k1, p0 & low]
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return np.stack(c, -1)


def words(key, step, units, draw):
    """Return the random words of all units at a step, (E, U, 4)."""
    last = (np.arange(units) << 12) | (STEP << 8) | draw
    counter = np.zeros((len(key), units, 4), np.int64)
    counter[..., 2], counter[..., 3] = step[:, None], last
    return philox(counter, key.astype(np.uint64)[:, None])


def draws_of(previous, world_steps):
    """Return the random numbers of a step: of weapons (E, W, U), and words of decisions (E, U, 2)."""
    step, units = previous["step"] + 1, previous["health"].shape[1]
    all_words = [words(previous["key"], step, units, 1 + part) for part in range((world_steps + 3) // 4)]
    weapons = np.concatenate(all_words, -1)[..., :world_steps] >> np.uint64(8)
    weapons = (weapons.astype(np.float32) * np.float32(2.0**-24)).transpose(0, 2, 1)
    return weapons, words(previous["key"], step, units, 0)[..., :2].astype(np.uint32)


def split(key, num=2):
    """Hand out random numbers in place of keys: a key is a dict with the numbers of all draws that follow from it."""
    ((kind, value),) = key.items()
    if kind == "heuristic":  # of a step with discrete actions
        return {"worlds": value[0]}, {"enemies": value[1]}
    if kind == "heuristic_continuous":
        return {"agents": value[::2]}, {"enemies": value[1]}
    if kind == "agents":  # of a step, whose decoder gets the second part
        return {"worlds": value[0]}, {"decoder": value[1]}
    if kind == "worlds":
        return {"worlds": jnp.roll(value, -1, 0)}, {"units": value[0]}
    if kind == "units" and num == len(value):
        return {"weapon": value}
    if kind == "enemies" and num == len(value):
        return {"enemy": value}
    pairs = {"enemy": "pick", "decoder": "choices"}
    return {pairs[kind]: value[..., 0]}, {pairs[kind]: value[..., 1]}


def uniform(key, minval, maxval):
    """Return the random number of a weapon."""
    return key["weapon"] * (maxval - minval) + minval


def choice(key, values, p):
    """Return one of the values with p > 0."""
    possible = p > 0
    count = jnp.sum(possible).astype(jnp.uint32)
    high, low = key["pick"] >> 16, key["pick"] & 0xFFFF
    skip = (high * count + ((low * count) >> 16)) >> 16  # word * count / 2^32
    return values[jnp.argmax(jnp.cumsum(possible) == skip + 1)]


def categorical(key, logits, axis):
    """Return 0 or 1 for all units."""
    number = (key["choices"] >> 8).astype(jnp.float32) * 2.0**-24
    return jnp.where(number < jnp.exp(logits[0]), 0, 1)


# ---------------------------------------------------------------- the original


def original(settings):
    """Return the environment of JaxMARL with these settings of SMAX-v0, and the Config."""
    config = Config(**settings)
    options = {name: value for name, value in settings.items() if name not in OURS}
    if config.scenario is not None:
        options["scenario"] = map_name_to_scenario(config.scenario)
    else:
        kinds = (*config.units.allies, *config.units.enemies)
        smacv2 = config.smacv2_position_generation, config.smacv2_unit_type_generation
        counts = config.num_allies, config.num_enemies
        options["scenario"] = Scenario(jnp.array(kinds, jnp.uint8), *counts, *smacv2)
    options |= {f"unit_type_{name}": jnp.array(getattr(config, f"unit_type_{name}")) for name in STATS}
    options["unit_type_names"] = list(config.unit_type_names)
    if config.enemy == "self_play":
        return jaxmarl.make("SMAX", **options), config
    options |= {"enemy_shoots": config.enemy_shoots, "attack_mode": config.attack_mode}
    return jaxmarl.make("HeuristicEnemySMAX", **options), config


def original_step(settings):
    """Return ``f(previous, action) -> results`` of a batch of worlds.

    ``near`` marks worlds whose step rounding may decide, and ``at_edge`` those whose conic observation it may decide.
    """
    env, config = original(settings)
    alone = config.enemy == "heuristic"
    inner = env._env if alone else env
    continuous = config.action_type == "continuous"
    allies, units = inner.num_allies, inner.num_agents
    teams = jnp.arange(units) >= allies

    def step_world(previous, action, weapons, words):
        world = State(
            unit_positions=previous["pos"], unit_alive=previous["health"] > 0, unit_teams=teams.astype(float),
            unit_health=previous["health"], unit_types=previous["kind"].astype(jnp.uint8),
            unit_weapon_cooldowns=previous["cooldown"], prev_movement_actions=previous["move"],
            prev_attack_actions=previous["attack"], step=previous["step"], done=jnp.array(False),
        )  # fmt: skip
        state, key = world, {"agents": (weapons, words)}
        if alone:
            heuristic = HeuristicPolicyState(default_target=previous["goal"], last_attacked_enemy=previous["victim"])
            state = EnemyState(state=world, enemy_policy_state=heuristic)
            key = {"heuristic": (weapons, words[allies:])}
            if continuous:
                key = {"heuristic_continuous": (weapons, words[allies:], words)}
        actions = dict(zip(env.agents, action, strict=True))
        patches = {"split": split, "uniform": uniform, "choice": choice, "categorical": categorical}
        with mock.patch.multiple(jax.random, **patches):
            obs, new, reward, done, _ = env.step_env(key, state, actions)
            path = env.step_env(key, state, actions, True)
        end = new.state if alone else new
        results = {
            "obs": jnp.stack([obs[agent] for agent in env.agents]),
            "reward": jnp.stack([reward[agent] for agent in env.agents]),
            "done": jnp.stack([done["__all__"]] * len(env.agents)),
            "world_state": obs["world_state"],
            "pos": end.unit_positions,
            "health": end.unit_health,
            "cooldown": end.unit_weapon_cooldowns,
            "move": end.prev_movement_actions,
            "attack": end.prev_attack_actions,
            "lives": jnp.stack([~done[agent] for agent in env.agents]).astype(int),
            "near": close(previous, path),
            "at_edge": at_edge(path.unit_positions[-1]),
        }
        if alone:
            results["goal"] = new.enemy_policy_state.default_target
            results["victim"] = new.enemy_policy_state.last_attacked_enemy
        if not continuous:
            width = 5 + max(env.num_allies, env.num_enemies) * (not alone) + env.num_enemies * alone
            masks = [env.get_avail_actions(new)[agent] for agent in env.agents]
            results["mask"] = jnp.stack([jnp.pad(mask, (0, width - len(mask))) for mask in masks]) == 1
        return results

    def close(previous, path):
        """Return whether a comparison of the step may differ by rounding: ranges, cooldowns, overlaps, diagonals."""
        pos = jnp.concatenate([previous["pos"][None], path.unit_positions])
        health = jnp.concatenate([previous["health"][None], path.unit_health])
        wait = jnp.concatenate([previous["cooldown"][None], path.unit_weapon_cooldowns])
        gap = pos[:, None] - pos[:, :, None]
        dist = jnp.linalg.norm(gap, axis=-1) + 1e3 * jnp.eye(units)
        kinds = previous["kind"]
        ranges = inner.unit_type_attack_ranges[kinds], inner.unit_type_sight_ranges[kinds]
        at_range = jnp.stack([jnp.abs(dist - reach[:, None]) for reach in ranges]) < NEAR
        alive = (health > 0)[:, None] & (health > 0)[:, :, None]
        heaped = alive & (dist < 0.05)
        at_zero = (jnp.abs(wait) < NEAR) & (wait != 0)
        diagonal = jnp.abs(jnp.abs(gap[0, ..., 0]) - jnp.abs(gap[0, ..., 1])) < NEAR
        diagonal = diagonal & ~jnp.eye(units, dtype=bool)
        return at_range.any() | heaped.any() | at_zero.any() | diagonal.any()

    def at_edge(pos):
        """Return whether a unit sees another one on the edge between two sections of a conic observation."""
        gap = pos[None] - pos[:, None]
        turn = (jnp.arctan2(gap[..., 1], gap[..., 0]) / (2 * jnp.pi) * 32) % 1.0
        edge = (jnp.minimum(turn, 1 - turn) < 1e-4) & ~jnp.eye(units, dtype=bool)
        return (config.observation_type == "conic") & edge.any()

    batch = jax.jit(jax.vmap(step_world))

    def step(previous, action):
        arrays = {name: jnp.asarray(values) for name, values in previous.items() if name != "key"}
        weapons, words = draws_of(previous, config.world_steps_per_env_step)
        results = batch(arrays, jnp.asarray(action), jnp.asarray(weapons), jnp.asarray(words))
        return jax.tree.map(np.asarray, results)

    return step


def compare_all(settings, num_envs, steps, seed):
    """Step worlds, and JaxMARL from the same states; return the transitions and counts of cases."""
    step = original_step(settings)
    story = []
    tally = dict.fromkeys(("steps", "near", "seen", "done", "won", "lost", "hits", "died", "walled", "timed_out"), 0)
    allies = len(Config(**settings).units.allies)
    for previous, action, after in played(settings, num_envs, steps, seed):
        theirs = step(previous, action)
        sure = ~theirs.pop("near")
        visible = sure & ~theirs.pop("at_edge")
        for names, worlds in ((theirs.keys() - {"obs"}, sure), ({"obs", "done"}, visible)):
            compare(*({name: side[name][worlds] for name in names} for side in (after, theirs)), settings)
        ended, alive = theirs["done"][:, 0], theirs["health"] > 0
        tally["steps"] += int(sure.sum())
        tally["near"] += int((~sure).sum())
        tally["seen"] += int(visible.sum())
        tally["done"] += int(ended.sum())
        tally["won"] += int((~alive[:, allies:].any(1) & alive[:, :allies].any(1)).sum())
        tally["lost"] += int((alive[:, allies:].any(1) & ~alive[:, :allies].any(1)).sum())
        tally["hits"] += int((theirs["cooldown"] > previous["cooldown"]).sum())
        tally["died"] += int((~alive & (previous["health"] > 0)).sum())
        tally["timed_out"] += int((ended & alive[:, allies:].any(1) & alive[:, :allies].any(1)).sum())
        edge = (theirs["pos"] <= 0.0).any(-1)
        tally["walled"] += int((edge & (previous["health"] > 0)).sum())
        story.append((previous, action, theirs))
    return story, tally


def random_settings(rng):
    """Return settings drawn at random."""
    settings = {"max_steps": int(rng.integers(10, 80)), "enemy": str(rng.choice(["heuristic", "self_play"]))}
    if rng.random() < 0.6:
        names = ("3m", "2s3z", "5m_vs_6m", "3s_vs_5z", "6h_vs_8z", "smacv2_5_units", "3s5z", "3s5z_vs_3s6z")
        settings["scenario"] = str(rng.choice(names))
    else:
        counts = rng.integers(1, 7, 2)
        settings |= {"num_allies": int(counts[0]), "num_enemies": int(counts[1])}
        settings["unit_types"] = tuple(rng.integers(0, 6, counts.sum()).tolist())
        settings["smacv2_position_generation"] = bool(rng.random() < 0.5)
        settings["smacv2_unit_type_generation"] = bool(rng.random() < 0.5)
    if rng.random() < 0.4:
        settings |= {"map_width": float(rng.integers(12, 40)), "map_height": float(rng.integers(8, 40))}
    if rng.random() < 0.3:
        settings["unit_type_attacks"] = tuple(rng.uniform(1.0, 30.0, 6).round(2).tolist())
        settings["unit_type_velocities"] = tuple(rng.uniform(0.5, 6.0, 6).round(2).tolist())
        settings["unit_type_health"] = tuple(rng.uniform(10.0, 90.0, 6).round(1).tolist())
    for name, share in (("use_self_play_reward", 0.4), ("see_enemy_actions", 0.5), ("walls_cause_death", 0.7)):
        settings[name] = bool(rng.random() < share)
    if rng.random() < 0.3:
        settings |= {"world_steps_per_env_step": int(rng.integers(1, 11)), "time_per_step": 1.0 / 12.0}
    settings["observation_type"] = str(rng.choice(["unit_list", "unit_list", "conic"]))
    settings["action_type"] = str(rng.choice(["discrete", "discrete", "continuous"]))
    settings["won_battle_bonus"] = float(rng.integers(1, 4))
    if settings["enemy"] == "heuristic":
        settings["attack_mode"] = str(rng.choice(["closest", "random"]))
        settings["enemy_shoots"] = bool(rng.random() < 0.8)
    return settings


def random_units(rng):
    """Return all values of unit types drawn at random."""
    spans = {
        "velocities": (0.5, 6.0), "attacks": (1.0, 30.0), "attack_ranges": (1.0, 9.0), "sight_ranges": (2.0, 14.0),
        "radiuses": (0.2, 1.0), "health": (10.0, 90.0), "weapon_cooldowns": (0.1, 2.5),
    }  # fmt: skip
    return {f"unit_type_{name}": tuple(rng.uniform(*spans[name], 6).round(3).tolist()) for name in STATS}


def record_all(path=PATH):
    """Write the traces of the quick tests."""
    stories = [compare_all(settings, worlds, steps, seed)[0] for seed, (settings, worlds, steps) in enumerate(TRACES)]
    write(stories, path)
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    record_all()
