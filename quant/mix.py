"""A Mix gives each matrix a Format of its own: more bits where rounding costs acceptance, fewer where it does not.

Written as JSON it is one object, {matrix: format's name}; a matrix it does not name has no format, and using the Mix is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from quant.formats import Format, parse_format


@dataclass(frozen=True)
class Mix:
    """matrix (a tied pair's first name) -> its Format."""

    name: str
    formats: Mapping[str, Format]

    @property
    def needs_inputs(self) -> bool:
        return any(format.needs_inputs for format in self.formats.values())

    def of(self, name: str) -> Format:
        """Raises ValueError where the mix does not name the matrix."""
        if name not in self.formats:
            raise ValueError(f"{self.name} names no format for {name}")
        return self.formats[name]

    def check(self, matrices: Iterable[str]) -> None:
        """Raises ValueError at the first matrix without a format, or format without a matrix."""
        matrices = list(matrices)
        for name in matrices:
            self.of(name)
        for name in self.formats:
            if name not in matrices:
                raise ValueError(f"{self.name} names {name}, which the model does not hold")

    def to_json(self) -> dict[str, str]:
        return {name: format.name for name, format in self.formats.items()}

    @staticmethod
    def from_json(name: str, value: object) -> Mix:
        """Raises ValueError where `value` is no object of format names, or a name is unknown."""
        if not isinstance(value, dict) or not value:
            raise ValueError(f"{name} must be one JSON object, {{matrix: format}}")
        if not all(isinstance(format, str) for format in value.values()):
            raise ValueError(f"{name}: a format is named by a text, as in rtn3")
        return Mix(name, {matrix: parse_format(format) for matrix, format in value.items()})
