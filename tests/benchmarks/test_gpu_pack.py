"""Packing of wheels for a machine without network: one architecture of Warp's GPU code, pieces, and their unpacking."""

import lzma
import struct
import subprocess
import sys
import zipfile

import pytest

from benchmarks.gpu import pack, unpack

CODES = [(1, 75, b"ptx" * 8), (2, 80, b"old." * 4), (2, 90, b"new!" * 4)]


def library() -> bytes:
    """Return an ELF file with GPU code in two containers."""
    containers = b""
    for codes in (CODES[:2], CODES[2:]):
        entries = b"".join(
            struct.pack("<HHIQ", kind, 0, 32, len(code)) + struct.pack("<12xI", arch) + code
            for kind, arch, code in codes
        )
        containers += struct.pack("<IHHQ", pack.FATBIN, 1, 16, len(entries)) + entries + bytes(8)
    names = b"\0.nv_fatbin\0.shstrtab\0"
    start = 64
    code, text = (1, start, len(containers)), (12, start + len(containers), len(names))
    table = b"".join(
        struct.pack("<IIQQQQ", label, 0, 0, 0, position, size) + bytes(24) for label, position, size in (code, text)
    )
    header = bytearray(64)
    struct.pack_into("<Q", header, 0x28, start + len(containers) + len(names))
    struct.pack_into("<HHH", header, 0x3A, 64, 2, 1)
    return bytes(header) + containers + names + table


def test_code_of_other_architectures_becomes_zeros():
    original = library()
    assert [
        (kind, arch, original[start : start + size]) for kind, arch, start, size in pack.gpu_code(original)
    ] == CODES
    shrunk = pack.keep_architecture(original, 90)
    assert len(shrunk) == len(original)
    assert b"new!" * 4 in shrunk
    assert b"old." not in shrunk
    assert b"ptx" not in shrunk
    with pytest.raises(pack.PackError, match="--arch: expected one of 80, 90, got 100"):
        pack.keep_architecture(original, 100)


def test_pieces_are_joined_and_unpacked(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(pack, "FILTERS", [{"id": lzma.FILTER_LZMA2, "preset": 0}])  # the others need 2 GB
    wheels, kernels = tmp_path / "wheels", tmp_path / "kernels"
    assert pack.main([str(tmp_path / "out"), "--wheels", str(wheels)]) == 1
    assert "expected wheels in" in capsys.readouterr().err
    wheels.mkdir()
    (kernels / "module").mkdir(parents=True)
    (kernels / "module" / "a.cubin").write_bytes(b"cubin")
    (kernels / "module" / "a.cu").write_text("source")
    with zipfile.ZipFile(wheels / "warp_lang-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("warp/bin/warp.so", library())
        wheel.writestr("warp/__init__.py", "x = 1\n" * 1000)
        wheel.writestr("warp/tests/test.py", "")
        wheel.writestr("warp_lang-1.data/purelib/more.py", "x = 2")
        wheel.writestr("warp_lang-1.data/scripts/run", "")
        program = zipfile.ZipInfo("warp/bin/program")
        program.external_attr = 0o755 << 16
        wheel.writestr(program, b"program")
        wheel.writestr("warp_lang-1.dist-info/METADATA", "Name: warp-lang")
    words = ["--wheels", str(wheels), "--kernels", str(kernels), "--limit", str(256 / pack.MIB)]
    assert pack.main([str(tmp_path / "out"), *words]) == 0
    printed = capsys.readouterr().out
    numbers = sorted(int(path.name) for path in (tmp_path / "out").iterdir() if path.is_dir())
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 2
    assert printed.count("# transfer") == len(numbers)
    pieces, site = tmp_path / "pieces", tmp_path / "site"
    pieces.mkdir()
    join = [sys.executable, unpack.__file__, str(pieces), str(site)]
    for number in numbers:
        done = subprocess.run(join, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "expected all pieces" in done.stderr
        for path in (tmp_path / "out" / str(number)).iterdir():
            path.rename(pieces / path.name)
    subprocess.run(join, check=True)
    assert (site / "warp" / "bin" / "warp.so").read_bytes() == pack.keep_architecture(library(), 90)
    assert (site / "warp" / "__init__.py").read_text() == "x = 1\n" * 1000
    assert (site / "warp_lang-1.dist-info" / "METADATA").exists()
    assert not (site / "warp" / "tests").exists()
    assert (site / "more.py").read_text() == "x = 2"
    assert not list(site.glob("*.data"))
    assert (site / "warp" / "bin" / "program").stat().st_mode & 0o100
    assert [path.name for path in (site / "kernels" / "module").iterdir()] == ["a.cubin"]
