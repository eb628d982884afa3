# SPDX-License-Identifier: Apache-2.0
"""Both ends of conversations over a provider network, run on hosts by `ssh HOST python3 - ...`.

`serve` answers TCP, UDP and, where the kernel has it, SCTP with the client's address, and prints its input. `talk`
asks from one address and port in several ways, prints the answers as one line of JSON, waits for a line of input,
repeats all questions on what is still open, and prints once more. So a test can have several of them open at the same
time, without clocks. `hold` keeps many TCP connections open, and asks on them again whenever it is asked to.
"""

import contextlib
import json
import os
import selectors
import socket
import struct
import sys
import time

ECHO = {4: (8, 0, socket.IPPROTO_ICMP), 6: (128, 129, socket.IPPROTO_ICMPV6)}
# Seconds until there is no answer any more, which only what is broken reaches, and until a packet is sent again.
TIMEOUT, AGAIN = 300, 2
# Linux's numbers (ip(7), ipv6(7)).
MTU_DISCOVER = {4: (socket.IPPROTO_IP, 10), 6: (socket.IPPROTO_IPV6, 23)}
PATH_MTU = {4: (socket.IPPROTO_IP, 14), 6: (socket.IPPROTO_IPV6, 24)}


def family(address):
    return 6 if ":" in address else 4


def number(address):
    return socket.AF_INET6 if family(address) == 6 else socket.AF_INET


def peer(address):
    return [address[0].removeprefix("::ffff:"), address[1]]


def serve(port, *addresses):
    """Answer until the input ends."""
    selector = selectors.DefaultSelector()
    for address in addresses:
        listening = socket.create_server((address, port), family=number(address), backlog=64)
        selector.register(listening, selectors.EVENT_READ, "accept tcp")
        with contextlib.suppress(OSError):
            associations = socket.socket(number(address), socket.SOCK_STREAM, socket.IPPROTO_SCTP)
            associations.bind((address, port))
            associations.listen()
            selector.register(associations, selectors.EVENT_READ, "accept sctp")
        datagrams = socket.socket(number(address), socket.SOCK_DGRAM)
        datagrams.setsockopt(*MTU_DISCOVER[family(address)], 2)
        datagrams.bind((address, port))
        selector.register(datagrams, selectors.EVENT_READ, "udp")
    selector.register(sys.stdin, selectors.EVENT_READ, "input")
    print("ready", flush=True)
    while True:
        for key, _events in selector.select():
            if key.data == "input":
                return
            if key.data.startswith("accept "):
                opened, _address = key.fileobj.accept()
                selector.register(opened, selectors.EVENT_READ, key.data.removeprefix("accept "))
            elif key.data == "udp":
                data, address = key.fileobj.recvfrom(65535)
                answer(key.fileobj, "udp", data, address)
            else:
                data = key.fileobj.recv(65535)
                if data:
                    answer(key.fileobj, key.data, data, key.fileobj.getpeername())
                else:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()


def answer(opened, how, data, address):
    """Send the client its address as seen from here; `give N` gets N bytes after that, over TCP, or in one datagram.

    A datagram of N bytes that the kernel refuses to send is answered by the address alone.
    """
    asked = data.decode()
    print(json.dumps([how, asked, peer(address)]), flush=True)
    reported = json.dumps([asked, peer(address)]).encode()
    word, _blank, count = asked.rpartition(" ")
    if word.endswith("give") and how == "tcp":
        opened.setblocking(True)
        opened.sendall(bytes(int(count)))
        path = opened.getsockopt(*PATH_MTU[family(address[0])])
        print(json.dumps(["path", asked, path]), flush=True)
    elif word.endswith("give"):
        try:
            opened.sendto(reported.ljust(int(count)), address)
        except OSError as error:
            print(json.dumps(["refused", asked, error.errno]), flush=True)
            opened.sendto(reported, address)
    else:
        opened.sendto(reported, address) if how == "udp" else opened.sendall(reported)


def talk(name, target, port, own_port, identifier):
    """Ask by TCP, UDP and echo, twice, with everything open in between."""
    tcp = socket.socket(number(target), socket.SOCK_STREAM)
    udp = socket.socket(number(target), socket.SOCK_DGRAM)
    for opened, seconds in ((tcp, TIMEOUT), (udp, AGAIN)):
        opened.settimeout(seconds)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(("", own_port))
    tcp.connect((target, port))
    for turn in (1, 2):
        said = {"own": tcp.getsockname()[0]}
        for how, opened in (("tcp", tcp), ("udp", udp)):
            asked = f"{name} {how} {turn}"
            if how == "tcp":
                opened.sendall(asked.encode())
                said[how] = json.loads(opened.recv(65535))
            else:
                # An answer to the question of before, which was sent again, may come late.
                late = f"{name} {how} {turn - 1}"
                said[how] = repeated(
                    lambda text=asked: udp.sendto(text.encode(), (target, port)),
                    lambda: json.loads(udp.recv(65535)),
                    lambda said, late=late: said[0] != late,
                )
        said["icmp"] = echo(target, identifier, turn, f"{name} icmp {turn}")
        print(json.dumps(said), flush=True)
        sys.stdin.readline()


