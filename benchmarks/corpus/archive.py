"""A prepared corpus as one file to carry to another machine, and back into a folder there. Needs the standard library alone.

python benchmarks/corpus/archive.py pack CORPUS FILE.tar.xz
python benchmarks/corpus/archive.py unpack FILE.tar.xz CORPUS

Tokens compress better than the text they come from, once the compressor knows that they are two bytes wide.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import shutil
import tarfile
from pathlib import Path

# lp, pb: literals and matches fall on even bytes; the dictionary holds the whole corpus, so that a licence is stored once
TWO_BYTE_TOKENS = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 28, "lc": 3, "lp": 1, "pb": 1}


def main() -> None:
    parser = argparse.ArgumentParser(description="packs a corpus into one file, or unpacks it")
    parser.add_argument("action", choices=["pack", "unpack"])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    {"pack": pack, "unpack": unpack}[arguments.action](arguments.source, arguments.target)


def pack(corpus: Path, archive: Path) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(archive, "wb", filters=[TWO_BYTE_TOKENS]) as compressed, tarfile.open(fileobj=compressed, mode="w|") as tar:
        for path in sorted(corpus.rglob("*")):
            tar.add(path, str(path.relative_to(corpus)), recursive=False)
    index = json.loads((corpus / "index.json").read_text())
    tokens = sum(split["tokens"] for split in index["splits"].values())
    size = archive.stat().st_size
    print(f"{archive}: {size / 2**20:.1f} MiB, {tokens:,} tokens, {size / tokens:.3f} bytes a token")


def unpack(archive: Path, corpus: Path) -> None:
    """Into a folder beside it first: a corpus is there whole or not at all."""
    unfinished = corpus.with_name(f".{corpus.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    with tarfile.open(archive, "r:xz") as tar:
        tar.extractall(unfinished, filter="data")
    os.replace(unfinished, corpus)
    print(f"{corpus}: unpacked")


if __name__ == "__main__":
    main()
