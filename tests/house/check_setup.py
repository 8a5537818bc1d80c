#!/usr/bin/env python3
"""Checks that scripts/setup --list prints and installs nothing, and that nothing with --no-install calls apt or sudo.

    check_setup.py ROOT

apt-get, sudo and the like stand first on the path and leave a mark where they are called.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile


def run(root, folder, *command):
    marker = folder / "called"
    shims = folder / "bin"
    shims.mkdir(exist_ok=True)
    for name in ("apt", "apt-get", "sudo", "su", "dpkg", "aptitude"):
        shim = shims / name
        shim.write_text(f'#!/bin/sh\necho "{name} $*" >> "{marker}"\nexit 1\n')
        shim.chmod(0o755)
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, PATH=f"{shims}:{os.environ['PATH']}"))
    return done, marker.read_text() if marker.exists() else ""


def main():
    root = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        done, called = run(root, folder, "scripts/setup", "--list")
        assert done.returncode == 0, done.stderr
        assert not called, f"setup --list called: {called}"
        names = done.stdout.split()
        assert {"cmake", "libtbb-dev", "libpugixml-dev", "ccache"} <= set(names), names
        assert len(names) == len(set(names)), "a package is listed twice"
        assert all(re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name) for name in names), names
        assert done.stdout == "\n".join(names) + "\n", "one name a line and nothing else"

        # Whether something is missing here or not: --check says so and calls nobody.
        done, called = run(root, folder, "scripts/setup", "--check")
        assert done.returncode in (0, 1), done.stderr
        assert done.returncode == 0 or "missing:" in done.stderr, done.stderr
        assert not called, f"setup --check called: {called}"

        done, called = run(root, folder, "scripts/setup", "--no-such-option")
        assert done.returncode == 2 and "accepted: --check, --list" in done.stderr, done.stderr
        assert not called
        # The shims do leave a mark.
        _, called = run(root, folder, "apt-get", "update")
        assert called == "apt-get update\n", called
    print("check_setup: --list and --check install nothing")


if __name__ == "__main__":
    main()
