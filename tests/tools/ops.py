#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The measurement of the catalogue's ops, on the CPU: that goals are judged as they are written, what follows from
figures, that every op has its figures and tools/gpu-suite puts them into its record, that a program which fails costs
its own figures only, the plot, and wrong options. usage: ops.py TREE BUILD"""
import glob
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile

TREE, BUILD = sys.argv[1:3]
BENCH = os.path.join(TREE, "tools", "bench")
sys.path.insert(0, BENCH)
sys.dont_write_bytecode = True
from catalogue import catalogue, constants, sizes  # noqa: E402
from goals import OP_GOALS, judge, op_goals  # noqa: E402
from ops import PYTHON_WITH_NUMPY, QUICK_LOG2, derive, numpy_is_there, ops_table, parts  # noqa: E402
import goals as goals_module  # noqa: E402

# Ten times what they need on an idle machine: this one may be slow, and a sanitizer in every program.
PATIENT_S = 900
# Ops that have a peer, when the catalogue has them.
PEERS = set("""nop fill copy sum min max histogram sort axpby clamp cast stencil3 stencil3_weighted stencil5 gather
scatter argmin argmax count_if dot norm2 prod segmented_sum segmented_min segmented_max scan_sum scan_min scan_max
segmented_scan_sum segmented_scan_min segmented_scan_max histogram_edges histogram_channels histogram_2d select_if
partition unique run_length""".split())


class AnOp:
    """As the catalogue has them, also one that it does not have yet."""

    def __init__(self, name, shape, family, types=("f32",)):
        self.name, self.shape, self.family, self.all_types = name, shape, family, set(types)

    def types(self):
        return sorted(self.all_types)

    def figure(self, dtype, log2):
        return f"op_{self.name}_{dtype}_{log2}"


def goals_of(*ops):
    before, goals_module.catalogue = goals_module.catalogue, lambda: ops
    try:
        return {name: (factor, constant, sense) for name, _, _, factor, _, constant, sense in op_goals()}
    finally:
        goals_module.catalogue = before


def goals_are_those_that_were_agreed():
    has = goals_of(AnOp("sum", "REDUCE", "reduce"), AnOp("dot", "DOT", "reduce"), AnOp("sort", "SORT", "sort"),
                   AnOp("select_if", "SELECT", "select"), AnOp("scan_sum", "SCAN", "scan", ("f32", "i32")),
                   AnOp("copy", "MAP", "memory"), AnOp("gather", "GATHER", "memory"))
    for log2 in (10, 12, 14, 16):
        for op in ("sum", "dot", "gather", "select_if", "copy"):
            assert has[f"op_{op}_f32_{log2}"] == (0.8, 0, "<="), op
            assert has[f"op_{op}_f32_{log2}_aim"] == (0.5, 0, "<="), op
        assert has[f"op_sort_f32_{log2}"][0] == 1.2 and has[f"op_sort_f32_{log2}_aim"][0] == 0.8
    for op in ("sum", "sort", "gather"):
        assert has[f"op_{op}_f32_20"][0] == 1.0 and has[f"op_{op}_f32_20_aim"][0] == 0.8
    for log2 in (24, 28):
        for op in ("sum", "scan_sum", "select_if"):
            assert has[f"op_{op}_f32_{log2}"][0] == 1.15 and has[f"op_{op}_f32_{log2}_aim"][0] == 1.02
        assert not any(f"op_{op}_f32_{log2}" in has for op in ("dot", "sort", "gather", "copy"))
    shares = {name: constant for name, (_, constant, sense) in has.items() if sense == ">="}
    assert shares == {"op_sum_f32_28_share": 90, "op_dot_f32_28_share": 90, "op_copy_f32_28_share": 90,
                      "op_scan_sum_i32_28_share": 80}, shares


def goals_are_judged_at_their_edges():
    assert OP_GOALS
    for name, _, (figure, key), factor, peer, constant, sense in OP_GOALS:
        edge = factor * 100.0 if peer else constant
        worse = edge + 0.01 if sense == "<=" else edge - 0.01
        for measured, backend, verdict in ((edge, "cuda", "met"), (worse, "cuda", "not met"),
                                           (edge, "cpu", "not measured")):
            figures = [{"name": figure, key: measured}] + ([{"name": peer[0], peer[1]: 100.0}] if peer else [])
            assert {g["name"]: g["verdict"] for g in judge(OP_GOALS, figures, backend)}[name] == verdict, name
        if peer:
            alone = {g["name"]: g["verdict"] for g in judge(OP_GOALS, [{"name": figure, key: 1.0}], "cuda")}
            assert alone[name] == "not measured", name


def latency(name, p50, **more):
    return {"name": name, "what": "w", "unit": "us", "count": 1, **dict.fromkeys(("p50", "p99", "p999", "max"), p50),
            **more}


def what_follows_from_figures_is_right():
    figures = [latency("peer_op_copy_f32_10", 1.0, bytes=8192), latency("peer_op_copy_f32_28", 500.0, bytes=2 << 30),
               latency("peer_op_sum_f32_20", 16.0, bytes=1), latency("op_sum_f32_20", 8.0, run=6.0, bytes=4 << 20),
               latency("op_sum_f32_14_turn", 6.0), latency("op_sum_f32_14", 4.0, run=2.0, bytes=65536),
               latency("op_nop", 3.0, bytes=0), {"name": "op_min_f32_10", "skipped": "why"}]
    got = {f["name"]: f for f in derive(figures)}
    sum20 = got["op_sum_f32_20"]
    assert sum20["ratio"] == 0.5 and sum20["rate"] == 524.3, sum20
    assert sum20["share"] == 12.21, sum20  # 524,288 bytes a microsecond of 4,294,967
    assert got["op_sum_f32_14_turn"]["ratio"] == 1.5 and "ratio" not in got["op_sum_f32_14"]
    assert "rate" not in got["op_nop"] and "share" not in got["op_nop"]
    text = "\n".join(ops_table(figures, judge(OP_GOALS, figures, "cuda"), {"gpu": "G"}))
    assert re.search(r"sum f32 .* 8\.0 +16\.0 +0\.50 +12%", text) and "failed" in text, text
    assert "op_min_f32_10: skipped: why" in text and "not met" in text, text
    assert parts("peer_op_scan_sum_i32_28") == ("scan_sum", "i32", 28) and parts("op_nop") is None


def tables_are_read_as_the_programs_have_them():
    assert sizes() == [10, 12, 14, 16, 20, 24, 28] and constants()["BINS"] == 256
    ops = {op.name: op for op in catalogue()}
    assert ops["sum"].types() == ["f32"] and ops["sum"].all_types >= {"i32", "u32", "i64", "u64", "f32", "f64"}
    assert ops["nop"].types() == [] and ops["nop"].figure("", 10) == "op_nop"
    assert {op.family for op in ops.values() if op.name != "nop"} <= {"memory", "map", "reduce", "segmented", "scan",
                                                                      "histogram", "select", "sort", "other"}


def peers_have_the_names_of_their_ops():
    texts = ""
    for path in glob.glob(os.path.join(BENCH, "peers_ops_*.cu")):
        with open(path, encoding="utf-8") as text:
            texts += text.read()
    in_cuda = set(re.findall(r'^    \{"(\w+)",', texts, re.M))
    assert in_cuda == PEERS, in_cuda ^ PEERS
    with open(os.path.join(BENCH, "numpy_ops.py"), encoding="utf-8") as text:
        calls = text.read().split("CALLS = {")[1].split("\n}\n")[0]
    in_numpy = set(re.findall(r'"(\w+)":', calls))
    assert in_numpy == PEERS - {"nop"}, in_numpy ^ PEERS


def suite_writes_the_figures_of_every_op_into_its_record():
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run([os.path.join(TREE, "tools", "gpu-suite"), "--backend", "cpu", "--build", BUILD, "--only",
                               "ops", "--quick", "--ops-limit", str(PATIENT_S)], env={**os.environ, "OUT": out},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=2 * PATIENT_S)
        assert done.returncode == 0, done.stdout[-6000:]
        with open(os.path.join(out, "cpu.json"), encoding="utf-8") as text:
            record = json.load(text)
    step = {e["name"]: e for e in record["steps"]}["ops"]
    assert step["status"] == "passed" and step["step"] == "ops" and step["quick"] and not record["complete"], step
    run = step["ops"]
    assert [g["name"] for g in run["goals"]] == [name for name, *_ in OP_GOALS]
    assert step["goals"] == {"met": 0, "not met": 0, "not measured": len(OP_GOALS)}, step["goals"]
    values = {f["name"]: f for f in run["figures"]}
    assert values["ops_maps_libcuda"]["value"] == 0
    small = [log2 for log2 in sizes() if log2 <= QUICK_LOG2]
    wanted = {op.figure(dtype, log2) for op in catalogue() for dtype in op.types() or [""] for log2 in small}
    turns = {op.figure((op.types() or [""])[0], QUICK_LOG2) + "_turn" for op in catalogue()}
    ours = {name for name in values if name.startswith("op_")}
    assert ours == wanted | turns, ours ^ (wanted | turns)
    for name in ours:
        f = values[name]
        assert 0 < f["p50"] <= f["p99"] <= f["max"] and f["count"] > 0, f
        assert name in turns or f["run"] > 0 and (f["bytes"] > 0 or name == "op_nop"), f
        assert name not in turns or f["ratio"] > 0, f
    assert values["op_copy_f32_14"]["bytes"] == 2 * 4 << 14 and values["op_sum_f32_14"]["bytes"] == 4 << 14
    if not numpy_is_there():
        assert run["facts"]["peers"].startswith("none: ") and not any(n.startswith("peer_") for n in values)
        print(f"     without peers: {run['facts']['peers']}")
        return
    for op in catalogue():
        for name in (op.figure(dtype, log2) for dtype in op.types() for log2 in small if op.name in PEERS):
            assert values[name]["ratio"] > 0 and values[name]["share"] > 0 and values[f"peer_{name}"]["p50"] > 0, name


def every_peer_of_a_cpu_works():
    if not numpy_is_there():
        print(f"     skipped: {PYTHON_WITH_NUMPY} has no NumPy")
        return
    program = f"""
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, {BENCH!r})
import numpy as np
import numpy_ops
for name, call in numpy_ops.CALLS.items():
    for dtype in {{"scan_sum": ["f32", "i32"], "histogram_channels": ["f32", "u8"]}}.get(name, ["f32"]):
        data = numpy_ops.Data(dtype, 12, 1 << 16, name in ("unique", "run_length"))
        assert data.places == (1 << 16) // (data.x.itemsize << 12)
        data.move(data.places - 1)
        call(data)
