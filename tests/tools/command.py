#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gridmill, the command, as people and scripts use it, against the real daemon: answers on standard output, talk on
standard error, documented exit codes, files in and out. NumPy reads and writes the .npy files when it is there."""
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.environ["GM_E2E"])
sys.dont_write_bytecode = True
from daemon import COMMAND, Daemon  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None

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


def help_and_usage():
    assert text("--help").startswith("usage: gridmill") and run.stderr == ""
    assert text("--version") == text("version") and text("version").startswith("gridmill 0.")
    for command in ("run", "ops", "stats", "ping", "drain"):
        assert text(command, "--help").startswith(f"usage: gridmill {command}")
    run(exit_code=2)
    refused(2, "unknown command", "fly")
    refused(2, "run needs an op", "run")
    refused(2, 'unknown op "summ"', "run", "summ")
    refused(2, "takes no input", "run", "nop", "file")
    refused(2, "takes one input", "run", "sum", "a", "b")
    refused(2, "not an element type", "run", "sum", "-t", "f33")
    refused(2, "needs --dtype, --count and --value", "run", "fill", "-n", "3")
    refused(2, "takes no --value", "run", "sum", "--value", "3")
    refused(2, "needs --bins, --lo and --hi", "run", "histogram", "--bins", "3")
    refused(2, "takes no --descending", "run", "sum", "--descending")
    refused(2, "number of seconds", "ping", "--timeout", "soon")
    run("run", "sum", "--colour", exit_code=2)
    run("ping", "-c", "0", exit_code=2)


def unreachable():
    for command in (["run", "nop"], ["ops"], ["stats"], ["ping"], ["drain"]):
        refused(3, "cannot reach the daemon", *command, "-s", "/nonexistent/socket")
    refused(3, "140 bytes", "ping", "-s", "/" + "p" * 139)


def scalars():
    assert text("run", "nop") == ""
    assert text("run", "sum", stdin="1 2 3\n4,5") == "15\n"
    assert text("run", "sum", "-", stdin="0.1 0.2") == "0.30000000000000004\n"
    assert text("run", "max", "-t", "f32", stdin="0.1 0.3 -5") == "0.3\n"
    assert text("run", "min", "-t", "u64", stdin="18446744073709551615") == "18446744073709551615\n"
    assert text("run", "min", stdin="-9223372036854775808 1") == "-9223372036854775808\n"
    assert text("run", "sum", stdin="") == "0\n"
    assert text("run", "max", stdin="nan 1") == "nan\n"
    assert text("run", "sum", "-n", "2", stdin="1 2 3") == "3\n"
    refused(1, "GM_EEMPTY", "run", "max")
    refused(1, "GM_EOVERFLOW", "run", "sum", stdin="9223372036854775807 1")
    refused(1, 'line 2: "x"', "run", "sum", stdin="1\n2 x")
    refused(1, "is not a number of type i64", "run", "sum", stdin="9223372036854775808")
    refused(2, "not the 4 of --count", "run", "sum", "-n", "4", stdin="1 2 3")
    refused(1, "does not take u8", "run", "sum", "-t", "u8", stdin="1")
    refused(1, "GM_ENODEVICE", "run", "nop", "--device", "15")
    refused(1, 'no device "tpu"', "run", "nop", "--device", "tpu")
    backend = json.loads(run("stats", "--json"))["devices"][0]["backend"]
    assert text("run", "sum", "--device", backend, "--time", stdin="1 2") == "3\n"
    assert run.stderr.startswith("device 0: waited "), run.stderr


def arrays():
    for arena in ("auto", "inline", "shared", "device"):
        assert text("run", "sort", "--arena", arena, stdin="3 1 2") == "1\n2\n3\n"
        assert text("run", "sort", "--descending", "--arena", arena, stdin="3 1.5 -inf") == "3\n1.5\n-inf\n"
        assert text("run", "fill", "-t", "i32", "-n", "3", "--value", "-7", "--arena", arena) == "-7\n-7\n-7\n"
        assert text("run", "histogram", "--bins", "3", "--lo", "0", "--hi", "3", "--arena", arena,
                    stdin="0 1 1 2 2 2 3 4 -1") == "1\n2\n4\n"
        assert text("run", "sort", "--arena", arena, stdin="") == ""
    refused(2, "not auto, inline, shared or device", "run", "sort", "--arena", "cloud")
    refused(2, "not a number of this type", "run", "fill", "-t", "u8", "-n", "1", "--value", "256")
    numbers = list(range(300000, 0, -1))
    out = run("run", "sort", stdin="\n".join(map(str, numbers)))
    assert out.split() == [str(i).encode() for i in range(1, 300001)]
    assert run("run", "copy", "-t", "f32", "-f", "raw", stdin="1 2") == struct.pack("<2f", 1, 2)


def files(folder):
    raw = os.path.join(folder, "raw")
    with open(raw, "wb") as file:
        file.write(struct.pack("<4I", 4, 3, 2, 1))
    assert text("run", "sum", raw, "--dtype", "u32") == "10\n"
    assert text("run", "sum", raw, "-t", "u32", "-n", "1") == "4\n"
    refused(2, "is no .npy file; say --dtype", "run", "sum", raw)
    with open(raw + ".odd", "wb") as file:
        file.write(b"123456789")
    refused(1, "no multiple of the 8 of f64", "run", "sum", raw + ".odd", "-t", "f64")
    refused(1, "No such file", "run", "sum", os.path.join(folder, "none"))
    refused(1, "Is a directory", "run", "sum", folder)
    out = os.path.join(folder, "out")
    assert run("run", "sort", raw, "-t", "u32", "-o", out, "--format", "raw") == b""
    assert open(out, "rb").read() == struct.pack("<4I", 1, 2, 3, 4)
    run("run", "sort", raw, "-t", "u32", "-o", out + ".npy")
    assert open(out + ".npy", "rb").read(6) == b"\x93NUMPY"
    assert text("run", "sum", out + ".npy") == "10\n"
    assert text("run", "sum", stdin=open(out + ".npy", "rb").read()) == "10\n"
    with open(out + ".npy", "rb") as file:
        whole = file.read()
    for size, message in ((len(whole) - 1, "is cut"), (40, "header is cut"), (7, "header is cut")):
        with open(out, "wb") as file:
            file.write(whole[:size])
        refused(1, message, "run", "sum", out)
    with open(out, "wb") as file:
        file.write(whole + b"x")
    refused(1, "more data than its header says", "run", "sum", out)
    refused(2, "holds u32, not f32", "run", "sum", out + ".npy", "-t", "f32")
    refused(1, "No such file", "run", "sort", raw, "-t", "u32", "-o", os.path.join(folder, "none", "out"))
    if os.path.exists("/dev/full"):
        refused(1, "No space left", "run", "sort", raw, "-t", "u32", "-o", "/dev/full")


def numpy_files(folder):
    path, out = os.path.join(folder, "a.npy"), os.path.join(folder, "b.npy")
    random = numpy.random.default_rng(1)
    for dtype in ("u4", "i4", "u8", "i8", "f4", "f8"):
        array = (random.random((300, 1000)) * 1000).astype(dtype)
        numpy.save(path, array)
        run("run", "sort", path, "-o", out)
        result = numpy.load(out)
        assert result.dtype == array.dtype and (result == numpy.sort(array, axis=None)).all()
    numpy.save(path, numpy.asfortranarray(array))
    refused(1, "Fortran order", "run", "sum", path)
    numpy.save(path, array.astype(">f8"))
    refused(1, "big-endian", "run", "sum", path)
    numpy.save(path, array.astype("c16"))
    refused(1, "element type is none of ours", "run", "sum", path)
    numpy.save(path, numpy.zeros(3, dtype=[("a", "f4")]))
    refused(1, "structured", "run", "sum", path)
    for version in ((1, 0), (2, 0), (3, 0)):
        with open(path, "wb") as file:
            numpy.lib.format.write_array(file, numpy.arange(5.0), version=version)
        assert text("run", "sum", path) == "10\n"


def figures(daemon):
    ops = json.loads(run("ops", "--json"))["ops"]
    names = [op["name"] for op in ops]
    assert "sum" in names and [line.split()[0] for line in text("ops").splitlines()] == names
    assert "sum of in" in text("ops", "sum")
    refused(1, 'no op "none"', "ops", "none")
    stats = json.loads(run("stats", "--json"))
    assert stats["schema"] == 1 and stats["daemon"]["healthy"] == 1 and stats["devices"][0]["done"] > 0
    assert stats["limits"]["inline_bytes"] == 1048576
    table = text("stats")
    for section in ("daemon", "devices", "ops"):
        assert section in table.splitlines()
    assert "\x1b" not in table
    for figure in stats["daemon"]:
        assert f"\n  {figure} " in table, figure
    line = text("ping", "-c", "100")
    assert line.startswith("100 round trips: min "), line
    device = stats["devices"][0]["pid"]
    os.kill(device, signal.SIGSTOP)
    end = time.monotonic() + 9
    while subprocess.run([COMMAND, "stats", "-s", daemon.socket], capture_output=True).returncode != 4:
        assert time.monotonic() < end, "a frozen device is still healthy"
        time.sleep(0.1)
    refused(1, "GM_ETIMEDOUT", "run", "nop", "--timeout", "0.2")
    os.kill(device, signal.SIGCONT)


def closed_output():
    process = subprocess.Popen([COMMAND, "run", "sort"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=environment)
    process.stdout.close()
    process.stdin.write(b"\n".join(str(i).encode() for i in range(100000)))
    process.stdin.close()
    message = process.stderr.read().decode()
    assert process.wait() == 1 and "Broken pipe" in message, message


help_and_usage()
unreachable()
with Daemon() as d, tempfile.TemporaryDirectory(prefix="gm-e2e-") as work:
    environment["GRIDMILL_SOCKET"] = d.socket
    scalars()
    arrays()
    files(work)
    if numpy is not None:
        numpy_files(work)
    closed_output()
    figures(d)
    assert text("drain") == ""
    refused(1, "EDRAINING", "run", "nop")
    assert d.stop() == 0
    refused(3, "cannot reach the daemon", "stats")
print("ok" if numpy is not None else "ok, without NumPy")
