#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The functions of gridmill.h, the map, and what the shared library exports are the same list; nothing else of ours is
in the library's dynamic table; and the archive defines no global name without a gm_ prefix."""
import re
import subprocess
import sys

header, version_map, shared, archive = sys.argv[1:5]
declared = set(re.findall(r"^GM_API [^;(]*?\*?(gm_\w+)\(", open(header).read(), re.M))
mapped = set(re.findall(r"^    (gm_\w+);", open(version_map).read(), re.M))
lines = subprocess.run(["nm", "-D", "--defined-only", shared], check=True, capture_output=True, text=True).stdout
exported = {line.split()[-1].split("@")[0] for line in lines.splitlines() if line.split()[-2] not in "A"}
lines = subprocess.run(["nm", "-g", "--defined-only", archive], check=True, capture_output=True, text=True).stdout
strangers = {line.split()[-1] for line in lines.splitlines() if len(line.split()) == 3}
strangers = {name for name in strangers if not name.startswith(("gm_", "__odr_asan", "__asan", "__tsan"))}
if not declared or declared != mapped or declared != exported or strangers:
    sys.exit(f"header - map: {declared - mapped}\nmap - header: {mapped - declared}\n"
             f"exported - header: {exported - declared}\nheader - exported: {declared - exported}\n"
             f"archive: {strangers}")
print(len(declared), "functions")
