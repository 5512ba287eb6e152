"""The ladder's figures: the frontier, and the laws of error."""

from __future__ import annotations

from experiments.ladder.error_laws import error_laws
from experiments.ladder.frontier import frontier

FIGURES = {"frontier": frontier, "error-laws": error_laws}
