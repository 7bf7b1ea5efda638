#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The measurement of lanes, on the CPU: that goals are judged as they are written, that every figure they name is one
that a program prints, that tools/gpu-suite puts them into its record, that a program which fails or hangs costs its own
figures only, and that the client of the bare echo works without a GPU. usage: lanes.py TREE BUILD"""
import json
import mmap
import os
import re
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time

TREE, BUILD = sys.argv[1:3]
sys.path.insert(0, os.path.join(TREE, "tools", "bench"))
sys.dont_write_bytecode = True
from goals import LANE_GOALS, judge  # noqa: E402

# Ten times what they need on an idle machine: this one may be slow, and a sanitizer in every program.
PATIENT_S = 900
# Figures of programs that need a GPU, and what a quick run leaves out.
OF_PEERS = {"peer_echo_process", "peer_launch", "peer_cub_sum_rotated"}
NOT_QUICK = {"lane_rate_4", "lane_rate_8", "lane_rate_16", "client_gpu_memory", "cycles_gpu_memory",
             *(f"lane_sum_{k}" for k in range(16, 31, 2)),
             *(f"lane_copy_{way}_{k}" for way in ("up", "down") for k in (20, 24, 28))}
OF_THE_FAULT = {"fault_outage", "fault_queued", "fault_wrong"}

# Figures of a run in which every goal is met with nothing to spare, as the goals were agreed: figure, key, value, and
# the value that is just not good enough any more.
PEERS = {"peer_echo_process": 3.0, "peer_launch": 10.0, "trip_nop_alone": 5.0, "cycles_alone": 6.0,
         **{f"peer_cub_sum_rotated_{k}": 100.0 for k in range(10, 31, 2)}}
EDGES = {
    "lane_floor": ("trip_nop", "p50", 5.0, 5.01), "lane_floor_aim": ("trip_nop", "p50", 4.2, 4.21),
    "lane_p99": ("trip_nop", "p99", 7.0, 7.01), "lane_launch": ("trip_nop", "p50", 6.0, 6.01),
    "lane_rate_1": ("lane_rate_1", "value", 20e6, 19.9e6), "lane_rate_8": ("lane_rate_8", "value", 45e6, 44.9e6),
    "lane_rate_8_aim": ("lane_rate_8", "value", 60e6, 59.9e6),
    **{f"lane_sum_{k}": (f"lane_sum_{k}", "p50", 50.0, 50.1) for k in (10, 12, 14, 16, 18)},
    **{f"lane_sum_{k}": (f"lane_sum_{k}", "p50", 80.0, 80.1) for k in (20, 22)},
    **{f"lane_sum_{k}": (f"lane_sum_{k}", "p50", 102.0, 102.1) for k in (24, 26, 28, 30)},
    "submit_cost": ("lane_submit_cost", "value", 50.0, 50.1),
    "idle_lanes": ("trip_nop_beside_idle", "p50", 6.5, 6.51), "park": ("first_after_park", "p50", 300.0, 300.1),
    "wake": ("wake_client", "value", 150.0, 150.1), "connect": ("connect_first", "p50", 2000.0, 2000.1),
    "client_memory": ("client_gpu_memory", "value", 0.0, 1.0),
    "fault_outage": ("fault_outage", "value", 1000.0, 1000.1),
    "fault_queued": ("fault_queued", "value", 10000.0, 9999.0), "fault_wrong": ("fault_wrong", "value", 0.0, 1.0),
    "cycles_done": ("cycles_done", "value", 10000.0, 9999.0), "cycles_left": ("cycles_left", "value", 0.0, 1.0),
    "cycles_gpu_memory": ("cycles_gpu_memory", "value", 2.0, 2.1),
    "cycles_p99": ("cycles_beside", "p99", 12.0, 12.1),
}


def verdict(name, figure, key, value, backend="cuda"):
    figures = [{"name": figure, key: value}] + [{"name": n, "p50": v, "p99": v} for n, v in PEERS.items()
                                                if n != figure]
    return {g["name"]: g["verdict"] for g in judge(LANE_GOALS, figures, backend)}[name]


def goals_are_judged_as_they_were_agreed():
    with_a_bound = {name for name, *_, sense in LANE_GOALS if sense != "recorded"}
    assert with_a_bound == set(EDGES), with_a_bound ^ set(EDGES)
    for name, (figure, key, good, bad) in EDGES.items():
        assert verdict(name, figure, key, good) == "met", (name, good)
        assert verdict(name, figure, key, bad) == "not met", (name, bad)
        assert verdict(name, "another", key, good) == "not measured", name
    assert verdict("lane_p99", "trip_nop", "p99", 1.0, "cpu") == "not measured"
    assert verdict("cycles_left", "cycles_left", "value", 1.0, "cpu") == "not met"
    recorded = [(name, figure) for name, _, figure, *_, sense in LANE_GOALS if sense == "recorded"]
    assert recorded and all(verdict(name, *figure, 1.0) == "recorded" for name, figure in recorded)
    no_peer = judge(LANE_GOALS, [{"name": "trip_nop", "p50": 1.0}], "cuda")
    assert {g["name"]: g["verdict"] for g in no_peer}["lane_launch"] == "not measured"


def figures_of_peers_are_printed_by_their_sources():
    texts = ""
    for name in ("peers.cu", "peers_copies.cu", "peers_sums.cu"):
        with open(os.path.join(TREE, "tools", "bench", name), encoding="utf-8") as source:
            texts += source.read()
    for name in OF_PEERS:
        assert re.search(f'"{name}(_%u)?"', texts), name


def suite_writes_figures_and_goals_into_its_record():
    drills = os.path.isdir(os.path.join(BUILD, "bin", "drill"))
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run([os.path.join(TREE, "tools", "gpu-suite"), "--backend", "cpu", "--build", BUILD, "--only",
                               "lanes", "--quick", "--lanes-limit", str(PATIENT_S)], env={**os.environ, "OUT": out},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=2 * PATIENT_S)
        assert done.returncode == 0, done.stdout[-6000:]
        with open(os.path.join(out, "cpu.json"), encoding="utf-8") as text:
            record = json.load(text)
    step = {e["name"]: e for e in record["steps"]}["lanes"]
    assert step["status"] == "passed" and step["step"] == "lanes" and step["quick"] and not record["complete"], step
    run = step["lanes"]
    assert re.match(r"\d+, clients not pinned$", run["facts"]["cores"]), run["facts"]
    assert [g["name"] for g in run["goals"]] == [name for name, *_ in LANE_GOALS]
    assert sum(step["goals"].values()) == sum(g["verdict"] != "recorded" for g in run["goals"])
    measured = {f["name"] for f in run["figures"] if "skipped" not in f}
    wanted = {figure for _, _, (figure, _), *_ in LANE_GOALS} | {peer[0] for *_, peer, _, _ in LANE_GOALS if peer}
    # Of what takes as long as it takes, a machine that is slow enough has no sample.
    measured |= {f["name"] for f in run["figures"] if f.get("skipped") == "no samples" and
                 re.match("cycles_beside|lane_open_loop_", f["name"])}
    missing = {f for f in wanted - measured if re.sub(r"_\d+$", "", f) not in OF_PEERS} - NOT_QUICK
    assert missing == (set() if drills else OF_THE_FAULT), missing
    values = {f["name"]: f for f in run["figures"]}
    # Resident memory, and a descriptor or two, are a sanitizer's own business; what leaks would leak in every cycle.
    assert values["cycles_done"]["value"] == 40 and values["cycles_lanes"]["value"] <= 0, values
    assert values["cycles_descriptors"]["value"] < 20, values
    assert values["lane_maps_libcuda"]["value"] == 0
    assert all(f["p50"] <= f["p99"] <= f["max"] for f in run["figures"] if "p50" in f)


def script(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as out:
        out.write("#!/bin/sh\n" + text)
    os.chmod(path, stat.S_IRWXU)


def one_program_that_fails_costs_its_own_figures_only():
    figure = r'{"name": "%s_figure", "what": "w", "unit": "u", "value": 1}'
    begin = r'{"program": "fake", "facts": {}, "figures": [\n  '
    with tempfile.TemporaryDirectory() as build:
        folder = os.path.join(build, "bin")
        os.mkdir(folder)
        script(folder, "gridmilld", "exec sleep 1000\n")
        script(folder, "gridmill", '[ "$1" = run ] || printf \'' + begin + figure % "command" + "]}'\n")
        script(folder, "bench_lanes", f"""
