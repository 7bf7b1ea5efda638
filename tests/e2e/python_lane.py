#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client with a lane, written from proto/README.md alone with msgpack, mmap and ctypes, against the real daemon: the
test of the specification. x86-64 only, because the interpreter has no ordered stores: it writes the three words of
payload and then the lap, as the section Granules allows there."""
import collections
import ctypes
import math
import mmap
import os
import platform
import select
import socket
import struct
import sys
import threading
import time

import msgpack

DEADLINE_S = 60
ERRORS = {"EINVAL": -1, "EOP": -2, "EDTYPE": -3, "EBOUNDS": -5, "EARENA": -6, "EREADONLY": -8, "ECANCELLED": -16}
OPS = {"nop": 0, "fill": 1, "copy": 2, "sum": 3, "min": 4, "max": 5, "histogram": 6, "sort": 7}
WIDE_OPS = ("fill", "histogram")
DTYPES = {"u8": 0, "u32": 2, "i32": 3, "u64": 4, "i64": 5, "f32": 8, "f64": 9}
OPEN = 1


class JobError(Exception):
    def __init__(self, error):
        super().__init__(f"{error['name']} {error['field']}: {error['text']}")
        self.name, self.field = error["name"], error["field"]


class Client:
    """The socket: one request at a time, and the descriptors that come with the answers, in order."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(DEADLINE_S)
        self.socket.connect(path)
        self.bytes, self.fds, self.number = b"", [], 0
        self.hello = self.call("hello", version_min=1, version_max=1, client="python lane")

    def take(self, size):
        while len(self.bytes) < size:
            data, fds, flags, _ = socket.recv_fds(self.socket, 65536, 3, socket.MSG_CMSG_CLOEXEC)
            if not data or flags & socket.MSG_CTRUNC:
                raise ConnectionError("the connection ended")
            self.bytes += data
            self.fds += fds
        taken, self.bytes = self.bytes[:size], self.bytes[size:]
        return taken

    def call(self, method, **params):
        self.number += 1
        body = msgpack.packb([0, self.number, method, params])
        self.socket.sendall(struct.pack(">I", len(body)) + body)
        size, = struct.unpack(">I", self.take(4))
        kind, number, error, result = msgpack.unpackb(self.take(size))
        assert kind == 1 and number == self.number, (kind, number)
        if error is not None:
            raise JobError(error)
        return result

    def map(self, fd, size, readable_only=False):
        memory = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ | (0 if readable_only else mmap.PROT_WRITE))
        os.close(fd)
        return memory

    def arena(self, size, **params):
        made = self.call("arena.create", bytes=size, **params)
        return made["arena"], self.map(self.fds.pop(0), made["bytes"])

    def ended(self):
        """Whether the daemon is gone; nothing else comes unasked."""
        return bool(select.select([self.socket], [], [], 0)[0]) and self.socket.recv(1, socket.MSG_PEEK) == b""


