"""The page's style sheet: page.css, with the palette's colours as its variables, light and dark by the reader's setting."""

from __future__ import annotations

from pathlib import Path

from experiments.drawing.palette import FATES, LOOKS, THEME

HERE = Path(__file__).parent


def style() -> str:
    sheet = (HERE / "page.css").read_text(encoding="utf-8")
    light, dark = _variables(0), _variables(1)
    return f":root {{ color-scheme: light dark; {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n{sheet}"


def _variables(theme: int) -> str:
    """theme: 0 light, 1 dark."""
    pairs = {name: colours[theme] for name, colours in THEME.items()}
    for name, fate in FATES.items():
        word = name.split()[0]
        pairs[word] = fate.colour
        pairs[f"{word}-tint"] = (fate.light, fate.dark)[theme]
    pairs |= {f"d{i}": colour for i, (colour, _) in enumerate(LOOKS)}
    return " ".join(f"--{name}: {colour};" for name, colour in pairs.items())


def script(name: str) -> str:
    """A script of the page, inlined."""
    return f"<script>\n{(HERE / name).read_text(encoding='utf-8')}</script>"
