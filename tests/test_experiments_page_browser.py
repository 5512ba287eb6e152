"""The page in a real browser: it loads in silence, controls and keys do what they say, foreign text stays text."""

from __future__ import annotations

import pytest
from browser import browser, needs_browser
from made_records import fill
from made_rounds import add_run

from experiments import estimate
from experiments.page.command import sources, write_page
from experiments.page.plate import CONTROLS, READOUTS, plate_data
from experiments.page.viewer import PANEL, viewer_data
from experiments.plate.curves import C_NAMES
from experiments.watch import rounds_run

pytestmark = needs_browser
PANEL_IDS = [f"panel-{i}" for i in range(len(PANEL))]

HOSTILE = "</script><script>document.title='x'</script>\"'<img src=x onerror=alert(1)>{{x}} %s ${y} \u202e\u0000<!-- \u2028"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """(path, store) of a page with the estimate and two runs."""
    folder = tmp_path_factory.mktemp("page")
    store = fill(folder)
    add_run(store)
    add_run(store, temperature=0.0, draft="rtn3")
    write_page(store, folder / "index.html")
    return folder / "index.html", store


@pytest.fixture
def opened(chromium, page):
    chromium.open(page[0])
    return chromium


def test_it_loads_without_a_word_and_asks_the_network_for_nothing(opened, page):
    assert opened.console() == []
    assert opened.requests() == [page[0].as_uri()]
    assert opened.text("read-speed") != "" and opened.text("panel-0") == "0"


def test_every_control_changes_the_readouts_to_the_records_values(opened, page):
    data = plate_data(sources(page[1]))
    labels = dict(data["controls"])
    start = dict(zip(CONTROLS, data["start"]))
    seen = set()
    for name in CONTROLS:
        for index in range(len(labels[name])):
            setting = {**start, name: index}
            for control, value in setting.items():
                opened.choose(control, value)
            expected = data["settings"][",".join(str(setting[c]) for c in CONTROLS)]
            shown = opened.texts([f"read-{key}" for key in READOUTS])
            assert shown == expected["shown"]
            assert opened.text("plate-said") == expected["say"]
            curve = data["curves"][",".join(str(setting[c]) for c in CONTROLS[:-1])]
            for chart in ("tokens", "speed"):
                drawn = opened.run(
                    "const at = (n) => document.getElementById(arguments[0] + n); const d = at('-dot'), r = at('-ring');"
                    "return [at('-line').getAttribute('d'), d.getAttribute('cx'), d.getAttribute('cy'),"
                    "r.getAttribute('cx'), r.getAttribute('cy')]",
                    chart,
                )
                assert drawn == [curve[chart]["line"], *expected["dots"][chart][:2], *curve["ring"][chart]]  # fmt: skip
            seen.add(tuple(shown))
    assert len(seen) > 10
    assert opened.console() == []


def test_the_shown_strings_are_those_of_the_records(opened, page):
    """Computed here by hand from the counts: tokens per pass / (1 + gamma c), totals over totals."""
    record = next(r for r in page[1].of(estimate.NAME) if r["point"] == {"draft": "rtn3", "temperature": 1.0})  # fmt: skip
    result = record["result"]
    rounds, accepted, checked = (sum(row[2] for row in result[name]) for name in ("rounds", "accepted", "checked"))  # fmt: skip
    for name, index in (("draft", 1), ("temperature", 2), ("bytes", C_NAMES.index("nominal")), ("gamma", 2)):  # fmt: skip
        opened.choose(name, index)
    tokens = 1 + accepted / rounds
    assert opened.text("read-tokens").startswith(f"{tokens:.2f} [")
    assert opened.text("read-speed").startswith(f"{tokens / (1 + 3 * result['c']['nominal']):.2f} [")  # fmt: skip
    assert opened.text("read-alpha").startswith(f"{accepted / checked:.3f} [")
    assert opened.text("read-c") == f"{result['c']['nominal']:.4f}"


