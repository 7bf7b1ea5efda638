# SPDX-License-Identifier: Apache-2.0
"""The ops of proto/ops.def as the measurements see them: element types, families, figures. Reads the tables that the
programs are built from, so an op which is added is here without a line.
"""
import os
import re

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FAMILY_OF_SHAPE = {
    "FILL": "memory", "MAP": "memory", "GATHER": "memory", "SCATTER": "memory",
    "AXPBY": "map", "CAST": "map", "CLAMP": "map", "STENCIL": "map", "WEIGHTED": "map", "STENCIL5": "map",
    "REDUCE": "reduce", "DOT": "reduce", "COUNT_IF": "reduce", "SEGMENTED": "segmented", "SEGSCAN": "segmented",
    "SCAN": "scan", "HISTOGRAM": "histogram", "EDGES": "histogram", "CHANNELS": "histogram",
    "HISTOGRAM2": "histogram", "SELECT": "select", "PARTITION": "select", "UNIQUE": "select", "RUNS": "select",
    "SORT": "sort",
}


def read(*path):
    with open(os.path.join(TOP, *path), encoding="utf-8") as text:
        return text.read()


def constants():
    """What tools/bench/ops_plan.h defines, as numbers."""
    return {name: int(value) for name, value in re.findall(r"#define GM_OPS_(\w+) +(\d+)u", read("tools", "bench",
                                                                                                "ops_plan.h"))}


def sizes():
    found = re.search(r"#define GM_OPS_SIZES\(X\)(.*)", read("tools", "bench", "ops_plan.h"))
    return [int(log2) for log2 in re.findall(r"X\((\d+)\)", found[1])]


def type_sets():
    """GM_NUMBER_TYPES and its like: names of element types by the name of their set."""
    text = read("proto", "ops.h").replace("\\\n", " ")
    defines = {name: body for name, body in re.findall(r"#define GM_(\w+_TYPES)\s+(.*)", text)}

    def members(name):
        body = defines[name]
        found = set(re.findall(r"GM_TYPE\((\w+)\)", body))
        return found.union(*(members(other) for other in re.findall(r"GM_(\w+_TYPES)", body)))
    return {name: members(name) for name in defines}


class Op:
    def __init__(self, name, shape, types, work, tolerance):
        self.name, self.shape, self.work, self.tolerance = name, shape, work, tolerance
        self.all_types = types
        self.family = FAMILY_OF_SHAPE.get(shape, "other")

    def types(self):
        """As gm_ops_types: what is measured when nobody asks for all."""
        chosen = [t for t in ("f32", "i32", "u32", "u8") if t in self.all_types][:1] or sorted(self.all_types)[:1]
        if self.shape == "SCAN" and self.tolerance == "SUM":
            chosen += ["i32"] if "i32" in self.all_types else []
        if self.shape == "CHANNELS":
            chosen += ["u8"] if "u8" in self.all_types else []
        return list(dict.fromkeys(chosen))

    def figure(self, dtype, log2):
        return f"op_{self.name}_{dtype}_{log2}" if self.all_types else f"op_{self.name}"


def catalogue():
    sets = type_sets()
    rows = re.findall(r"^OP\(\d+, (\w+), (\w+), (\w+), \w+, (\w+), \d+, (\w+),", read("proto", "ops.def"), re.M)
    return [Op(name, shape, sets[types], work, tolerance) for name, shape, types, work, tolerance in rows]
