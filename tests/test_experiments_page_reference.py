"""The reference page: whole, small, with runs to step through that differ as the viewer promises."""

from __future__ import annotations

import pytest

from experiments.paths import REFERENCE
from experiments.plate.curves import HEADLINE_C
from experiments.store import Store, canonical
from experiments.watch import rounds_run
from experiments.watch.rounds_text import totals


@pytest.fixture(scope="module")
def runs() -> list[dict]:
    return Store(REFERENCE).of(rounds_run.NAME)


def test_the_page_is_under_three_megabytes_and_holds_plate_and_viewer():
    page = (REFERENCE / "index.html").read_bytes()
    assert len(page) < 3_000_000
    assert b'id="plate-data"' in page and b'id="viewer-data"' in page


def test_every_promised_run_is_there_and_every_text_that_can_be_compared_is_the_targets_own(runs):
    assert sorted(map(canonical, rounds_run.POINTS)) == sorted(
        canonical(run["point"]) for run in runs
    )
    compared = [run["result"]["same_text"] for run in runs]
    assert compared.count(True) >= 3 and False not in compared


def test_in_one_run_speculation_loses_and_in_others_it_wins(runs):
    speeds = [totals(run).estimated_speed_up(run["result"]["c"][HEADLINE_C]) for run in runs]
    assert min(speeds) < 1 < max(speeds)
