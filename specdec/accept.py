"""The accept-or-resample rule: it keeps the output's law exactly the target's, whatever the draft.

For each child in index order: accept x with probability min(1, p(x) / q(x)); otherwise p <- norm(max(p - q, 0)) and go to the
next child; with none left, draw from p. A point mass is accepted with p(x); otherwise x is zeroed and p renormalised. With
one child this is the rule of Leviathan, Kalman, Matias 2023 (arXiv 2211.17192, section 2.3) and Chen et al. 2023 (arXiv
2302.01318); with several, the recursive one of SpecInfer (Miao et al. 2023, arXiv 2305.09781). Temperature 0 is the same rule on
one-hot laws.

Why one step is exact: x leaves accepted with q(x) min(1, p(x)/q(x)) = min(p, q)(x); a rejection happens with 1 - sum min(p, q), which is
the mass of max(p - q, 0), so the residual fills exactly what acceptance left of p.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from micro.chance import Chance, KeyedChance, SeededChance
from specdec.block import block_rule
from specdec.match import coupled_rule, match_rule
from specdec.proposal import Proposal, Verdict
from specdec.typical import LOSSY


def acceptance(p: Tensor, q: Tensor | None, token: int) -> float:
    """Probability that `token`, drawn from q (V,), is kept as the target's: min(1, p / q); p itself for a point mass."""
    here = float(p[token])
    if q is None:
        return here
    return min(1.0, here / float(q[token]))


def residual(p: Tensor, q: Tensor | None, token: int) -> Tensor:
    """The law (V,) after `token` was refused: norm(max(p - q, 0)), or p without `token`.

    Where nothing is left (p = q up to rounding), p itself: a refusal there has probability zero in exact arithmetic.
    """
    if q is None:
        left = p.clone()
        left[token] = 0.0
    else:
        left = (p - q).clamp(min=0.0)
    mass = left.sum()
    return left / mass if mass > 0 else p


def token_rule(proposal: Proposal, p: Tensor, chance: Chance, position: int, room: int) -> Verdict:
    """Accept or resample child by child, down the tree from its root. Arguments as `verify`'s."""
    node, kept, checked, rejected = -1, [], 0, False
    while True:
        law, accepted = p[node + 1], None
        for child in proposal.children(node):
            token, q = proposal.tokens[child], proposal.laws[child]
            checked += 1
            if chance.accept(acceptance(law, q, token)):
                accepted = child
                break
            rejected = True
            law = residual(law, q, token)
        if accepted is None:
            break
        node, rejected = accepted, False
        kept.append(node)
    final = chance.draw(law, position + len(kept)) if len(kept) < room else None
    return Verdict(tuple(kept), final, checked, rejected)


# name -> rule; each keeps the law exact. Chance of acceptance at one position: the closed forms of specdec/closed_forms.py
RULES: dict[str, Callable[..., Verdict]] = {
    "token": token_rule,  # sum of min(p, q): the most that one position alone can
    "block": block_rule,  # no less than token's, over a chain; trees are refused
    "match": match_rule,  # sum of p q
    "coupled": coupled_rule,  # sum over i of 1 / sum over j of max(p_j / p_i, q_j / q_i)
}


def chance_for(rule: str, seed: int, stream: str = "") -> Chance:
    """The chance that a text under `rule` is drawn with, by the loop and by plain decoding alike.

    Keyed noise for the coupled rule, whose draft and target share it; one stream of uniforms for the others.
    """
    return (KeyedChance if rule == "coupled" else SeededChance)(seed, stream)


def check_chance(rule: str, chance: Chance) -> None:
    """Raises ValueError where a text would be biased: a residual under noise that the draft has already drawn from."""
    if isinstance(chance, KeyedChance) and rule not in ("match", "coupled"):
        raise ValueError(
            f"rule {rule!r} is biased under keyed chance, which draft and target share; give a SeededChance or rule 'coupled'"
        )


def verify(
    proposal: Proposal,
    p: Tensor,
    chance: Chance,
    position: int = 0,
    room: int | None = None,
    rule: str = "token",
) -> Verdict:
    """Judge a proposal.

    Args:
        proposal: N nodes.
        p: (N + 1, V) target laws: row 0 after the root, row i + 1 after node i.
        chance: decides.
        position: absolute position of the first drafted token.
        room: tokens that may still be emitted; a fully accepted path that fills it has no bonus. None: no limit.
        rule: a name in RULES, or, for a text that is not the target's, in LOSSY (specdec/typical.py).

    Raises: ValueError on an unknown rule, a missing law, or a tree under a rule for chains.
    """
    judge = RULES.get(rule) or LOSSY.get(rule)
    if judge is None:
        raise ValueError(f"rule must be one of {', '.join(RULES)}, not {rule!r}")
    if p.shape[0] != len(proposal.tokens) + 1:
        raise ValueError(
            f"{len(proposal.tokens)} nodes need {len(proposal.tokens) + 1} laws, not {p.shape[0]}"
        )
    return judge(proposal, p, chance, position, len(proposal.tokens) + 1 if room is None else room)
