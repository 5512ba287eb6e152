"""Where in the text micro is good and where it is not: loss and overlap of every held-out byte, added up by plate and by
place within a word.

A point is a draft. Both models read the held-out plates themselves, not text of their own, so the overlap here is the chance
that a byte drafted there would be accepted at T = 1, on text that neither of them wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.paths import DATA

if TYPE_CHECKING:  # these import torch, which figures and tables need not wait for
    from torch import Tensor

    from experiments.setting import Setting

NAME = "loss-profile"
VERSION = 1
POINTS = [{"draft": "rtn4"}, {"draft": "rtn3"}]
LETTERS = 8  # the last place holds the eighth letter of a word and all later ones
PLACES = (
    *("1st letter", "2nd", "3rd", "4th", "5th", "6th", "7th", "8th+"),
    "after a word",
    "digit",
    "other sign",
)


def identity(point: dict, setting: Setting) -> dict:
    """Everything the result depends on."""
    from micro.text import read_course

    return setting.identity(version=VERSION, text=read_course(DATA).sha256(), **point)


def run(point: dict, setting: Setting) -> dict:
    """Bytes, nats and overlap, by held-out plate in the course's order and by PLACES."""
    import torch

    from micro.text import read_course

    documents = read_course(DATA).split("held-out")
    draft = setting.draft(point["draft"])
    setting.progress(f"reading the held-out plates with micro and {point['draft']}")
    read = [per_byte(setting.model, draft.module, document) for document in documents]
    places = torch.cat([torch.tensor(place_in_word(d.data)[1:]) for d in documents])
    nats, overlap = (torch.cat(rows) for rows in zip(*read))
    sums = [torch.zeros(len(PLACES)).double().index_add(0, places, x) for x in (nats, overlap)]
    return {
        "plates": [document.name for document in documents],
        "kinds": kinds([document.name for document in documents]),
        "bytes": [len(rows[0]) for rows in read],
        "nats": [float(rows[0].sum()) for rows in read],
        "overlap": [float(rows[1].sum()) for rows in read],
        "places": list(PLACES),
        "place_bytes": torch.bincount(places, minlength=len(PLACES)).tolist(),
        "place_nats": sums[0].tolist(),
        "place_overlap": sums[1].tolist(),
    }


def per_byte(target, draft, document) -> tuple[Tensor, Tensor]:
    """(L - 1,) float64 each: nats of every byte behind the first, and the overlap of both models' laws there."""
    import torch

    from micro.score import byte_laws

    p, q = (byte_laws(model, [document])[0].double() for model in (target, draft))  # (L - 1, V)
    found = torch.tensor(list(document.data[1:]))
    return -p.gather(1, found[:, None])[:, 0].log(), torch.minimum(p, q).sum(1)


def place_in_word(data: bytes) -> list[int]:
    """Of every byte, its index in PLACES. A word is a run of letters; only ASCII letters count as such."""
    places, run = [], 0
    for byte in data:
        letter = bytes((byte,)).isalpha()
        if letter:
            place = min(run, LETTERS - 1)
        elif run:
            place = PLACES.index("after a word")
        else:
            place = PLACES.index("digit" if bytes((byte,)).isdigit() else "other sign")
        places.append(place)
        run = run + 1 if letter else 0
    return places


def kinds(names: list[str]) -> list[str]:
    """Kind of each plate, from the course's index."""
    import json

    rows = map(json.loads, (DATA / "plates.jsonl").read_text(encoding="utf-8").splitlines())
    found = {row["file"]: row["kind"] for row in rows}
    return [found[name] for name in names]
