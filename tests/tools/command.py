#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gridmill, the command, as people and scripts use it, against the real daemon: answers on standard output, talk on
standard error, documented exit codes, files in and out. NumPy reads and writes the .npy files when it is there."""
import json
import os
import re
import resource
import signal
import struct
import subprocess
import tempfile
import time

from runner import COMMAND, Daemon, environment, refused, run, text

try:
    import numpy
except ImportError:
    numpy = None


def help_and_usage():
    assert text("--help").startswith("usage: gridmill") and run.stderr == ""
    assert text("--version") == text("version") and text("version").startswith("gridmill 0.")
    for command in ("run", "arena", "ops", "stats", "ping", "bench", "drain", "version"):
        assert text(command, "--help").startswith(f"usage: gridmill {command}")
    run(exit_code=2)
    refused(2, "unknown command", "fly")
    refused(2, "run needs an op", "run")
    refused(2, 'unknown op "summ"', "run", "summ")
    refused(2, "takes no input", "run", "nop", "file")
    for option, value in (("--dtype", "f32"), ("--count", "3"), ("--output", "/nonexistent/file"), ("--format", "raw")):
        refused(2, f"nop takes no {option}", "run", "nop", option, value)
    refused(2, "takes one input", "run", "sum", "a", "b")
    refused(2, "not an element type", "run", "sum", "-t", "f33")
    refused(2, "fill needs --dtype, --count and --value", "run", "fill")
    refused(2, "fill needs --dtype and --value", "run", "fill", "-n", "3")
    refused(2, "takes no --value", "run", "sum", "--value", "3")
    refused(2, "histogram needs --lo, --hi and --bins", "run", "histogram")
    refused(2, "histogram needs --lo and --hi", "run", "histogram", "--bins", "3")
    refused(2, "--lo: \"x\" is not a number", "run", "histogram", "--bins", "3", "--lo", "x", "--hi", "1")
    refused(2, "--bins: \"1e3\" is not a whole number", "run", "histogram", "--bins", "1e3", "--lo", "0", "--hi", "1")
    refused(2, "takes no --lo-y", "run", "histogram", "--lo_y", "0")
    refused(2, "takes no --compare", "run", "sum", "--compare", "lt")
    refused(2, "takes no --result", "run", "sort", "--result")
    refused(2, "has one output: one --output", "run", "sort", "-o", "a", "-o", "b")
    refused(2, '"a" would be overwritten', "run", "run_length", "-o", "a", "-o", "a")
    refused(2, "takes no --descending", "run", "sum", "--descending")
    refused(2, "number of seconds", "ping", "--timeout", "soon")
    run("run", "sum", "--colour", exit_code=2)
    refused(2, '--count: "0" is not a number from 1 to ', "ping", "-c", "0")
    refused(2, '--interval: "-1" is not a number of seconds', "ping", "-i", "-1")
    for option, value in (("--clients", "0"), ("--clients", "1,,2"), ("--clients", "65"), ("--load", "x"),
                          ("--seconds", "0"), ("--window", "1025"), ("--elements", "0"), ("--device", "x"),
                          ("--seed", "-1")):
        refused(2, f'{option}: "{value}" is not ', "bench", option, value)
    refused(2, "takes no arguments", "bench", "extra")
    refused(2, "takes no arguments", "version", "extra")


def help_of_ops():
    """Every argument of ops.def is an option, and an op's help has its own; what is long is wrapped."""
    everything = text("run", "--help")
    takers = r"\(select_if,\s+partition,\s+count_if\)$"
    assert re.search(r"^      --compare HOW +eq, .*\n {24}\S.* " + takers, everything, re.M), everything
    for op in ("histogram_edges", "scatter"):
        long = text("run", op, "--help")
        assert max(map(len, long.splitlines())) <= 100, long
    assert max(map(len, everything.splitlines())) <= 110, everything
    table = open(os.path.join(os.environ["GM_E2E"], "..", "..", "proto", "ops.def")).read()
    arguments = re.findall(r"^ARG\((\w+),", table, re.M)
    assert len(arguments) > 20 and all(f" --{name.replace('_', '-')} " in everything for name in arguments), everything
    histogram = text("run", "histogram", "--help")
    assert re.findall(r"^ +(--[a-z-]+)", histogram, re.M) == ["--lo", "--hi", "--bins"], histogram
    assert histogram.startswith("usage: gridmill run histogram [INPUT] ") and "counts of in" in histogram


