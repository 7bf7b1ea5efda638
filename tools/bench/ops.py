# SPDX-License-Identifier: Apache-2.0
"""The measurement of the catalogue's ops, tools/bench/bench --ops: what runs, what follows from the figures of one run
(ratio to the peer, share of the bandwidth of a copy, in turn beside alone), and the table of it. Figures of ours are
named op_OP_TYPE_LOG2, those of peers the same with peer_ in front.
"""
import os
import re
import subprocess
import time

from catalogue import catalogue

OPS_S = 200
PEERS_SHARE = 0.45  # of the time for everything: the peers come first
PYTHON_WITH_NUMPY = "/usr/bin/python3"
# A quick run: small sizes, to see that it works.
QUICK_LOG2, QUICK_MIB, QUICK_MS = 14, 4, 2


def quick_options(args):
    return ["--log2-max", str(QUICK_LOG2), "--rotate-mib", str(QUICK_MIB), "--budget-ms", str(QUICK_MS)] \
        if args.quick else []


def numpy_is_there():
    try:
        return subprocess.run([PYTHON_WITH_NUMPY, "-c", "import numpy"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=60, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def skipped_peers(why):
    return {"program": "numpy_ops", "facts": {"peers": f"none: {why}"}, "figures": []}, ""


def numpy_runs(args, run_program, limit_s):
    if not numpy_is_there():
        return skipped_peers(f"{PYTHON_WITH_NUMPY} has no NumPy")
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "numpy_ops.py")
    ops = [] if args.op is None else ["--op", args.op]
    return run_program([PYTHON_WITH_NUMPY, script, *quick_options(args), *ops], limit_s)


def op_runs(args, device, backend, run, run_program):
    """(result or None, reason) of the peers, then of ours. run: of a program of the build; run_program: of any."""
    end = time.monotonic() + args.ops_limit
    if backend == "cuda":
        yield run(args.build, "bench_peers", ["--ops", "--device", device, *quick_options(args)],
                  args.ops_limit * PEERS_SHARE)
    else:
        yield numpy_runs(args, run_program, args.ops_limit * PEERS_SHARE)
    more = ["--types", args.types] + ([] if args.op is None else ["--op", args.op])
    yield run(args.build, "bench_ops", ["--device", device, *quick_options(args), *more], end - time.monotonic())


def parts(name):
    """(op, type, log2) of a figure of ours or a peer's that has a size; None for others."""
    found = re.fullmatch(r"(?:peer_)?op_(\w+)_([a-z]+\d+)_(\d+)", name)
    return (found[1], found[2], int(found[3])) if found else None


def copy_rate(figures):
    """Bytes a microsecond of the peer's copy at the largest size that was measured, and that size."""
    best = None
    for f in figures:
        if f["name"].startswith("peer_op_copy_") and f.get("p50") and parts(f["name"]):
            log2 = parts(f["name"])[2]
            best = max(best or (0, 0), (log2, f["bytes"] / f["p50"]))
    return best


def rounded(x):
    """To four digits."""
    return float(f"{x:.4g}")


def derive(figures):
    """Puts into each figure what follows from others: ratio, rate in GB/s, share in percent."""
    by_name = {f["name"]: f for f in figures if "p50" in f}
    copy = copy_rate(figures)
    for name, f in by_name.items():
        alone = by_name.get(re.sub("_turn$", "", name))
        if name.endswith("_turn"):
            if alone and alone["p50"]:
                f["ratio"] = rounded(f["p50"] / alone["p50"])
            continue
        if f.get("bytes") and f["p50"]:
            f["rate"] = rounded(f["bytes"] / f["p50"] / 1e3)
            if copy:
                f["share"] = rounded(100 * f["bytes"] / f["p50"] / copy[1])
        peer = by_name.get(f"peer_{name}")
        if peer and peer["p50"]:
            f["ratio"] = rounded(f["p50"] / peer["p50"])
    return figures


def cell(figure, peer):
    if figure is None:
        return ""
    if "p50" not in figure:
        return "failed"
    texts = [f"{figure['p50']:.1f}", f"{peer['p50']:.1f}" if peer and "p50" in peer else "-",
             f"{figure['ratio']:.2f}" if "ratio" in figure else "-",
             f"{figure['share']:.0f}%" if "share" in figure else "-"]
    return " ".join(f"{t:>{w}}" for t, w in zip(texts, (8, 8, 6, 5)))


def table_of_ops(figures):
    """Op x size: ours, its peer (us, seen by the host, p50), their ratio, the share of a copy's bandwidth."""
    by_name = {f["name"]: f for f in figures}
    rows = {}
    for name in by_name:
        found = parts(name)
        if found and name.startswith("op_"):
            rows.setdefault(found[:2], []).append(found[2])
    order = {op.name: i for i, op in enumerate(catalogue())}
    measured = sorted({log2 for log2s in rows.values() for log2 in log2s})
    copy = copy_rate(figures)
    yield "us from submission to answer, p50: ours, the peer's, ratio, share of the bandwidth of " + \
        (f"the peer's copy at 2^{copy[0]} ({copy[1] / 1e3:,.0f} GB/s)" if copy else "a copy (not measured)")
    yield f"{'':<24}" + "".join(f"{'2^' + str(log2):>34}" for log2 in measured)
    for op, dtype in sorted(rows, key=lambda row: (order.get(row[0], 0), row[1])):
        names = [f"op_{op}_{dtype}_{log2}" for log2 in measured]
        yield f"{op + ' ' + dtype:<24}" + "".join(
            f"{cell(by_name.get(n), by_name.get('peer_' + n)):>34}" for n in names)


def table_of_turns(figures):
    turns = [f for f in figures if f["name"].endswith("_turn") and "p50" in f]
    by_name = {f["name"]: f for f in figures}
    if turns:
        yield f"\n{'all ops in turn, us, p50':<44}{'in turn':>10}{'alone':>10}{'ratio':>8}"
    for f in turns:
        alone = by_name.get(f["name"][:-len("_turn")], {})
        yield f"{f['name'][3:-len('_turn')]:<44}{f['p50']:>10.2f}{alone.get('p50', float('nan')):>10.2f}" \
            f"{f.get('ratio', float('nan')):>8.2f}"


def table_of_goals(goals):
    """How many there are of each verdict, and those that are not met one by one."""
    count = {v: sum(g["verdict"] == v for g in goals) for v in ("met", "not met", "not measured")}
    yield "\ngoals: " + ", ".join(f"{n} {v}" for v, n in count.items())
    for g in goals:
        if g["verdict"] == "not met":
            yield f"{g['goal']:<72}{g['measured']:>12,.2f}  bound {g['bound']:>10,.2f}"


def ops_table(figures, goals, facts):
    for key, text in facts.items():
        yield f"{key:<22}{text}"
    yield ""
    yield from table_of_ops(figures)
    yield from table_of_turns(figures)
    yield from (f"{f['name']}: skipped: {f['skipped']}" for f in figures if "skipped" in f)
    yield from table_of_goals(goals)

