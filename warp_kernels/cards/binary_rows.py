"""Rows of zeros and ones, written 64 columns at a time, and only where they differ from what they show.

A row is a string of bits, the first column first. A writer appends fields to it and writes every full word of 64 bits to
the row. A memory of the words that the row shows lets it skip those that have not changed.
"""

from typing import Any

import warp as wp

__all__ = ["Writer", "append", "finisher", "num_words"]

WORD = 64
"""Bits of a word."""
_LOW: wp.uint64 = wp.constant(wp.uint64(0xFFFFFFFF))
_HALF: wp.uint64 = wp.constant(wp.uint64(32))
PART = 32
"""Bits of a part of a word; columns of a part are written together."""
PARTS = WORD // PART
_PART: wp.uint64 = wp.constant(wp.uint64(PART))
_PART_MASK: wp.uint64 = wp.constant(wp.uint64((1 << PART) - 1))
_PART_BYTES: wp.uint64 = wp.constant(wp.uint64(4 * PART))
_ALL: wp.uint64 = wp.constant(wp.uint64(0xFFFFFFFFFFFFFFFF))
_WORD: wp.uint64 = wp.constant(wp.uint64(WORD))
_BYTES: wp.uint64 = wp.constant(wp.uint64(4 * WORD))  # of a word's columns


def num_words(width: int) -> int:
    """Return the number of words of a row."""
    return -(-width // WORD)


@wp.struct
class Writer:
    """Position in a row, and the bits that are not written yet."""

    row: wp.uint64  # address of the column of the current word
    seen: wp.uint64  # address of the current word in the memory of the row; 0: write all words
    is_blank: int  # 1: write all words, and remember them
    word: wp.uint64  # bits of the current word
    fill: wp.uint64  # number of these bits


@wp.func(inline=True)
def _expand(address: wp.uint64, bits: int, count: int):
    """Write the lowest bits as numbers."""
    columns = wp.array(ptr=address, shape=(WORD,), dtype=float)
    index = int(0)
    while index < count:
        columns[index] = float((bits >> index) & 1)
        index += 1


@wp.func(inline=False)
def _expand_word(address: wp.uint64, word: wp.uint64, change: wp.uint64):
    """Write the parts of a word that have a changed bit."""
    part = int(0)
    while part < PARTS:
        if (change & _PART_MASK) != wp.uint64(0):
            _expand(address, int(word & _PART_MASK), PART)
        change = change >> _PART
        word = word >> _PART
        address = address + _PART_BYTES
        part += 1


@wp.func(inline=True)
def _change(writer: Writer):
    """Return the bits of the current word that must be written, and remember it."""
    change = _ALL
    if writer.seen != wp.uint64(0):
        memory = wp.array(ptr=writer.seen, shape=(1,), dtype=wp.uint64)
        if writer.is_blank == 0:
            change = memory[0] ^ writer.word
        memory[0] = writer.word
    return change


@wp.func(inline=True)
def append(writer: Writer, bits: wp.uint64, count: wp.uint64):
    """Append 1 to 63 bits; higher ones must be 0. Return the writer."""
    writer.word = writer.word | (bits << writer.fill)
    writer.fill = writer.fill + count
    if writer.fill >= _WORD:
        change = _change(writer)
        if change != wp.uint64(0):
            _expand_word(writer.row, writer.word, change)
        writer.row = writer.row + _BYTES
        if writer.seen != wp.uint64(0):
            writer.seen = writer.seen + wp.uint64(8)
        writer.fill = writer.fill - _WORD
        writer.word = bits >> (count - writer.fill)
    return writer


def finisher(width: int) -> Any:
    """Build the function ``finish(writer)``, which writes what is left of a row of this width."""
    rest = width % WORD
    low, high = min(rest, 32), max(rest - 32, 0)

    @wp.func(inline=True)
    def finish(writer: Writer):
        if wp.static(rest > 0):
            if _change(writer) != wp.uint64(0):
                _expand(writer.row, int(writer.word & _LOW), low)
                _expand(writer.row + wp.uint64(128), int(writer.word >> _HALF), high)

    return finish
