#!/usr/bin/env python3
"""Where content placement puts four keys on 2 to 16 devices, by a BLAKE3 of its own.

A second route to tests/shard/placement_table.hpp, independent of src/shard: the hash of section 2 of the BLAKE3 paper for
inputs of one chunk, in plain integers, checked here against published vectors.

    placement_table.py            prints the table
    placement_table.py --check F  fails where F is not that
"""

import sys

KEYS = ["src/foo.rs", "cold/file.bin", "a", ""]
MASK = 0xFFFFFFFF
IV = [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19]
ORDER = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
CHUNK_START, CHUNK_END, ROOT = 1, 2, 8


def quarter(state, a, b, c, d, x, y):
    def turn(word, bits):
        return (word >> bits | word << (32 - bits)) & MASK

    for message, first, second in ((x, 16, 12), (y, 8, 7)):
        state[a] = (state[a] + state[b] + message) & MASK
        state[d] = turn(state[d] ^ state[a], first)
        state[c] = (state[c] + state[d]) & MASK
        state[b] = turn(state[b] ^ state[c], second)


def compress(value, block, length, flags):
    message = [int.from_bytes(block[i:i + 4], "little") for i in range(0, 64, 4)]
    state = value + IV[:4] + [0, 0, length, flags]
    for step in range(7):
        for i in range(4):
            quarter(state, i, 4 + i, 8 + i, 12 + i, message[2 * i], message[2 * i + 1])
        for i in range(4):
            quarter(state, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, message[8 + 2 * i], message[9 + 2 * i])
        if step < 6:
            message = [message[i] for i in ORDER]
    return [state[i] ^ state[i + 8] for i in range(8)]


def blake3(data):
    assert len(data) <= 1024
    blocks = [data[i:i + 64] for i in range(0, len(data), 64)] or [b""]
    value = IV
    for i, block in enumerate(blocks):
        flags = (CHUNK_START if i == 0 else 0) | (CHUNK_END | ROOT if i == len(blocks) - 1 else 0)
        value = compress(value, block.ljust(64, b"\0"), len(block), flags)
    return b"".join(word.to_bytes(4, "little") for word in value)


def check_against_published_vectors():
    for length, start in ((0, "af1349b9f5f9a1a6"), (1, "2d3adedff11b61f1"), (63, "e9bc37a594daad83"),
                          (64, "4eed7141ea4a5cd4"), (65, "de1e5fa0be70df6d"), (127, "d81293fda863f008"),
                          (1023, "10108970eeda3eb9"), (1024, "42214739f095a406")):
        assert blake3(bytes(i % 251 for i in range(length))).hex().startswith(start), length


def table():
    lines = ["#pragma once", "// Written by placement_table.py, which hashes by a BLAKE3 of its own.", "", "#include <array>", "",
             "namespace shardwise::test {", "", "struct PlacementRow {", "  const char* key;",
             "  std::array<unsigned, 15> device;  ///< on 2 to 16 devices", "};", "",
             "inline constexpr PlacementRow kPlacements[] = {"]
    for key in KEYS:
        number = int.from_bytes(blake3(key.encode())[:4], "little")
        lines.append(f'    {{"{key}", {{' + ", ".join(str(number % n) for n in range(2, 17)) + "}},")
    return "\n".join(lines + ["};", "", "}  // namespace shardwise::test", ""])


def main():
    check_against_published_vectors()
    if not sys.argv[1:]:
        return print(table(), end="")
    if len(sys.argv) != 3 or sys.argv[1] != "--check":
        sys.exit("placement_table.py: accepted is --check FILE")
    with open(sys.argv[2], encoding="utf-8") as file:
        if file.read() != table():
            sys.exit(f"{sys.argv[2]} is not what placement_table.py prints")
    print("the table is the script's")


if __name__ == "__main__":
    main()