data = numpy_ops.Data("f32", 12, 1 << 16, False)
numpy_ops.segmented_scan(data)
parts = [np.cumsum(data.x[a:a + n]) for a, n in zip(data.offsets, data.lengths)]
assert np.allclose(data.out, np.concatenate(parts), rtol=1e-3, atol=1e-2)
values, lengths = numpy_ops.run_length(numpy_ops.Data("f32", 12, 1 << 16, True))
assert lengths.sum() == 1 << 12 and 2 < lengths.mean() < 8
"""
    done = subprocess.run([PYTHON_WITH_NUMPY, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=PATIENT_S, check=False)
    assert done.returncode == 0, done.stdout


def a_program_that_fails_costs_its_own_figures_only():
    with tempfile.TemporaryDirectory() as build:
        os.mkdir(os.path.join(build, "bin"))
        for name, text in (("bench_ops", '''printf '{"program": "fake", "facts": {}, "figures": [\\n'
printf '{"name": "op_nop", "unit": "us", "p50": 2, "p99": 2, "p999": 2, "max": 2},\\n {"name": "half'
echo no device memory >&2; exit 1'''),):
            path = os.path.join(build, "bin", name)
            with open(path, "w", encoding="utf-8") as out:
                out.write("#!/bin/sh\n" + text + "\n")
            os.chmod(path, stat.S_IRWXU)
        file = os.path.join(build, "figures.json")
        done = subprocess.run([os.path.join(BENCH, "bench"), "--ops", "--quick", "--op", "copy", "--build", build,
                               "--device", "cpu", "--json", file], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=PATIENT_S, check=False)
        assert done.returncode == 1 and "no device memory" in done.stderr, done
        with open(file, encoding="utf-8") as text:
            result = json.load(text)
        assert len(result["failures"]) == 1 and "no device memory" in result["failures"][0], result["failures"]
        if numpy_is_there():
            assert any(f["name"] == "peer_op_copy_f32_10" for f in result["figures"])


def plot(figures, file, env=None):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as text:
        json.dump({"facts": {"gpu": "none", "device": "cpu"}, "figures": figures}, text)
        text.flush()
        return subprocess.run([sys.executable, os.path.join(BENCH, "plot-ops"), text.name, file],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENT_S, env=env,
                              check=False)


RATIOS = [{"name": f"op_{op}_f32_{k}", "ratio": 0.1 * k} for op in ("sum", "sort", "no_such_op") for k in (10, 14, 20)]


def plot_says_what_is_missing():
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "o.svg")
        nothing = plot([{"name": "op_sum_f32_10", "p50": 1.0}], file)
        assert nothing.returncode == 1 and "no op of it has a ratio" in nothing.stderr, nothing
        absent = plot(RATIOS, file, {**os.environ, "PATH": folder})
        assert absent.returncode == 1 and "gnuplot-nox" in absent.stderr, absent
        lost = subprocess.run([os.path.join(BENCH, "plot-ops"), os.path.join(folder, "none.json"), file],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENT_S, check=False)
        assert lost.returncode == 1 and "none.json" in lost.stderr and "Traceback" not in lost.stderr, lost
        assert not os.path.exists(file)


def plot_has_a_line_of_every_op():
    if shutil.which("gnuplot") is None:
        print("     skipped: no gnuplot")
        return
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "o.svg")
        done = plot(RATIOS, file)
        assert done.returncode == 0 and "3 ops in 3 families" in done.stdout, done
        with open(file, encoding="utf-8") as text:
            drawn = text.read()
        words = re.sub(r"<[^>]+>", "", drawn)
        assert drawn.rstrip().endswith("</svg>")
        assert all(word in words for word in ("reduce", "sort", "other", "sum f32", "no_such_op f32")), words


def profiled(*args):
    """The lines of profile_op, each as a mapping."""
    done = subprocess.run([os.path.join(BUILD, "bin", "profile_op"), *args], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=PATIENT_S, check=False)
    assert done.returncode == 0 and done.stderr == "", (args, done)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines and all(line[0] == "profile_op" for line in lines), done.stdout
    return [dict(word.split("=", 1) for word in line[1:]) for line in lines]


def every_op_can_be_profiled():
    for op in catalogue():
        line, = profiled("--op", op.name, "--n", "3000")
        assert line["op"] == op.name and int(line["run_ns"]) <= int(line["trip_ns"]) * 1.01, line
        assert "launch" not in line and "skip" not in line, line  # a CPU has none
        if op.types():
            elements = 750 if op.shape == "CHANNELS" else 3000
            assert line["type"] == op.types()[0] and int(line["n"]) == elements, line
            assert int(line["bytes"]) >= 3000, line


def a_profiled_job_has_the_data_of_the_measurements():
    half, = profiled("--op", "count_if", "--n", "100000")
    assert 49000 < int(half["result"], 16) < 51000, half
    runs, = profiled("--op", "run_length", "--n", "100000")
    assert 24000 < int(runs["result"], 16) < 26000, runs
    fits, = profiled("--op", "sum", "--type", "u64", "--n", "100000")  # whole numbers of all bits do not: 0 to 7 do
    assert 345000 < int(fits["result"], 16) < 355000, fits
    bins = profiled("--op", "histogram_2d", "--n", "5000", "--bins", "7", "--repeat", "3")
    assert len(bins) == 3 and all(line["bins"] == line["bins_y"] == "7" for line in bins), bins
    assert all(int(line["result"], 16) == 5000 for line in bins), bins


def wrong_options_are_told_by_their_names():
    for program, args, told in (("bench_ops", ["--samples", "19"], "--samples 19 is not a number from 20 to"),
                                ("bench_ops", ["--op", "none"], "--op: no op none"),
                                ("bench_ops", ["--types", "some"], "--types: some is neither"),
                                ("bench_ops", ["--log2-max"], "'--log2-max'"), ("bench_ops", ["more"], "more"),
                                ("profile_op", ["--n", "4"], "--op: none is given"),
                                ("profile_op", ["--op", "none"], "--op: no op none"),
                                ("profile_op", ["--op", "sum", "--type", "f31"], "--type: no element type f31"),
                                ("profile_op", ["--op", "sort", "--type", "u8"], "--type: u8 is not one that the op"),
                                ("profile_op", ["--op", "sum", "--n", "0"], "--n 0 is not a number from 1 to"),
                                ("profile_op", ["--op", "sum", "--bins", "4"], "--bins: sum takes none"),
                                ("profile_op", ["--op", "histogram_channels", "--n", "1001"], "--n: 1001 elements are"),
                                ("profile_op", ["--op", "histogram_edges", "--bins", "70000"],
                                 "--op histogram_edges: bins between edges must be at most 65536"),
                                ("bench_lanes", ["--part", "none"], "--part: no part none"),
                                ("bench_lanes", ["--idle", "256"], "--idle 256 is not a number from 1 to 255"),
                                ("bench_socket", ["--idle-s", "1s"], "--idle-s 1s is not a number"),
                                ("bench_device", ["--workers", "-18446744073709551615"], "--workers -1")):
        done = subprocess.run([os.path.join(BUILD, "bin", program), *args], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=PATIENT_S)
        first, rest = done.stderr.split("\n", 1)
        assert done.returncode == 2 and told in first and rest.startswith("usage: " + program), (args, done)


for test in (goals_are_those_that_were_agreed, goals_are_judged_at_their_edges, what_follows_from_figures_is_right,
             tables_are_read_as_the_programs_have_them, peers_have_the_names_of_their_ops, every_peer_of_a_cpu_works,
             suite_writes_the_figures_of_every_op_into_its_record, a_program_that_fails_costs_its_own_figures_only,
             plot_says_what_is_missing, plot_has_a_line_of_every_op, every_op_can_be_profiled,
             a_profiled_job_has_the_data_of_the_measurements, wrong_options_are_told_by_their_names):
    test()
    print(f"ok   {test.__name__}", flush=True)
