#!/usr/bin/env python3
"""A cable between two network namespaces: carries every frame from one TAP device to another, later.

    delay_bridge.py NAMESPACE_A NAMESPACE_B DELAY_MS

Makes the device `wire` in both namespaces and prints "ready". SIGUSR1 cuts the cable (frames are lost), SIGUSR2 mends it,
SIGTERM ends. Stands in for a delay queue of the kernel, which may lack one; what limits the rate is a token bucket
on the devices.
"""

import collections
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000


def open_tap(name):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return device


def run(*command):
    subprocess.run(command, check=True)


def main():
    namespaces, delay = sys.argv[1:3], float(sys.argv[3]) / 1000
    devices = []
    for end, namespace in enumerate(namespaces):
        name = f"swwire{end}"
        devices.append(open_tap(name))
        run("ip", "link", "set", name, "netns", namespace, "name", "wire")
    state = {"cut": False, "end": False}
    signal.signal(signal.SIGUSR1, lambda *_: state.update(cut=True))
    signal.signal(signal.SIGUSR2, lambda *_: state.update(cut=False))
    signal.signal(signal.SIGTERM, lambda *_: state.update(end=True))
    print("ready", flush=True)
    # To each end: frames in the order in which they are due.
    queues = [collections.deque(), collections.deque()]
    while not state["end"]:
        now = time.monotonic()
        due = min((queue[0][0] for queue in queues if queue), default=now + 0.1)
        readable, _, _ = select.select(devices, [], [], max(0.0, due - now))
        now = time.monotonic()
        for end, device in enumerate(devices):
            if device not in readable:
                continue
            for _ in range(64):
                try:
                    frame = os.read(device, 65536)
                except BlockingIOError:
                    break
                except OSError:  # not up yet, or down again
                    time.sleep(0.01)
                    break
                if not state["cut"]:
                    queues[1 - end].append((now + delay, frame))
        for end, queue in enumerate(queues):
            while queue and queue[0][0] <= now:
                frame = queue.popleft()[1]
                if state["cut"]:
                    continue
                try:
                    os.write(devices[end], frame)
                except OSError:
                    pass  # the far end is down: the frame is lost, as on a cable


if __name__ == "__main__":
    main()
