#!/usr/bin/env python3
"""check_contraction.py PROGRAM...: no fused multiply-add-subtract instruction in what was built.

g++ 12 forms vfmaddsub and vfmsubadd from sums and products of neighbouring values even with -ffp-contract=off, which
changes bits from one inlining to the next. Nothing in the sources asks for them, so any is the compiler's. (Plain
fused multiply-adds are asked for, by std::fma, so they say nothing.) Looks only at functions of ours: libraries may do
as they like."""
import re
import subprocess
import sys

FUSED = re.compile(r"\bvfm(addsub|subadd)\w+")
FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")


def find(disassembly):
    function, found = "", []
    for line in disassembly:
        match = FUNCTION.match(line)
        if match:
            function = match.group(1)
        elif "shardwise" in function:
            hit = FUSED.search(line)
            if hit:
                found.append((function, hit.group(0)))
    return found


def main(programs):
    if programs == ["--self-test"]:
        sample = ["0000 <_ZN9shardwise1fEv>:", "  10:\tvfmaddsub132pd %ymm0,%ymm1,%ymm2",
                  "0020 <_ZN3tbb1gEv>:", "  30:\tvfmsubadd132pd %ymm0,%ymm1,%ymm2",
                  "0040 <_ZN9shardwise1gEv>:", "  50:\tvfmadd132sd %xmm0,%xmm1,%xmm2"]
        found = find(sample)
        assert found == [("_ZN9shardwise1fEv", "vfmaddsub132pd")], found
        print("1 of 3 sample functions found, as it should be")
        return 0
    failed = False
    for program in programs:
        run = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program], stdout=subprocess.PIPE, text=True, check=True)
        lines = run.stdout.splitlines()
        functions = sum(1 for line in lines if FUNCTION.match(line) and "shardwise" in line)
        if functions < 100:
            print(f"{program}: only {functions} functions of ours: was it stripped?")
            failed = True
        found = find(lines)
        for function, instruction in found[:20]:
            print(f"{program}: {instruction} in {function}; see SHARDWISE_FP_FLAGS in cmake/ShardwiseTargets.cmake")
        failed = failed or bool(found)
        print(f"{program}: {functions} functions of ours, {len(found)} contracted instructions")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
