#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manual pages against what they describe: every function of gridmill.h has a page and a synopsis, every status of
the library is in one, every option of gridmill and gridmilld stands in their pages and the other way round."""
import os
import re
import subprocess
import sys

source, programs = sys.argv[1:3]


def read(path):
    return open(os.path.join(source, path)).read()


def options_of(*command):
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", re.sub(r"`[^`]*`", "", out)))


header = read("client/gridmill.h")
functions = set(re.findall(r"^(?:GM_API|static inline) [^;(]*?\*?(gm_\w+)\(", header, re.M))
pages = [read(f"client/{name}") for name in sorted(os.listdir(os.path.join(source, "client"))) if name.endswith(".scd")]
named, shown = set(), set()
for page in pages:
    named |= set(re.findall(r"gm_\w+", page.split("# NAME")[1].split(" - ")[0]))
    shown |= set(re.findall(r"(gm_\w+)\(", page.split("# SYNOPSIS")[1].split("# DESCRIPTION")[0]))
assert functions == named, functions ^ named
assert functions <= shown, functions - shown
statuses = set(re.findall(r"^    (GM_E\w+) =", header, re.M))
text = "\n".join(pages)
# These come back in statuses of jobs by the daemon's mistake or ours, never by a caller's.
missing = {s for s in statuses if s not in text} - {
    "GM_EPROTO", "GM_ETOOLARGE", "GM_ETOODEEP", "GM_ETOOMANY", "GM_EMETHOD", "GM_EINTERNAL", "GM_ENOTFOUND"}
assert not missing, missing

# Every argument of an op is a member of a request that the page and the header tell about.
arguments = re.findall(r"^ARG\((\w+),", read("proto/ops.def"), re.M)
page = read("client/gm_submit.3.scd")
missing = [name for name in arguments if f"_{name}_" not in page or not re.search(rf"\b{name};", header)]
assert len(arguments) > 20 and not missing, missing

page = read("tools/gridmill/gridmill.1.scd")
told = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", page))
gridmill = os.path.join(programs, "gridmill")
have = options_of(gridmill, "--help") | {"--version"}
for command in ("run", "arena", "ops", "stats", "ping", "bench", "drain"):
    have |= options_of(gridmill, command, "--help")
assert told == have, told ^ have
page = read("daemon/gridmilld.8.scd")
told = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", page))
have = options_of(os.path.join(programs, "gridmilld"), "--help")
assert told == have, told ^ have
# Every option that has a value shows in the effective configuration, whether it was given or not.
shown = subprocess.run([os.path.join(programs, "gridmilld"), "--check-config", "--device", "cpu"], capture_output=True,
                       text=True, check=True).stdout
keys = {"--" + line.split()[0] for line in shown.splitlines()} - {"--admin-socket"}
assert keys == have - {"--check-config", "--version", "--help"}, keys ^ have
given = subprocess.run([os.path.join(programs, "gridmilld"), "--check-config", "--spin-us", "7", "--workers", "3",
                        "--memory", "1t"], capture_output=True, text=True, check=True).stdout.splitlines()
assert {"spin-us 7", "workers 3", f"memory {1 << 40}"} <= set(given), given
# A page is found under the name of each function that it is about.
manual = os.path.join(programs, "..", "man")
if os.path.isdir(manual):
    for name in functions:
        with open(os.path.join(manual, "man3", name + ".3")) as file:
            first = file.readline().split()
        assert first[0] != ".so" or os.path.isfile(os.path.join(manual, first[1])), (name, first)


def completed(*words):
    """What bash offers behind these words for an option."""
    script = f'. "$1"; shift; COMP_WORDS=(gridmill "$@" --); COMP_CWORD={len(words) + 1}; _gridmill; ' \
        'printf "%s\\n" "${COMPREPLY[@]}"'
    environment = dict(os.environ, PATH=programs + ":" + os.environ["PATH"])
    out = subprocess.run(["bash", "-c", script, "bash", os.path.join(source, "tools/gridmill/gridmill.bash"), *words],
                         capture_output=True, text=True, check=True, env=environment)
    assert out.stderr == "", out.stderr
    return set(out.stdout.split())


for command in ("ops", "stats", "ping", "bench", "drain"):
    assert completed(command) == options_of(gridmill, command, "--help"), (command, completed(command))
assert completed("arena", "put") == options_of(gridmill, "arena", "--help"), completed("arena", "put")
rows = read("proto/ops.def")
options = {"--" + name.replace("_", "-") for name in arguments}
for op in re.findall(r"^OP\(\d+, (\w+),", rows, re.M):
    wanted = options_of(gridmill, "run", "--help") - options | options_of(gridmill, "run", op, "--help")
    assert completed("run", op) == wanted, (op, completed("run", op) ^ wanted)
print(len(functions), "functions")