def repeated(send, receive, accepted):
    """Send until something is received that is accepted, and return it: a packet may be lost, or come late."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        try:
            send()
            while time.monotonic() < end:
                found = receive()
                if accepted(found):
                    return found
        except TimeoutError:
            continue
        except OSError:
            # No route for a moment, or an ICMP error.
            time.sleep(AGAIN)
    raise TimeoutError


def hold(name, target, port, count):
    """Open TCP connections and print the address of each as the other end sees it.

    Each line of input is a JSON list of such addresses, whose connections are left alone from then on. On the others a
    question is asked; the number of answers and the errors are printed.
    """
    kept = []
    for _number in range(count):
        opened = socket.create_connection((target, port), timeout=TIMEOUT)
        opened.sendall(f"{name} hold".encode())
        kept.append((opened, json.loads(opened.recv(65535))[1][0]))
    print(json.dumps([source for _opened, source in kept]), flush=True)
    gone = set()
    for line in sys.stdin:
        gone |= {*json.loads(line)}
        answers, errors = 0, []
        for opened, source in kept:
            try:
                if source not in gone:
                    opened.sendall(f"{name} again".encode())
                    answers += json.loads(opened.recv(65535))[1][0] == source
            except (OSError, ValueError) as error:
                errors.append(f"{source}: {error}")
        print(json.dumps([answers, errors]), flush=True)


def associate(name, target, port):
    """Ask over SCTP, and print the answer; prints null where the kernel has no SCTP."""
    try:
        opened = socket.socket(number(target), socket.SOCK_STREAM, socket.IPPROTO_SCTP)
    except OSError:
        print("null", flush=True)
        return
    with opened:
        opened.settimeout(TIMEOUT)
        opened.connect((target, port))
        opened.sendall(f"{name} sctp".encode())
        print(json.dumps(json.loads(opened.recv(65535))), flush=True)


def echo(target, identifier, sequence, text):
    """Return the text that came back with our identifier."""
    asked, reported, protocol = ECHO[family(target)]
    opened = socket.socket(number(target), socket.SOCK_RAW, protocol)
    opened.settimeout(AGAIN)
    packet = struct.pack("!BBHHH", asked, 0, 0, identifier, sequence) + text.encode().ljust(64)
    if family(target) == 4:
        total = sum(struct.unpack(f"!{len(packet) // 2}H", packet))
        total = (total >> 16) + (total & 0xFFFF)
        packet = packet[:2] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + packet[4:]

    def receive():
        data = opened.recv(2048)
        data = data[20:] if family(target) == 4 else data
        return *struct.unpack("!BBHHH", data[:8]), data[8:].decode(errors="replace").rstrip()

    # Not by its sequence, which the answer to another's question may have as well; an earlier one of ours may be late.
    found = repeated(
        lambda: opened.sendto(packet, (target, 0)),
        receive,
        lambda one: (one[0], one[3]) == (reported, identifier) and one[4] >= sequence,
    )
    return found[5]


def fetch(name, target, port, count):
    """Have the other end send so many bytes over one TCP connection; print how many came."""
    with socket.create_connection((target, port), timeout=TIMEOUT) as opened:
        opened.sendall(f"{name} give {count}".encode())
        left = count
        while left and (data := opened.recv(65536)):
            left -= len(data)
        print(json.dumps(count - left), flush=True)


def receive(name, target, port, size):
    """Ask for a datagram of a size, not to be fragmented, until one comes or its kernel refuses to send it.

    Print its length, 0 when it was refused.
    """
    with socket.socket(number(target), socket.SOCK_DGRAM) as opened:
        opened.settimeout(AGAIN)
        opened.connect((target, port))
        data = repeated(
            lambda: opened.send(f"{name} give {size}".encode()), lambda: opened.recv(65535), lambda _data: True
        )
        print(json.dumps(len(data) if len(data) >= size else 0), flush=True)


if __name__ == "__main__":
    verb, *words = json.loads(os.environ["WORDS"])
    {"serve": serve, "talk": talk, "hold": hold, "associate": associate, "fetch": fetch, "receive": receive}[verb](
        *words
    )
