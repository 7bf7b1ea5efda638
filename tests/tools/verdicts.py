#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tools/gpu-suite makes of what test programs say: nothing passes that did not say so, ran on another backend, or
did nothing. usage: verdicts.py TREE"""
import os
import sys

sys.path.insert(0, os.path.join(sys.argv[1], "tools", "gpu"))
sys.dont_write_bytecode = True
from verdicts import cmocka_verdict, hostile_verdict, script_verdict, seeds_verdict, words_of  # noqa: E402

SEEDS = """seed 1 ok on cuda: 4 clients, 217 jobs answered, 2 faults, 1 daemons, 0.1 s
seed 2 ok on cuda: 3 clients, 274 jobs answered, 4 faults, drill trap-in-job=3, 1 daemons, 0.1 s
2 seeds passed, 0 failed
"""
HOSTILE = """seed 1 ok on cuda: 4 s, honest jobs 87231
flipper 0: 7 lanes, 0 of them closed; jobs 102613, answers 102609, flips 29493678
scribbler 1: 347 lanes, 0 of them closed; jobs 0, answers 0, flips 0
"""
CMOCKA = """[==========] Running 3 test(s).
[  PASSED  ] 2 test(s).
[  SKIPPED ] 1 test(s), listed below:
[==========] Running 2 test(s).
[  PASSED  ] 1 test(s).
[  FAILED  ] 1 test(s), listed below:
"""


def counts(passed, failed=0, skipped=0):
    return {"passed": passed, "failed": failed, "skipped": skipped}


def groups_of_tests_are_summed():
    assert cmocka_verdict(CMOCKA) == (counts(3, 1, 1), None)
    for silent in ("", "[==========] Running 1 test(s).\n", "[  PASSED  ] 0 test(s).\n"):
        assert cmocka_verdict(silent) == (counts(0), "no test passed")


def every_seed_is_a_test_of_the_backend():
    assert seeds_verdict(SEEDS, "cuda") == (counts(2), None)
    assert seeds_verdict(SEEDS, "cpu") == (counts(2), "ran on cuda, not on cpu")
    assert seeds_verdict(SEEDS.replace("2 ok on cuda", "2 ok on cpu"), "cuda")[1] == "ran on cpu, not on cuda"
    failed = SEEDS.replace("seed 2 ok on cuda", "seed 2 FAILED on ").replace("2 seeds passed, 0", "1 seeds passed, 1")
    assert seeds_verdict(failed, "cuda") == (counts(1, 1), None)
    for wrong in ("", SEEDS.replace("2 seeds", "3 seeds"), "\n".join(SEEDS.splitlines()[:2])):
        assert seeds_verdict(wrong, "cuda")[1] == "no report of seeds", wrong
    assert seeds_verdict("0 seeds passed, 0 failed\n", "cuda") == (counts(0), "no seed passed")


def hostile_and_honest_clients_did_something():
    assert hostile_verdict(HOSTILE, "cuda") == (counts(1), None)
    for old, new, reason in (("on cuda", "on cpu", "ran on cpu, not on cuda"), ("ok on", "FAILED on", "it failed"),
                             ("honest jobs 87231", "honest jobs 0", "no honest job was answered"),
                             (": 347 lanes", ": 0 lanes", "a hostile client had no lane"), (HOSTILE, "", "no report")):
        assert hostile_verdict(HOSTILE.replace(old, new), "cuda") == (counts(0, 1), reason), reason
    alone = HOSTILE.splitlines()[0]
    assert hostile_verdict(alone, "cuda") == (counts(0, 1), "a hostile client had no lane")


def scripts_say_ok():
    assert script_verdict("something\nok: 3 answers\n") == (counts(1), None)
    for wrong in ("", "ok\nTraceback", "not ok"):
        assert script_verdict(wrong) == (counts(0, 1), "it does not say ok")


def reports_are_words():
    assert words_of("soak jobs=3 rate=1.5 path=default\n", "soak") == {"jobs": 3, "rate": 1.5, "path": "default"}
    assert words_of("soaked jobs=3\n", "soak") is None


for test in (groups_of_tests_are_summed, every_seed_is_a_test_of_the_backend, hostile_and_honest_clients_did_something,
             scripts_say_ok, reports_are_words):
    test()
    print(f"ok {test.__name__}")
