"""The target: a byte-level Llama small enough to read.

Parameter names, shapes and the half-split rotary convention are those of Hugging Face's LlamaForCausalLM, so a
checkpoint moves between the two as it stands. The model is a plain function of (tokens, cache): with a cache whose
`lanes` are set, every pass is padded to that many rows and attends over whole blocks of the cache under a mask, so that
a token's logits have the same bits however many tokens share its pass.

Llama: Touvron et al. 2023 (arXiv 2302.13971), section 2. Grouped queries: Ainslie et al. 2023 (arXiv 2305.13245).

Shapes: B rows  T new tokens  S cache slots  V vocabulary  D width  H heads  K key-value heads  d head width
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from micro.attend import attend_in_blocks, spread
from micro.cache import KVCache
from micro.positions import Tables, hide_later, rotate


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of the model, under Hugging Face's names. The defaults are micro: 1,820,352 parameters.

    Raises ValueError where the sizes do not fit each other.
    """

    vocab_size: int = 256
    hidden_size: int = 192
    intermediate_size: int = 512
    num_hidden_layers: int = 4
    num_attention_heads: int = 6
    num_key_value_heads: int = 6
    max_position_embeddings: int = 512
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    tie_word_embeddings: bool = True

    def __post_init__(self) -> None:
        for name in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"):
            _positive(name, getattr(self, name))
        for name in ("num_attention_heads", "num_key_value_heads", "max_position_embeddings"):
            _positive(name, getattr(self, name))
        if self.hidden_size % (2 * self.num_attention_heads):
            raise ValueError(
                f"hidden_size {self.hidden_size} does not split into num_attention_heads "
                f"{self.num_attention_heads} heads of an even width"
            )
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(
                f"num_attention_heads {self.num_attention_heads} is no multiple of "
                f"num_key_value_heads {self.num_key_value_heads}"
            )
        for name in ("rms_norm_eps", "rope_theta"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be above 0 and finite, not {getattr(self, name)!r}")
        if not isinstance(self.tie_word_embeddings, bool):
            raise ValueError(
                f"tie_word_embeddings must be true or false, not {self.tie_word_embeddings!r}"
            )

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_attention_heads


def _positive(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a whole number above 0, not {value!r}")


class Light(nn.Module):
    """A module whose call goes straight to `forward` unless a hook waits: with some 50 calls, nn.Module's bookkeeping is 5%
    of a one-row pass."""

    def __call__(self, *args):
        if self._forward_pre_hooks or self._forward_hooks or self._backward_hooks:
            return super().__call__(*args)
        return self.forward(*args)


class Linear(Light, nn.Linear):
    """A matrix without a bias."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight)


class RMSNorm(Light):
    """x / sqrt(mean(x^2) + eps) x weight, over the last axis (Zhang and Sennrich 2019, arXiv 1910.07467)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.shape, self.eps = (width,), eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.shape, self.weight, self.eps)


class Attention(Light):
    """Causal self-attention with rotary positions; the K key-value heads serve H / K query heads each."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        width, head = config.hidden_size, config.head_dim
        self.q_proj = Linear(width, self.heads * head)
        self.k_proj = Linear(width, self.kv_heads * head)
        self.v_proj = Linear(width, self.kv_heads * head)
        self.o_proj = Linear(self.heads * head, width)

    def forward(self, x: Tensor, pass_: Pass, layer: int) -> Tensor:
        B, T = pass_.shape
        both = torch.cat((self.q_proj(x), self.k_proj(x)), dim=-1)  # turned at once: half the calls
        both = both.view(B, T, self.heads + self.kv_heads, -1).transpose(1, 2)  # (B, H + K, T, d)
        q, k = rotate(both, pass_.cos, pass_.sin).split((self.heads, self.kv_heads), dim=1)
        v = self.v_proj(x).view(B, T, self.kv_heads, -1).transpose(1, 2)  # (B, K, T, d)
        if pass_.cache is not None:
            k, v = pass_.cache.write(layer, k, v, pass_.slots)  # (B, K, S, d)
        if pass_.in_blocks:
            y = attend_in_blocks(q, k, v, pass_.mask)
        else:
            causal, grouped = pass_.mask is None, self.heads != self.kv_heads
            y = F.scaled_dot_product_attention(
                q, k, v, attn_mask=pass_.mask, is_causal=causal, enable_gqa=grouped
            )
        return self.o_proj(y.transpose(1, 2).reshape(B * T, -1))


class MLP(Light):
    """SwiGLU: down(silu(gate x) * up x) (Shazeer 2020, arXiv 2002.05202)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate_proj = Linear(config.hidden_size, config.intermediate_size)
        self.up_proj = Linear(config.hidden_size, config.intermediate_size)
        self.down_proj = Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(Light):
    """Attention, then the MLP, each on a normalised copy and added to the stream."""

    def __init__(self, config: ModelConfig, dropout: float) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = MLP(config)
        self.dropout = dropout

    def forward(self, x: Tensor, pass_: Pass, layer: int) -> Tensor:
        x = x + self._drop(self.self_attn(self.input_layernorm(x), pass_, layer))
        return x + self._drop(self.mlp(self.post_attention_layernorm(x)))

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training) if self.dropout and self.training else x


