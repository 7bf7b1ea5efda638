#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NumPy as the peer of the catalogue's ops on a CPU, on the cores that the cpu device has: the same sizes, data of the
same kind, inputs taken in turn from as much memory. Prints figures as bench_peers does; an op that NumPy has no way to
do, or that is not here, has none.
"""
import argparse
import functools
import json
import os
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
from catalogue import catalogue, constants, sizes  # noqa: E402

C = constants()
BINS, FLAT, CHANNELS, SEGMENT = C["BINS"], C["BINS_2D"], C["CHANNELS"], C["SEGMENT"]
ENOUGH, PATIENCE = 5, 10  # samples whatever the budget says, unless it takes so many times the budget
TYPES = {"f32": np.float32, "i32": np.int32, "u8": np.uint8}


@functools.lru_cache(maxsize=4)
def values(dtype, count, runs):
    """Elements, and room for as many."""
    random = np.random.default_rng(1)
    if dtype == "f32":
        x = random.random(count, dtype=np.float32)
    else:
        x = random.integers(0, 256 if dtype == "u8" else 8, count).astype(TYPES[dtype])
    if runs:
        begins = random.integers(0, 1 << C["RUN_LOG2"], count) == 0
        begins[0] = True
        x = x[np.flatnonzero(begins)][np.cumsum(begins) - 1]
    return x, x[::-1].copy(), np.full_like(x, 0)  # pages that were touched


class Data:
    """Inputs and outputs of one op at one place."""

    def __init__(self, dtype, log2, rotated_bytes, runs):
        n, element = 1 << log2, np.dtype(TYPES[dtype]).itemsize
        self.n, self.places = n, max(1, rotated_bytes // (n * element))
        self.xs, self.ys, self.outs = values(dtype, n * self.places, runs)
        self.wide = np.empty(n, np.int32)
        self.index = np.random.default_rng(2).integers(0, n, n).astype(np.int32)
        segments = max(1, n // SEGMENT)
        self.offsets = np.arange(segments, dtype=np.int64) * SEGMENT
        self.lengths = np.diff(np.append(self.offsets, n))
        self.edges = np.linspace(0, 1, BINS + 1) ** 2
        self.width = 1 << (log2 + 1) // 2
        self.move(0)

    def move(self, place):
        piece = slice(place * self.n, (place + 1) * self.n)
        self.x, self.y, self.out = self.xs[piece], self.ys[piece], self.outs[piece]


def three(d, left, center, right):
    np.multiply(d.x, center, out=d.out)
    d.out[1:] += left * d.x[:-1]
    d.out[:-1] += right * d.x[1:]


def five(d):
    x, out = d.x.reshape(-1, d.width), d.out.reshape(-1, d.width)
    np.multiply(x, np.float32(0.25), out=out)
    out[:, 1:] += np.float32(0.25) * x[:, :-1]
    out[:, :-1] += np.float32(0.25) * x[:, 1:]
    out[1:] += np.float32(0.25) * x[:-1]
    out[:-1] += np.float32(0.25) * x[1:]


def axpby(d):
    np.multiply(d.x, np.float32(1), out=d.out)
    d.out += np.float32(1) * d.y


def sort(d):
    d.out[:] = d.x
    d.out.sort()


def channels(d):
    pixels = d.x.reshape(-1, CHANNELS)
    for c in range(CHANNELS):
        if d.x.dtype == np.uint8:
            np.bincount(pixels[:, c], minlength=BINS)
        else:
            np.histogram(pixels[:, c], bins=BINS, range=(0, 1))


def segmented_scan(d):
    sums = np.cumsum(d.x)
    before = np.concatenate(([0], sums[d.offsets[1:] - 1])).astype(sums.dtype)
    np.subtract(sums, np.repeat(before, d.lengths), out=d.out)


def segmented_least(d, least):
    for begin, length in zip(d.offsets, d.lengths):
        least.accumulate(d.x[begin:begin + length], out=d.out[begin:begin + length])


def partition(d):
    mask = d.x < np.float32(0.5)
    return np.concatenate((d.x[mask], d.x[~mask]))


def begins_of_runs(x):
    return np.concatenate(([True], x[1:] != x[:-1]))


def run_length(d):
    begins = np.flatnonzero(begins_of_runs(d.x))
    return d.x[begins], np.diff(np.append(begins, d.n))


CALLS = {
    "fill": lambda d: d.out.fill(1), "copy": lambda d: np.copyto(d.out, d.x), "axpby": axpby,
    "clamp": lambda d: np.clip(d.x, np.float32(0.25), np.float32(0.75), out=d.out),
    "cast": lambda d: np.copyto(d.wide, d.x, casting="unsafe"),
    "stencil3": lambda d: three(d, np.float32(1), np.float32(1), np.float32(1)),
    "stencil3_weighted": lambda d: three(d, np.float32(1), np.float32(1), np.float32(1)), "stencil5": five,
    "gather": lambda d: np.take(d.x, d.index, out=d.out, mode="clip"),
    "scatter": lambda d: np.put(d.out, d.index, d.x),
    "sum": lambda d: d.x.sum(), "min": lambda d: d.x.min(), "max": lambda d: d.x.max(), "prod": lambda d: d.x.prod(),
    "argmin": lambda d: d.x.argmin(), "argmax": lambda d: d.x.argmax(),
    "count_if": lambda d: np.count_nonzero(d.x < np.float32(0.5)), "dot": lambda d: np.dot(d.x, d.y),
    "norm2": lambda d: np.linalg.norm(d.x),
    "segmented_sum": lambda d: np.add.reduceat(d.x, d.offsets),
    "segmented_min": lambda d: np.minimum.reduceat(d.x, d.offsets),
    "segmented_max": lambda d: np.maximum.reduceat(d.x, d.offsets),
    "scan_sum": lambda d: np.cumsum(d.x, out=d.out), "scan_min": lambda d: np.minimum.accumulate(d.x, out=d.out),
    "scan_max": lambda d: np.maximum.accumulate(d.x, out=d.out), "segmented_scan_sum": segmented_scan,
    "segmented_scan_min": lambda d: segmented_least(d, np.minimum),
    "segmented_scan_max": lambda d: segmented_least(d, np.maximum),
    "histogram": lambda d: np.histogram(d.x, bins=BINS, range=(0, 1)),
    "histogram_edges": lambda d: np.histogram(d.x, bins=d.edges), "histogram_channels": channels,
    "histogram_2d": lambda d: np.histogram2d(d.x, d.y, bins=FLAT, range=((0, 1), (0, 1))),
    "select_if": lambda d: d.x[d.x < np.float32(0.5)], "partition": partition,
    "unique": lambda d: d.x[begins_of_runs(d.x)], "run_length": run_length, "sort": sort,
}


def samples(call, data, budget_ns):
    """Nanoseconds of each; the first, for which nothing was prepared, only when there is no time for more."""
    spent, start, place = [], time.monotonic_ns(), 0
    while True:
        data.move(place % data.places)
        begin = time.monotonic_ns()
        call(data)
        end = time.monotonic_ns()
        spent.append(end - begin)
        place += 1
        if (len(spent) > ENOUGH and end - start > budget_ns) or end - start > PATIENCE * budget_ns:
            return sorted(spent[1:] or spent)


def figure(op, dtype, log2, spent, data):
    def at(share):
        return round(spent[min(int(share * len(spent)), len(spent) - 1)] / 1e3, 3)
    element = np.dtype(TYPES[dtype]).itemsize
    entry = {"name": f"peer_{op.figure(dtype, log2)}", "what": f"NumPy, {op.name}, {data.places} in turn", "unit": "us",
             "count": len(spent), "p50": at(0.5), "p99": at(0.99), "p999": at(0.999), "max": at(1)}
    return {**entry, "bytes": 2 * data.n * element} if op.name == "copy" else entry


class Teller:
    """Writes each figure when it is there: what was measured stays, whatever ends the program."""

    def __init__(self, as_json):
        self.json, self.count = as_json, 0
        if as_json:
            print(f'{{"program": "numpy_ops", "facts": {{"peers": "NumPy {np.__version__}"}}, "figures": [', end="")

    def figure(self, f):
        if self.json:
            print(("," if self.count else "") + "\n  " + json.dumps(f), end="", flush=True)
        else:
            print(f"{f['name']:<40} p50 {f['p50']:>12.2f}  p99 {f['p99']:>12.2f} us  ({f['count']})", flush=True)
        self.count += 1

    def end(self):
        if self.json:
            print("]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", default=None, metavar="NAME", help="only this op")
    parser.add_argument("--log2-max", type=int, default=24, help="of the largest size (default 24)")
    parser.add_argument("--rotate-mib", type=int, default=64, help="inputs are taken in turn from so much memory")
    parser.add_argument("--budget-ms", type=float, default=30, help="one figure takes about so long at most")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    tell = Teller(args.json)
    for op in catalogue():
        call = CALLS.get(op.name) if args.op in (None, op.name) or op.name == "copy" else None
        for dtype in op.types() if call else []:
            for log2 in (log2 for log2 in sizes() if log2 <= args.log2_max):
                data = Data(dtype, log2, args.rotate_mib << 20, op.shape in ("UNIQUE", "RUNS"))
                tell.figure(figure(op, dtype, log2, samples(call, data, args.budget_ms * 1e6), data))
    tell.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
