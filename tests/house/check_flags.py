#!/usr/bin/env python3
"""Checks the floating-point flags of every source of ours in compile_commands.json.

    check_flags.py build/host/compile_commands.json PROJECT_ROOT
    check_flags.py --self-test

That host and CUDA give the same bits rests on these flags: one target that was not given shardwise_flags would break
it without a sign.
"""

import json
import pathlib
import re
import shlex
import sys

FORBIDDEN = {
    "-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-fassociative-math", "-freciprocal-math",
    "-ffinite-math-only", "-fno-signed-zeros", "-mdaz-ftz", "-fsingle-precision-constant", "-fcx-limited-range",
    "--use_fast_math", "-use_fast_math", "--fmad=true", "-fmad=true", "--ftz=true", "-ftz=true",
    "--prec-div=false", "-prec-div=false", "--prec-sqrt=false", "-prec-sqrt=false",
}
OURS = ("src", "apps", "tests", "bench", "examples", "python")


def words_of(entry):
    words = entry.get("arguments") or shlex.split(entry["command"])
    # nvcc hands words to the host compiler: -Xcompiler=-Wall,-ffp-contract=off or -Xcompiler -Wall.
    host = []
    for i, word in enumerate(words):
        match = re.match(r"^(?:-Xcompiler|--compiler-options)(?:=(.*))?$", word)
        if match:
            host += (match.group(1) if match.group(1) is not None else words[i + 1]).split(",")
    return words, host


def check_entry(entry):
    words, host = words_of(entry)
    cuda = entry["file"].endswith(".cu")
    problems = []
    if cuda:
        # The last one given wins.
        fmad = [word for word in words if re.match(r"^--?fmad=", word)]
        if not fmad or not fmad[-1].endswith("=false"):
            problems.append("lacks --fmad=false")
        contract = [word for word in host if word.startswith("-ffp-contract=")]
    else:
        contract = [word for word in words if word.startswith("-ffp-contract=")]
    if not contract or contract[-1] != "-ffp-contract=off":
        problems.append("lacks -ffp-contract=off" + (" for the host compiler" if cuda else ""))
    for word in words + host:
        if word in FORBIDDEN:
            problems.append(f"has {word}")
    return problems


def check(entries, root):
    root = pathlib.Path(root).resolve()
    problems, count = [], 0
    for entry in entries:
        file = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        try:
            relative = file.relative_to(root)
        except ValueError:
            continue
        if relative.parts[0] not in OURS:
            continue
        count += 1
        output = f" ({entry['output']})" if "output" in entry else ""
        problems += [f"{relative}{output}: {problem}" for problem in check_entry(entry)]
    return problems, count


def self_test():
    def entry(command, file="/p/src/a.cpp"):
        return {"directory": "/p/build", "command": command, "file": file}

    good = [
        entry("c++ -O3 -ffp-contract=off -c /p/src/a.cpp"),
        entry("nvcc --fmad=false -Xcompiler=-Wall,-ffp-contract=off -c /p/src/a.cu", "/p/src/a.cu"),
        entry("nvcc -fmad=false -Xcompiler -ffp-contract=off -c /p/src/a.cu", "/p/src/a.cu"),
    ]
    bad = [
        entry("c++ -O3 -c /p/src/a.cpp"),
        entry("c++ -ffp-contract=off -ffp-contract=fast -c /p/src/a.cpp"),
        entry("c++ -ffp-contract=off -ffast-math -c /p/src/a.cpp"),
        entry("c++ -ffp-contract=off -Ofast -c /p/src/a.cpp"),
        entry("nvcc -Xcompiler=-ffp-contract=off -c /p/src/a.cu", "/p/src/a.cu"),
        entry("nvcc --fmad=false -c /p/src/a.cu", "/p/src/a.cu"),
        entry("nvcc --fmad=false --fmad=true -Xcompiler=-ffp-contract=off -c /p/src/a.cu", "/p/src/a.cu"),
        entry("nvcc --fmad=false --use_fast_math -Xcompiler=-ffp-contract=off -c /p/src/a.cu", "/p/src/a.cu"),
        entry("nvcc --fmad=false -Xcompiler=-ffp-contract=off,-ffast-math -c /p/src/a.cu", "/p/src/a.cu"),
    ]
    assert check(good, "/p") == ([], 3), check(good, "/p")
    for case in bad:
        assert check([case], "/p")[0], case["command"]
    assert check([entry("c++ -c /q/a.cpp", "/q/a.cpp"), entry("c++ -c x.cpp", "/p/build/x.cpp")], "/p") == ([], 0)
    print("check_flags: the self-test passed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 3:
        sys.exit("usage: check_flags.py compile_commands.json PROJECT_ROOT | --self-test")
    entries = json.loads(pathlib.Path(sys.argv[1]).read_text())
    problems, count = check(entries, sys.argv[2])
    for line in problems:
        print(line)
    if count == 0:
        sys.exit(f"check_flags: {sys.argv[1]} names no source under {sys.argv[2]}")
    if problems:
        sys.exit(f"check_flags: {len(problems)} wrong flags in {count} compile commands")
    print(f"check_flags: {count} compile commands have the floating-point flags")


if __name__ == "__main__":
    main()
