"""Win rates of JaxMARL's own baselines on SMAX: thresholds of docs/learning.md.

Its only argument is JSON: "algorithm" ("mappo" or "qmix"), "map" (of SMAX), "steps" (of worlds), "seeds" (how many),
"episodes" (of the evaluation, one per world), and maybe "settings" that differ from the published ones. It trains with
the unchanged scripts of JaxMARL's repository, which its wheel lacks, and prints JSON: win rate, return per agent and
learning curve of each seed's last policy.
"""

import copy
import hashlib
import importlib.metadata
import importlib.util
import json
import sys
import time
import types
import urllib.request
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxmarl.environments.smax import HeuristicEnemySMAX, map_name_to_scenario
from jaxmarl.wrappers.baselines import CTRolloutManager, SMAXLogWrapper

SOURCE = "https://raw.githubusercontent.com/FLAIROx/JaxMARL/c793d095618c6d3edfb5632802348f57b70a4b94/baselines"
"""Folder of the scripts in the repository, with the version that JaxMARL 0.2.0 has."""
SCRIPTS = {
    "mappo": ("MAPPO/mappo_rnn_smax.py", "25cf084c0d15cedcd7118e2e234e6d8f85d2b6cdc2165ce65ca401e4e0bc525d"),
    "qmix": ("QLearning/qmix_rnn.py", "7b03994769792c0ad34eea041bce43be10233a03cbbc0c4931cb21e9f28ec8fc"),
}
"""Path below `SOURCE` and SHA-256 by algorithm."""
GAME = {"see_enemy_actions": True, "walls_cause_death": True, "attack_mode": "closest"}
"""Settings of the game in both configurations: the defaults of SMAX-v0."""
SETTINGS = {
    "mappo": {
        "LR": 0.002,
        "NUM_ENVS": 128,
        "NUM_STEPS": 128,
        "FC_DIM_SIZE": 128,
        "GRU_HIDDEN_DIM": 128,
        "UPDATE_EPOCHS": 4,
        "NUM_MINIBATCHES": 4,
        "GAMMA": 0.99,
        "GAE_LAMBDA": 0.95,
        "CLIP_EPS": 0.2,
        "SCALE_CLIP_EPS": False,
        "ENT_COEF": 0.0,
        "VF_COEF": 0.5,
        "MAX_GRAD_NORM": 0.25,
        "ACTIVATION": "relu",
        "OBS_WITH_AGENT_ID": True,
        "ANNEAL_LR": True,
    },
    "qmix": {
        "NUM_ENVS": 16,
        "NUM_STEPS": 128,
        "BUFFER_SIZE": 5000,
        "BUFFER_BATCH_SIZE": 32,
        "HIDDEN_SIZE": 512,
        "MIXER_EMBEDDING_DIM": 64,
        "MIXER_HYPERNET_HIDDEN_DIM": 256,
        "MIXER_INIT_SCALE": 0.001,
        "EPS_START": 1.0,
        "EPS_FINISH": 0.05,
        "EPS_DECAY": 0.1,
        "MAX_GRAD_NORM": 10,
        "TARGET_UPDATE_INTERVAL": 10,
        "TAU": 1.0,
        "NUM_EPOCHS": 8,
        "LR": 0.00005,
        "LEARNING_STARTS": 10000,
        "LR_LINEAR_DECAY": False,
        "GAMMA": 0.99,
        "REW_SCALE": 10.0,
        "TEST_DURING_TRAINING": False,
        "TEST_NUM_ENVS": 1,
        "WANDB_MODE": "online",
    },
}
"""Published settings, ``MAPPO/config/mappo_homogenous_rnn_smax.yaml`` and ``QLearning/config/alg/ql_rnn_smax.yaml``.
Tests during training are off, since they change nothing."""
MAX_STEPS = 101
"""Steps of the longest episode."""


