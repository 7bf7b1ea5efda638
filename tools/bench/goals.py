# SPDX-License-Identifier: Apache-2.0
"""The goals of the measurements, as data, and their judgement. A goal compares a figure with a constant, or with a
factor of a peer's figure of the same run plus a constant; a figure that is only recorded has no bound. Used by
tools/bench/bench; a goal that is not met is no failure.
"""
from catalogue import catalogue, sizes

# name, text, figure and key, factor, peer's figure and key or None, constant, sense: figure <= factor x peer + constant
DEVICE_GOALS = [
    ("nop_floor", "no-op p50 at most bare echo + 2.5 us",
     ("nop_round_trip", "p50"), 1.0, ("peer_echo", "p50"), 2.5, "<="),
    ("nop_launch", "no-op p50 at most 0.6 x launch + sync",
     ("nop_round_trip", "p50"), 0.6, ("peer_launch", "p50"), 0, "<="),
    ("sum_14", "sum of 2^14 floats at most 7 us", ("sum_14", "p50"), 0, None, 7.0, "<="),
    ("sum_14_peer", "sum of 2^14 floats at most 0.5 x CUB",
     ("sum_14", "p50"), 0.5, ("peer_cub_sum_14", "p50"), 0, "<="),
    ("sort_16_peer", "sort of 2^16 at most 0.8 x CUB",
     ("sort_16", "p50"), 0.8, ("peer_cub_sort_16", "p50"), 0, "<="),
    ("pause_idle", "pause, idle, at most 30 us", ("pause_idle", "p50"), 0, None, 30.0, "<="),
    ("pause_loaded", "pause under load at most 100 us", ("pause_loaded", "p50"), 0, None, 100.0, "<="),
    ("nop_rate", "no-op jobs of one submitter at least 20 M/s", ("nop_rate_4000", "value"), 0, None, 20e6, ">="),
    ("socket_redis", "socket round trip at most 1.5 x Redis PING",
     ("socket_nop", "p50"), 1.5, ("redis_ping", "p50"), 0, "<="),
    ("socket_rate", "pipelined socket jobs at least 300 k/s", ("socket_rate_best", "value"), 0, None, 300e3, ">="),
    ("idle_cpu", "0.0 % CPU when idle", ("idle_cpu", "value"), 0, None, 0.05, "<="),
]


def sum_goal(log2):
    factor = 0.5 if log2 <= 18 else 0.8 if log2 <= 22 else 1.02
    return (f"lane_sum_{log2}", f"sum of 2^{log2} f32 at most {factor} x CUB launch + sync",
            (f"lane_sum_{log2}", "p50"), factor, (f"peer_cub_sum_rotated_{log2}", "p50"), 0, "<=")


def copy_goal(way, log2):
    where = "to" if way == "up" else "from"
    return (f"lane_copy_{way}_{log2}", f"copy of 2^{log2} bytes {where} the device",
            (f"lane_copy_{way}_{log2}", "p50"), 0, None, None, "recorded")


LANE_GOALS = [
    ("lane_floor", "no-op p50 at most echo of such a process + 2.0 us",
     ("trip_nop", "p50"), 1.0, ("peer_echo_process", "p50"), 2.0, "<="),
    ("lane_floor_aim", "no-op p50, aimed at: that echo + 1.2 us",
     ("trip_nop", "p50"), 1.0, ("peer_echo_process", "p50"), 1.2, "<="),
    ("lane_p99", "no-op p99 at most 7 us", ("trip_nop", "p99"), 0, None, 7.0, "<="),
    ("lane_launch", "no-op p50 at most 0.6 x launch + sync",
     ("trip_nop", "p50"), 0.6, ("peer_launch", "p50"), 0, "<="),
    ("lane_rate_1", "no-op jobs of one client at least 20 M/s", ("lane_rate_1", "value"), 0, None, 20e6, ">="),
    ("lane_rate_4", "no-op jobs of four clients", ("lane_rate_4", "value"), 0, None, None, "recorded"),
    ("lane_rate_8", "no-op jobs of eight clients at least 45 M/s", ("lane_rate_8", "value"), 0, None, 45e6, ">="),
    ("lane_rate_8_aim", "no-op jobs of eight clients, aimed at: 60 M/s",
     ("lane_rate_8", "value"), 0, None, 60e6, ">="),
    ("lane_rate_16", "no-op jobs of sixteen clients", ("lane_rate_16", "value"), 0, None, None, "recorded"),
    *[sum_goal(log2) for log2 in range(10, 31, 2)],
    *[copy_goal(way, log2) for log2 in range(12, 29, 4) for way in ("up", "down")],
    ("submit_cost", "submission in a batch at most 50 ns a job", ("lane_submit_cost", "value"), 0, None, 50.0, "<="),
    ("idle_lanes", "no-op p50 beside 255 idle lanes at most 1.3 x alone",
     ("trip_nop_beside_idle", "p50"), 1.3, ("trip_nop_alone", "p50"), 0, "<="),
    ("park", "first job after a park, p50, at most 300 us", ("first_after_park", "p50"), 0, None, 300.0, "<="),
    ("wake", "wake of a sleeping client, p50, at most 150 us", ("wake_client", "value"), 0, None, 150.0, "<="),
    ("connect", "connect to first result, p50, at most 2 ms", ("connect_first", "p50"), 0, None, 2000.0, "<="),
    ("client_memory", "GPU memory of a client 0 MiB (below 0.5)",
     ("client_gpu_memory", "value"), 0, None, 0.5, "<="),
    ("fault_outage", "after a fault, next right answer within 1 s", ("fault_outage", "value"), 0, None, 1000.0, "<="),
    ("fault_queued", "at least 10,000 jobs queued then, answered right",
     ("fault_queued", "value"), 0, None, 10000.0, ">="),
    ("fault_wrong", "no job answered otherwise than right or lost", ("fault_wrong", "value"), 0, None, 0.0, "<="),
    ("cycles_done", "10,000 cycles of clients", ("cycles_done", "value"), 0, None, 10000.0, ">="),
    ("cycles_left", "afterwards nothing is held", ("cycles_left", "value"), 0, None, 0.0, "<="),
    ("cycles_gpu_memory", "afterwards no more GPU memory is in use (below 2 MiB)",
     ("cycles_gpu_memory", "value"), 0, None, 2.0, "<="),
    ("cycles_p99", "p99 of the others at most 2 x alone",
     ("cycles_beside", "p99"), 2.0, ("cycles_alone", "p99"), 0, "<="),
    *[(f"open_loop_{p}", f"open loop at {p} % of one client's rate, p99", (f"lane_open_loop_{p}", "p99"), 0, None, None,
       "recorded") for p in (10, 50, 80, 95)],
]

