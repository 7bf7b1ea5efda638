#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The functions of gridmill.h, the map, and what the shared library exports are the same list; nothing else of ours is
in the library's dynamic table; SONAME and the map name the ABI of the header's version; and the archive defines no
global name without a gm_ prefix."""
import re
import subprocess
import sys

header, version_map, shared, archive = sys.argv[1:5]
with open(header, encoding="utf-8") as text:
    declarations = text.read()
with open(version_map, encoding="utf-8") as text:
    map_text = text.read()
declared = set(re.findall(r"^GM_API [^;(]*?\*?(gm_\w+)\(", declarations, re.M))
mapped = set(re.findall(r"^    (gm_\w+);", map_text, re.M))
major, minor = re.findall(r"^#define GM_VERSION_(?:MAJOR|MINOR) (\d+)$", declarations, re.M)
abi = f"0.{minor}" if major == "0" else major
dynamic = subprocess.run(["readelf", "-d", shared], check=True, capture_output=True, text=True).stdout
sonames = re.findall(r"\(SONAME\).*\[(.*)\]", dynamic)
versions = re.findall(r"^GRIDMILL_(\S+) \{", map_text, re.M)
if sonames != [f"libgridmill.so.{abi}"] or abi not in versions:
    sys.exit(f"version {major}.{minor}: the SONAME is {sonames}, the map has {versions}")
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
