"""Block verification: the drafted chain is judged as a whole, so that a lucky token may pay for an unlucky one.

With p_i the target's law and q_i the draft's at place i of the chain x_1 ... x_gamma, and w_0 = 1:

    w_i = min(1, w_(i-1) p_i(x_i) / q_i(x_i))
    S_i = sum over x of max(0, w_i p_(i+1)(x) - q_(i+1)(x))
    h_i = S_i / (S_i + 1 - w_i), 0 where that is 0 / 0;  h_gamma = w_gamma

A coin of h_i is thrown for every i; the last success tau is how many tokens are kept. Then tau < gamma draws from
norm(max(0, w_tau p_(tau+1) - q_(tau+1))), and tau = gamma draws the bonus from the target. Never fewer tokens are kept, on
average, than by the token rule; at temperature 0 the two are one. Sun et al. 2024 (arXiv 2403.10444), algorithm 2.
"""

from __future__ import annotations

from torch import Tensor

from micro.chance import Chance
from specdec.proposal import Proposal, Verdict


def weights(proposal: Proposal, p: Tensor) -> list[float]:
    """w_0 ... w_N of a chain, judged by laws p (N + 1, V)."""
    w = [1.0]
    for place, (token, q) in enumerate(zip(proposal.tokens, proposal.laws)):
        drawn = 1.0 if q is None else float(q[token])
        w.append(min(1.0, w[-1] * float(p[place, token]) / drawn))
    return w


def excess(w: float, p: Tensor, q: Tensor | None, token: int) -> Tensor:
    """max(0, w p - q), shape (V,): what the target wants beyond what the draft gives. None: q is all on `token`."""
    left = w * p
    if q is None:
        left[token] -= 1.0
    else:
        left -= q
    return left.clamp(min=0.0)


def keep_chance(w: float, left: float) -> float:
    """h of a place inside the chain, from its weight and the mass `left` (S) behind it."""
    return left / (left + 1.0 - w) if left > 0 else 0.0


def block_rule(proposal: Proposal, p: Tensor, chance: Chance, position: int, room: int) -> Verdict:
    """Keep a prefix of a chain. Arguments as `verify`'s. Raises ValueError where the proposal is a tree.

    The coins are thrown from the end, so the first success is the last one and the others need not be thrown.
    """
    if not proposal.is_chain:
        raise ValueError(
            "rule 'block' judges chains only, and this draft proposes a tree: use rule 'token'"
        )
    N, w = len(proposal.tokens), weights(proposal, p)
    if chance.accept(w[N]):
        final = chance.draw(p[N], position + N) if room > N else None
        return Verdict(tuple(range(N)), final, N, False)
    for kept in range(N - 1, -1, -1):
        left = excess(w[kept], p[kept], proposal.laws[kept], proposal.tokens[kept])
        mass = float(left.sum())
        if kept == 0 or chance.accept(keep_chance(w[kept], mass)):
            break
    # no mass: p = q up to rounding, where this branch has probability zero in exact arithmetic
    law = left / left.sum() if mass > 0 else p[kept]
    return Verdict(tuple(range(kept)), chance.draw(law, position + kept), kept + 1, True)
