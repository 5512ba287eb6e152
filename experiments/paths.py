"""Where the clone keeps what the commands use by default."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "data"
WEIGHTS = ROOT / "micro" / "weights"
REFERENCE = ROOT / "experiments" / "reference"
RESULTS = Path("results")  # below the folder the command is run in
