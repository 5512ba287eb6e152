"""The round viewer's HTML: run, buttons, places for tokens, costs and text, empty until the page's script fills them."""

from __future__ import annotations

from experiments.page.parts import legend, text
from experiments.page.viewer import PANEL
from experiments.watch.rounds_text import title

BUTTONS = (
    ("first", "start", "to the start"),
    ("back-round", "« round", "one round back (Shift + ←)"),
    ("back", "‹ step", "one step back (←)"),
    ("play", "▶ play", "play or pause (space)"),
    ("next", "step ›", "one step on (→)"),
    ("next-round", "round »", "one round on (Shift + →)"),
    ("last", "end", "to the end"),
)
PHASES = "".join(
    f'<li id="phase-{name}">{name}</li>' for name in ("draft", "verify", "compare", "append")
)


def viewer_html(records: list[dict]) -> str:
    """The viewer's frame, for the script to fill."""
    options = "\n".join(
        f'<option value="{i}">{text(title(record))}</option>' for i, record in enumerate(records)
    )
    panel = "\n".join(
        f'<div><dt>{text(name)}</dt><dd id="panel-{i}"></dd></div>' for i, name in enumerate(PANEL)
    )
    buttons = "\n".join(
        f'<button type="button" id="{name}" title="{text(hint)}">{words}</button>'
        for name, words, hint in BUTTONS
    )
    return f"""<div id="viewer" role="group" aria-label="round viewer" tabindex="-1">
<div class="control"><label for="run">run</label> <select id="run">
{options}
</select></div>
<div class="buttons" role="toolbar" aria-label="steps">
{buttons}
</div>
<p class="hint">Keys: ← → one step, Shift + ← → one round, space plays.</p>
<ol class="phases" aria-hidden="true">{PHASES}</ol>
<p id="viewer-where" class="where"></p>
<div id="round" class="round" role="group" aria-label="tokens of this round"></div>
<p id="viewer-said" class="said" role="status"></p>
<div class="columns">
<div class="inspector"><h3 id="inspected"></h3><dl id="facts"></dl>
<p id="bars-title"></p><ul id="bars" class="bars"></ul></div>
<div class="costs"><h3>What it cost</h3><dl class="readouts">
{panel}
</dl>
<div class="times" aria-hidden="true"><span>speculative</span><div class="time"><i id="time-0"></i></div>
<span>plain</span><div class="time plain"><i id="time-1"></i></div></div></div>
</div>
<h3 id="text-title">The text so far</h3>
<pre id="text" class="text" role="group" aria-labelledby="text-title" tabindex="0"></pre>
<p id="check" class="check" role="status"></p>
</div>
{legend()}"""
