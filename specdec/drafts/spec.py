"""What a person writes to name a draft, taken apart: NAME[:ARGUMENT][+FORMAT], as in `prune:0.5+rtn4` or `lookahead:w=5,n=4`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Spec:
    """`text` as written; `rest` all behind the name and its colon, which is `argument` and behind its first "+" `format`; each "" where
    there is none."""

    text: str
    name: str
    rest: str
    argument: str
    format: str

    @classmethod
    def parse(cls, text: str) -> Spec:
        head, _, format = text.partition("+")
        name, _, argument = head.partition(":")
        return cls(text, name, text[len(name) + 1 :], argument, format)

    def refuse_format(self) -> None:
        """Raises ValueError where a format was written behind a draft that has no matrices of its own to round."""
        if self.format:
            raise ValueError(
                f"draft {self.text!r}: {self.name} takes no format, drop +{self.format}"
            )

    def options(self, defaults: Mapping[str, int]) -> dict[str, int]:
        """`w=5,n=4` over the defaults, whole numbers of 1 and above. Raises ValueError naming the option and listing those there are."""
        found = dict(defaults)
        for part in filter(None, self.argument.split(",")):
            name, _, value = part.partition("=")
            if name not in defaults:
                there = ", ".join(f"{key}={value}" for key, value in defaults.items())
                raise ValueError(f"draft {self.text!r}: no option {name!r}; there are {there}")
            found[name] = self.number(value, name)
        return found

    def number(self, text: str, what: str) -> int:
        """A whole number, 1 and above. Raises ValueError naming what it is."""
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 10**6):
            raise ValueError(
                f"draft {self.text!r}: {what} must be a whole number, 1 or above, not {text!r}"
            )
        return int(text)