def unreachable():
    for command in (["run", "nop"], ["arena", "ls"], ["arena", "rm", "x"], ["ops"], ["stats"], ["ping"], ["bench"],
                    ["drain"]):
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
    assert text("run", "copy", stdin="1e-310 5e-324 -1e-309") == "1e-310\n5e-324\n-1e-309\n"
    assert text("run", "sum", stdin="%f" % 1e300) == "1e+300\n"
    refused(1, f'line 2: "{16 * "1"}..." has 1280 characters, a number at most 1279', "run", "sum",
            stdin="1\n" + 1280 * "1")
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
    histogram = ["run", "histogram", "--bins", "2", "--lo", "0", "--hi", "2"]
    assert text(*histogram, "--result", stdin="0 1 1 5") == "1\n2\n" and run.stderr == "3\n", run.stderr
    for wrong, message in ((["--hi", "0"], "hi must be more than lo (GM_EINVAL)"),
                           (["--lo", "nan"], "lo must be finite (GM_EINVAL)"),
                           (["--bins", "0"], "bins must be 1 to 16777216 (GM_ESIZE)"),
                           (["--bins", "16777217"], "bins must be 1 to 16777216 (GM_ESIZE)"),
                           (["--bins", str(1 << 63)], "bins must be 1 to 16777216 (GM_ESIZE)")):
        refused(1, "histogram: " + message, *histogram, *wrong)
    refused(2, '--count: "-1" is not a number of elements, at most 1099511627776', "run", "sum", "-n", "-1")
    refused(2, "not auto, inline, shared or device", "run", "sort", "--arena", "cloud")
    refused(2, "not a number of type u8", "run", "fill", "-t", "u8", "-n", "1", "--value", "256")
    numbers = list(range(300000, 0, -1))
    out = run("run", "sort", stdin="\n".join(map(str, numbers)))
    assert out.split() == [str(i).encode() for i in range(1, 300001)]
    assert run("run", "copy", "-t", "f32", "-f", "raw", stdin="1 2") == struct.pack("<2f", 1, 2)


def from_pipe(data, *arguments, keep=False, exit_code=0):
    """Raw data or .npy through a pipe that is no standard input; keep: it stays open, as one that never ends."""
    reader, writer = os.pipe()
    os.write(writer, data)
    if not keep:
        os.close(writer)
    process = subprocess.Popen([COMMAND, "run", "sum", f"/dev/fd/{reader}", *arguments], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment, pass_fds=[reader])
    out, err = process.communicate(timeout=60)
    os.close(reader)
    if keep:
        os.close(writer)
    assert process.returncode == exit_code, (arguments, process.returncode, err)
    return out.decode() if exit_code == 0 else err.decode()


def endless_inputs():
    """What never ends is read as far as --count says, and no further than there is memory without it."""
    assert text("run", "sum", "/dev/zero", "-t", "f32", "-n", "1000000") == "0\n"
    assert text("run", "sum", "/dev/zero", "-t", "u32", "-n", "0") == "0\n"
    assert from_pipe(struct.pack("<3I", 1, 2, 4), "-t", "u32", "-n", "2", keep=True) == "3\n"
    assert from_pipe(struct.pack("<3I", 1, 2, 4), "-t", "u32", "-n", "1", keep=True) == "1\n"
    assert from_pipe(struct.pack("<3I", 1, 2, 4), "-t", "u32", "-n", "3") == "7\n"
    assert from_pipe(struct.pack("<3I", 1, 2, 4), "-t", "u32") == "7\n"
    assert "has 3 elements, not the 4" in from_pipe(struct.pack("<3I", 1, 2, 4), "-t", "u32", "-n", "4", exit_code=2)
    assert "no multiple" in from_pipe(b"12345", "-t", "u32", "-n", "2", exit_code=1)
    header = "{'descr': '<u4', 'fortran_order': False, 'shape': (2,), }".ljust(117) + "\n"
    npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
    assert from_pipe(npy + struct.pack("<2I", 3, 4), "-t", "u32", "-n", "1") == "3\n"
    assert "more data than its header" in from_pipe(npy + struct.pack("<3I", 3, 4, 5), exit_code=1)
    refused(1, "bytes are wanted; at most ", "run", "sum", "/dev/zero", "-t", "f64", "-n", str(1 << 39))
    if sanitized():
        return

    def few():
        resource.setrlimit(resource.RLIMIT_AS, (256 << 20, 256 << 20))

    for arguments in (["/dev/zero", "-t", "f32"], ["-"]):
        with open("/dev/zero", "rb") as zeros:
            done = subprocess.run([COMMAND, "run", "sum", *arguments], stdin=zeros, capture_output=True,
                                  env=environment, timeout=120, preexec_fn=few, check=False)
        assert done.returncode == 1 and f"more than {128 << 20} bytes".encode() in done.stderr, done


