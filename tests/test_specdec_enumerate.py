"""The real loop (propose, check, roll back, catch up), walked through every way it can go.

The joint law of the first gamma + 2 tokens must be the target's: one token alone would miss a p shifted by a row, one uniform
shared by a round, or a bonus from the draft. To 1e-12 in float64: some hundred thousand products, each right to 1e-16 of its size.
"""

import pytest

from experiments.exact_laws import gap, law_of, loop_law, one_rounds, target_law, walks
from micro.sampling import Sampling
from specdec import accept
from specdec.drafts.model import ModelDraft
from specdec.drafts.table import ScriptedDraft, TreeDraft
from specdec.table import near, random_model

# coupled noise is continuous and cannot be walked; without it that rule is match
RULES = [rule for rule in accept.RULES if rule != "coupled"]
TOLERANCE = 1e-12
PROMPT = [1, 2, 0]
SAMPLINGS = {
    "plain": Sampling(),
    "cold": Sampling(0.4),
    "greedy": Sampling(0.0),
    "top-k": Sampling(1.0, top_k=2),
    "top-p": Sampling(1.3, top_p=0.7),
}


def drafts(target):
    """Near, far, the target itself, and one that knows nothing of the text."""
    return {
        "near": near(target),
        "far": near(target, spread=4.0),
        "equal": target,
        "unrelated": random_model(3, seed=99),
    }


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_joint_law_of_gamma_plus_two_tokens(rule, gamma):
    target = random_model(3, seed=gamma)
    want = target_law(target, PROMPT, gamma + 2)
    for name, model in drafts(target).items():
        if rule == "match" and gamma == 3 and name not in ("near", "far"):
            continue  # every place is drawn twice: 27 x 81 walks a round
        law = loop_law(target, ModelDraft(model, 1), PROMPT, gamma + 2, gamma, rule=rule)
        assert gap(law, want) < TOLERANCE, name


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_with_every_warping(rule, sampling):
    target = random_model(3, seed=7)
    for name, model in drafts(target).items():
        law = loop_law(
            target, ModelDraft(model, 1), PROMPT, 4, 2, sampling=SAMPLINGS[sampling], rule=rule
        )
        assert gap(law, target_law(target, PROMPT, 4, SAMPLINGS[sampling])) < TOLERANCE, name


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
def test_with_any_length_limit(rule, limit):
    """Near a limit gamma shrinks and the bonus falls away; the law must not notice."""
    target = random_model(3, seed=8)
    count = min(limit, 4)
    law = loop_law(target, ModelDraft(near(target), 1), PROMPT, count, 2, limit=limit, rule=rule)
    assert gap(law, target_law(target, PROMPT, count)) < TOLERANCE


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("stops", [((2,),), ((0, 1),), ((2, 2), (1,))])
def test_with_stops(rule, stops):
    """A stop may be met by an accepted token, a correction or a bonus, and may span rounds."""
    target = random_model(3, seed=9)
    for name, model in drafts(target).items():
        law = loop_law(target, ModelDraft(model, 1), PROMPT, 4, 2, stops=stops, rule=rule)
        assert gap(law, target_law(target, PROMPT, 4, stops=stops)) < TOLERANCE, name


@pytest.mark.parametrize("rule", RULES)
def test_whole_walks_agree_with_the_round_by_round_law(rule):
    """No round is built by hand here: what one round leaves behind is what the next one finds."""
    target = random_model(3, seed=10)
    model = near(target)
    runs = walks(target, ModelDraft(model, 1), PROMPT, max_new_tokens=3, gamma=2, rule=rule)
    law = law_of(runs)
    assert abs(sum(law.values()) - 1) < TOLERANCE
    assert gap(law, loop_law(target, ModelDraft(model, 1), PROMPT, 3, 2, rule=rule)) < TOLERANCE
    assert gap(law, target_law(target, PROMPT, 3)) < TOLERANCE


@pytest.mark.parametrize("rule", ["token", "match"])
@pytest.mark.parametrize("how", ["with", "without", "points", "mixed"])
@pytest.mark.parametrize("parents", [(-1, -1, 0), (-1, -1, 1, 1)])
def test_trees_through_the_loop(rule, how, parents):
    """Side branches of the cache must go, and the kept ones move to their places."""
    target = random_model(2, seed=11)
    draft = TreeDraft(near(target), parents, how)
    runs = walks(target, draft, [1, 0], max_new_tokens=4, gamma=4, rule=rule)
    assert gap(law_of(runs), target_law(target, [1, 0], 4)) < TOLERANCE


@pytest.mark.parametrize("rule", RULES)
def test_point_masses_through_the_loop(rule):
    target = random_model(3, seed=12)
    draft = ScriptedDraft([*PROMPT, 0, 2, 1, 1, 0])
    runs = walks(target, draft, PROMPT, max_new_tokens=4, gamma=3, rule=rule)
    assert gap(law_of(runs), target_law(target, PROMPT, 4)) < TOLERANCE


def test_a_draft_that_sometimes_has_nothing():
    """Its script ends inside the text: then a round is a plain step."""
    target = random_model(3, seed=13)
    runs = walks(target, ScriptedDraft([*PROMPT, 1, 1]), PROMPT, max_new_tokens=4, gamma=2)
    assert gap(law_of(runs), target_law(target, PROMPT, 4)) < TOLERANCE


def test_the_context_ends_a_text_as_a_limit_does():
    target = random_model(3, seed=14, context=6)
    runs = list(walks(target, ModelDraft(near(target), 1), PROMPT, max_new_tokens=50, gamma=2))
    assert {generation.ended for _, generation in runs} == {"context"}
    assert gap(law_of(iter(runs)), target_law(target, PROMPT, 3)) < TOLERANCE


def test_every_reachable_state_was_walked():
    """The dynamic program meets a draft's cache of every lag: none behind, one behind, and empty."""
    target = random_model(3, seed=15)
    lags = set()
    args = (target, ModelDraft(near(target), 1), PROMPT)
    for _, (_, state, held) in one_rounds(*args, (), 0, 9, 2, Sampling(), (), "token"):
        lags.add(len(state.tokens) - held)
    assert lags == {1, 2}
