"""IPPO on JaxMARL's worlds, learning included, in one compiled call per update.

JaxMARL's wheel has no trainers. This is independent PPO with the settings that JaxMARL publishes for its games (128
steps, 4 epochs of 4 minibatches, networks of `Settings`), written in the way its users write it: rollout, advantages
and epochs in one jitted function. Agents share one network.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jaxmarl
import optax

from benchmarks.peers.inside.child import serve

STEPS, EPOCHS, MINIBATCHES = 128, 4, 4
GAMMA, GAE_LAMBDA, CLIP, ENTROPY, VALUE = 0.99, 0.95, 0.2, 0.01, 0.5
LEARNING_RATE, MAX_GRAD_NORM = 2.5e-3, 0.5


class Settings(NamedTuple):
    """Settings that differ between the games."""

    hidden: int = 64
    """Width of both hidden layers."""
    activation: str = "tanh"
    """Name of a function of `jax.nn`."""
    shared: bool = False
    """True if actor and critic share their first layer."""
    anneal: bool = True
    """True to anneal the learning rate to 0."""


GAMES = {
    "hanabi": Settings(512, "relu", shared=True, anneal=False),
    "switch_riddle": Settings(activation="relu"),
    "coin_game": Settings(activation="relu"),
}
"""Settings by game, from ``baselines/IPPO/config``; CoinGame has none there and gets SwitchRiddle's."""


class Rows(NamedTuple):
    """A rollout (T, A * E, ...)."""

    obs: jax.Array
    legal: jax.Array
    """1 for legal actions."""
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    reward: jax.Array
    """With the share of the shaped reward that counts now."""
    score: jax.Array
    """Reward of the game."""
    done: jax.Array


def layers(key, sizes, last):
    """Orthogonal weights and zero biases of a multilayer perceptron."""
    gains = [2**0.5] * (len(sizes) - 2) + [last]
    keys = jax.random.split(key, len(gains))
    shapes = zip(keys, gains, sizes[:-1], sizes[1:], strict=True)
    return [(jax.nn.initializers.orthogonal(gain)(k, (m, n)), jnp.zeros(n)) for k, gain, m, n in shapes]


def forward(weights, x, activation):
    """Apply a nonlinear function between the layers, none after the last."""
    for matrix, bias in weights[:-1]:
        x = activation(x @ matrix + bias)
    return x @ weights[-1][0] + weights[-1][1]


def evaluate(params, obs, legal, activation):
    """Log-probabilities of all actions (rows, n), and values (rows,)."""
    for matrix, bias in params["shared"]:
        obs = activation(obs @ matrix + bias)
    logits = jnp.where(legal > 0, forward(params["actor"], obs, activation), -1e10)
    return jax.nn.log_softmax(logits), forward(params["critic"], obs, activation)[:, 0]


def chosen(log_probs, action):
    """Log-probability of the actions taken."""
    return jnp.take_along_axis(log_probs, action[:, None], 1)[:, 0]


def loss(params, rows, advantage, target, activation):
    """Return PPO's clipped objective with a clipped value loss and an entropy bonus."""
    log_probs, value = evaluate(params, rows.obs, rows.legal, activation)
    ratio = jnp.exp(chosen(log_probs, rows.action) - rows.log_prob)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * advantage).mean()
    near = rows.value + jnp.clip(value - rows.value, -CLIP, CLIP)
    error = 0.5 * jnp.maximum((value - target) ** 2, (near - target) ** 2).mean()
    entropy = -(jnp.exp(log_probs) * jnp.where(rows.legal > 0, log_probs, 0.0)).sum(1).mean()
    return VALUE * error - gain - ENTROPY * entropy


def advantages(rows, last):
    """Generalized advantage estimates (T, rows)."""

    def back(carry, row):
        ahead, following = carry
        going_on = 1.0 - row.done
        delta = row.reward + GAMMA * following * going_on - row.value
        ahead = delta + GAMMA * GAE_LAMBDA * going_on * ahead
        return (ahead, row.value), ahead

    return jax.lax.scan(back, (jnp.zeros_like(last), last), rows, reverse=True)[1]


def network(keys, width, choices, settings):
    """Parameters of the actor, the critic and the layers that they share."""
    hidden = settings.hidden
    first = (hidden,) if settings.shared else (width, hidden)
    return {
        "actor": layers(keys[0], (*first, hidden, choices), 0.01),
        "critic": layers(keys[1], (*first, hidden, 1), 1.0),
        "shared": layers(jax.random.fold_in(keys[0], 1), (width, hidden), 2**0.5) if settings.shared else [],
    }


