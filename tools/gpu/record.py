# SPDX-License-Identifier: Apache-2.0
"""The record of tools/gpu-suite: what ran now, and what of an earlier run of the same sources stays."""
import json
import os
import re

from runner import PROGRAMS, TOP, date_text

# What is least known comes first.
STEPS = ["source", "sanitizer_probe", "memcheck", "racecheck", "synccheck", "e2e", "plain", "device", "matrix",
         "soak_pauses", "soak_jobs", "soak_starts", "data", "lanes", "ops", "bench"]


class Record:
    """part: of the matrix. tests: the programs that were chosen of the steps that have many; none: all of them. kept:
    whether it is written to files."""

    def __init__(self, runner, part, tests, kept):
        self.runner, self.part, self.tests, self.kept = runner, part, tests, kept
        self.steps = []
        self.begun = set()
        self.earlier = self.read_earlier()

    def chosen(self, program):
        return not self.tests or program in self.tests

    def add(self, entry):
        self.steps.append(entry)
        self.write()  # what is done is done, if a later step ends everything

    def file_name(self):
        runner = self.runner
        device = runner.gpu if runner.cuda and runner.gpu else "cpu"
        return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-") + ".json"

    def read_earlier(self):
        """Entries of an earlier run of the same sources on such a GPU."""
        try:
            with open(os.path.join(TOP, "tests", "records", self.file_name()), encoding="utf-8") as text:
                old = json.load(text)
        except (OSError, ValueError):
            return []
        if any(old.get(key) != getattr(self.runner, key) for key in ["source_id", "gpu", "driver"]):
            return []
        return [e for e in old.get("steps", []) if e.get("step") in STEPS]

    def stays(self, entry):
        """Whether an earlier entry is not replaced by what runs now: another step, or another part of as many."""
        mine, its = self.part, entry.get("part")
        another_part = mine and its and its != mine and its.split("/")[1] == mine.split("/")[1]
        another_program = entry["step"] in PROGRAMS and not self.chosen(entry["name"])
        return entry["step"] not in self.begun or bool(another_part) or another_program

    def is_whole(self, steps, name):
        """Whether there is all of a step: every program; it was not cut into parts, or every part is there."""
        parts = [e["part"] for e in steps if e["step"] == name and e.get("part")]
        if name in PROGRAMS and not set(self.runner.programs(name)) <= {e["name"] for e in steps if e["step"] == name}:
            return False
        if not parts:
            return any(e["step"] == name for e in steps)
        count = int(parts[0].split("/")[1])
        return set(parts) == {f"{i + 1}/{count}" for i in range(count)}

    def whole(self):
        steps = sorted([e for e in self.earlier if self.stays(e)] + self.steps,
                       key=lambda e: (STEPS.index(e["step"]), int(e.get("part", "0/").split("/")[0])))
        counts = {s: sum(1 for e in steps if e["status"] == s) for s in ["passed", "failed", "skipped"]}
        tests = {k: sum(e["tests"][k] for e in steps if "tests" in e) for k in ["passed", "failed", "skipped"]}
        complete = (self.runner.cuda and all(self.is_whole(steps, name) for name in STEPS) and
                    all(e["status"] == "passed" and not e["quick"] for e in steps))
        return {"gpu": self.runner.gpu or "none", "driver": self.runner.driver, "backend": self.runner.backend,
                "source_id": self.runner.source_id, "date": date_text(), "complete": complete,
                "result": "failed" if counts["failed"] else "passed", "counts": counts, "tests": tests, "steps": steps}

    def write(self):
        """To the folders that want it; returns its files."""
        name, record = self.file_name(), self.whole()
        folders = [os.path.join(TOP, "tests", "records")] if self.runner.cuda else []
        folders += [os.environ["OUT"]] if os.environ.get("OUT") else []
        if not self.kept:
            folders = []
        for folder in folders:
            os.makedirs(folder, exist_ok=True)
            whole = os.path.join(folder, name)
            with open(whole + ".new", "w", encoding="utf-8") as out:
                json.dump(record, out, indent=1)
                out.write("\n")
            os.replace(whole + ".new", whole)
        return [os.path.join(folder, name) for folder in folders]
