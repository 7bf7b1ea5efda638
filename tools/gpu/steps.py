# SPDX-License-Identifier: Apache-2.0
"""The steps of tools/gpu-suite. Each runs programs under a limit, parses what they say about themselves, and adds an
entry or several to the record."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from prepare import python_with_msgpack
from runner import SCRIPTS, TOP, date_text, say
from verdicts import cmocka_verdict, hostile_verdict, script_verdict, seeds_verdict, words_of

# Of compute-sanitizer: how each tool sums up, errors and warnings.
TOOLS = {"memcheck": r"ERROR SUMMARY: (\d+) error",
         "racecheck": r"RACECHECK SUMMARY: (\d+) hazards? displayed \((\d+) errors?, (\d+) warnings?\)",
         "synccheck": r"ERROR SUMMARY: (\d+) error"}
PROBE_LIMIT_S = 30
SPARE_S = 5  # of the limit of lanes, and of ops: for what is still to be ended, and the record


class Steps:
    def __init__(self, args, runner, record):
        self.args, self.runner, self.record = args, runner, record
        self.now = None  # the step that runs
        self.probed = {}  # tool: whether its probe passed

    def take(self, name):
        self.now = name
        self.record.begun.add(name)
        getattr(self, "step_" + name)()

    def step(self, name, status, begin, **details):
        entry = {"name": name, "status": status, "seconds": round(time.monotonic() - begin, 1), "step": self.now,
                 "date": date_text(),
                 "quick": self.args.quick or (self.now == "matrix" and self.args.matrix != "full"), **details}
        self.record.add(entry)
        counts = entry.get("tests")
        note = f" {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped" if counts else ""
        reason = f" ({entry['reason']})" if entry.get("reason") else ""
        say(f"  {name:<28}{status:<8}{entry['seconds']:>7.1f} s{note}{reason}")
        return entry

    def skip(self, name, reason):
        self.step(name, "skipped", time.monotonic(), reason=reason)

    def log(self, output):
        """The end of what a program said, without the tests of it that were all right."""
        lines = [line for line in output.strip().splitlines() if not re.match(r"\[ +(RUN|OK) +\]", line)]
        for line in lines[-self.args.log_lines:]:
            say("      | " + line[:200])
        folder = os.environ.get("OUT")
        if folder:
            with open(os.path.join(folder, "failed.log"), "a", encoding="utf-8") as log:
                entry = self.record.steps[-1]
                log.write(f"==== {entry['name']}: {entry.get('reason')}\n{output[-1 << 20:]}\n")

    def why(self, rc, limit_s):
        if rc is None:
            return f"not done after {limit_s} s"
        return f"killed by signal {-rc}" if rc < 0 else f"exit status {rc}"

    def without_device(self):
        """What a program that found no device means: nothing, or that the GPU which is there does not work."""
        return "failed" if self.runner.cuda and self.runner.gpu else "skipped"

    def tests(self, name, program, limit_s, args=(), env=None, details=None, verdict=cmocka_verdict):
        """One test program: passed only when it says how many tests did."""
        path = self.runner.program(program)
        if path is None:
            return self.skip(name, f"{program} is not in the build")
        begin = time.monotonic()
        rc, output = self.runner.run([path, *args], limit_s, env)
        counts, reason = verdict(output)
        if rc == 77:
            last = output.strip().splitlines()[-1][:120] if output.strip() else "the program says skipped"
            return self.step(name, self.without_device(), begin, reason=last, **(details or {}))
        reason = self.why(rc, limit_s) if rc != 0 else reason or ("tests failed" if counts["failed"] else None)
        self.step(name, "failed" if reason else "passed", begin, tests=counts, **({"reason": reason} if reason else {}),
                  **(details or {}))
        if reason:
            self.log(output)
        return None

    def report(self, name, program, limit_s, args, check=None):
        """One program that reports by a line of key=value words."""
        path = self.runner.program(program)
        if path is None:
            return self.skip(name, f"{program} is not in the build")
        begin = time.monotonic()
        rc, output = self.runner.run([path, "--backend", self.runner.backend, *args], limit_s)
        words = words_of(output, program)
        if rc == 77:
            return self.step(name, self.without_device(), begin, reason=output.strip()[-120:])
        reason = self.why(rc, limit_s) if rc != 0 else "no report line" if words is None else None
        if reason is None and check:
            reason = check(words)
        self.step(name, "failed" if reason else "passed", begin, **({"report": words} if words else {}),
                  **({"reason": reason} if reason else {}))
        if reason:
            self.log(output)
        elif words:
            say("      " + " ".join(f"{k}={v}" for k, v in words.items()))
        return None

    # ---- steps ----

    def step_source(self):
        begin = time.monotonic()
        ids = {}
        for name in ["gridmill-device-cpu", "gridmill-device-cuda"]:
            path = self.runner.program(name)
            if path:
                rc, output = self.runner.run([path, "--version"], 30)
                ids[name] = output.strip().split()[-1] if rc == 0 and output.strip() else f"exit status {rc}"
        wanted = "gridmill-device-cuda" if self.runner.cuda else "gridmill-device-cpu"
        wrong = [f"{n} says {i}" for n, i in ids.items() if i != self.runner.source_id]
        reason = "; ".join(wrong) or (None if wanted in ids else f"{wanted} is not in the build")
        self.step("source", "failed" if reason else "passed", begin, source_id=self.runner.source_id,
                  **({"reason": reason} if reason else {}))

    def step_matrix(self):
        full = self.args.matrix == "full" and not self.args.quick
        part = self.args.part
        self.tests(f"matrix {part}" if part else "matrix", "device_matrix", self.args.matrix_limit,
                   env={"GRIDMILL_MATRIX": "full" if full else "", "GRIDMILL_MATRIX_PART": part or ""},
                   details={"part": part} if part else {})

    def step_plain(self):
        """The path without bulk copies, as on sm_80."""
        if not self.runner.cuda:
            return self.skip("plain", "no GPU")
        return self.report("plain", "sanitize_ops", 60, ["--plain"], self.no_wrong)

    @staticmethod
    def no_wrong(words):
        """Every answer right, and every op at every size; how many types there was time for is only told."""
        if words.get("wrong") != 0 or words.get("jobs", 0) <= 0:
            return "wrong answers"
        return None if words["ops"] == words["of_ops"] else f"{words['ops']} of {words['of_ops']} ops"

    def step_device(self):
        names = self.runner.programs("device")
        if not names:
            return self.skip("device", "no more tests of the device in the build")
        for name in filter(self.record.chosen, names):
            self.tests(name, name, self.args.test_limit or 180)
        return None

    def step_e2e(self):
        """With as much time again as a random run is told to take."""
        names = self.runner.programs("e2e")
        if not names:
            return self.skip("e2e", "no end-to-end tests in the build")
        limit_s, backend, seconds = self.args.test_limit or 240, self.runner.backend, self.args.chaos_seconds
        for name in filter(self.record.chosen, names):
            if name == "test_e2e_chaos":
                args = ["--small", "--seeds", f"1..{10 ** 9}", "--seconds", str(seconds)] if seconds else []
                self.tests(name, name, limit_s + seconds, args, verdict=lambda text: seeds_verdict(text, backend))
            elif name == "test_e2e_hostile":
                args = ["--seconds", str(self.args.hostile_seconds)] if self.args.hostile_seconds else []
                self.tests(name, name, limit_s + self.args.hostile_seconds, args,
                           verdict=lambda text: hostile_verdict(text, backend))
            elif name in SCRIPTS:
                self.script(name, limit_s)
            else:
                self.tests(name, name, limit_s)
        return None

    def script(self, name, limit_s):
        folder = os.path.join(self.runner.bin, "python")
        python = python_with_msgpack(folder)
        if python is None:
            return self.skip(name, "no Python with msgpack; --prepare on a machine that has it copies it")
        return self.tests(name, python, limit_s, [os.path.join(TOP, path) for path in SCRIPTS[name]],
                          {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}, verdict=script_verdict)

    def sanitizer(self, name, tool, limit_s, args):
        """sanitize_ops under one of compute-sanitizer's tools, or alone (tool None). True when it passed, None when it
        was skipped."""
        path = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        program = self.runner.program("sanitize_ops")
        if not self.runner.cuda or not self.runner.gpu:
            return self.skip(name, "no GPU")
        if not os.access(path, os.X_OK) or program is None:
            return self.skip(name, "no compute-sanitizer" if program else "sanitize_ops is not in the build")
        begin = time.monotonic()
        # The backend looks at what every CUDA call returns itself.
        under = [path, "--tool", tool, "--error-exitcode", "9", "--report-api-errors", "no"] if tool else []
        rc, output = self.runner.run([*under, program, "--backend", "cuda", *args], limit_s,
                                     {"CUDA_MODULE_LOADING": "EAGER"})
        words = words_of(output, "sanitize_ops")
        found = re.search(TOOLS[tool], output) if tool else None
        errors = [int(n) for n in found.groups()] if found else None if tool else [0]
        reason = "errors" if errors and any(errors) else self.why(rc, limit_s) if rc != 0 else None
        reason = reason or ("no report line" if words is None else self.no_wrong(words))
        reason = reason or ("no summary" if errors is None else None)
        self.step(name, "failed" if reason else "passed", begin, jobs=words["jobs"] if words else 0,
                  errors=sum(errors) if errors is not None else None, report=words,
                  **({"reason": reason} if reason else {}))
        if words:
            say("      " + " ".join(f"{k}={v}" for k, v in words.items()) + f" errors={errors}")
        if reason:
            self.log(output)
        return not reason

    def step_sanitizer_probe(self):
        """Whether a kernel of two blocks that does no-ops comes back at all: alone, and under each tool."""
        args = ["--ops", "nop", "--workers", "1"]
        alone = self.sanitizer("probe alone", None, PROBE_LIMIT_S, args)
        for tool in TOOLS if alone is not None else []:
            self.probed[tool] = alone and self.sanitizer(f"probe {tool}", tool, PROBE_LIMIT_S, args)

    def step_tool(self, tool):
        if self.probed.get(tool) is False:
            return self.skip(tool, "its probe did not pass")
        args = ["--workers", str(self.args.sanitizer_workers), "--cases-per-launch", str(self.args.sanitizer_cases),
                "--seconds", str(self.args.sanitizer_limit // 2)]
        args += ["--types", "1"] if self.args.quick else []
        passed = self.sanitizer(tool, tool, self.args.sanitizer_limit, args)
        # Without bulk copies and their barriers a finding says more, and so does none.
        if self.args.sanitizer_plain or (passed is False and self.record.steps[-1].get("errors")):
            self.sanitizer(f"{tool} plain", tool, self.args.sanitizer_limit, [*args, "--plain"])
        return None

    def step_memcheck(self):
        self.step_tool("memcheck")

    def step_racecheck(self):
        self.step_tool("racecheck")

    def step_synccheck(self):
        self.step_tool("synccheck")

    def step_soak_jobs(self):
        jobs = self.args.jobs or (100000 if self.args.quick else 100000000 if self.runner.cuda else 1000000)
        limit_s = self.args.soak_limit

        def check(words):
            if words["answered"] != words["jobs"]:
                return "not every job was answered"
            return None if words["jobs"] >= jobs else f"{words['jobs']} jobs in the time, not {jobs}"
        self.report("soak_jobs", "soak_jobs", limit_s + 30, ["--jobs", str(jobs), "--seconds", str(limit_s)], check)

    def step_soak_pauses(self):
        self.report("soak_pauses", "soak_pauses", 60, ["--cycles", "100" if self.args.quick else "1000"])

    def step_soak_starts(self):
        """A start takes 0.6 s on an idle H200, and longer when another process computes there."""
        count = self.args.starts or (10 if self.args.quick else 200)
        beside = self.args.starts_beside or count
        self.report("soak_starts", "soak_starts", 30 + 2 * count, ["--starts", str(count)])
        if self.runner.cuda:
            self.report("soak_starts_beside_load", "soak_starts", 30 + 3 * beside,
                        ["--starts", str(beside), "--beside-load"])
        else:
            self.skip("soak_starts_beside_load", "no GPU")

    def data_folder(self):
        for folder in [os.environ.get("GRIDMILL_DATA"), os.path.join(TOP, "shared", "data"),
                       os.path.join(os.path.dirname(TOP), "shared", "data")]:
            if folder and os.path.isfile(os.path.join(folder, "diamonds_price.i32.npy")):
                return folder
        return None

    FACTS = [("sum", "diamonds_price.i32.npy", 212135217, 0), ("min", "diamonds_price.i32.npy", 326, 0),
             ("max", "diamonds_price.i32.npy", 18823, 0), ("sum", "seaice_extent.f64.npy", 148739.27, 0.005),
             ("min", "seaice_extent.f64.npy", 3.34, 0), ("max", "seaice_extent.f64.npy", 16.412, 0),
             ("sum", "diamonds_carat.f32.npy", 43040.86989623308, 1e-8)]

    def step_data(self):
        folder = self.data_folder()
        if folder is None:
            return self.skip("data", "no data folder; $GRIDMILL_DATA names one")
        for device in ["cpu"] + (["cuda:0"] if self.runner.cuda else []):
            self.data_on(device, folder)
        return None

    def data_on(self, device, folder):
        """Known facts of public data sets, through the real daemon and the command."""
        name, begin = f"data on {device}", time.monotonic()
        daemon, command = self.runner.program("gridmilld"), self.runner.program("gridmill")
        if not daemon or not command:
            return self.skip(name, "gridmilld or gridmill is not in the build")
        counts, wrong = {"passed": 0, "failed": 0, "skipped": 0}, []
        with tempfile.TemporaryDirectory(prefix="gridmill-suite-") as place:
            socket = os.path.join(place, "s")
            with open(os.path.join(place, "log"), "w+", encoding="utf-8", errors="replace") as log:
                process = subprocess.Popen([daemon, "--socket", socket, "--device", device], stdout=log, stderr=log,
                                           stdin=subprocess.DEVNULL, env=self.runner.env)
                try:
                    end = time.monotonic() + 60
                    while self.runner.run([command, "run", "nop", "-s", socket], 30)[0] != 0:
                        if process.poll() is not None or time.monotonic() > end:
                            log.seek(0)
                            self.step(name, "failed", begin, reason="the daemon did not come up")
                            return self.log(log.read())
                        time.sleep(0.05)
                    for op, file, fact, tolerance in self.FACTS:
                        rc, output = self.runner.run([command, "run", op, os.path.join(folder, file), "-s", socket], 60)
                        try:
                            got = float(output.strip().splitlines()[-1])
                        except (ValueError, IndexError):
                            got = None
                        right = rc == 0 and got is not None and abs(got - fact) <= tolerance
                        counts["passed" if right else "failed"] += 1
                        if not right:
                            wrong.append(f"{op} {file}: {output.strip()[:80]} is not {fact}")
                    process.send_signal(signal.SIGTERM)
                    if process.wait(40) != 0:
                        wrong.append(f"gridmilld ended with {process.returncode}")
                finally:
                    if process.poll() is None:
                        process.kill()
                        process.wait()
        self.step(name, "failed" if wrong else "passed", begin, tests=counts,
                  **({"reason": "; ".join(wrong)} if wrong else {}))
        return None

    def bench(self, name, limit_s, args):
        """tools/bench/bench; the entry has its facts, its figures, and its goals with what was measured beside each."""
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="gridmill-suite-") as place:
            file = os.path.join(place, "bench.json")
            rc, output = self.runner.run([sys.executable, os.path.join(TOP, "tools", "bench", "bench"), "--build",
                                          self.runner.build, "--device", self.runner.device, "--json", file, *args],
                                         limit_s)
            figures = None
            if os.path.exists(file):
                with open(file, encoding="utf-8") as text:
                    figures = json.load(text)
        reason = self.why(rc, limit_s) if rc != 0 else None if figures else "no figures"
        if reason and figures and figures.get("failures"):
            reason = "; ".join(figures["failures"])[:500]
        verdicts = [goal["verdict"] for goal in figures["goals"]] if figures else []
        self.step(name, "failed" if reason else "passed", begin, **({name: figures} if figures else {}),
                  goals={v: verdicts.count(v) for v in ["met", "not met", "not measured"]},
                  **({"reason": reason} if reason else {}))
        say("\n".join("      " + line for line in output.splitlines()))

    def bench_within(self, name, limit_s):
        self.bench(name, limit_s, [f"--{name}", f"--{name}-limit", str(max(limit_s - SPARE_S, 1)),
                                   *(["--quick"] if self.args.quick else [])])

    def step_lanes(self):
        self.bench_within("lanes", self.args.lanes_limit)

    def step_ops(self):
        self.bench_within("ops", self.args.ops_limit)

    def step_bench(self):
        carried = os.path.join(self.runner.bin, "redis-server")
        self.bench("bench", 300, [*(["--redis", carried] if os.access(carried, os.X_OK) else []),
                                  *(["--quick", "--idle-s", "3"] if self.args.quick else [])])