@pytest.mark.parametrize("how", ["buttons", "keys", "rounds"])
def test_stepping_through_a_run_ends_in_the_right_totals(opened, page, how):
    from selenium.webdriver.common.keys import Keys

    shown = viewer_data(page[1].of(rounds_run.NAME))["runs"][0]
    steps = len(shown["ends"] if how == "rounds" else shown["steps"]) - 1
    for step in range(steps):
        assert opened.text("check") == ""
        if how == "buttons":
            opened.click("next")
        else:
            opened.press(*([Keys.SHIFT] if how == "rounds" else []), Keys.ARROW_RIGHT)
        at = shown["steps"][shown["ends"][step + 1] if how == "rounds" else step + 1]
        assert opened.texts(PANEL_IDS) == at["panel"]
        assert opened.text("viewer-said") == at["say"]
    panel = dict(zip(PANEL, opened.texts(PANEL_IDS)))
    assert (panel["accepted"], panel["rejected"], panel["thrown away"]) == ("4", "1", "1")
    assert panel["speed-up so far"] == "1.71"
    assert opened.text("text") == "made aedef\\x00"
    assert opened.text("check") == shown["check"]
    assert opened.run("return document.getElementById('next').disabled")
    opened.press(*([Keys.SHIFT] if how == "rounds" else []), Keys.ARROW_LEFT)
    assert opened.text("check") == ""


def test_fates_are_told_apart_by_colour_and_by_shape(opened):
    opened.click("next-round")
    looks = opened.run(
        "return [...document.querySelectorAll('#round .t')].map(t => { const s = getComputedStyle(t);"
        "return [t.className, s.borderColor, s.borderStyle + s.borderRadius + s.textDecorationLine + s.borderLeftWidth,"
        "getComputedStyle(t, '::before').content]; })"
    )
    opened.click("next-round")
    looks += opened.run(
        "const t = document.querySelector('#round .t.bonus'), s = getComputedStyle(t);"
        "return [[t.className, s.borderColor, s.borderStyle + s.borderRadius + s.textDecorationLine + s.borderLeftWidth,"
        "getComputedStyle(t, '::before').content]]"
    )
    assert [kind for kind, *_ in looks] == ["t accepted", "t rejected", "t thrown", "t correction", "t bonus"]  # fmt: skip
    for column in (1, 2, 3):  # colour, shape, mark
        assert len({look[column] for look in looks}) == 5
    assert [look[3] for look in looks] == ['"+"', '"x"', '"-"', '">"', '"*"']


def test_pointing_at_a_token_shows_its_laws_and_bars(opened):
    opened.click("next-round")
    opened.run("document.querySelectorAll('#round .t')[1].focus()")
    assert opened.text("inspected") == "b rejected"
    assert (
        opened.text("facts")
        == "q, of the draft0.800p, of the target0.100min(1, p / q)0.125coin0.625"
    )
    widths = opened.run("return [...document.querySelectorAll('#bars i')].map(i => i.style.width)")
    assert widths == ["75%", "25%"] and opened.text("bars") == "e0.750␣0.250"
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    first = opened.driver.find_elements(By.CSS_SELECTOR, "#round .t")[0]
    ActionChains(opened.driver, duration=0).move_to_element(first).perform()
    assert opened.text("inspected") == "a accepted"
    assert "0.875" in opened.text("facts")


def test_nothing_is_told_before_it_is_known(opened):
    """q when drafted, p and the residual after the target's pass, the coin and the fate when judged."""
    for _ in range(3):
        opened.click("next")
    opened.run("document.querySelectorAll('#round .t')[1].click()")
    assert opened.text("inspected") == "b drafted"
    assert opened.text("facts") == "q, of the draft0.800" and opened.text("bars") == ""
    opened.click("next")
    opened.run("document.querySelectorAll('#round .t')[1].click()")
    assert opened.text("inspected") == "b about to be judged"
    assert "coin" not in opened.text("facts") and opened.text("bars") != ""
    label = opened.run(
        "return document.querySelectorAll('#round .t')[1].getAttribute('aria-label')"
    )
    assert (
        label
        == "b, about to be judged, q, of the draft 0.800, p, of the target 0.100, min(1, p / q) 0.125"
    )


def test_space_plays_and_pauses_and_another_run_starts_anew(opened, page):
    opened.run("document.getElementById('viewer').focus()")
    opened.press(" ")
    assert opened.text("play") == "⏸ pause"
    opened.press(" ")
    assert opened.text("play") == "▶ play"
    opened.run(
        "const s = document.getElementById('run'); s.value = '1'; s.dispatchEvent(new Event('change'))"
    )
    assert opened.text("panel-6") == "0"
    opened.click("last")
    assert opened.text("check") == viewer_data(page[1].of(rounds_run.NAME))["runs"][1]["check"]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 900, 1600])
