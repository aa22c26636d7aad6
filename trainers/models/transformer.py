"""Transformer of a team: it encodes the observations of n agents, and decodes their actions, one agent after another.

Source: Wen et al. 2022, "Multi-Agent Reinforcement Learning is a Sequence Modeling Problem", figure 2, and its code.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from trainers.base.random_streams import SingleStream, TeamStream
from trainers.base.torch_threads import torch_threads
from trainers.models.action_heads import Head

Cache = dict[nn.Module, tuple[Tensor, Tensor]]
"""Keys and values (N, i, W) of the first i agents, by layer of attention."""
ACTIVE, LINEAR = math.sqrt(2.0), 0.01
"""Gains of initial weights before an activation, and elsewhere."""


def linear(inputs: int, outputs: int, gain: float, generator: torch.Generator | None, bias: bool = True) -> nn.Linear:
    """Return a linear layer with orthogonal weights and a bias of 0."""
    layer = nn.Linear(inputs, outputs, bias)
    with torch_threads(1):  # LAPACK computes other bits with several
        nn.init.orthogonal_(layer.weight, gain, generator)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def perceptron(width: int, activation: type[nn.Module], generator: torch.Generator | None) -> nn.Sequential:
    """Return two linear layers with an activation between them, all of width W."""
    return nn.Sequential(linear(width, width, ACTIVE, generator), activation(), linear(width, width, LINEAR, generator))


class MultiHeadAttention(nn.Module):
    """Scaled dot-product attention with several heads.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.
    """

    def __init__(self, width: int, heads: int, generator: torch.Generator | None) -> None:
        """Set the width W and the number of heads, which divides it."""
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (linear(width, width, LINEAR, generator) for _ in range(4))

    def forward(
        self, queries: Tensor, source: Tensor, mask: Tensor | None = None, cache: Cache | None = None
    ) -> Tensor:
        """Return what the queries attend to, (N, L, W).

        Args:
            queries: (N, L, W).
            source: (N, M, W), becomes keys and values.
            mask: (..., L, M) bool, True: the query may attend to the key; None: to all.
            cache: Keys and values from earlier calls, which precede those of `source`; they are added to it.
        """
        keys, values = self.key(source), self.value(source)
        if cache is not None:
            if self in cache:
                keys, values = (torch.cat(parts, 1) for parts in zip(cache[self], (keys, values), strict=True))
            cache[self] = keys, values
        by_head = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (self.query(queries), keys, values))
        return self.out(scaled_dot_product_attention(*by_head, attn_mask=mask).transpose(1, 2).flatten(2))


class EncoderBlock(nn.Module):
    """Attention of the agents to each other, and a perceptron."""

    def __init__(self, width: int, heads: int, activation: type[nn.Module], generator: torch.Generator | None) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(width, heads, generator)
        self.mlp = perceptron(width, activation, generator)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Map (N, n, W) to (N, n, W); `mask` (N, 1, n, n) as in `MultiHeadAttention`."""
        x = self.norms[0](x + self.attention(x, x, mask))
        return self.norms[1](x + self.mlp(x))


class DecoderBlock(nn.Module):
    """Attention among actions, attention of the encoded observations to actions, and a perceptron."""

    def __init__(self, width: int, heads: int, activation: type[nn.Module], generator: torch.Generator | None) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(MultiHeadAttention(width, heads, generator) for _ in range(2))
        self.mlp = perceptron(width, activation, generator)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def forward(self, x: Tensor, encoded: Tensor, mask: Tensor | None, cache: Cache | None) -> Tensor:
        """Map (N, L, W) and encoded observations (N, L, W) to (N, L, W); others as in `MultiHeadAttention`."""
        x = self.norms[0](x + self.attentions[0](x, x, mask, cache))
        x = self.norms[1](encoded + self.attentions[1](encoded, x, mask, cache))
        return self.norms[2](x + self.mlp(x))


