#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain sockets at the two ends of an emulated link: what it does, seen by something that is not our own probe.

peer.py serve ADDRESS            echoes datagrams and counts what it is sent over TCP, until it is killed
peer.py ping ADDRESS COUNT       prints the round trips in ms, one a line; "-" for one that does not come back
peer.py burst ADDRESS COUNT      sends datagrams of 1,000 bytes at once; prints how many come back, and the last one's ms
peer.py send ADDRESS SECONDS     prints Mbit/s of payload that arrived after the first third of that time"""
import contextlib
import select
import socket
import struct
import sys
import threading
import time

PORT = 5201
CHUNK = bytes(1 << 16)


def echo(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.bind((address, PORT))
        while True:
            ear.sendto(*ear.recvfrom(2048))


def count(connection):
    """Tells its client, whenever asked by its end, how much came; the marks of time are the client's."""
    with connection:
        start = connection.recv(8, socket.MSG_WAITALL)
        skip, seconds = struct.unpack("ff", start)
        begin, total, first, last = time.monotonic(), 0, None, None
        while True:
            data = connection.recv(1 << 20)
            now = time.monotonic() - begin
            if not data or now > seconds:
                break
            if now >= skip:
                first = first or (now, total)
                last = (now, total + len(data))
            total += len(data)
        rate = (last[1] - first[1]) * 8e-6 / (last[0] - first[0]) if first and last[0] > first[0] else 0.0
        with contextlib.suppress(OSError):
            connection.sendall(struct.pack("f", rate))
            while connection.recv(1 << 20):  # what is still under way
                pass


def serve(address):
    threading.Thread(target=echo, args=(address,), daemon=True).start()
    with socket.create_server((address, PORT)) as ear:
        print("ready", flush=True)
        while True:
            threading.Thread(target=count, args=(ear.accept()[0],), daemon=True).start()


def ping(address, number):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.connect((address, PORT))
        for index in range(int(number)):
            began = time.perf_counter()
            out.send(struct.pack("i", index))
            back = "-"
            while select.select([out], [], [], max(0, began + 1 - time.perf_counter()))[0]:
                if struct.unpack("i", out.recv(2048))[0] == index:
                    back = 1e3 * (time.perf_counter() - began)
                    break
            print(back, flush=True)
            time.sleep(0.01)


def burst(address, number):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.connect((address, PORT))
        out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        began, back, last = time.perf_counter(), 0, 0
        for _ in range(int(number)):
            out.send(bytes(1000))
        while select.select([out], [], [], max(0, began + 1.5 - time.perf_counter()))[0]:
            out.recv(2048)
            back, last = back + 1, 1e3 * (time.perf_counter() - began)
        print(back, last)


def send(address, seconds):
    with socket.create_connection((address, PORT), timeout=5) as out:
        out.settimeout(None)
        out.sendall(struct.pack("ff", float(seconds) / 3, float(seconds)))
        end = time.monotonic() + float(seconds) + 0.2
        out.setblocking(False)
        while time.monotonic() < end:
            if select.select([], [out], [], 0.1)[1]:
                with contextlib.suppress(BlockingIOError):
                    out.send(CHUNK)
        out.setblocking(True)
        out.shutdown(socket.SHUT_WR)
        print(struct.unpack("f", out.recv(4, socket.MSG_WAITALL))[0])


if __name__ == "__main__":
    {"serve": serve, "ping": ping, "burst": burst, "send": send}[sys.argv[1]](*sys.argv[2:])