def training(game, worlds, total=None, seed=0, rate=LEARNING_RATE, options=None):
    """Return the training functions for a game whose agents have equal spaces, such as "MPE_simple_spread_v3".

    Args:
        game: Name of the world.
        worlds: Simulated at once.
        total: Steps of worlds after which the learning rate, annealed linearly, is 0; None: it stays.
        seed: Random seed.
        rate: Learning rate at the start.
        options: Settings of the game.

    Games with shaped rewards add them to the reward, with a factor that falls from 1 to 0 in the first half of the
    training, as JaxMARL's settings for Overcooked.

    Returns:
        Agents of a world, the initial carry of a rollout of `STEPS` steps, and the functions `rollout` (plays one) and
        `update` (plays one and learns from it), both compiled. The first argument of `rollout` tells which agents of a
        world act by the policy, (A,) booleans; the others act at random. None: all.
    """
    env = jaxmarl.make(game, **(options or {}))
    names, settings = env.agents, GAMES.get(game, Settings())
    activation = getattr(jax.nn, settings.activation)
    count = len(names) * worlds
    choices = env.action_space(names[0]).n
    if total is not None and settings.anneal:
        rate = optax.linear_schedule(rate, 0.0, total // (STEPS * worlds) * EPOCHS * MINIBATCHES)
    optimizer = optax.chain(optax.clip_by_global_norm(MAX_GRAD_NORM), optax.adam(rate, eps=1e-5))

    def stacked(by_agent):
        return jnp.stack([by_agent[name] for name in names]).reshape(count, -1)

    def legal_actions(state):
        if not hasattr(env, "get_legal_moves"):
            return jnp.ones((count, choices))
        return stacked(jax.vmap(env.get_legal_moves)(state))

    def act(acting, carry, _):
        params, state, obs, key, factor = carry
        key, sample, draw = jax.random.split(key, 3)
        legal = legal_actions(state)
        log_probs, value = evaluate(params, obs, legal, activation)
        logits = log_probs
        if acting is not None:
            logits = jnp.where(jnp.repeat(acting, worlds)[:, None], log_probs, jnp.log(legal))
        action = jax.random.categorical(sample, logits)
        by_agent = dict(zip(names, action.reshape(len(names), worlds), strict=True))
        after, state, score, done, info = jax.vmap(env.step)(jax.random.split(draw, worlds), state, by_agent)
        score, done = stacked(score)[:, 0], stacked(done)[:, 0].astype(jnp.float32)
        reward = score + factor * stacked(info["shaped_reward"])[:, 0] if "shaped_reward" in info else score
        rows = Rows(obs, legal, action, chosen(log_probs, action), value, reward, score, done)
        return (params, state, stacked(after), key, factor), rows

    def minibatch(carry, batch):
        params, moments = carry
        updates, moments = optimizer.update(jax.grad(partial(loss, activation=activation))(params, *batch), moments)
        return (optax.apply_updates(params, updates), moments), None

    def epoch(carry, key, batch):
        order = jax.random.permutation(key, STEPS * count)
        parts = jax.tree.map(lambda x: x[order].reshape(MINIBATCHES, -1, *x.shape[1:]), batch)
        return jax.lax.scan(minibatch, carry, parts)

    def played(acting, params, state, obs, key, steps):
        factor = jnp.maximum(1.0 - 2.0 * steps / total, 0.0) if total is not None else 1.0
        (_, state, obs, key, _), rows = jax.lax.scan(
            partial(act, acting), (params, state, obs, key, factor), None, STEPS
        )
        return state, obs, key, steps + STEPS * worlds, rows

    @jax.jit
    def rollout(acting, params, moments, *world):
        *world, rows = played(acting, params, *world)
        return (params, moments, *world), rows

    @jax.jit
    def update(params, moments, *world):
        state, obs, key, steps, rows = played(None, params, *world)
        advantage = advantages(rows, evaluate(params, obs, legal_actions(state), activation)[1])
        batch = jax.tree.map(
            lambda x: x.reshape(STEPS * count, *x.shape[2:]), (rows, advantage, advantage + rows.value)
        )
        key, order = jax.random.split(key)
        keys = jax.random.split(order, EPOCHS)
        (params, moments), _ = jax.lax.scan(lambda c, k: epoch(c, k, batch), (params, moments), keys)
        return params, moments, state, obs, key, steps

    keys = jax.random.split(jax.random.PRNGKey(seed), 4)
    obs, state = jax.vmap(env.reset)(jax.random.split(keys[2], worlds))
    obs = stacked(obs)
    params = network(keys, obs.shape[1], choices, settings)
    start = (params, optimizer.init(params), state, obs, keys[3], jnp.zeros(()))
    return len(names), start, rollout, update


def build(task):
    """``game`` and ``worlds``, see `training`."""
    agents, run, _, update = training(task["game"], task["worlds"])

    def play(count):
        nonlocal run
        played = 0
        while played < count:
            run = update(*run)
            played += STEPS
        jax.block_until_ready(run)
        return played

    return agents, play


if __name__ == "__main__":
    serve(build, ("jaxmarl", "jax", "optax"))
