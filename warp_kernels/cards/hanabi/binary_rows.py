"""Rows of zeros and ones, written 64 columns at a time, and only where they differ from what they show.

A row is a string of bits, the first column first. A writer appends fields to it and writes every full word of 64 bits
to the row. A memory of the words that the row shows lets it skip the parts that have not changed.
"""

from typing import Any

import warp as wp

WRITE_CHANGES: int = wp.constant(0)
"""Mode of a writer: write parts that differ from the memory."""
WRITE_AND_REMEMBER: int = wp.constant(1)
"""Mode of a writer: write all parts, and remember them."""
WRITE_ALL: int = wp.constant(2)
"""Mode of a writer without a memory: write all parts."""
WORD = 64
"""Bits of a word."""
PART = 32
"""Bits of a part of a word; columns of a part are written together."""
PARTS = WORD // PART
"""Number of parts of a word."""
_PART: wp.uint64 = wp.constant(wp.uint64(PART))
_PART_MASK: wp.uint64 = wp.constant(wp.uint64((1 << PART) - 1))
_PART_BYTES: wp.uint64 = wp.constant(wp.uint64(4 * PART))
_ALL: wp.uint64 = wp.constant(wp.uint64(0xFFFFFFFFFFFFFFFF))
_WORD: wp.uint64 = wp.constant(wp.uint64(WORD))
_BYTES: wp.uint64 = wp.constant(wp.uint64(4 * WORD))  # of a word's columns
_WORD_BYTES: wp.uint64 = wp.constant(wp.uint64(8))


def num_words(width: int) -> int:
    """Return the number of words of a row."""
    return -(-width // WORD)


@wp.struct
class Writer:
    """Position in a row, and the bits that are not written yet."""

    row: wp.uint64  # address of the column of the current word
    address: wp.uint64  # address of the current word in the memory of the row, if there is one
    mode: int  # WRITE_CHANGES, WRITE_AND_REMEMBER or WRITE_ALL
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


@wp.func(inline=True)
def _change(address: wp.uint64, mode: int, word: wp.uint64):
    """Return the bits of a word that must be written, and remember it."""
    change = _ALL
    if mode != WRITE_ALL:
        memory = wp.array(ptr=address, shape=(1,), dtype=wp.uint64)
        if mode == WRITE_CHANGES:
            change = memory[0] ^ word
        memory[0] = word
    return change


@wp.func(inline=False)
def _write_word(row: wp.uint64, address: wp.uint64, mode: int, word: wp.uint64):
    """Write the parts of a word that have a changed bit."""
    change = _change(address, mode, word)
    part = int(0)
    while part < PARTS:
        if (change & _PART_MASK) != wp.uint64(0):
            _expand(row, int(word & _PART_MASK), PART)
        change = change >> _PART
        word = word >> _PART
        row = row + _PART_BYTES
        part += 1


@wp.func(inline=True)
def append(writer: Writer, bits: wp.uint64, count: wp.uint64):
    """Append 1 to 63 bits; higher ones must be 0. Return the writer."""
    writer.word = writer.word | (bits << writer.fill)
    writer.fill = writer.fill + count
    if writer.fill >= _WORD:
        _write_word(writer.row, writer.address, writer.mode, writer.word)
        writer.row = writer.row + _BYTES
        writer.address = writer.address + _WORD_BYTES
        writer.fill = writer.fill - _WORD
        writer.word = bits >> (count - writer.fill)
    return writer


def finisher(width: int) -> Any:
    """Build the function ``finish(writer)``, which writes what is left of a row of this width."""
    remainder = width % WORD
    low, high = min(remainder, PART), max(remainder - PART, 0)

    @wp.func(inline=True)
    def finish(writer: Writer):
        if wp.static(remainder > 0):
            if _change(writer.address, writer.mode, writer.word) != wp.uint64(0):
                _expand(writer.row, int(writer.word & _PART_MASK), low)
                _expand(writer.row + _PART_BYTES, int(writer.word >> _PART), high)

    return finish
