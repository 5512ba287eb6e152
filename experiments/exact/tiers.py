"""The tiers of `selfdraft exact`, in the order they run. Apart from what they run, so that a page or --help need not wait for it."""

from __future__ import annotations

TIERS: dict[str, str] = {
    "algebra": "one position: what leaves a rule is the target's law, to 1e-12; warping and chance spelled out",
    "enumeration": "the real loop, every way it can go: the joint law of gamma + 2 tokens, to 1e-12",
    "statistics": "real texts with real caches: frequencies against laws, with a stated false-alarm rate",
    "counts": "rounds and accepted tokens against replay, closed forms and accounts",
    "caches": "what caches hold after each round, and what is left from one call to the next",
    "identity": "bits of text, logits and caches against plain decoding",
    "drafts": "every other family of drafts: the joint law of its texts, and what is left between calls",
}
