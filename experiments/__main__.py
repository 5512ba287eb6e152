"""The command line `selfdraft`, also `python -m experiments`.

Every command is a module with a docstring, `add_arguments(parser)` and `run(args) -> exit code`. Only the
one that was asked for is imported, so `selfdraft --help` does not wait for torch.

Exit codes: 0 done; 1 a check failed; 2 the input is wrong, one line says what; 130 interrupted; 141 the reader of the output
went away.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys

# command -> (module, what it does); in the order a newcomer would try them
COMMANDS: dict[str, tuple[str, str]] = {
    "generate": (
        "watch.generate",
        "continue a prompt, drafting at low precision, and stream the text",
    ),
    "plate": (
        "plate.command",
        "the main experiment: does self-drafting pay? table, records, figures, page",
    ),
    "trace": ("watch.trace", "show round by round what was accepted, rejected and thrown away"),
    "identity": (
        "identity.command",
        "check that greedy speculative text equals plain text, bit for bit",
    ),
    "exact": (
        "exact.command",
        "check that speculation is exact, and that planted faults are noticed",
    ),
    "replay": (
        "replay",
        "what a draft would have done with every gamma at once: counts, rates, errors",
    ),
    "plot": ("plot", "redraw every figure from records; runs no model"),
    "report": ("page.command", "records to one self-contained HTML page; runs no model"),
    "train": ("training.train", "train micro on the course, or on your own text"),
    "quantize": ("quantize", "write a low-bit draft of a model and report it tensor by tensor"),
    "tune": ("training.tune", "train a low-bit draft to be accepted, at the same bytes"),
    "distil": (
        "training.distil",
        "train a smaller sibling or an early exit towards the model's own law",
    ),
    "heads": (
        "training.heads",
        "train heads that draft on a model's own states: Medusa's or EAGLE's",
    ),
    "run": ("run", "run one experiment by name"),
    "list": ("list", "list experiments, formats, drafts and rules"),
    "bench": ("bench.command", "time decoding against transformers, paired and interleaved"),
}


def usage() -> str:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:{width}}  {what}" for name, (_, what) in COMMANDS.items())
    return (
        "usage: selfdraft COMMAND [options]\n\n"
        "Does it pay to let a language model draft for itself at low precision?\n\n"
        f"commands:\n{rows}\n\n"
        "`selfdraft COMMAND --help` tells a command's options.\n"
        "Exit codes: 0 done, 1 a check failed, 2 wrong input, 130 interrupted, 141 output closed."
    )


class Parser(argparse.ArgumentParser):
    """argparse with errors of one line."""

    def error(self, message: str):
        complain(self.prog, f"{message} (see {self.prog} --help)")
        raise SystemExit(2)

    def exit(self, status: int = 0, message: str | None = None):
        sys.stdout.flush()  # a closed pipe is met here, where main can answer it, and not at the interpreter's end
        super().exit(status, message)


def complain(who: str, what: object) -> None:
    """One line on stderr, whatever a name or value in it holds: what would end the line or steer the terminal is escaped."""
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(what))
    print(f"{who}: {text}", file=sys.stderr)


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns its exit code. Nothing the user can type ends in a traceback."""
    argv = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        # a console without a gamma shows "?": no run is lost to what it prints
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        code = _dispatch(argv)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # the interpreter would flush stdout once more at exit, and complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(usage())
        return 0 if argv else 2
    name, rest = argv[0], argv[1:]
    if name not in COMMANDS:
        complain("selfdraft", f"no command {name!r}; there are {', '.join(COMMANDS)}")
        return 2
    return run_command(name, COMMANDS[name][0], rest)


def run_command(name: str, module: str, rest: list[str]) -> int:
    """The command `name`, which stands in `module`, with its own arguments; wrong input is told in one line and returns 2."""
    module = importlib.import_module(f"experiments.{module}")
    parser = Parser(
        prog=f"selfdraft {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    args = parser.parse_args(rest)
    try:
        return module.run(args)
    except ValueError as error:  # FileFault among them: what the user gave is wrong
        complain(f"selfdraft {name}", error)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        where = f"{error.filename}: " if error.filename else ""
        complain(f"selfdraft {name}", f"{where}{(error.strerror or str(error)).lower()}")
    return 2


if __name__ == "__main__":
    sys.exit(main())