def test_nothing_hangs_over_and_no_text_is_cut(chromium, page, width, dark):
    chromium.open(page[0], width, dark)
    chromium.click("next-round")
    assert chromium.run("return document.documentElement.scrollWidth") == width
    # every element ends inside the window, except inside a box that scrolls by itself and can be reached by keyboard
    outside = chromium.run(
        "return [...document.querySelectorAll('main *')].filter(e => !e.closest('.wide, svg') && "
        "e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.outerHTML.slice(0, 80))"
    )
    assert outside == []
    cut = chromium.run(
        "return [...document.querySelectorAll('main *')].filter(e => ['hidden', 'clip'].includes("
        "getComputedStyle(e).overflowX) && e.textContent && e.scrollWidth > e.clientWidth && !e.closest('svg')).map(e => e.className)"
    )
    assert cut == []
    assert chromium.run("return [...document.querySelectorAll('.wide')].every(e => e.tabIndex === 0)")  # fmt: skip
    assert chromium.console() == []


def test_light_and_dark_have_ink_that_reads_on_their_paper(chromium, page):
    """WCAG 2's contrast of body text is 4.5 or above in both themes."""
    papers = []
    for dark in (False, True):
        chromium.open(page[0], dark=dark)
        ink, paper = chromium.run(
            "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
        )
        assert contrast(ink, paper) > 4.5
        papers.append(paper)
    assert len(set(papers)) == 2


def contrast(one: str, other: str) -> float:
    def light(colour: str) -> float:
        parts = [int(v) / 255 for v in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        r, g, b = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_every_control_has_a_name_for_a_screen_reader(opened):
    opened.click("next-round")
    nameless = opened.run(
        "return [...document.querySelectorAll('button, input, select, svg[role=img], [role=group], [role=region]')].filter("
        "e => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.textContent.trim() ||"
        "(e.labels && e.labels.length))).map(e => e.outerHTML)"
    )
    assert nameless == []


def test_motion_is_reduced_where_the_reader_asks(opened):
    media = {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
    opened.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    assert opened.run("return getComputedStyle(document.getElementById('time-0')).transitionDuration") == "0s"  # fmt: skip


def test_hostile_text_stays_text(chromium, tmp_path):
    """In prompts, drafts' names, kinds, notes and the folder's own name."""
    folder = tmp_path / "a <b>&\"'{{x}} %s"
    points = [{"draft": HOSTILE, "temperature": 1.0}, {"draft": "__proto__", "temperature": 1.0}]
    store = fill(folder, points=points)
    prompt = HOSTILE.encode() + b"\x92\xff\xfe\x00"
    add_run(store, prompt, draft=HOSTILE, kind=HOSTILE)
    store.append("other", {"x": 1}, {"x": HOSTILE}, "failed", {"error": HOSTILE})
    store.notes.append(HOSTILE)
    write_page(store, folder / "index.html")
    chromium.open(folder / "index.html")
    assert chromium.console() == []
    assert chromium.requests() == [(folder / "index.html").as_uri()]
    assert chromium.driver.title.startswith("Does it pay")
    assert chromium.run("return document.images.length") == 0
    assert chromium.run("return document.scripts.length") == 4  # two of data, two of the page's own
    shown = chromium.text("text")
    assert "</script><script>document.title='x'</script>\"'<img src=x onerror=alert(1)>{{x}} %s ${y} " in shown  # fmt: skip
    assert "\\u202e\\x00<!-- \\u2028\\x92\\xff\\xfe\\x00" in shown
    assert "<img src=x onerror=alert(1)>{{x}} %s ${y} \\u202e\\x00" in chromium.run(
        "return document.querySelector('.pills').textContent"
    )
    assert not set("\u202e\u0000\u2028") & set(chromium.run("return document.body.innerText"))
    chromium.click("last")
    assert chromium.text("panel-6") == "6"
    chromium.choose("draft", 1)
    assert chromium.text("plate-said").startswith("__proto__ at T = 1")


def test_the_readmes_picture_is_made_by_a_command(page, tmp_path, capsys):
    """A PNG of the stated size; a page that is not there is one line."""
    from experiments.page.picture import HEIGHT, WIDTH, main

    out = tmp_path / "page.png"
    assert main(["--page", str(page[0]), "--out", str(out)]) == 0
    content = out.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n" and len(content) > 20_000
    size = [int.from_bytes(content[at : at + 4], "big") for at in (16, 20)]
    assert size == [WIDTH, HEIGHT]
    assert main(["--page", str(tmp_path / "none.html"), "--out", str(out)]) == 2
    said = capsys.readouterr()
    assert said.out == f"{out}\n" and said.err.count("\n") == 1 and "none.html" in said.err
