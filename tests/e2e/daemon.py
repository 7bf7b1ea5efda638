# SPDX-License-Identifier: Apache-2.0
"""The real gridmilld in a temporary folder, for tests in Python. GM_BIN is the folder of the programs, and
GRIDMILL_TEST_DEVICE the device (default cpu)."""
import os
import shutil
import signal
import subprocess
import tempfile
import time

BIN = os.environ["GM_BIN"]
COMMAND = os.path.join(BIN, "gridmill")


class Daemon:
    def __init__(self, *arguments):
        self.folder = tempfile.mkdtemp(prefix="gm-e2e-")
        self.socket = os.path.join(self.folder, "s")
        self.arguments = arguments
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *unused):
        if self.process is not None:
            self.kill()
        shutil.rmtree(self.folder)

    def start(self):
        self.log = open(os.path.join(self.folder, "log"), "a+")
        self.process = subprocess.Popen(
            [os.path.join(BIN, "gridmilld"), "--socket", self.socket, "--device",
             os.environ.get("GRIDMILL_TEST_DEVICE") or "cpu", *self.arguments],
            stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while subprocess.run([COMMAND, "run", "nop", "-s", self.socket], capture_output=True).returncode != 0:
            if time.monotonic() > end or self.process.poll() is not None:
                self.log.seek(0)
                raise SystemExit("gridmilld did not come up:\n" + self.log.read())
            time.sleep(0.01)

    def stop(self):
        """The exit status after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self):
        status = self.process.wait(40)
        self.process = None
        return status

    def kill(self):
        self.process.kill()
        self.wait()
