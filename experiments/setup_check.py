"""Can torch be installed here? Says in one sentence why not, before anything is downloaded.

Run by the Makefile with whatever Python it was given, so it is written for old ones too: no annotations, no f-strings.
"""

import platform
import sys
import sysconfig


def refusal(version, implementation, bits, system, machine, musl):
    """Why this Python cannot run the workshop, "" where nothing speaks against it.

    version: (major, minor); musl: whether it is linked against that C library.
    """
    if version < (3, 10):
        return "Python 3.10 or above is needed, and this is " + ".".join(map(str, version))
    if implementation != "CPython":
        return "torch is built for CPython only, and this is " + implementation
    if bits < 64:
        return "torch has no build for a 32-bit Python, which this one is"
    if (system, machine) == ("Darwin", "x86_64"):
        return "torch has no build for Intel Macs, nor for an Intel Python on another"
    if musl:
        return "torch has no build for Linux with musl: use a system with glibc, such as Debian"
    return ""


def here():
    """refusal's arguments for the Python that runs this."""
    return (
        tuple(sys.version_info[:2]),
        platform.python_implementation(),
        64 if sys.maxsize > 2**32 else 32,
        platform.system(),
        platform.machine(),
        "musl" in str(sysconfig.get_config_var("SOABI")),  # cpython-312-x86_64-linux-musl
    )


if __name__ == "__main__":
    sys.exit(refusal(*here()) or 0)
