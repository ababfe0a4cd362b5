# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes known by pid and start time (a pid alone may be someone else's by now)."""
import contextlib
import os
import signal
import socket
import subprocess
import threading
import time


def start_time(pid):
    """Clock ticks since boot at which the process began; None when there is none, or only a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def alive(process):
    return process is not None and start_time(process["pid"]) == process["start"]


def send(process, number):
    """Signal the very process that was recorded; False when it is gone."""
    with contextlib.suppress(OSError):
        pidfd = os.pidfd_open(process["pid"])
        try:
            if alive(process):
                signal.pidfd_send_signal(pidfd, number)
                return True
        finally:
            os.close(pidfd)
    return False


def wait_gone(process, seconds):
    end = time.monotonic() + seconds
    while alive(process):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process["pid"], os.WNOHANG)  # if it was ours, leave no zombie
    return True


def spawn(argv, log, env):
    with open(log, "ab") as out:
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, cwd="/",
                                 start_new_session=True)
    child.returncode = 0  # it outlives us by design: no warning from Popen's destructor
    return {"pid": child.pid, "start": start_time(child.pid)}


def listens(pid, port):
    """Whether somebody listens on the TCP port in the process's network namespace."""
    with contextlib.suppress(OSError):
        for name in ("tcp", "tcp6"):
            with open(f"/proc/{pid}/net/{name}", encoding="ascii") as table:
                if any(row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port
                       for row in (line.split() for line in table) if row[0] != "sl"):
                    return True
    return False


def tail(*paths, lines=15):
    """The last lines of the first of these files that has any."""
    for path in paths:
        with contextlib.suppress(OSError):
            with open(path, encoding="utf-8", errors="replace") as text:
                if last := text.read().splitlines()[-lines:]:
                    return f"{path}:\n" + "\n".join("    " + line for line in last)
    return "no log was written"


@contextlib.contextmanager
def signals_held():
    """Ctrl-C and SIGTERM are noted in the yielded list and take effect at the end. An exception just after a
    fork would leave a child that nobody knows, such as an `ip netns add` that ends after the clean-up."""
    noted = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = {number: signal.signal(number, lambda number, _: noted.append(number))
              for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in noted:
            signal.raise_signal(number)


@contextlib.contextmanager
def locked(*names, seconds=120):
    """Hold the names on this machine. They are abstract sockets: the kernel frees them when the holder dies,
    and no lock file stays behind."""
    held = []
    end = time.monotonic() + seconds
    try:
        for name in sorted(names):
            lock = socket.socket(socket.AF_UNIX)
            held.append(lock)
            while True:
                try:
                    lock.bind("\0spiderflow-testbed:" + name[-80:])
                    break
                except OSError:
                    if time.monotonic() > end:
                        raise TimeoutError(f"testbed {name} is busy: another `up` or `down` runs") from None
                    time.sleep(0.05)
        yield
    finally:
        for lock in held:
            lock.close()
