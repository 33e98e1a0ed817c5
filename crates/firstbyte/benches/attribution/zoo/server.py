#!/usr/bin/env python3
"""HTTPS of Python's ssl module: HTTP/1.1, a thread a connection. With --s-server of `openssl s_server`: this
program reads requests from its standard output and writes answers to its standard input, for one connection
after the other.

Answers `/w?think=MS&head=BYTES&writes=STEP,...` as README.md says, `/bytes/N`, and `/` with 2,000 bytes.
"""

import argparse
import os
import re
import socket
import ssl
import subprocess
import threading
import time
from urllib.parse import parse_qs, urlsplit

STEP = re.compile(r"(\d+)(?:@(\d+(?:\.\d+)?))?(?:x(\d+))?")
LINE = b"The quick brown fox jumps over the lazy dog.\n"


def plan(target):
    """Think time in seconds, size of the head, and for each write its bytes and the wait before it."""
    url = urlsplit(target)
    query = {key: values[-1] for key, values in parse_qs(url.query).items()}
    if url.path == "/":
        return 0.0, 0, [(2000, None)]
    if url.path.startswith("/bytes/"):
        return 0.0, 0, [(int(url.path[len("/bytes/"):]), None)]
    if url.path != "/w":
        return None
    steps = []
    for text in query.get("writes", "2000").split(","):
        size, wait, times = STEP.fullmatch(text).groups()
        wait = None if wait is None else float(wait) / 1000
        steps += [(int(size), wait)] * int(times or 1)
    return float(query.get("think", 0)) / 1000, int(query.get("head", 0)), steps


def head_of(status, length, size):
    """A response's head of about `size` bytes, or as short as it can be."""
    lines = f"HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n"
    missing = size - len(lines) - len("x-padding: \r\n\r\n")
    if missing > 0:
        lines += f"x-padding: {'X' * missing}\r\n"
    return (lines + "\r\n").encode()


def text(size):
    return (LINE * (size // len(LINE) + 1))[:size]


def answer(stream, target):
    planned = plan(target)
    if planned is None:
        stream.sendall(head_of("404 Not Found", 0, 0))
        return
    think, size, steps = planned
    if think:
        time.sleep(think)
    head = head_of("200 OK", sum(size for size, _ in steps), size)
    first, wait = steps[0]
    if wait is None:
        # In one write with the head.
        head += text(first)
        steps = steps[1:]
    stream.sendall(head)
    for size, wait in steps:
        if wait:
            time.sleep(wait)
        if size:
            stream.sendall(text(size))


def requests(stream):
    """The targets of a connection's requests, one after the other."""
    buffered = b""
    while True:
        while b"\r\n\r\n" not in buffered:
            more = stream.recv(16384)
            if not more:
                return
            buffered += more
        head, buffered = buffered.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        yield lines[0].split(" ")[1]
        if any(line.lower().replace(" ", "") == "connection:close" for line in lines):
            return


def serve(connection, make_context, nagle):
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0 if nagle else 1)
        stream = make_context().wrap_socket(connection, server_side=True)
        for target in requests(stream):
            answer(stream, target)
        stream.unwrap().close()
    except (OSError, ValueError):
        connection.close()


class Pipes:
    """What goes through an s_server, as if it were a socket."""

    def __init__(self, process):
        self.read_from = process.stdout.fileno()
        self.write_to = process.stdin.fileno()

    def recv(self, size):
        return os.read(self.read_from, size)

    def sendall(self, data):
        while data:
            data = data[os.write(self.write_to, data):]


def serve_through_s_server(options):
    words = ["openssl", "s_server", "-quiet", "-accept", "443"]
    words += ["-cert", options.chain, "-cert_chain", options.chain, "-key", options.key]
    if len(options.tls) == 1:
        words.append("-tls" + options.tls[0].replace(".", "_"))
    if options.tickets == 0:
        words += ["-no_ticket", "-no_cache", "-num_tickets", "0"]
    if options.early_data:
        words += ["-early_data", "-max_early_data", "16384", "-no_anti_replay"]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    pipes = Pipes(process)
    while process.poll() is None:
        # It is the client that closes.
        for target in requests(pipes):
            answer(pipes, target)


def context(options):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(options.chain, options.key)
    versions = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
    made.minimum_version = versions[options.tls[0]]
    made.maximum_version = versions[options.tls[-1]]
    made.set_alpn_protocols(["http/1.1"])
    if options.handshake_delay:
        # Called between the ClientHello and the ServerHello.
        made.sni_callback = lambda *_: time.sleep(options.handshake_delay / 1000)
    made.num_tickets = options.tickets
    if options.tickets == 0:
        made.options |= ssl.OP_NO_TICKET
    return made


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("chain")
    parser.add_argument("key")
    parser.add_argument("--tls", nargs="+", default=["1.2", "1.3"])
    parser.add_argument("--tickets", type=int, default=2)
    parser.add_argument("--nagle", action="store_true")
    parser.add_argument("--handshake-delay", type=float, default=0)
    parser.add_argument("--s-server", action="store_true")
    parser.add_argument("--early-data", action="store_true")
    options = parser.parse_args()
    if options.s_server:
        serve_through_s_server(options)
        return
    shared = context(options)
    # OpenSSL's cache of sessions is the context's: with a new one each time nothing is resumed.
    make_context = (lambda: shared) if options.tickets else (lambda: context(options))
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    dual = family == socket.AF_INET6
    listener = socket.create_server(("", 443), family=family, dualstack_ipv6=dual, backlog=128)
    while True:
        connection, _ = listener.accept()
        arguments = (connection, make_context, options.nagle)
        threading.Thread(target=serve, args=arguments, daemon=True).start()


main()
