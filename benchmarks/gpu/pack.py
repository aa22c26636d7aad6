"""Pack wheels for a machine without network into pieces that fit its transfers; print the commands to run there.

python -m benchmarks.gpu.pack out/carry --wheels out/wheels --kernels out/kernels --arch 90 --limit 45

Warp's library is most of the bytes. The machine code of other GPU architectures in it is filled with zeros, which
compress to nothing; the driver never reads it. Its examples and tests are left out.
"""

import argparse
import io
import lzma
import re
import struct
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

MIB = 1 << 20
LEFT_OUT = ("warp/examples/", "warp/tests/")
FATBIN = 0xBA55ED50
"""First word of a container of GPU code."""
MACHINE_CODE = 2
"""Kind of an entry of machine code; 1 is PTX."""
FILTERS = [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": 192 * MIB}]
"""Without the filter for x86 code the archive is a third larger."""


class PackError(Exception):
    """Wheels that cannot be packed."""


def section(library: bytes, name: bytes) -> tuple[int, int]:
    """Return start and end of a section of a 64-bit ELF file, (0, 0) if there is none."""
    table = struct.unpack_from("<Q", library, 0x28)[0]
    size, count, names = struct.unpack_from("<HHH", library, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", library, table + size * index) for index in range(count)]
    first = headers[names][4]
    for label, _, _, _, start, length in headers:
        if library.startswith(name + b"\0", first + label):
            return start, start + length
    return 0, 0


def gpu_code(library: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield kind, architecture, start and size of the GPU code of a library."""
    position, end = section(library, b".nv_fatbin")
    while position < end - 16:
        magic, _, header, length = struct.unpack_from("<IHHQ", library, position)
        if magic != FATBIN:  # padding
            position += 8
            continue
        entry, position = position + header, position + header + length
        while entry < position:
            kind, _, head, size = struct.unpack_from("<HHIQ", library, entry)
            arch = struct.unpack_from("<I", library, entry + 28)[0]
            yield kind, arch, entry + head, size
            entry += head + size


def keep_architecture(library: bytes, arch: int) -> bytes:
    """Return a library with zeros in place of all GPU code but the machine code of an architecture such as 90.

    Raises:
        PackError: It has no machine code of the architecture.
    """
    shrunk, entries = bytearray(library), list(gpu_code(library))
    if not any((kind, number) == (MACHINE_CODE, arch) for kind, number, _, _ in entries):
        numbers = sorted({number for kind, number, _, _ in entries if kind == MACHINE_CODE})
        raise PackError(f"--arch: expected one of {', '.join(map(str, numbers))}, got {arch}")
    for kind, number, start, size in entries:
        if (kind, number) != (MACHINE_CODE, arch):
            shrunk[start : start + size] = bytes(size)
    return bytes(shrunk)


def files(wheels: Path, kernels: Path | None, arch: int) -> Iterator[tuple[str, int, bytes]]:
    """Yield name, mode and bytes of the files of wheels as pip installs them, and of kernels without their sources."""
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for info in archive.infolist():
                name = re.sub(r"^[^/]+\.data/(pure|plat)lib/", "", info.filename)
                if info.is_dir() or name.startswith(LEFT_OUT) or ".data/" in name:  # scripts and headers
                    continue
                data = archive.read(info)
                data = keep_architecture(data, arch) if name == "warp/bin/warp.so" else data
                yield name, (info.external_attr >> 16) & 0o777 or 0o644, data
    if kernels is None:
        return
    for path in sorted(kernels.rglob("*")):
        if path.is_file() and path.suffix != ".cu":
            yield f"kernels/{path.relative_to(kernels)}", 0o644, path.read_bytes()


def pack(out: Path, wheels: Path, kernels: Path | None, arch: int, limit: float) -> list[int]:
    """Write ``out/N/site.tar.xz.N``, pieces of at most ``limit`` MiB; return the bytes of each.

    Raises:
        PackError: There is no wheel, or Warp has no code for the architecture.
    """
    if not any(wheels.glob("*.whl")):
        raise PackError(f"--wheels: expected wheels in {wheels}, got none; see python -m benchmarks.gpu.wheels")
    stream = io.BytesIO()
    with (
        lzma.open(stream, "wb", filters=FILTERS) as compressed,
        tarfile.open(fileobj=compressed, mode="w|") as tar,
    ):
        for name, mode, data in files(wheels, kernels, arch):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), mode
            tar.addfile(member, io.BytesIO(data))
    archive, size = stream.getvalue(), int(limit * MIB)
    pieces = [archive[start : start + size] for start in range(0, len(archive), size)]
    for number, piece in enumerate(pieces, 1):
        folder = out / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"site.tar.xz.{number}").write_bytes(piece)
    (out / str(len(pieces)) / "last").write_text(str(len(pieces)))
    return [len(piece) for piece in pieces]


def commands(out: Path, pieces: int) -> list[str]:
    """Return the command to run with each piece, in the repository."""
    lines = [f"mkdir -p /tmp/pieces && cp {out}/{number}/* /tmp/pieces/" for number in range(1, pieces + 1)]
    lines[-1] += (
        " && python3 benchmarks/gpu/unpack.py /tmp/pieces /tmp/site && "
        "PYTHONPATH=/tmp/site WARP_CACHE_PATH=/tmp/site/kernels make gpu-report PYTHON=python3"
    )
    return lines


def main(argv: list[str]) -> int:
    """Pack, and print the commands."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.pack", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write")
    parser.add_argument(
        "--wheels", type=Path, default=Path("out/wheels"), help="folder of wheels (default: out/wheels)"
    )
    parser.add_argument("--kernels", type=Path, help="WARP_CACHE_PATH of python -m benchmarks.gpu.kernels")
    parser.add_argument("--arch", type=int, default=90, help="compute capability of the GPU (default: 90)")
    parser.add_argument("--limit", type=float, default=45.0, help="MiB of a transfer (default: 45)")
    args = parser.parse_args(argv)
    try:
        sizes = pack(args.out, args.wheels, args.kernels, args.arch, args.limit)
    except PackError as error:
        print(error, file=sys.stderr)
        return 1
    for number, (size, command) in enumerate(zip(sizes, commands(args.out, len(sizes)), strict=True), 1):
        print(f"# transfer {number}: {args.out}/{number}, {size:,} bytes\n{command}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
