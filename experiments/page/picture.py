"""The README's picture of the page: `python -m experiments.page.picture` takes it with a headless Chromium.

    python -m experiments.page.picture [--page FILE] [--out FILE.png]

Any Chromium or Chrome will do; on Debian `apt-get install chromium`. The picture is the page's top at 1200 pixels' width, in
the light theme, with the viewer one round on.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from experiments.paths import REFERENCE
from micro.files import FileFault, read_bytes, write_atomically

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTH, HEIGHT = 1200, 1900
ONE_ROUND = b"<script>document.getElementById('next-round')?.click()</script>"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--blink-settings=preferredColorScheme=1",  # light
    f"--window-size={WIDTH},{HEIGHT}",
    "--virtual-time-budget=3000",  # milliseconds of the page's own clock: its scripts have run
)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="experiments.page.picture", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--page", type=Path, default=REFERENCE / "index.html", metavar="FILE",
                        help="the page (default: the reference's)")  # fmt: skip
    parser.add_argument("--out", type=Path, default=REFERENCE / "page.png", metavar="FILE",
                        help="its picture (default: the README's)")  # fmt: skip
    args = parser.parse_args(argv)
    try:
        take(args.page, args.out)
    except ValueError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    print(args.out)
    return 0


def take(page: Path, out: Path) -> None:
    """Raises FileFault where there is no page or no picture can be written, ValueError where there is no browser."""
    content = read_bytes(page)
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise ValueError(f"no browser found; any of {', '.join(BROWSERS)} would do")
    with tempfile.TemporaryDirectory() as folder:
        picture, copy = Path(folder) / "page.png", Path(folder) / "page.html"
        copy.write_bytes(content + ONE_ROUND)
        done = subprocess.run(
            [browser, *FLAGS, f"--user-data-dir={folder}/profile", f"--screenshot={picture}", copy.as_uri()],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        if not picture.exists():
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise FileFault(f"{browser} took no picture of {page}: {last}")
        content = picture.read_bytes()
    write_atomically(out, lambda file: file.write(content))


if __name__ == "__main__":
    sys.exit(main())