class Lane:
    def __init__(self, client, **params):
        made = client.call("lane.open", **params)
        memory, self.doorbell, self.wake = client.fds[:3]
        del client.fds[:3]
        assert not client.fds, client.fds
        self.client, self.number, self.device = client, made["lane"], made["device"]
        self.slots, self.skip = made["slots"], made["skip"]
        self.memory = client.map(memory, made["bytes"])
        self.words = (ctypes.c_uint32 * (made["bytes"] // 4)).from_buffer(self.memory)
        self.completions = (4096 + 64 * self.slots + 4095) // 4096 * 4096
        assert made["bytes"] == (self.completions + 16 * self.slots + 4095) // 4096 * 4096, made
        magic, version, slots, log2 = self.words[:4]
        assert (magic, version, slots, 1 << log2) == (0x4C4D4721, 1, self.slots, self.slots)
        assert struct.unpack_from("<Q", self.memory, 24)[0] == made["start"]
        self.head = made["start"]
        self.owed = {}  # position of each job that has no completion yet: slots that it takes
        self.skipped = set()  # positions of skip slots that nothing proves to be taken
        self.answered, self.answered_to = 0, -1
        self.lock = threading.Lock()
        self.skips = 0

    def lap(self, position):
        return (position // self.slots + 1) % 2**32

    def granule(self, offset, payload, lap):
        """Payload, then lap: each assignment is one aligned store of 4 bytes, and x86-64 keeps their order."""
        at = offset // 4
        self.words[at], self.words[at + 1], self.words[at + 2] = payload
        self.words[at + 3] = lap

    def fence(self):
        """A lock is taken by a locked instruction, which is a full fence on x86-64."""
        with self.lock:
            pass

    def slot(self, position, words):
        for i in range(4):
            offset = 4096 + 64 * (position % self.slots) + 16 * i
            self.granule(offset, words[3 * i:3 * i + 3], self.lap(position))

    def owes(self, position):
        """Whether something is owed for the earlier positions of the slot: a job, or a skip slot."""
        slot = position % self.slots
        return any((p + half) % self.slots == slot for p, wide in self.owed.items() for half in range(wide)) or \
            any(p % self.slots == slot for p in self.skipped)

    def taken(self, position):
        """Whether what lies in the slot of this position was taken: it or something behind it has been answered."""
        return self.answered_to >= position - self.slots

    def place(self, count):
        """Where the next job of so many slots goes, None when the ring is full. Everything between is to be skipped,
        and all of it lies within one lap."""
        for position in range(self.head, self.head + (self.slots - count + 1 if self.skip else 1)):
            if not any(self.owes(position + half) for half in range(count)):
                return position
            if not self.taken(position):
                break
        return None

    def publish(self, words):
        """The position, or None when the ring is full. words: 12, or 24 of a wide descriptor."""
        halves = len(words) // 12
        position = self.place(halves)
        if position is None:
            return None
        for between in range(self.head, position):
            self.slot(between, (0xFFFE,) + 11 * (0,))
            self.skipped.add(between)
            self.skips += 1
        self.head = position + halves
        self.owed[position] = halves
        for half in reversed(range(halves)):
            self.slot(position + half, words[12 * half:12 * half + 12])
        return position

    def ring(self):
        self.fence()
        if self.words[256 // 4] != 0:
            try:
                os.write(self.doorbell, struct.pack("=Q", 1))
            except BlockingIOError:
                pass

    def reap(self, found):
        """Moves completions that are there into found: position -> (status, result bits, run time in ns)."""
        for position in sorted(self.owed):
            at = (self.completions + 16 * (position % self.slots)) // 4
            if self.words[at + 3] != self.lap(position):
                continue
            low, high, state = self.words[at:at + 3]
            code = state >> 16
            run_ns = code if code < 1024 else (1024 + code % 1024) << (code // 1024 - 1)
            status = (state & 0xFFFF) - (state & 0x8000) * 2
            found[position] = (status, low | high << 32, run_ns)
            del self.owed[position]
            self.answered += 1
            self.answered_to = max(self.answered_to, position)
        self.skipped = {p for p in self.skipped if p >= self.answered_to}

    def arm(self):
        at = 384 // 4
        self.words[at], self.words[at + 1] = self.answered % 2**32, self.answered >> 32
        self.words[at + 2] = 1
        self.fence()

    def disarm(self):
        self.words[384 // 4 + 2] = 0
        try:
            os.read(self.wake, 4096)
        except BlockingIOError:
            pass

    def sleep(self, found, before):
        """Until a completion comes. The wake may be for one that was read already, so it may be woken for nothing."""
        while len(found) == before:
            self.arm()
            self.reap(found)
            if len(found) == before:
                ready, _, _ = select.select([self.wake, self.client.socket], [], [], DEADLINE_S)
                assert ready, "no completion, and nobody woke us"
                assert self.client.socket not in ready, "the daemon is gone"
            self.disarm()
            self.reap(found)

    def run(self, descriptors):
        """Runs jobs through the ring, sleeping when it is full; their completions in order."""
        todo, order, found = collections.deque(descriptors), [], {}
        while todo or self.owed:
            before = len(found)
            while todo:
                position = self.publish(todo[0])
                if position is None:
                    break
                order.append(position)
                todo.popleft()
            self.ring()
            self.sleep(found, before)
        return [found[position] for position in order]

    def state(self):
        return self.words[128 // 4]


def descriptor(op, dtype=None, n=0, buffers=(), bins=0, values=(0, 0), flags=0, session=0):
    low = lambda v: (v & 0xFFFFFFFF, v >> 32)
    wide = op in WIDE_OPS
    (arena0, offset0), (arena1, offset1) = (list(buffers) + [(0, 0), (0, 0)])[:2]
    words = [(OPS[op] if op in OPS else op) | (DTYPES[dtype] if dtype else 0) << 16 | (flags | wide) << 24, session,
             arena0, *low(offset0), *low(n), arena1, *low(offset1), bins, 0]
    if wide:
        words += [0xFFFF, *low(values[0]), *low(values[1]), 0, 0, 0, 0, 0, 0, 0]
    return tuple(words)


def f64_bits(value):
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def check_ops(client, lane):
    arena, memory = client.arena(1 << 20)
    values = [(i * 2654435761) % 100003 for i in range(1000)]
    struct.pack_into("<1000I", memory, 0, *values)
    place = lambda offset: (arena, offset)
    jobs = [descriptor("nop"),
            descriptor("sum", "u32", 1000, [place(0)]),
            descriptor("max", "u32", 1000, [place(0)]),
            descriptor("copy", "u32", 1000, [place(0), place(8192)]),
            descriptor("sort", "u32", 1000, [place(0), place(16384)]),
            descriptor("sort", "u32", 1000, [place(0), place(24576)], flags=2),
            descriptor("fill", "f64", 100, [place(32768)], values=(f64_bits(math.pi), 0)),
            descriptor("histogram", "u32", 1000, [place(0), place(40960)], bins=4,
                       values=(f64_bits(0), f64_bits(100004)))]
    results = lane.run(jobs)
    assert [status for status, _, _ in results] == [0] * len(jobs), results
    assert results[1][1] == sum(values) and results[2][1] == max(values), results
    assert struct.unpack_from("<1000I", memory, 8192) == tuple(values)
    assert list(struct.unpack_from("<1000I", memory, 16384)) == sorted(values)
    assert list(struct.unpack_from("<1000I", memory, 24576)) == sorted(values, reverse=True)
    assert struct.unpack_from("<100d", memory, 32768) == (math.pi,) * 100
    counts = [sum(25001 * i <= v < 25001 * (i + 1) for v in values) for i in range(4)]
    assert list(struct.unpack_from("<4Q", memory, 40960)) == counts and results[7][1] == 1000, results[7]
    assert all(run_ns < DEADLINE_S * 10**9 for _, _, run_ns in results)


def check_refusals(client, lane, other):
    arena, _ = client.arena(8192)
    foreign, _ = other.arena(4096)
    jobs = [(descriptor("nop", session=1), "EINVAL"), (descriptor(999), "EOP"), (descriptor("nop", n=1), "EINVAL"),
            (descriptor("sum", "u8", 1, [(arena, 0)]), "EDTYPE"),
            (descriptor("sum", "u32", 2049, [(arena, 0)]), "EBOUNDS"),
            (descriptor("sum", "u32", 1, [(arena, 2**63)]), "EBOUNDS"),
            (descriptor("sum", "u32", 1, [(foreign, 0)]), "EARENA"),
            (descriptor("sum", "u32", 1, [(0, 0)]), "EARENA"), (descriptor("sum", "u32", 2048, [(arena, 0)]), None)]
    results = lane.run([job for job, _ in jobs])
    for (_, name), (status, _, _) in zip(jobs, results):
        assert status == (ERRORS[name] if name else 0), (name, status)


def check_wrap(client, slots):
    """Rings of every small size, filled to the brim, narrow and wide, over many laps."""
    lane = Lane(client, slots=slots, device=0)
    arena, memory = client.arena(65536)
    struct.pack_into("<1000I", memory, 0, *range(1000))
    jobs, expected = [], []
    for i in range(300):
        if i % 3 == 1:
            jobs.append(descriptor("fill", "u32", 1, [(arena, 8192 + 4 * i)], values=(i, 0)))
            expected.append((0, 0))
        else:
            jobs.append(descriptor("sum", "u32", i, [(arena, 0)]))
            expected.append((0, i * (i - 1) // 2))
    results = lane.run(jobs)
    assert [(status, bits) for status, bits, _ in results] == expected
    for i in range(1, 300, 3):
        assert struct.unpack_from("<I", memory, 8192 + 4 * i)[0] == i
    assert lane.state() == OPEN
    try:
        Lane(client, slots=slots, device=0)
        raise SystemExit("a second lane of the session on the device")
    except JobError as error:
        assert error.name == "EQUOTA", error
    client.call("lane.close", lane=lane.number)
    try:
        client.call("lane.close", lane=lane.number)
        raise SystemExit("a lane was closed twice")
    except JobError as error:
        assert (error.name, error.field) == ("ENOTFOUND", "lane"), error


def check_cancel_and_skip(client, lane):
    """A long job holds its slot while hundreds of short ones pass it; then it is cancelled, unless it is done."""
    n = 1 << 20
    arena, _ = client.arena(16 * n)
    long = lane.publish(descriptor("sort", "u64", n, [(arena, 0), (arena, 8 * n)]))
    lane.ring()
    found = {}
    for _ in range(3 * lane.slots):
        before = len(found)
        while lane.publish(descriptor("nop")) is None:
            lane.sleep(found, before)
            before = len(found)
        lane.ring()
    try:
        client.call("cancel", lane=lane.number, position=long)
    except JobError as error:
        assert error.name == "ENOTFOUND", error
    while lane.owed:
        lane.sleep(found, len(found))
    assert found.pop(long)[0] in (0, ERRORS["ECANCELLED"])
    assert len(found) == 3 * lane.slots and all(status == 0 for status, _, _ in found.values())
    try:
        client.call("cancel", lane=lane.number, position=lane.head + 2 * lane.slots)
        raise SystemExit("a position out of reach was cancelled")
    except JobError as error:
        assert error.name == "ENOTFOUND", error


def check_named(client, lane, other):
    """A named arena: another session reads it through its lane, and cannot write it by any way."""
    _, memory = other.arena(8192, name="weights")
    struct.pack_into("<4I", memory, 0, 1, 2, 3, 4)
    made = client.call("arena.attach", name="weights")
    fd = client.fds.pop(0)
    assert (made["kind"], made["bytes"]) == ("shared", 8192), made
    try:
        mmap.mmap(fd, 8192, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        raise SystemExit("an attached arena was mapped for writing")
    except PermissionError:
        pass
    assert struct.unpack_from("<4I", client.map(fd, 8192, readable_only=True), 0) == (1, 2, 3, 4)
    results = lane.run([descriptor("sum", "u32", 4, [(made["arena"], 0)]),
                        descriptor("fill", "u32", 4, [(made["arena"], 0)])])
    assert results[0][:2] == (0, 10) and results[1][0] == ERRORS["EREADONLY"], results
    rows = client.call("arena.list")["arenas"]
    assert [(r["name"], r["bytes"], r["kind"], r["attached"]) for r in rows] == [("weights", 8192, "shared", 2)], rows
    client.call("arena.remove", name="weights")
    assert client.call("arena.list")["arenas"] == []
    assert lane.run([descriptor("sum", "u32", 4, [(made["arena"], 0)])])[0][:2] == (0, 10)
    client.call("arena.free", arena=made["arena"])


def check_all(path, kill):
    client, other = Client(path), Client(path)
    assert client.hello["lanes"] == 256, client.hello
    for slots in (2, 4, 8):
        check_wrap(client, slots)
    lane = Lane(client, slots=16)
    check_ops(client, lane)
    check_refusals(client, lane, other)
    check_cancel_and_skip(client, lane)
    check_named(client, lane, other)
    time.sleep(0.2)  # a CPU device is asleep now; whether or not, the answer comes
    assert lane.run([descriptor("nop")])[0][0] == 0
    assert lane.state() == OPEN and not client.ended()
    kill()
    end = time.monotonic() + DEADLINE_S
    while not client.ended():
        assert time.monotonic() < end, "a dead daemon's socket did not end"
        time.sleep(0.01)
    print(f"ok: {lane.answered} answers over the last lane, {lane.skips} skip slots")


if __name__ == "__main__":
    if platform.machine() != "x86_64":
        print("skipped: no ordered stores from Python on this processor")
        sys.exit(77)
    from daemon import Daemon
    with Daemon() as server:
        check_all(server.socket, server.kill)
