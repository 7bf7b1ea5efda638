# SPDX-License-Identifier: Apache-2.0
"""tools/gpu-suite --prepare: makes a build folder ready to be carried to a machine that may lack what its programs
need."""
import glob
import os
import re
import shutil
import subprocess
import sys

OF_THE_SYSTEM = re.compile(r"/(ld-linux|libc|libm|libdl|libpthread|librt|libresolv|libutil|libgcc_s|libstdc\+\+)[-.]")


def python_with_msgpack(folder):
    """The first interpreter that has it, also by what was copied to this folder; or None."""
    for python in filter(None, [sys.executable, shutil.which("python3", path="/usr/bin")]):
        done = subprocess.run([python, "-c", "import msgpack"], env={**os.environ, "PYTHONPATH": folder},
                              stderr=subprocess.DEVNULL, check=False)
        if done.returncode == 0:
            return python
    return None


def copy_msgpack(folder):
    """Where its compiled part does not fit the other interpreter, it does without."""
    if os.path.isdir(os.path.join(folder, "msgpack")):
        return
    python = python_with_msgpack(folder)
    if python is None:
        print("msgpack for Python: not found; tests in Python will be skipped")
        return
    path = subprocess.run([python, "-c", "import msgpack; print(msgpack.__path__[0])"], stdout=subprocess.PIPE,
                          text=True, check=True).stdout.strip()
    shutil.copytree(path, os.path.join(folder, "msgpack"), dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("__pycache__"))


def prepare(build, drill_build):
    """Copies libraries that the programs need beside them, and redis-server with its own."""
    folder = os.path.join(build, "bin")
    if drill_build:
        os.makedirs(os.path.join(folder, "drill"), exist_ok=True)
        for program in glob.glob(os.path.join(drill_build, "bin", "gridmill-device-*")):
            shutil.copy2(program, os.path.join(folder, "drill"))
    programs = [p for p in glob.glob(os.path.join(folder, "*"))
                if os.path.isfile(p) and os.access(p, os.X_OK) and not p.endswith(".so")]
    copy_msgpack(os.path.join(folder, "python"))
    redis = shutil.which("redis-server")
    if redis:
        shutil.copy2(redis, os.path.join(folder, "redis-server"))
        programs.append(redis)
    for program in programs:
        done = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              check=False)
        for library in re.findall(r"=> (/\S+)", done.stdout):
            inside = os.path.realpath(library).startswith(os.path.realpath(build) + "/")
            if not OF_THE_SYSTEM.search(library) and not inside:
                shutil.copy2(os.path.realpath(library), os.path.join(folder, os.path.basename(library)))
    files = [p for p in glob.glob(os.path.join(folder, "**"), recursive=True)
             if os.path.isfile(p) and not os.path.islink(p)]
    if shutil.which("strip"):
        subprocess.run(["strip", "--strip-debug", *files], stderr=subprocess.DEVNULL, check=False)
    print("redis-server: " + (redis or "not found; there will be no comparison"))
    print(f"{folder}: {len(files)} files, {sum(os.path.getsize(p) for p in files) / 1048576:.1f} MiB")
