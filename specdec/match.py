"""Sample and compare: the target draws its own token, and a drafted one is kept where it is the same.

The output is the target's own draws, so it is exact whatever the draft, in any tree; a position is accepted with
sum of p q. With KeyedChance, whose noise depends on position and token alone, the draft draws under the same noise: then it is
*coupled* sampling (Daliri, Musco, Suresh 2024, arXiv 2408.07978). The text then depends on target and seed alone, the
same with any draft and with none, and a position is accepted with

    sum over i of 1 / sum over j of max(p_j / p_i, q_j / q_i),    between (1 - TV) / (1 + TV) and 1 - TV.
"""

from __future__ import annotations

from torch import Tensor

from micro.chance import Chance
from specdec.proposal import Proposal, Verdict


def match_rule(proposal: Proposal, p: Tensor, chance: Chance, position: int, room: int) -> Verdict:
    """Walk down the tree along the target's draws. Arguments as `verify`'s."""
    node, kept, checked = -1, [], 0
    while len(kept) < room:
        children = proposal.children(node)
        token = chance.draw(p[node + 1], position + len(kept))
        tokens = [proposal.tokens[child] for child in children]
        if token not in tokens:
            return Verdict(tuple(kept), token, checked + len(children), bool(children))
        place = tokens.index(token)
        node, checked = children[place], checked + place + 1
        kept.append(node)
    return Verdict(tuple(kept), None, checked, False)


def coupled_rule(
    proposal: Proposal, p: Tensor, chance: Chance, position: int, room: int
) -> Verdict:
    """Match under noise that draft and target share: with any draft and with none the text is the same. Arguments as `verify`'s.

    The sharing is KeyedChance's (`chance_for`); under another Chance this is the match rule.
    """
    return match_rule(proposal, p, chance, position, room)