# ---- ops of the catalogue ----

SMALL_LOG2, MIDDLE_LOG2, LARGE_LOG2 = 16, 20, 28  # up to the first; at the second; the largest size
# The ratio to the peer that is aimed at, and the one that it must not be above.
RATIOS_SMALL, RATIOS_SMALL_SORT, RATIOS_MIDDLE, RATIOS_LARGE = (0.5, 0.8), (0.8, 1.2), (0.8, 1.0), (1.02, 1.15)
# Shapes, and families, that are to come so near to the bandwidth of a copy, in percent.
SHARES = {"FILL": 90, "MAP": 90, "map": 90, "reduce": 90}
SHARE_INTEGER_SCAN = 80


def ratios(op, log2):
    if log2 <= SMALL_LOG2:
        return RATIOS_SMALL_SORT if op.family == "sort" else RATIOS_SMALL
    if log2 == MIDDLE_LOG2:
        return RATIOS_MIDDLE
    return RATIOS_LARGE if op.name == "sum" or op.shape in ("SCAN", "SELECT", "HISTOGRAM") else None


def share(op, dtype):
    if op.shape == "SCAN":
        return SHARE_INTEGER_SCAN if dtype[0] in "iu" else None
    return SHARES.get(op.shape, SHARES.get(op.family))


def op_goals():
    for op in catalogue():
        for dtype in op.types():
            for log2 in sizes():
                figure, what = op.figure(dtype, log2), f"{op.name} of 2^{log2} {dtype}"
                aim, must = ratios(op, log2) or (None, None)
                if aim:
                    yield (figure, f"{what} at most {must} x its peer",
                           (figure, "p50"), must, (f"peer_{figure}", "p50"), 0, "<=")
                    yield (f"{figure}_aim", f"{what}, aimed at: {aim} x its peer",
                           (figure, "p50"), aim, (f"peer_{figure}", "p50"), 0, "<=")
            figure, percent = op.figure(dtype, LARGE_LOG2), share(op, dtype)
            if percent:
                yield (f"{figure}_share", f"{op.name} of 2^{LARGE_LOG2} {dtype} at least {percent} % of copy bandwidth",
                       (figure, "share"), 0, None, percent, ">=")


OP_GOALS = list(op_goals())

# What is promised on any device; the other goals are for a GPU.
OF_ANY_DEVICE = {"socket_redis", "socket_rate", "idle_cpu", "fault_outage", "fault_queued", "fault_wrong",
                 "cycles_done", "cycles_left"}


def value(figures, name, key):
    for figure in figures:
        if figure["name"] == name and key in figure:
            return figure[key]
    return None


def judge(table, figures, backend):
    """One entry a goal, with what was measured and the bound: met, not met, recorded, or not measured."""
    goals = []
    for name, text, (figure, key), factor, peer, constant, sense in table:
        measured = value(figures, figure, key) if backend == "cuda" or name in OF_ANY_DEVICE else None
        base = value(figures, *peer) if peer else 0
        if measured is None or base is None:
            goals.append({"name": name, "goal": text, "verdict": "not measured"})
        elif sense == "recorded":
            goals.append({"name": name, "goal": text, "measured": measured, "verdict": "recorded"})
        else:
            bound = factor * base + constant
            met = measured <= bound if sense == "<=" else measured >= bound
            goals.append({"name": name, "goal": text, "measured": measured, "bound": round(bound, 3),
                          "verdict": "met" if met else "not met"})
    return goals
