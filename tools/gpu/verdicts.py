# SPDX-License-Identifier: Apache-2.0
"""What test programs say about themselves, for tools/gpu-suite: how many tests passed, failed and were skipped, and
what is wrong about that. Whoever reports nothing, or ran somewhere else, did not pass."""
import re


def cmocka_counts(text):
    """Tests that passed, failed and were skipped, summed over the groups that reported."""
    def total(word):
        return sum(int(n) for n in re.findall(r"^\[\s*%s\s*\] (\d+) test\(s\)" % word, text, re.MULTILINE))
    return {"passed": total("PASSED"), "failed": total("FAILED"), "skipped": total("SKIPPED")}


def cmocka_verdict(text):
    """The counts, and what is wrong about them."""
    counts = cmocka_counts(text)
    return counts, None if counts["passed"] > 0 else "no test passed"


def seeds_verdict(text, backend):
    """Of the random runs: each seed is a test, and each says on which backend it was one."""
    sums = re.findall(r"^(\d+) seeds passed, (\d+) failed$", text, re.MULTILINE)
    seeds = re.findall(r"^seed \d+ (ok|FAILED) on (\w*):", text, re.MULTILINE)
    counts = {"passed": sum(word == "ok" for word, _ in seeds), "failed": sum(word != "ok" for word, _ in seeds),
              "skipped": 0}
    if len(sums) != 1 or [int(n) for n in sums[0]] != [counts["passed"], counts["failed"]]:
        return counts, "no report of seeds"
    others = {where for word, where in seeds if word == "ok" and where != backend}
    reason = f"ran on {', '.join(sorted(others))}, not on {backend}" if others else None
    return counts, reason or (None if counts["passed"] > 0 else "no seed passed")


def hostile_verdict(text, backend):
    """Of hostile clients beside honest ones: one test, in which each of them did something."""
    runs = re.findall(r"^seed \d+ (ok|FAILED) on (\w*): \d+ s, honest jobs (\d+)", text, re.MULTILINE)
    lanes = re.findall(r"^(?:flipper|scribbler) \d+: (\d+) lanes", text, re.MULTILINE)
    reason = ("no report" if len(runs) != 1 else "it failed" if runs[0][0] != "ok" else
              f"ran on {runs[0][1]}, not on {backend}" if runs[0][1] != backend else
              "no honest job was answered" if int(runs[0][2]) == 0 else
              "a hostile client had no lane" if not lanes or "0" in lanes else None)
    return {"passed": int(not reason), "failed": int(bool(reason)), "skipped": 0}, reason


def script_verdict(text):
    """Of a test in Python: one test, which says ok in the end."""
    last = text.strip().splitlines()[-1:]
    reason = None if last and last[0].startswith("ok") else "it does not say ok"
    return {"passed": int(not reason), "failed": int(bool(reason)), "skipped": 0}, reason


def words_of(text, program):
    """key=value words of the line with which a program reports."""
    for line in text.splitlines():
        if line.startswith(program + " "):
            pairs = dict(word.split("=", 1) for word in line.split()[1:] if "=" in word)
            return {k: float(v) if re.fullmatch(r"-?\d+\.\d+", v) else int(v) if re.fullmatch(r"-?\d+", v) else v
                    for k, v in pairs.items()}
    return None
