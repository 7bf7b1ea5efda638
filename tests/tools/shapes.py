#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gridmill run with the arguments and buffers of every shape, against the real daemon: several inputs and outputs,
indices and offsets with a type of their own, sizes that follow from inputs, and what is said when they do not fit."""
import json
import os
import struct
import tempfile

from runner import Daemon, environment, refused, run, text


def npy(path, letters, values, shape=None):
    """A file as NumPy writes it; letters: those of struct."""
    descr = {"f": "<f4", "q": "<i8", "i": "<i4", "I": "<u4", "B": "|u1", "e": "<f2"}[letters]
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape or (len(values),)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header.encode() +
                   struct.pack(f"<{len(values)}{letters}", *values))
    return path


def buffers_of_ops(folder):
    """Ops with other arguments or buffers than the first ones, as far as this daemon has them."""
    def file(name, letters, values, shape=None):
        return npy(os.path.join(folder, name + ".npy"), letters, values, shape)

    a, b = file("a", "f", [1, 2, 3, 4, 5, 6], (2, 3)), file("b", "f", [6, 5, 4, 3, 2, 1])
    short, index, runs = file("short", "f", [1, 2]), file("index", "i", [2, 0, 2, 5]), file("runs", "i", [7, 7, 1, 7])
    offsets, edges = file("offsets", "I", [0, 2, 2, 6]), file("edges", "f", [0, 2, 6])
    weights, pixels = file("weights", "f", [1, 10, 100, 1000, 10000]), file("pixels", "B", [0, 9, 1, 9], (2, 2))
    places, halves = file("places", "q", [4, 3, 2, 1, 0]), file("halves", "e", [0.5, -2, 1.25])
    bins = ["--bins", "2", "--lo", "0", "--hi"]
    cases = {
        "fill": [(["-t", "u8", "-n", "2", "--value", "200"], "200 200")],
        "sort": [([index, "--descending"], "5 2 2 0")],
        "histogram": [([a, *bins, "6"], "2 4"), ([a, *bins, "6", "--count", "3"], "2 1")],
        "axpby": [([a, b, "--alpha", "2", "--beta", "1"], "8 9 10 11 12 13")],
        "clamp": [([a, "--lower", "2", "--upper", "4.5"], "2 2 3 4 4.5 4.5")],
        "cast": [([a, "--to", "i32", "-n", "2"], "1 2")],
        "stencil3": [([a], "3 6 9 12 15 11")],
        "stencil3_weighted": [([a, "--left", "0", "--center", "1", "--right", "10"], "21 32 43 54 65 6")],
        "stencil5": [([a, weights], "40201 50312 60023 1504 2645 3056"),
                     ([a, weights, "--width", "6"], "201 312 423 534 645 56")],
        "gather": [([a, index], "3 1 3 6"), ([a, index, "-n", "1"], "3")],
        "scatter": [([weights, places, "--length", "5"], "10000 1000 100 10 1")],
        "dot": [([a, b], "56"), ([a, b, "--count", "2"], "16"), ([short, a, "-n", "2"], "5")],
        "count_if": [([a, "--compare", "gt", "--value", "2.5"], "4"),
                     ([a, "--compare", "between", "--value", "2", "--high", "4"], "3"),
                     ([a, "--compare", "outside", "--value", "2", "--high", "4"], "3")],
        "argmax": [([b], "0"), ([halves], "2")],
        "prod": [([a], "720")],
        "segmented_sum": [([a, offsets], "3 0 18")],
        "segmented_scan_sum": [([a, offsets], "1 3 3 7 12 18"), ([a, offsets, "--exclusive"], "0 1 0 3 7 12")],
        "scan_sum": [([a, "--exclusive"], "0 1 3 6 10 15"), ([a], "1 3 6 10 15 21")],
        "histogram_edges": [([a, edges], "1 5")],
        "histogram_channels": [([pixels, *bins, "10"], "2 0 0 2")],
        "histogram_2d": [([a, b, *bins, "6", "--bins-y", "1", "--lo_y", "0", "--hi-y", "6"], "2 4")],
        "select_if": [([a, "--compare", "ge", "--value", "5"], "5 6")],
        "partition": [([a, "--compare", "ge", "--value", "5"], "5 6 1 2 3 4")],
        "unique": [([runs], "7 1 7")],
        "run_length": [([runs], "7 2 1 1 7 1")],
    }
    names = {op["name"] for op in json.loads(run("ops", "--json"))["ops"]}
    for op in names & set(cases):
        for arguments, expected in cases[op]:
            for arena in ("auto", "inline", "shared", "device"):
                out = text("run", op, *arguments, "--arena", arena)
                assert out.split() == expected.split(), (op, arguments, arena, out)
    for op, check in (("axpby", two_inputs), ("gather", indices), ("select_if", choices)):
        if op in names:
            check(folder, a, b, short, index)
    if "stencil5" in names:
        refused(2, "has 6 elements, not the 5 of stencil5", "run", "stencil5", a, b)
        refused(2, "stencil5 needs --width", "run", "stencil5", b, weights)
        refused(1, "width must be at least 1, and n a multiple of it (GM_ESIZE)", "run", "stencil5", a, weights,
                "--width", "4")
    if "segmented_sum" in names:
        refused(2, "not the 8 of --segments", "run", "segmented_sum", a, offsets, "--segments", "7")
        refused(2, "is empty; segmented_sum needs one offset at least", "run", "segmented_sum", a, "-")
    if "run_length" in names:
        two = [os.path.join(folder, "values.npy"), os.path.join(folder, "lengths")]
        assert text("run", "run_length", runs, "-o", two[0], "-o", two[1], "--result") == "" and run.stderr == "3\n"
        assert text("run", "copy", two[0]) == "7\n1\n7\n" and open(two[1]).read() == "2\n1\n1\n"
        assert text("run", "run_length", runs, "-o", two[0]) == "2\n1\n1\n"
        refused(2, "say --output for each", "run", "run_length", runs, "-f", "npy")
    if "histogram_channels" in names:
        refused(2, "no whole pixels of 3 channels", "run", "histogram_channels", pixels, *bins, "9", "--channels", "3")
        refused(1, "channels must be 1 to 4 (GM_ESIZE)", "run", "histogram_channels", pixels, *bins, "9",
                "--channels", "0")
    if "cast" in names:
        refused(2, "cast needs --to", "run", "cast", a)
        refused(2, '--to: "float" is not an element type', "run", "cast", a, "--to", "float")
    if "argmax" in names:
        assert text("run", "max", halves) == "1.25\n" and text("run", "max", "-t", "bf16", stdin="-3.5 -2") == "-2\n"


def two_inputs(folder, a, b, short, index):
    """axpby: which of several inputs is standard input, an arena, too short, or of another type."""
    factors = ["--alpha", "2", "--beta", "1"]
    whole = "8\n9\n10\n11\n12\n13\n"
    for inputs, rest in (([a, "-"], "6 5 4 3 2 1"), (["-", b], "1 2 3 4 5 6"), ([a], "6 5 4 3 2 1")):
        assert text("run", "axpby", *inputs, *factors, stdin=rest) == whole  # text has the type of the file
    assert run("run", "axpby", a, b, *factors, "-f", "raw") == struct.pack("<6f", 8, 9, 10, 11, 12, 13)
    refused(2, "takes two inputs", "run", "axpby", *factors)
    refused(2, "one input only", "run", "axpby", "-", *factors)
    refused(2, "has 2 elements, not the 6 of " + a, "run", "axpby", a, short, *factors)
    refused(2, "has 2 elements, not the 3 of --count", "run", "axpby", a, short, *factors, "-n", "3")
    refused(2, "holds i32, not f32", "run", "axpby", a, index, *factors)
    refused(2, "axpby needs --beta", "run", "axpby", a, b, "--alpha", "2")
    refused(2, '--alpha: "x" is not a number of type f32', "run", "axpby", a, b, "--alpha", "x", "--beta", "1")
    run("arena", "put", b, "b")
    assert text("run", "axpby", a, "@b", *factors) == whole
    assert text("run", "axpby", "@b", "@b", *factors, "-t", "f32", "-n", "1") == "18\n"
    refused(2, "@b needs --dtype and --count", "run", "axpby", "@b", "@b", *factors, "-t", "f32")
    run("arena", "rm", "b")


def indices(folder, a, b, short, index):
    """gather: the type of indices, and the length of what they go into."""
    raw = os.path.join(folder, "indices")
    with open(raw, "wb") as data:
        data.write(struct.pack("<3I", 1, 3, 4))
    assert text("run", "gather", a, raw, "--index", "u32") == "2\n4\n5\n"
    assert text("run", "gather", a, stdin="1 0") == "2\n1\n"
    refused(2, "say --index for raw data", "run", "gather", a, raw)
    refused(2, "holds f32, which gather does not take as indices", "run", "gather", a, b)
    refused(2, "--index: gather does not take f64", "run", "gather", a, index, "--index", "f64")
    refused(2, "holds i32, not u32", "run", "gather", a, index, "--index", "u32")
    refused(2, "not the 7 of --length", "run", "gather", a, index, "--length", "7")
    refused(1, "GM_E", "run", "gather", a, index, "--length", "5")


def choices(folder, a, b, short, index):
    """select_if: comparisons, and what the op returns."""
    assert text("run", "select_if", a, "--compare", "lt", "--value", "3", "--result") == "1\n2\n"
    assert run.stderr == "2\n", run.stderr
    refused(2, "select_if needs --value and --compare", "run", "select_if", a)
    refused(2, "--compare between needs --high", "run", "select_if", a, "--compare", "between", "--value", "1")
    refused(2, "is not eq, ne, lt", "run", "select_if", a, "--compare", "above", "--value", "1")
    refused(1, "high is for between and outside only", "run", "select_if", a, "--compare", "lt", "--value", "1",
            "--high", "2")


with Daemon() as daemon, tempfile.TemporaryDirectory(prefix="gm-e2e-") as work:
    environment["GRIDMILL_SOCKET"] = daemon.socket
    buffers_of_ops(work)
    assert daemon.stop() == 0
print("ok")
