"""The real loop with trees: beside replay on the very same texts, and greedy against plain decoding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.loop.beside import inside, spread

if TYPE_CHECKING:  # these import torch, which figures and tables need not wait for
    from experiments.setting import Setting
    from specdec.drafts.tree import ModelTree
    from specdec.trees import Shape

LOOP_PROMPTS, LOOP_WINDOW, SEED = 8, 32, 1
GREEDY_TOKENS, LANES = 48, 16


def draft_of(setting: Setting, name: str, how: str, shape: Shape) -> ModelTree:
    from specdec.drafts.packed import packed_draft
    from specdec.drafts.tree import ModelTree

    return ModelTree(packed_draft(setting.draft(name)), how, {0.0: shape})


def beside_loop(
    setting: Setting, point: dict, how: str, shape: Shape, reporting: np.ndarray
) -> dict[str, dict[str, list[float]]]:
    """{"loop": counts, "replay": expected counts}, one entry a text; rounds that start inside the window count whole."""
    import torch

    from experiments.setting import Texts
    from experiments.trees.acceptance import acceptance_along
    from micro.sampling import Sampling
    from specdec.accept import chance_for
    from specdec.decode import generate
    from specdec.tree_replay import replay_tree

    rows = [int(reporting[i]) for i in spread(LOOP_PROMPTS, len(reporting))]
    temperature = point["temperature"]
    setting.progress(f"the loop with {point['draft']} at T = {temperature:g}, siblings {how}")
    draft, beyond = draft_of(setting, point["draft"], how, shape), len(shape) + 1
    made = [
        generate(
            setting.model,
            draft,
            setting.prompts[i].tokens,
            max_new_tokens=LOOP_WINDOW + beyond,  # a round inside the window has room for its nodes
            gamma=max(1, len(shape)),
            sampling=Sampling(temperature),
            chance=chance_for("token", SEED, setting.prompts[i].id),
        )
        for i in rows
    ]
    tokens = torch.tensor([one.tokens for one in made])
    texts = Texts(tokens, torch.empty(*tokens.shape, setting.model.vocab), torch.tensor(rows))
    p = setting.score(setting.model, texts, temperature)
    f = acceptance_along(draft.inner.model, texts, p, temperature, setting)[how]
    rounds, accepted = replay_tree(f, shape, LOOP_WINDOW)
    totals = [inside(one, LOOP_WINDOW) for one in made]
    names = ("rounds", "accepted", "draft_passes", "rows", "draft_bytes")
    return {
        "loop": {name: [float(getattr(t, name)) for t in totals] for name in names},
        "replay": {"rounds": [float(x) for x in rounds], "accepted": [float(x) for x in accepted]},
    }


def forks(
    setting: Setting, point: dict, how: str, shape: Shape, reporting: np.ndarray
) -> dict[str, object]:
    """Greedy texts in lanes with the tree, and with the chain of its levels, against plain decoding's: texts, tokens, and rows of logits
    that differ; of each fork its place and the top-2 margin of plain decoding there."""
    from experiments.identity.comparison import compare, plain_text
    from micro.chance import SeededChance
    from micro.sampling import Sampling
    from specdec.decode import rounds
    from specdec.trees import depths, uniform

    setting.progress(f"greedy text of {point['draft']} beside plain text")
    chain = uniform([1] * max(depths(shape), default=1))
    found = {}
    for name, own in (("tree", shape), ("chain", chain)):
        draft, all_counts, parted = draft_of(setting, point["draft"], how, own), [], []
        for i in (int(reporting[i]) for i in spread(LOOP_PROMPTS, len(reporting))):
            prompt = setting.prompts[i].tokens
            plain = plain_text(setting.model, prompt, GREEDY_TOKENS, LANES)
            done = compare(plain, rounds(setting.model, draft, prompt, max_new_tokens=GREEDY_TOKENS,
                                         gamma=max(1, len(own)), sampling=Sampling(0.0),
                                         chance=SeededChance(0), lanes=LANES))  # fmt: skip
            all_counts.append(done.counts)
            if done.fork is not None:
                parted.append({"prompt": setting.prompts[i].id, "place": done.fork.place, "margin": done.fork.margin})  # fmt: skip
        found[name] = {
            "texts": len(all_counts),
            "tokens": sum(counts.tokens for counts in all_counts),
            "rows": sum(counts.rows for counts in all_counts),
            "rows_differing": sum(counts.rows_differing for counts in all_counts),
            "forks": parted,
        }
    return found