def sanitized():
    """Whose shadow takes more than any limit of memory."""
    with open(COMMAND, "rb") as file:
        program = file.read()
    return b"__asan_" in program or b"__tsan_" in program


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
    refused(1, "element type is none of ours: u1 i1 u4 i4 u8 i8 f2 f4 f8\n", "run", "sum", path)
    numpy.save(path, numpy.zeros(3, dtype=[("a", "f4")]))
    refused(1, "structured", "run", "sum", path)
    for version in ((1, 0), (2, 0), (3, 0)):
        with open(path, "wb") as file:
            numpy.lib.format.write_array(file, numpy.arange(5.0), version=version)
        assert text("run", "sum", path) == "10\n"


def named_arenas(folder):
    raw, npy = os.path.join(folder, "w"), os.path.join(folder, "w.npy")
    many = 3 << 20  # pieces of the upload: more than one, and the last one short
    with open(raw, "wb") as file:
        file.write(struct.pack(f"<{many + 1}i", *range(many), -5))
    assert run("arena", "ls") == b"" and json.loads(run("arena", "ls", "--json")) == {"arenas": []}
    assert run("arena", "put", raw, "weights", "-t", "i32") == b""
    run("arena", "put", raw, "by number", "-t", "i32", "--device", "0")
    run("arena", "put", "--shared", "-t", "i32", raw, "\u00e9")
    rows = json.loads(run("arena", "ls", "--json"))["arenas"]
    assert {r["name"]: r["kind"] for r in rows} == {"weights": "device", "by number": "device", "\u00e9": "shared"}
    for row in rows:
        assert row["bytes"] == (4 * (many + 1) + 4095) // 4096 * 4096 and row["attached"] == 0, row
        assert row.get("device") == (0 if row["kind"] == "device" else None) and "uid" not in row, row
        which = ["-t", "i32", "-n", str(many + 1)]
        name = "@" + row["name"]
        assert text("run", "sum", name, *which) == f"{many * (many - 1) // 2 - 5}\n"
        assert text("run", "min", name, *which) == "-5\n"
        assert text("run", "min", name, "-t", "i32", "-n", str(many)) == "0\n"
        for arena in ("auto", "inline", "shared", "device"):
            assert text("run", "sort", name, "-t", "i32", "-n", "3", "--descending", "--arena", arena) == "2\n1\n0\n"
    table = text("arena", "ls").splitlines()
    assert table[0].split() == ["name", "bytes", "kind", "device", "attached"] and len(table) == 4, table
    uids = [r["uid"] for r in json.loads(run("arena", "ls", "--all", "--json"))["arenas"]]
    assert uids == 3 * [os.getuid()], uids
    assert text("arena", "ls", "--all").splitlines()[1].split()[-1] == str(os.getuid())
    refused(1, "there is an arena of this name (GM_EINVAL)", "arena", "put", raw, "weights", "-t", "u8")
    refused(1, "there is no arena of this name (GM_ENOTFOUND)", "run", "sum", "@nothing", "-t", "i32", "-n", "1")
    refused(1, "GM_EBOUNDS", "run", "sum", "@weights", "-t", "i32", "-n", str(many + 4096))
    refused(2, "needs --dtype and --count", "run", "sum", "@weights", "-t", "i32")
    refused(2, "needs --dtype and --count", "run", "sum", "@weights", "-n", "3")
    refused(1, "GM_EINVAL", "arena", "put", raw, "a/b", "-t", "i32")
    refused(1, "1 to 63 bytes", "arena", "put", raw, 64 * "n", "-t", "i32")
    refused(1, "GM_ENODEVICE", "arena", "put", raw, "x", "-t", "i32", "-d", "15")
    refused(1, "No such file", "arena", "put", os.path.join(folder, "none"), "x")
    refused(1, "is empty", "arena", "put", "-", "x")
    refused(2, "is no .npy file; say --dtype", "arena", "put", raw, "x")
    refused(2, "needs a file and a name", "arena", "put", raw)
    refused(2, "belongs to no device", "arena", "put", raw, "x", "-t", "i32", "--shared", "-d", "0")
    refused(2, "arena ls takes no arguments", "arena", "ls", "x")
    refused(2, "arena rm needs a name", "arena", "rm")
    refused(2, "arena needs put, ls or rm", "arena")
    refused(2, "arena needs put, ls or rm", "arena", "get")
    run("run", "copy", "-t", "f32", "-f", "npy", "-o", npy, stdin="1.5 -2")
    run("arena", "put", npy, "npy")  # without its header
    assert run("run", "copy", "@npy", "-t", "f32", "-n", "2", "-f", "raw") == struct.pack("<2f", 1.5, -2)
    run("arena", "put", "-", "piped", stdin="7 8")
    assert text("run", "sum", "@piped", "-t", "i64", "-n", "2") == "15\n"
    refused(1, "nothing: there is no arena", "arena", "rm", "npy", "nothing", "piped")
    names = {r["name"] for r in json.loads(run("arena", "ls", "--json"))["arenas"]}
    assert names == {"weights", "by number", "\u00e9"}, names
    run("arena", "rm", *names)
    assert run("arena", "ls") == b""
    interrupted_upload(folder)


