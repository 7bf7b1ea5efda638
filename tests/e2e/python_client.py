#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""client/examples/client.py against the real daemon: run as people run it, and imported for what it promises."""
import importlib.util
import os
import subprocess
import sys
import time

from daemon import Daemon

EXAMPLE = sys.argv[1]
sys.argv = sys.argv[:1] + sys.argv[2:]

spec = importlib.util.spec_from_file_location("client", EXAMPLE)
client_module = importlib.util.module_from_spec(spec)
sys.dont_write_bytecode = True
spec.loader.exec_module(client_module)

with Daemon() as daemon:
    out = subprocess.run([sys.executable, EXAMPLE, daemon.socket], check=True, capture_output=True, text=True).stdout
    lines = out.splitlines()
    assert lines[0] == "sum 23.0", out
    assert lines[1] == "sorted 9.0 5.0 4.0 3.0 1.0 1.0", out
    assert lines[2].startswith("device 0 ") and " done " in lines[2], out

    os.environ["GRIDMILL_SOCKET"] = daemon.socket
    client = client_module.Client()
    # Many in flight, answers found by id whatever their order.
    ids = [client.send("submit", op="sum", dtype="u32", n=1, **{"in": [i.to_bytes(4, "little")]}) for i in range(500)]
    for i, number in reversed(list(enumerate(ids))):
        assert client.wait(number)["result"] == i
    try:
        client.call("submit", op="sum", dtype="u32", n=2, **{"in": [b"1234"]})
        raise SystemExit("a wrong size was taken")
    except client_module.JobError as error:
        assert error.field == "in[0]" and error.name == "ESIZE" and not error.retriable, vars(error)
    stats = client.call("stats")
    assert stats["schema"] == 1 and stats["daemon"]["healthy"] == 1
    daemon.kill()
    try:
        client.call("ping")
        raise SystemExit("a dead daemon answered")
    except (ConnectionError, BrokenPipeError):
        pass
print("ok")
