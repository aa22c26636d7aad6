"""IPPO on JaxMARL's worlds, learning included, in one compiled call per update.

JaxMARL's wheel has no trainers. This is independent PPO with the settings that JaxMARL publishes for MPE (128 steps, 4
epochs of 4 minibatches, networks of two layers of 64), written in the way its users write it: rollout, advantages and
epochs in one jitted function. Agents share one network.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import jaxmarl
import optax

from benchmarks.peers.inside.child import serve

STEPS, EPOCHS, MINIBATCHES = 128, 4, 4
GAMMA, GAE_LAMBDA, CLIP, ENTROPY, VALUE = 0.99, 0.95, 0.2, 0.01, 0.5
LEARNING_RATE, MAX_GRAD_NORM, HIDDEN = 2.5e-3, 0.5, 64


class Rows(NamedTuple):
    """A rollout (T, A * E, ...)."""

    obs: jax.Array
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    reward: jax.Array
    done: jax.Array


def layers(key, sizes, last):
    """Orthogonal weights and zero biases of a multilayer perceptron."""
    gains = [2**0.5] * (len(sizes) - 2) + [last]
    keys = jax.random.split(key, len(gains))
    shapes = zip(keys, gains, sizes[:-1], sizes[1:], strict=True)
    return [(jax.nn.initializers.orthogonal(gain)(k, (m, n)), jnp.zeros(n)) for k, gain, m, n in shapes]


def forward(weights, x):
    """Apply tanh between the layers, none after the last."""
    for matrix, bias in weights[:-1]:
        x = jnp.tanh(x @ matrix + bias)
    return x @ weights[-1][0] + weights[-1][1]


def evaluate(params, obs):
    """Log-probabilities of all actions (rows, n), and values (rows,)."""
    return jax.nn.log_softmax(forward(params["actor"], obs)), forward(params["critic"], obs)[:, 0]


def chosen(log_probs, action):
    """Log-probability of the actions taken."""
    return jnp.take_along_axis(log_probs, action[:, None], 1)[:, 0]


def loss(params, rows, advantage, target):
    """Return PPO's clipped objective with a clipped value loss and an entropy bonus."""
    log_probs, value = evaluate(params, rows.obs)
    ratio = jnp.exp(chosen(log_probs, rows.action) - rows.log_prob)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * advantage).mean()
    near = rows.value + jnp.clip(value - rows.value, -CLIP, CLIP)
    error = 0.5 * jnp.maximum((value - target) ** 2, (near - target) ** 2).mean()
    entropy = -(jnp.exp(log_probs) * log_probs).sum(1).mean()
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


def training(game, worlds):
    """Return agents, the first carry and a compiled update for a game whose agents have equal spaces.

    An update plays a rollout of `STEPS` steps of worlds and learns from it; it takes and returns a carry.
    """
    env = jaxmarl.make(game)
    names = env.agents
    count, choices = len(names) * worlds, env.action_space(names[0]).n
    optimizer = optax.chain(optax.clip_by_global_norm(MAX_GRAD_NORM), optax.adam(LEARNING_RATE, eps=1e-5))

    def stacked(by_agent):
        return jnp.stack([by_agent[name] for name in names]).reshape(count, -1)

    def act(carry, _):
        params, state, obs, key = carry
        key, sample, draw = jax.random.split(key, 3)
        log_probs, value = evaluate(params, obs)
        action = jax.random.categorical(sample, log_probs)
        by_agent = dict(zip(names, action.reshape(len(names), worlds), strict=True))
        after, state, reward, done, _ = jax.vmap(env.step)(jax.random.split(draw, worlds), state, by_agent)
        reward, done = stacked(reward)[:, 0], stacked(done)[:, 0].astype(jnp.float32)
        return (params, state, stacked(after), key), Rows(obs, action, chosen(log_probs, action), value, reward, done)

    def minibatch(carry, batch):
        params, moments = carry
        updates, moments = optimizer.update(jax.grad(loss)(params, *batch), moments)
        return (optax.apply_updates(params, updates), moments), None

    def epoch(carry, key, batch):
        order = jax.random.permutation(key, STEPS * count)
        parts = jax.tree.map(lambda x: x[order].reshape(MINIBATCHES, -1, *x.shape[1:]), batch)
        return jax.lax.scan(minibatch, carry, parts)

    @jax.jit
    def update(params, moments, state, obs, key):
        (_, state, obs, key), rows = jax.lax.scan(act, (params, state, obs, key), None, STEPS)
        advantage = advantages(rows, evaluate(params, obs)[1])
        batch = jax.tree.map(
            lambda x: x.reshape(STEPS * count, *x.shape[2:]), (rows, advantage, advantage + rows.value)
        )
        key, order = jax.random.split(key)
        keys = jax.random.split(order, EPOCHS)
        (params, moments), _ = jax.lax.scan(lambda c, k: epoch(c, k, batch), (params, moments), keys)
        return params, moments, state, obs, key

    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    obs, state = jax.vmap(env.reset)(jax.random.split(keys[2], worlds))
    obs = stacked(obs)
    sizes = (obs.shape[1], HIDDEN, HIDDEN)
    params = {"actor": layers(keys[0], (*sizes, choices), 0.01), "critic": layers(keys[1], (*sizes, 1), 1.0)}
    return len(names), (params, optimizer.init(params), state, obs, keys[3]), update


def build(task):
    """``game`` and ``worlds``, see `training`."""
    agents, carry, update = training(task["game"], task["worlds"])

    def play(count):
        nonlocal carry
        played = 0
        while played < count:
            carry = update(*carry)
            played += STEPS
        jax.block_until_ready(carry)
        return played

    return agents, play


if __name__ == "__main__":
    serve(build, ("jaxmarl", "jax", "optax"))
