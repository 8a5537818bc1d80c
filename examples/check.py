#!/usr/bin/env python3
"""check.py PROGRAM PATTERN...: runs an example in an empty folder. Fails unless it exits with 0 and every pattern is
found in its standard output."""

import re
import subprocess
import sys
import tempfile

program, *patterns = sys.argv[1:]
if not patterns:
    sys.exit(f"{program}: no pattern to look for in its output")
with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run([program], cwd=folder, capture_output=True, text=True, timeout=100)
print(done.stdout + done.stderr)
if done.returncode != 0:
    sys.exit(f"{program}: exit code {done.returncode}")
missing = [pattern for pattern in patterns if not re.search(pattern, done.stdout, re.MULTILINE)]
if missing:
    sys.exit(f"{program}: not in its output: {missing}")
