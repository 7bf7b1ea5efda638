# SPDX-License-Identifier: Apache-2.0
"""The machine and the build that tools/gpu-suite is about, and programs of it that run for a limited time."""
import datetime
import glob
import os
import signal
import subprocess
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = {"e2e": "test_e2e_*", "device": "device_*"}  # steps of many test programs
SCRIPTS = {"test_e2e_python_client": ["tests/e2e/python_client.py", "client/examples/client.py"],
           "test_e2e_python_lane": ["tests/e2e/python_lane.py"]}  # of e2e too; they need msgpack for Python
STOP_S = 3  # between asking a program to end and ending it: compute-sanitizer says what it found


def say(text):
    print(text, flush=True)


def date_text():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Runner:
    def __init__(self, build, backend):
        self.build = os.path.abspath(build)
        self.bin = os.path.join(self.build, "bin")
        self.backend = backend
        self.gpu, self.driver = self.find_gpu()
        self.cuda = backend == "cuda"
        self.device = "cuda:0" if self.cuda else "cpu"
        self.env = dict(os.environ)
        self.env["LD_LIBRARY_PATH"] = ":".join(filter(None, [self.bin, os.path.join(self.build, "client"),
                                                             self.env.get("LD_LIBRARY_PATH")]))
        self.env["GRIDMILL_TEST_BACKEND"] = backend
        self.env["GRIDMILL_TEST_DEVICE"] = self.device
        self.env["GM_BIN"] = self.bin
        self.source_id = subprocess.run([os.path.join(TOP, "tools", "source-id")], stdout=subprocess.PIPE, text=True,
                                        check=True).stdout.strip()

    @staticmethod
    def find_gpu():
        try:
            done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return None, None
        lines = done.stdout.strip().splitlines()
        return tuple(lines[0].split(", ")) if done.returncode == 0 and lines else (None, None)

    def program(self, name):
        path = os.path.join(self.bin, name)
        return path if os.access(path, os.X_OK) else None

    def programs(self, step):
        """The test programs of the build that a step runs."""
        names = [os.path.basename(p) for p in glob.glob(os.path.join(self.bin, PROGRAMS[step]))]
        if step == "e2e" and names:
            names += SCRIPTS
        return sorted(name for name in names if name != "device_matrix")

    def run(self, command, limit_s, env=None):
        """(exit status or None when the limit passed, output). The whole process group goes at the limit."""
        folder = os.environ.get("OUT")
        with (open(os.path.join(folder, "step.log"), "w+b") if folder else tempfile.TemporaryFile()) as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                       env={**self.env, **(env or {})}, start_new_session=True)
            rc = None
            try:
                rc = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    pass
            finally:
                if rc is None:  # the limit passed, or we are stopped ourselves: what is left would keep the GPU
                    self.kill_group(process)
            log.seek(0)
            return rc, log.read().decode("utf-8", "replace")

    @staticmethod
    def kill_group(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
