#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bad slurmrestd: a fake that stands in front of a real one and answers as its mode says.

    proxy = Proxy(bed, "s3")             # in the home site's namespace, where the broker is
    broker.configure(sites={"s3": {"url": proxy.url}})
    proxy.set("half POST")               # a mode, and perhaps the one method that it is for; the others pass

It reads the mode for each request:
  pass          the real answer                     slow SECONDS  the same, late
  half          the real answer, cut in its middle  lost          passed on, and closed without its answer
  hang          taken, and never answered           refuse        closed, and not passed on
  html          200 and a page                      error500      500, as from a slurmrestd whose slurmctld is down
"""
import http.client
import http.server
import os
import sys
import time

sys.dont_write_bytecode = True
import processes  # noqa: E402
from testbed import PATH, REST_PORT, TestbedError, write  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDED = os.path.join(os.path.dirname(HERE), "data", "slurmrestd", "err-ctld-down-nodes.json")
MODES = ("pass", "hang", "html", "error500", "half", "lost", "refuse", "slow")
PAGE = b"<!DOCTYPE html>\n<html><head><title>Maintenance</title></head><body>Back soon.</body></html>\n"
FIRST_PORT = 7900


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    mode_file = ""
    there = ("", 0)

    def mode(self):
        """The mode for this request and its argument."""
        with open(self.mode_file, encoding="ascii") as file:
            mode, argument = (file.read().split() + [""])[:2]
        return ("pass", "") if argument.isalpha() and argument != self.command else (mode, argument)

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        mode, argument = self.mode()
        if mode == "hang":
            while self.mode()[0] == "hang":
                time.sleep(0.1)
        elif mode == "html":
            self.answer(200, "text/html", PAGE)
        elif mode == "error500":
            with open(RECORDED, "rb") as file:
                self.answer(500, "application/json", file.read())
        elif mode != "refuse":
            status, kind, text = self.ask(body)
            if mode == "slow":
                time.sleep(float(argument))
            if mode != "lost":
                self.answer(status, kind, text, len(text) // 2 if mode == "half" else len(text))
        self.close_connection = mode not in ("pass", "slow")

    do_GET = do_POST = do_DELETE = handle_one

    def ask(self, body):
        """The real slurmrestd's answer."""
        connection = http.client.HTTPConnection(*self.there, timeout=60)
        try:
            passed = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
            connection.request(self.command, self.path, body or None, passed)
            answer = connection.getresponse()
            return answer.status, answer.headers.get("Content-Type", "text/plain"), answer.read()
        except OSError as error:
            return 502, "text/plain", f"proxy: {error}\n".encode()
        finally:
            connection.close()

    def answer(self, status, kind, text, sent=None):
        self.send_response_only(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text[:sent])

    def log_message(self, format, *args):  # noqa: A002
        pass


class Proxy:
    """The fake for one site; it goes away with the testbed."""

    def __init__(self, bed, site, home="s1"):
        self.bed, self.site, self.home = bed, bed.site(site), bed.site(home)
        self.port = FIRST_PORT + self.site.index
        self.url = f"http://127.0.0.1:{self.port}"
        self.mode_file = f"{bed.root}/proxy-{self.site.name}"
        self.set("pass")
        words = bed.enter(self.home, self.home.head) + ["/usr/bin/python3", os.path.abspath(__file__), str(self.port),
                                                        self.site.address, self.mode_file]
        self.process = processes.spawn(words, self.mode_file + ".log", {"PATH": PATH, "LANG": "C.UTF-8"})
        bed.processes[f"{self.home.name}/proxy-{self.site.name}"] = self.process
        bed.save()
        end = time.monotonic() + 15
        while not processes.listens(self.process["pid"], self.port):
            if time.monotonic() > end or not processes.alive(self.process):
                raise TestbedError(f"the proxy does not start; {processes.tail(self.mode_file + '.log')}")
            time.sleep(0.05)

    def set(self, mode):
        if mode.split()[0] not in MODES:
            raise TestbedError(f"proxy mode {mode}: known are {' '.join(MODES)}")
        write(self.mode_file, mode)


def main():
    port, address, Handler.mode_file = sys.argv[1:]
    Handler.there = address, REST_PORT
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    main()
