#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client of gridmilld in one page: no library of ours, only msgpack and the protocol (proto/README.md)."""
import mmap
import os
import socket
import struct
import sys

import msgpack


def default_socket():
    if "GRIDMILL_SOCKET" in os.environ:
        return os.environ["GRIDMILL_SOCKET"]
    paths = ["/run/gridmill/gridmill.sock"]
    if os.environ.get("XDG_RUNTIME_DIR"):
        paths.insert(0, os.environ["XDG_RUNTIME_DIR"] + "/gridmill/gridmill.sock")
    return next((path for path in paths if os.path.exists(path)), paths[0])


class JobError(Exception):
    """code, name, text, field and retriable, as the daemon said them."""

    def __init__(self, error):
        super().__init__(f"{error['name']}: {error['text']}")
        self.__dict__.update(error)


class Client:
    def __init__(self, path=None):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path or default_socket())
        self.input, self.fds, self.replies, self.last_id = b"", [], {}, 0
        self.hello = self.call("hello", version_min=1, version_max=1, client="client.py")

    def send(self, method, **params):
        """Sends a request and returns its id, for wait(): many may be in flight."""
        self.last_id += 1
        body = msgpack.packb([0, self.last_id, method, params])
        self.socket.sendall(struct.pack(">I", len(body)) + body)
        return self.last_id

    def receive(self):
        while len(self.input) < 4 or len(self.input) < 4 + struct.unpack_from(">I", self.input)[0]:
            data, fds, flags, _ = socket.recv_fds(self.socket, 1 << 20, 2)
            self.fds += fds
            if not data or flags & socket.MSG_CTRUNC:
                raise ConnectionError("the daemon closed the connection")
            self.input += data
        end = 4 + struct.unpack_from(">I", self.input)[0]
        body, self.input = self.input[4:end], self.input[end:]
        _, number, error, result = msgpack.unpackb(body)
        if number is None:  # about the connection, which ends
            raise JobError(error)
        self.replies[number] = (error, result)

    def wait(self, number):
        while number not in self.replies:
            self.receive()
        error, result = self.replies.pop(number)
        if error:
            raise JobError(error)
        return result

    def call(self, method, **params):
        return self.wait(self.send(method, **params))

    def arena(self, size):
        """Shared memory: (handle, mmap)."""
        made = self.call("arena.create", bytes=size, kind="shared")
        fd = self.fds.pop(0)
        memory = mmap.mmap(fd, made["bytes"])
        os.close(fd)
        return made["arena"], memory


if __name__ == "__main__":
    client = Client(sys.argv[1] if len(sys.argv) > 1 else None)
    numbers = struct.pack("<6d", 3, 1, 4, 1, 5, 9)
    print("sum", client.call("submit", op="sum", dtype="f64", n=6, **{"in": [numbers]})["result"])

    handle, memory = client.arena(4096)
    memory[:48] = numbers
    place = {"arena": handle, "offset": 0}
    client.call("submit", op="sort", dtype="f64", n=6, descending=True, out=[place], **{"in": [place]})
    print("sorted", *struct.unpack("<6d", memory[:48]))

    for device in client.call("stats")["devices"]:
        print("device", device["index"], device["backend"], device["state"], "done", device["done"])