say() {{ printf '{begin}{figure % "%s"}' "$1"; }}
case $2 in
  sums) printf '{{"program": "fa'; echo no device memory >&2; exit 1;;
  starts) say starts; printf ',\\n  {{"name": "half'; exec sleep 1000;;
  sleep) say sleep; printf ']}}'; echo wrong answer >&2; exit 1;;
  *) say "$2"; printf ']}}';;
esac
""")
        file = os.path.join(build, "figures.json")
        done = subprocess.run([os.path.join(TREE, "tools", "bench", "bench"), "--lanes", "--build", build, "--device",
                               "cpu", "--lanes-limit", "40", "--json", file], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=PATIENT_S)
        assert done.returncode == 1, done
        with open(file, encoding="utf-8") as text:
            result = json.load(text)
    failures = "\n".join(result["failures"])
    assert len(result["failures"]) == 3, failures
    assert "no device memory" in failures and "wrong answer" in failures and "starts: not done after" in failures
    parts = ("trips", "command", "copies", "starts", "sleep", "fault", "cycles")
    assert {f["name"] for f in result["figures"]} == {f"{n}_figure" for n in parts}, result["figures"]


def client_of_the_echo_counts_round_trips():
    count, page = 50, 4096
    fd = os.memfd_create("echo", 0)
    os.ftruncate(fd, page + 8 + 8 * count)
    with mmap.mmap(fd, page + 8 + 8 * count) as memory:
        struct.pack_into("<Q", memory, page, count)
        client = subprocess.Popen([os.path.join(BUILD, "bin", "bench_lanes"), "--as-echo", str(fd)], pass_fds=[fd])
        answered, end = set(), time.monotonic() + PATIENT_S

        def echo():
            while client.poll() is None and time.monotonic() < end:
                word, = struct.unpack_from("<I", memory, 0)
                if word:
                    answered.add(word)
                    struct.pack_into("<IIII", memory, 1024, word, word, word, word)
        kernel = threading.Thread(target=echo)
        kernel.start()
        kernel.join()
        assert client.wait() == 0
        spent = struct.unpack_from(f"<{count}Q", memory, page + 8)
    os.close(fd)
    assert answered == set(range(1, max(answered) + 1)) and len(answered) > 1000 + count, len(answered)
    assert all(0 < ns < PATIENT_S * 10**9 for ns in spent), spent


for test in (goals_are_judged_as_they_were_agreed, figures_of_peers_are_printed_by_their_sources,
             client_of_the_echo_counts_round_trips, one_program_that_fails_costs_its_own_figures_only,
             suite_writes_figures_and_goals_into_its_record):
    test()
    print(f"ok   {test.__name__}", flush=True)