def script(name, home, log):
    """Import an unchanged script from a folder, after a download if it is missing.

    Args:
        name: Algorithm.
        home: Folder.
        log: Function that receives the metrics of each update; the scripts send them to ``wandb.log``.
    """
    path, digest = SCRIPTS[name]
    file = home / Path(path).name
    if not file.exists():
        home.mkdir(parents=True, exist_ok=True)
        file.write_bytes(urllib.request.urlopen(f"{SOURCE}/{path}").read())
    if (actual := hashlib.sha256(file.read_bytes()).hexdigest()) != digest:
        raise SystemExit(f"{file}: expected SHA-256 {digest}, got {actual}; delete it")
    sys.modules["wandb"] = types.SimpleNamespace(log=log)  # no account, no network
    spec = importlib.util.spec_from_file_location(f"jaxmarl_{name}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def first_episodes(step, start, worlds):
    """Play one episode per world and return its win and return per agent, (worlds,) each.

    Args:
        step: Function of a carry that returns the next one and JaxMARL's infos, (worlds, agents) each.
        start: First carry.
        worlds: Number of worlds.
    """

    def play(carry, _):
        inner, finished, won, total = carry
        inner, info = step(inner)
        ends = (info["returned_episode"][:, 0] > 0) & ~finished
        won = jnp.where(ends, info["returned_won_episode"][:, 0], won)
        total = jnp.where(ends, info["returned_episode_returns"][:, 0], total)
        return (inner, finished | ends, won, total), None

    zeros = jnp.zeros(worlds)
    (_, finished, won, total), _ = jax.lax.scan(play, (start, zeros > 0, zeros, zeros), None, MAX_STEPS)
    return finished, won, total


def mappo(module, config, episodes):
    """Return the functions that train and evaluate: key -> networks, and (networks, key) -> see `first_episodes`.

    Actions of the evaluation are sampled, as in the win rate that the script logs.
    """
    game = HeuristicEnemySMAX(scenario=map_name_to_scenario(config["MAP_NAME"]), **config["ENV_KWARGS"])
    env, rows = SMAXLogWrapper(game), game.num_agents * episodes
    actor = module.ActorRNN(env.action_space(env.agents[0]).n, config=config)

    def train(key):
        return module.make_train(config)(key)["runner_state"][0][0][0].params

    def evaluate(params, key):
        def step(carry):
            state, obs, done, hidden, key = carry
            key, sample, draw = jax.random.split(key, 3)
            legal = module.batchify(jax.vmap(env.get_avail_actions)(state.env_state), env.agents, rows)
            batch = module.batchify(obs, env.agents, rows)
            hidden, choice = actor.apply(params, hidden, (batch[None], done[None], legal))
            action = choice.sample(seed=sample).reshape(env.num_agents, episodes)
            keys = jax.random.split(draw, episodes)
            obs, state, _, done, info = jax.vmap(env.step)(keys, state, dict(zip(env.agents, action, strict=True)))
            return (state, obs, module.batchify(done, env.agents, rows)[:, 0], hidden, key), info

        key, draw = jax.random.split(key)
        obs, state = jax.vmap(env.reset)(jax.random.split(draw, episodes))
        hidden = module.ScannedRNN.initialize_carry(rows, config["GRU_HIDDEN_DIM"])
        return first_episodes(step, (state, obs, jnp.zeros(rows, bool), hidden, key), episodes)

    return game.num_agents, train, evaluate


def qmix(module, config, episodes):
    """Return the same functions as `mappo`; actions of the evaluation are greedy, as in the script's own tests."""
    env, _ = module.env_from_config(copy.deepcopy(config))
    manager = CTRolloutManager(env, batch_size=episodes)
    network = module.RNNQNetwork(action_dim=manager.max_action_space, hidden_dim=config["HIDDEN_SIZE"])
    apply = jax.vmap(network.apply, in_axes=(None, 0, 0, 0))

    def stacked(by_agent):
        return jnp.stack([by_agent[agent] for agent in env.agents])

    def train(key):
        return module.make_train(config, env)(key)["runner_state"][0].params["agent"]

    def evaluate(params, key):
        def step(carry):
            state, obs, done, hidden, key = carry
            key, draw = jax.random.split(key)
            hidden, values = apply(params, hidden, stacked(obs)[:, None], stacked(done)[:, None])
            legal = stacked(manager.get_valid_actions(state.env_state))
            action = jnp.argmax(jnp.where(legal > 0, values[:, 0], -jnp.inf), axis=-1)
            actions = dict(zip(env.agents, action, strict=True))
            obs, state, _, done, info = manager.batch_step(draw, state, actions)
            return (state, obs, done, hidden, key), info

        key, draw = jax.random.split(key)
        obs, state = manager.batch_reset(draw)
        done = {agent: jnp.zeros(episodes, bool) for agent in [*env.agents, "__all__"]}
        hidden = module.ScannedRNN.initialize_carry(config["HIDDEN_SIZE"], env.num_agents, episodes)
        return first_episodes(step, (state, obs, done, hidden, key), episodes)

    return env.num_agents, train, evaluate


def main(task):
    """Train and evaluate all seeds and print the results."""
    name, curve, begin = task["algorithm"], [], time.perf_counter()

    def log(metrics, *_):
        rate = metrics["win_rate"] if "win_rate" in metrics else metrics["returned_won_episode"]
        curve.append([int(metrics["env_step"]), round(float(rate), 4)])
        print(f"{time.perf_counter() - begin:.0f} s", *curve[-1], file=sys.stderr, flush=True)

    module = script(name, Path(sys.prefix).with_name("jaxmarl_baselines"), log)
    names = {"ENV_NAME": "HeuristicEnemySMAX", "MAP_NAME": task["map"], "ENV_KWARGS": GAME}
    config = {**SETTINGS[name], **task.get("settings", {}), **names, "TOTAL_TIMESTEPS": task["steps"]}
    agents, train, evaluate = {"mappo": mappo, "qmix": qmix}[name](module, copy.deepcopy(config), task["episodes"])
    train, evaluate = jax.jit(train), jax.jit(evaluate)
    runs = {"win_rates": [], "returns": [], "curves": [], "seconds": []}
    for seed in range(task["seeds"]):
        curve.clear()
        started = time.perf_counter()
        params = jax.block_until_ready(train(jax.random.PRNGKey(seed)))
        jax.effects_barrier()
        runs["seconds"].append(round(time.perf_counter() - started, 1))
        finished, won, total = map(np.asarray, evaluate(params, jax.random.PRNGKey(577_215 + seed)))
        assert finished.all(), "an episode has not ended"
        runs["win_rates"].append(float(won.mean()))
        runs["returns"].append(float(total.mean()))
        runs["curves"].append(list(curve))
    packages = ("jaxmarl", "jax", "flax", "optax", *(("distrax",) if name == "mappo" else ("flashbax",)))
    versions = {package: importlib.metadata.version(package) for package in packages}
    print(json.dumps({**runs, "versions": versions, "agents": agents}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