@dataclass
class Pass:
    """What every layer of one forward pass shares."""

    shape: tuple[int, int]  # B, T
    cos: Tensor  # (T, d) or (B, 1, T, d)
    sin: Tensor
    mask: Tensor | None  # additive, (T, S), or (BK, H/K T, S) for blocks; None = plain causal
    cache: KVCache | None = None
    slots: slice | Tensor | None = None  # where the new keys go: a slice, or (B, T) for ragged rows
    in_blocks: bool = False  # attend so that a row's bits depend neither on its company nor on S


class Decoder(Light):
    """The stack without its head: named `model` in a checkpoint, as the reference names it."""

    def __init__(self, config: ModelConfig, dropout: float) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        layers = [Block(config, dropout) for _ in range(config.num_hidden_layers)]
        self.layers = nn.ModuleList(layers)
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, tokens: Tensor, pass_: Pass) -> Tensor:
        x = self.embed_tokens(tokens.flatten())  # (B T, D): a product of two axes costs fewer calls
        for number, layer in enumerate(self.layers):
            x = layer(x, pass_, number)
        return self.norm(x).view(*tokens.shape, -1)


class Transformer(nn.Module):
    """micro. `forward(tokens, cache, positions, mask) -> (logits, hidden)`.

    Args of the constructor: a ModelConfig; `dropout` on each residual branch, in training only; `seed` of the weights
    (own generator: the global one is not touched).
    """

    def __init__(self, config: ModelConfig, dropout: float = 0.0, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        with torch.device("meta"):  # no draw from the global generator; filled by _initialise
            self.model = Decoder(config, dropout)
            self.lm_head = Linear(config.hidden_size, config.vocab_size)
        self.to_empty(device="cpu")
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight
        self._tables = Tables(config.head_dim, config.rope_theta)
        self._initialise(torch.Generator().manual_seed(seed))

    @torch.no_grad()
    def _initialise(self, generator: torch.Generator) -> None:
        """Normal of deviation .02; what writes into the stream is shrunk by sqrt(2 layers) (GPT-2, section 2.3)."""
        shrink = (2 * self.config.num_hidden_layers) ** -0.5
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                parameter.fill_(1.0)
                continue
            scale = shrink if name.endswith(("o_proj.weight", "down_proj.weight")) else 1.0
            parameter.normal_(0.0, 0.02 * scale, generator=generator)

    @property
    def vocab(self) -> int:
        return self.config.vocab_size

    @property
    def context(self) -> int:
        return self.config.max_position_embeddings

    @property
    def dtype(self) -> torch.dtype:
        return self.model.norm.weight.dtype

    @property
    def device(self) -> torch.device:
        return self.model.norm.weight.device

    def new_cache(self, rows: int = 1, lanes: int = 0) -> KVCache:
        """An empty cache for `rows` texts; `lanes` > 0 pads every pass on it to that many rows."""
        c = self.config
        slots = self.context + lanes  # padding writes behind the context, never into it
        shape = (c.num_hidden_layers, rows, c.num_key_value_heads, slots, c.head_dim)
        return KVCache(shape, self.context, lanes, self.dtype, self.device)

    def forward(
        self,
        tokens: Tensor,
        cache: KVCache | None = None,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Logits of the next token after each of `tokens`, and the states they are read from.

        Args:
            tokens: (B, T) ids.
            cache: what stands before; the new keys and values are added to it. None: the tokens are the whole text.
            positions: (T,) absolute positions; default: consecutive. Only a tree's differ from its slots.
            mask: (T, T) bool, who sees whom among the new tokens; or (T, M + T), the last M that the cache holds before them, of
                which a draft's tree hides some. Default: causal.

        Returns: logits (B, T, V), hidden (B, T, D). A call that raises ValueError leaves the cache as it was.
        """
        B, T = tokens.shape
        if cache is None:
            if T > self.context:
                raise ValueError(f"{T} tokens do not fit the context of {self.context}")
            hidden = self.model(tokens, self.whole_pass(B, T, mask))
            return self.lm_head(hidden), hidden
        cache.check(B, T)
        if cache.lanes and T > cache.lanes:
            return self._in_chunks(tokens, cache, positions, mask)
        padded = F.pad(tokens, (0, cache.lanes - T)) if 0 < T < cache.lanes else tokens
        hidden = self.model(padded, self.cached_pass(cache, T, padded.shape[1], positions, mask))
        logits = self.lm_head(hidden)
        cache.advance(T)
        return logits[:, :T], hidden[:, :T]

    def _in_chunks(self, tokens, cache, positions, mask) -> tuple[Tensor, Tensor]:
        """A long prompt in lanes: whole lane-widths one after the other."""
        if mask is not None or positions is not None:
            raise ValueError(f"a tree of {tokens.shape[1]} rows does not fit {cache.lanes} lanes")
        parts = [self.forward(part, cache) for part in tokens.split(cache.lanes, dim=1)]
        logits, hidden = zip(*parts)
        return torch.cat(logits, dim=1), torch.cat(hidden, dim=1)

    def whole_pass(self, B: int, T: int, mask: Tensor | None) -> Pass:
        """The pass over whole texts, without a cache."""
        cos, sin = self._tables.rotary(self.context, self.model.norm.weight)
        if mask is not None:
            mask = torch.zeros(T, T, dtype=self.dtype).masked_fill_(~mask, float("-inf"))
        return Pass((B, T), cos[:T], sin[:T], mask)

    def cached_pass(self, cache: KVCache, T: int, rows: int, positions, mask) -> Pass:
        """The pass over `rows` (T real ones, then padding) behind what the cache holds."""
        like = self.model.norm.weight  # its type and device
        cos, sin = self._tables.rotary(self.context + cache.lanes, like)
        if cache.ragged:
            slots = cache.length[:, None] + torch.arange(rows, device=self.device)  # (B, T)
            visible = self._spread(hide_later(slots, cache.seen(rows), self.dtype), cache)
            cos, sin = cos[slots][:, None], sin[slots][:, None]
            return Pass((cache.rows, rows), cos, sin, visible, cache, slots, True)
        start, end = cache.length, cache.length + rows
        visible = self._tables.causal(rows, start, cache.seen(rows), cache.slots, like)
        if mask is not None:
            visible, first = visible.clone(), start + T - mask.shape[1]
            visible[:T, first : start + T].masked_fill_(~mask, float("-inf"))
        where = slice(start, end)
        if positions is not None:
            pad = torch.zeros(rows - T, dtype=torch.long, device=self.device)
            where = torch.cat((positions, pad))
        if cache.lanes:
            visible = self._spread(visible, cache)
        shape, slots = (cache.rows, rows), slice(start, end)
        return Pass(shape, cos[where], sin[where], visible, cache, slots, cache.lanes > 0)

    def _spread(self, mask: Tensor, cache: KVCache) -> Tensor:
        c = self.config
        return spread(mask, cache.rows, c.num_attention_heads, c.num_key_value_heads)

    def cache_bytes(self, tokens: int, bytes_per_number: int = 2) -> int:
        """Bytes of keys and values for `tokens` positions: 2 x layers x kv heads x head width x tokens."""
        c = self.config
        numbers = 2 * c.num_hidden_layers * c.num_key_value_heads * c.head_dim * tokens
        return numbers * bytes_per_number