def interrupted_upload(folder):
    """A file that never ends, more or less: sparse, and larger than is uploaded before the signal comes."""
    path = os.path.join(folder, "sparse")
    with open(path, "wb") as file:
        file.truncate(256 << 20)
    process = subprocess.Popen([COMMAND, "arena", "put", path, "half", "-t", "u8"], stderr=subprocess.PIPE,
                               env=environment)
    while process.poll() is None and not json.loads(run("arena", "ls", "--json"))["arenas"]:
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    message = process.stderr.read().decode()
    assert (process.wait(), "interrupted" in message) in ((1, True), (0, False)), message
    if process.returncode == 0:  # it was quicker
        run("arena", "rm", "half")
    assert run("arena", "ls") == b""
    os.remove(path)


def figures(daemon):
    ops = json.loads(run("ops", "--json"))["ops"]
    names = [op["name"] for op in ops]
    assert "sum" in names and [line.split()[0] for line in text("ops").splitlines()] == names
    assert "sum of in" in text("ops", "sum")
    refused(1, 'no op "none"', "ops", "none")
    histogram = next(op for op in ops if op["name"] == "histogram")
    assert histogram["result"] == "count" and histogram["dtypes2"] == [], histogram
    assert histogram["buffers"] == [{"name": "in[0]", "extent": "n", "content": "dtype"},
                                    {"name": "out[0]", "extent": "bins", "content": "u64"}], histogram
    assert [(a["name"], a["type"], a["optional"]) for a in histogram["arguments"]] == \
        [("lo", "number", False), ("hi", "number", False), ("bins", "uint", False)], histogram
    sort = next(op for op in ops if op["name"] == "sort")["arguments"]
    assert sort == [{"name": "descending", "type": "bool", "optional": True, "help": "largest first"}], sort
    assert next(op for op in ops if op["name"] == "nop")["buffers"] == []
    edges = text("ops", "histogram_edges")
    assert next(op for op in ops if op["name"] == "histogram_edges")["help"] in " ".join(edges.split()), edges
    shown = text("ops", "histogram")
    assert re.search(r"^  out\[0\] +bins +u64$", shown, re.M) and re.search(r"^  hi +number +upper", shown, re.M), shown
    assert re.search(r"f64 +\[descending\]$", text("ops"), re.M), text("ops")
    for op in ops:  # what the command shows without a daemon is the same
        offline = text("run", op["name"], "--help")
        assert op["help"] in " ".join(offline.split()), offline
        assert [f'{b["name"]} {b["extent"]} ({b["content"]})' for b in op["buffers"]] == \
            [re.sub(" +", " ", line) for line in re.findall(r"^ +((?:in|out)\[.*)$", offline, re.M)], offline
        assert [a["name"] for a in op["arguments"]] == \
            [name.replace("-", "_") for name in re.findall(r"^ +--([a-z-]+)", offline, re.M)], offline
    stats = json.loads(run("stats", "--json"))
    assert stats["schema"] == 1 and stats["daemon"]["healthy"] == 1 and stats["devices"][0]["done"] > 0
    assert stats["limits"]["inline_bytes"] == 1048576
    table = text("stats")
    for section in ("daemon", "devices", "ops"):
        assert section in table.splitlines()
    assert "\x1b" not in table
    for figure in stats["daemon"]:
        assert f"\n  {figure} " in table, figure
    lanes = text("stats", "--lanes").splitlines()
    assert "lanes" not in table.splitlines() and lanes[lanes.index("lanes") + 1].split()[:2] == ["device", "lane"]
    assert isinstance(stats["lanes"], list)
    users = text("stats", "--users").splitlines()
    where = users.index("users")
    row = dict(zip(users[where + 1].split(), users[where + 2].split()))
    assert "users" not in table.splitlines() and row["uid"] == str(os.getuid()) and int(row["sessions"]) >= 1, users
    assert "192 lanes on a device" in users[where + 3] and stats["limits"]["lanes_per_user"] == 192, users
    assert stats["users"][0]["uid"] == os.getuid(), stats["users"]
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


