"""Targets that map a file of words and go on until its first one is set (targets/board.h)."""
import mmap
import os
import struct

import harness


class Words:
    """Those of a file that a target maps."""

    def __init__(self, path):
        with open(path, "r+b") as file:
            self.board = mmap.mmap(file.fileno(), 4096)

    def words(self, first, count):
        return struct.unpack_from("=%dQ" % count, self.board, 8 * first)

    def word(self, index):
        return self.words(index, 1)[0]

    def end(self):
        struct.pack_into("=Q", self.board, 0, 1)


class Target(Words, harness.Target):
    """`name FILE`, with FILE in `folder`."""

    def __init__(self, name, folder):
        path = os.path.join(folder, "board")
        harness.Target.__init__(self, [harness.target(name), path])
        self.expect("pid ")
        Words.__init__(self, path)

    def end(self):
        Words.end(self)
        return self.finish()[1]
