# SPDX-License-Identifier: Apache-2.0
"""Runs gridmill, the command, for its tests: what it prints, where, and how it ends."""
import os
import subprocess
import sys

sys.path.insert(0, os.environ["GM_E2E"])
sys.dont_write_bytecode = True
from daemon import COMMAND, Daemon  # noqa: E402

environment = dict(os.environ)
for name in ("GRIDMILL_SOCKET", "XDG_RUNTIME_DIR"):
    environment.pop(name, None)


def run(*arguments, stdin=b"", exit_code=0):
    """Standard output; what must be on standard error is checked by expect()."""
    if isinstance(stdin, str):
        stdin = stdin.encode()
    done = subprocess.run([COMMAND, *arguments], input=stdin, capture_output=True, env=environment, timeout=120)
    if done.returncode != exit_code:
        raise SystemExit(f"gridmill {arguments}: exit code {done.returncode} instead of {exit_code}: {done.stderr}")
    run.stderr = done.stderr.decode()
    return done.stdout


def text(*arguments, **options):
    return run(*arguments, **options).decode()


def refused(exit_code, message, *arguments, stdin=b""):
    out = run(*arguments, stdin=stdin, exit_code=exit_code)
    assert out == b"", (arguments, out)
    assert message in run.stderr and run.stderr.startswith("gridmill: "), (arguments, run.stderr)
