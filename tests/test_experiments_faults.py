"""Each check can fail: small faults planted in the functions that generate() calls, and the tier that notices each soonest."""

import importlib
import inspect

import pytest

from experiments.exact.check import LEVELS
from experiments.exact.faults import FAULTS, Fault, plant
from experiments.exact.matrix import checks_of, try_fault
from experiments.exact.tiers import TIERS

# what implementations of speculative decoding have got wrong: none of these may leave the table
MUST_BE_THERE = """
resample from p; ratio inverted; argmax draft with soft q; q before warping; q at another temperature; discard-then-stop;
bonus by argmax; bonus from the draft; one uniform for a block; uniforms re-seeded; uniforms in bfloat16; p shifted by one;
first draft never checked; siblings against the unrenormalised p; q not conditioned on earlier siblings; residual without
renormalising; draft cache one short after a fully accepted round; draft cache two too many trimmed after a rejection;
target cache not rolled back; stop token inside a block ignored; state left from the last call; coupled noise with an
ordinary residual; ties by highest id; the last round of a limit counted whole
"""


def current(where: str):
    """What stands now at `module:name.name`."""
    module, _, path = where.partition(":")
    owner = importlib.import_module(module)
    *way, last = path.split(".")
    for name in way:
        owner = getattr(owner, name)
    return owner[last] if isinstance(owner, dict) else inspect.getattr_static(owner, last)


def test_the_table_names_what_must_be_there():
    wanted = [" ".join(name.split()) for name in MUST_BE_THERE.split(";")]
    assert len(wanted) == 24 and set(wanted) <= FAULTS.keys()


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_caught_by_its_cheapest_tier(name):
    """With proof that the changed line ran: what breaks off before it is not caught."""
    found = try_fault(FAULTS[name], FAULTS[name].cheapest)
    assert any(one.caught and one.reached > 0 for one in found)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_gone_behind_its_plant(name):
    fault = FAULTS[name]
    before = [current(where) for where in fault.where]
    with pytest.raises(KeyError), plant(fault):
        assert all(current(where) is not real for where, real in zip(fault.where, before))
        raise KeyError
    assert all(current(where) is real for where, real in zip(fault.where, before))


def test_a_line_that_never_ran_is_told_as_such():
    """The block rule's fault under the token rule: nothing was tried, so nothing was missed."""
    fault = FAULTS["block coin that is the weight itself"]
    elsewhere = Fault(fault.name, fault.object, fault.where, fault.what, fault.wrong, family="stop")
    found = list(try_fault(elsewhere, "enumeration"))
    assert found and {one.state for one in found} == {"not reached"}


def test_a_harmless_change_is_missed():
    """The control: a plant that changes nothing is seen by nothing."""

    def harmless(real, reached):
        def residual(*args):
            reached()
            return real(*args)

        return residual

    fault = FAULTS["resample from p"]
    same = Fault(fault.name, fault.object, fault.where, fault.what, harmless)
    assert {one.state for one in try_fault(same, "enumeration")} == {"missed"}


def test_every_fault_has_checks_of_its_family():
    for fault in FAULTS.values():
        assert fault.cheapest in TIERS
        families = {check.family for check in checks_of(fault.cheapest, LEVELS[0])}
        assert fault.family in families | {""}, fault.name


@pytest.mark.slow
@pytest.mark.parametrize("tier", [tier for tier in TIERS if checks_of(tier, LEVELS[0])])
def test_the_whole_matrix(tier):
    """No fault is caught by a plant that fell over, and each tier catches something."""
    found = [one for fault in FAULTS.values() for one in try_fault(fault, tier)]
    assert all(one.reached for one in found if one.state == "caught")
    assert any(one.caught for one in found)
