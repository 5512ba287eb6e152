"""The example script, on a small scale: from a text of one's own to a page that shows it."""

from __future__ import annotations

from matplotlib.figure import Figure

from experiments import estimate
from experiments.examples.own_text import figures, main, prompts_from
from experiments.figures import FIGURES
from experiments.store import Store
from experiments.watch import rounds_run
from micro.checkpoint import load_model
from micro.text import Corpus, Document

TEXT = b"One fish, two fish. Red fish, blue fish.\n" * 60


def test_the_example_trains_drafts_measures_and_draws(tmp_path, capsys):
    (tmp_path / "notes.txt").write_bytes(TEXT)
    out = tmp_path / "look"
    sizes = ["--steps", "8", "--width", "32", "--context", "128", "--prompts", "3"]
    assert main([str(tmp_path / "notes.txt"), "--out", str(out), *sizes]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == str(out / "index.html")
    assert "nats a byte" in said.err and "tokens per pass" in said.out
    assert load_model(out / "model").context == 128
    store = Store(out)
    assert len(store.of(estimate.NAME)) == len(estimate.POINTS)
    assert len(store.of(rounds_run.NAME)) == len(rounds_run.POINTS)
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "The plate, to play with" in page and "fish" in page
    drawn = figures(store)
    assert drawn.keys() == FIGURES.keys() and all(isinstance(f, Figure) for f in drawn.values())
    for name in FIGURES:
        assert (out / f"{name}.svg").exists() and (out / f"{name}.png").exists()


def test_prompts_are_of_text_the_model_has_not_read():
    corpus = Corpus((Document("a", b"r" * 500), Document("b", b"h" * 200, "held-out")))
    prompts = prompts_from(corpus, 4)
    assert len(prompts) == 4 and len({p.id for p in prompts}) == 4
    assert {p.text for p in prompts} == {b"h" * 40}
    assert prompts_from(Corpus((Document("a", b"r" * 50),)), 3)[0].text == b"r" * 40
