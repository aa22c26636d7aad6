"""Join the pieces of `benchmarks.gpu.pack` and unpack them: python3 unpack.py PIECES SITE. Standard library only."""

import io
import sys
import tarfile
from pathlib import Path


def unpack(pieces: Path, site: Path) -> None:
    """Unpack the archive whose numbered pieces lie in a folder.

    Raises:
        SystemExit: A piece is missing.
    """
    numbered = {int(path.suffix[1:]): path for path in pieces.glob("site.tar.xz.*")}
    last = pieces / "last"
    if not last.exists() or sorted(numbered) != list(range(1, int(last.read_text()) + 1)):
        raise SystemExit(f"{pieces}: expected all pieces site.tar.xz.N and `last`, got {sorted(numbered)}")
    archive = b"".join(numbered[number].read_bytes() for number in sorted(numbered))
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:xz") as tar:
        tar.extractall(site, filter="data")


if __name__ == "__main__":
    unpack(Path(sys.argv[1]), Path(sys.argv[2]))
