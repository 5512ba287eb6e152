"""The words of a page or a table, and what they mean: for readers who have not met speculative decoding."""

from __future__ import annotations

GLOSSARY = {
    "target, draft": "The model whose text is wanted, and the one that proposes: here the target's own copy at 4 or 3 bits.",
    "γ": "Drafted tokens per round. Elsewhere k, num_assistant_tokens, num_speculative_tokens, draft-max.",
    "round, pass": "One draft phase and the one target pass that checks it.",
    "accepted, rejected, thrown away": "A drafted token that was kept; the first that was not; those behind it, never judged.",
    "correction, bonus": "The target's own token at the first rejection; the one after a fully accepted round.",
    "p, q, coin": "The target's and the draft's probability of a drafted token x. It is kept with probability min(1, p(x) / q(x)): "
    "where a uniform number, the coin, lies below that.",
    "residual": "max(p − q, 0), scaled to sum to 1: what the correction is drawn from. It gives back exactly what acceptance took.",
    "rule": "How a draft is judged. token: each by its coin. block: the drafted run as a whole. match: kept where the target's own draw "
    "is the same. coupled: match, with noise that draft and target share. All keep the target's distribution.",
    "α": "accepted / checked, totals over totals: of the tokens that were judged, the share kept.",
    "overlap β": "The sum of min(p, q) over the vocabulary at one position; its mean over text the target wrote is the α of "
    "Leviathan, Kalman and Matias (2023).",
    "tokens per pass": "emitted / rounds. Without drafting it is 1.",
    "formula f(α)": "(1 − α^(γ+1)) / (1 − α): tokens per pass if every token were accepted independently with the same α.",
    "M − α^γ": "The share of rounds fully accepted, less what independence predicts. Where it is above 0, f(α) predicts too much.",
    "c": "What a draft pass costs in target passes, by the bytes it reads. Nominal: bits / 16. Weights: all weight bytes, "
    "scales and norms too. With cache: those and both key-value caches at the mean context.",
    "estimated speed-up": "Tokens per pass / (1 + γ c): what bytes alone predict. No clock was read.",
    "[low, high]": "A 95% interval over prompts, by resampling them; a best speed-up's chooses γ again in each resample.",
    "replay": "Text is drawn from the target alone and scored by the draft; expected rounds for every γ follow without coin flips.",
}  # fmt: skip
