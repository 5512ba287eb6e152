"""One home for colours and marks: figures, page and terminal agree, and no colour stands alone."""

from __future__ import annotations

import re
from pathlib import Path

from experiments.drawing import style as figure_style
from experiments.drawing.palette import (
    FATES,
    LOOKS,
    SIGNS,
    THEME,
    draft_entries,
    legend,
    paint,
    sgr,
    with_signs,
)
from experiments.page import style as page_style

ROOT = Path(__file__).resolve().parents[1]
HEX = re.compile(r"#[0-9a-fA-F]{6}\b")


def test_no_colour_is_written_anywhere_but_in_the_palette():
    for path in [
        *(ROOT / "experiments").glob("*.py"),
        *(ROOT / "experiments").glob("page*.[jc]s*"),
    ]:
        if path.name != "drawing/palette.py":
            assert HEX.findall(path.read_text(encoding="utf-8")) == [], path.name


def test_figures_and_page_take_the_palettes_colours():
    assert figure_style.INK == THEME["ink"][0] and figure_style.PAPER == THEME["paper"][0]
    sheet = page_style.style()
    for name, (light, dark) in THEME.items():
        assert f"--{name}: {light};" in sheet and f"--{name}: {dark};" in sheet
    for name, fate in FATES.items():
        word = name.split()[0]
        assert f"--{word}: {fate.colour};" in sheet and f"--{word}-tint: {fate.dark};" in sheet
        assert f"--{word}-tint: {fate.light};" in sheet
    for i, (colour, _) in enumerate(LOOKS):
        assert f"--d{i}: {colour};" in sheet


def test_the_page_marks_fates_as_the_terminal_does():
    """The style sheet's marks are the palette's, whoever changes one."""
    sheet = page_style.style()
    for name, fate in FATES.items():
        assert f'.round .t.{name.split()[0]}::before {{ content: "{fate.mark}";' in sheet


def test_every_colour_has_a_mark_beside_it():
    assert len({m for _, m in LOOKS}) == len({SIGNS[m] for _, m in LOOKS}) == len(LOOKS)
    assert len({fate.mark for fate in FATES.values()}) == len(FATES)


def test_tables_carry_each_drafts_marker_and_colour():
    lines = ["Does it pay? rtn4 does", "draft   T", "rtn4    1", "rtn3    1", ""]
    drafts = ["rtn4", "rtn3"]
    assert with_signs(lines, drafts, False) == ["Does it pay? rtn4 does", "  draft   T", "● rtn4    1", "■ rtn3    1", ""]  # fmt: skip
    coloured = with_signs(lines, drafts, True)
    assert coloured[2] == paint("● rtn4", LOOKS[0][0], True) + "    1"
    assert legend(draft_entries(drafts), False) == "● rtn4   ■ rtn3"
    assert sgr(LOOKS[1][0]) in legend(draft_entries(drafts), True)