def bench():
    """Every figure that was asked for is there and fits the others; none is judged."""
    done = json.loads(run("bench", "--json", "--seconds", "0.05", "--clients", "1,2", "--load", "20,80", "-n", "1000",
                          "--socket-too"))
    figures = {figure["name"]: figure for figure in done["figures"]}
    for path in ("lane", "socket"):
        names = ["nop", "nop_device", "sum_f32_1000", "sum_f32_1000_device", "submit_cost", "submit_cost_mean",
                 "rate_1", "rate_2", "open_loop_20", "open_loop_80"]
        assert [name for name in figures if name.startswith(path)] == [f"{path}_{name}" for name in names], figures
        for figure in names:
            got = figures[f"{path}_{figure}"]
            if "p50" in got:
                assert 0 <= got["p50"] <= got["p99"] <= got["p999"] <= got["max"] and got["count"] > 0, got
            else:
                assert got["value"] > 0, got
        assert figures[f"{path}_nop_device"]["p50"] <= figures[f"{path}_nop"]["p50"]
    assert "lane" in done["facts"]["ways"], done["facts"]


def closed_output():
    process = subprocess.Popen([COMMAND, "run", "sort"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=environment)
    process.stdout.close()
    process.stdin.write(b"\n".join(str(i).encode() for i in range(100000)))
    process.stdin.close()
    message = process.stderr.read().decode()
    assert process.wait() == 1 and message == "gridmill: standard output: Broken pipe\n", message


def closed_descriptors():
    """What has no standard output says so, and neither the socket nor a file is taken for it."""
    def without(fd, *arguments):
        return subprocess.run([COMMAND, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL if fd == 2 else subprocess.PIPE, env=environment, timeout=60,
                              preexec_fn=lambda: os.close(fd), check=False)

    for arguments in (["--help"], ["version"], ["stats"], ["stats", "--json"], ["ops"], ["ping"], ["run", "--help"],
                      ["run", "fill", "-t", "u8", "-n", "2000000", "--value", "1"]):
        done = without(1, *arguments)
        assert done.returncode == 1 and b"standard output: it is closed\n" in done.stderr, (arguments, done)
    done = without(1, "run", "nop")
    assert done.returncode == 0 and done.stderr == b"", done
    done = without(0, "run", "sum")
    assert done.returncode == 1 and b"standard input: it is closed\n" in done.stderr, done
    assert without(2, "run", "nop").returncode == 0 and without(2, "run", "summ").returncode == 2


def without_standard_descriptors(missing):
    """A daemon that was started without some of descriptors 0 to 2 serves, and ends as others do."""
    with tempfile.TemporaryDirectory(prefix="gm-e2e-") as folder:
        path = os.path.join(folder, "s")
        program = os.path.join(os.path.dirname(COMMAND), "gridmilld")
        daemon = subprocess.Popen([program, "--socket", path, "--device", "cpu:1"], env=environment,
                                  preexec_fn=lambda: [os.close(fd) for fd in missing])
        try:
            for _ in range(600):
                if subprocess.run([COMMAND, "ping", "-s", path], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, env=environment, check=False).returncode == 0:
                    break
                time.sleep(0.05)
            assert text("run", "nop", "-s", path) == ""
            daemon.terminate()
            assert daemon.wait(60) == 0, (missing, daemon.returncode)
        finally:
            daemon.kill()


help_and_usage()
help_of_ops()
unreachable()
for closed in ([0], [1, 2], [0, 1, 2]):
    without_standard_descriptors(closed)
with Daemon() as d, tempfile.TemporaryDirectory(prefix="gm-e2e-") as work:
    environment["GRIDMILL_SOCKET"] = d.socket
    scalars()
    arrays()
    files(work)
    endless_inputs()
    if numpy is not None:
        numpy_files(work)
    named_arenas(work)
    closed_output()
    closed_descriptors()
    figures(d)
    bench()
    assert text("drain") == ""
    refused(1, "EDRAINING", "run", "nop")
    assert d.stop() == 0
    refused(3, "cannot reach the daemon", "stats")
print("ok" if numpy is not None else "ok, without NumPy")