class Transformer(nn.Module):
    """Encoder of the observations of n agents, and decoder of their actions in the order of the agents.

    Inputs (..., n, D) end with the agents' one-hot indices, which are zeros for absent agents, see
    `trainers.models.networks.team_inputs`. Others do not attend to those, and get zeros in the place of their actions.
    """

    def __init__(
        self,
        inputs: int,
        agents: int,
        code_width: int,
        outputs: int,
        widths: tuple[int, ...],
        heads: int,
        activation: type[nn.Module],
        out_gain: float,
        generator: torch.Generator | None = None,
    ) -> None:
        """Draw orthogonal weights.

        Args:
            inputs: Width D of the inputs.
            agents: Number n of agents.
            code_width: Width C of codes of actions, see `trainers.models.action_heads`.
            outputs: Number of parameters P of an agent's distribution over actions.
            widths: Width W of embeddings, once for each block of the encoder and of the decoder.
            heads: Heads of attention, which divide W.
            activation: Class of the activations.
            out_gain: Gain of the last layer's initial weights.
            generator: CPU generator of the weights.
        """
        super().__init__()
        self.num_agents = agents
        self.code_width = code_width
        width, block = widths[0], (widths[0], heads, activation, generator)
        self.embedding = nn.Sequential(
            nn.LayerNorm(inputs), linear(inputs, width, ACTIVE, generator), activation(), nn.LayerNorm(width)
        )
        self.encoder = nn.ModuleList(EncoderBlock(*block) for _ in widths)
        self.action_embedding = nn.Sequential(
            linear(1 + code_width, width, ACTIVE, generator, bias=False), activation(), nn.LayerNorm(width)
        )
        self.decoder = nn.ModuleList(DecoderBlock(*block) for _ in widths)
        self.out = nn.Sequential(
            linear(width, width, ACTIVE, generator),
            activation(),
            nn.LayerNorm(width),
            linear(width, outputs, out_gain, generator),
        )

    def encode(self, x: Tensor) -> Tensor:
        """Return the encoded observations (N, n, W) of inputs (N, n, D)."""
        identity = torch.eye(self.num_agents, dtype=torch.bool, device=x.device)
        mask = (self._present(x).unsqueeze(-2) | identity).unsqueeze(1)
        encoded = self.embedding(x)
        for block in self.encoder:
            encoded = block(encoded, mask)
        return encoded.to(x.dtype)

    def decode(self, x: Tensor, encoded: Tensor, code: Tensor) -> Tensor:
        """Return the parameters (N, n, P) of the agents' distributions, each given the actions of earlier agents.

        Args:
            x: (N, n, D).
            encoded: (N, n, W), see `encode`.
            code: (N, n, C) codes of all agents' actions.
        """
        previous = code.masked_fill(~self._present(x).unsqueeze(-1), 0.0)[:, :-1]
        tokens = torch.cat([self._first(x), pad(previous, (1, 0))], 1)
        causal = torch.ones((self.num_agents, self.num_agents), dtype=torch.bool, device=x.device).tril()
        return self._outputs(tokens, encoded, causal, None)

    def act(self, x: Tensor, mask: Tensor | None, head: Head, stream: SingleStream) -> tuple[Tensor, Tensor]:
        """Return actions of the agents, and the parameters of the distributions that they come from.

        Args:
            x: (..., n, D).
            mask: (..., n, choices) bool, True = legal; None: all are legal.
            head: Action head.
            stream: Random stream of samples; None: the most probable actions.

        Returns:
            (..., n) or (..., n, K), before `Head.to_env`; and (..., n, P).
        """
        shape = x.shape[:-1]
        if mask is not None:
            mask = mask.expand(*shape, mask.shape[-1]).reshape(-1, self.num_agents, mask.shape[-1])
        x = x.reshape(-1, *x.shape[-2:])
        encoded, present, token = self.encode(x), self._present(x), self._first(x)
        noise = None if stream is None else TeamStream(stream, self.num_agents)
        cache, actions, params = Cache(), list[Tensor](), list[Tensor]()
        for agent in range(self.num_agents):
            output = self._outputs(token, encoded[:, agent : agent + 1], None, cache)[:, 0]
            legal = None if mask is None else mask[:, agent]
            action = head.mode(output, legal) if noise is None else head.sample(output, noise, legal)[0]
            code = head.encode(head.to_env(action)).masked_fill(~present[:, agent, None], 0.0)
            token = pad(code, (1, 0)).unsqueeze(1)
            actions.append(action)
            params.append(output)
        joint, outputs = torch.stack(actions, 1), torch.stack(params, 1)
        return joint.view(*shape, *joint.shape[2:]), outputs.view(*shape, outputs.shape[-1])

    def _first(self, x: Tensor) -> Tensor:
        """Return the token (N, 1, 1 + C) in the place of an action before the first agent's."""
        return pad(torch.ones_like(x[:, :1, :1]), (0, self.code_width))

    def _outputs(self, tokens: Tensor, encoded: Tensor, mask: Tensor | None, cache: Cache | None) -> Tensor:
        """Return parameters (N, L, P) from tokens (N, L, 1 + C) of previous actions, see `DecoderBlock.forward`."""
        x = self.action_embedding(tokens)
        for block in self.decoder:
            x = block(x, encoded, mask, cache)
        return self.out(x).to(encoded.dtype)

    def _present(self, x: Tensor) -> Tensor:
        """Return the agents (..., n) that are not absent."""
        return (x[..., -self.num_agents :] != 0.0).any(-1)
