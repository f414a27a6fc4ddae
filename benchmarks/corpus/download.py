"""Downloads the packages of packages.json, and checks each against its SHA-256.

python benchmarks/corpus/download.py FOLDER [--record]

Wheels come from the Python index through pip, Debian packages through apt-get, whose mirrors keep only the newest versions
(snapshot.debian.org has the others). --record writes the checksums of what is there into packages.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

MANIFEST = Path(__file__).with_name("packages.json")


def main() -> None:
    parser = argparse.ArgumentParser(description="downloads the packages that the corpora are made of")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--record", action="store_true", help="write new checksums into packages.json")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    packages = json.loads(MANIFEST.read_text())
    for number, package in enumerate(packages, 1):
        path = arguments.folder / package["file"]
        if not path.exists():
            print(f"{number}/{len(packages)} {package['file']}", flush=True)
            subprocess.run(command(package), cwd=arguments.folder, check=True, stdout=subprocess.DEVNULL)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if arguments.record:
            package["sha256"] = digest
        elif digest != package["sha256"]:
            sys.exit(f"{path} has the SHA-256 {digest}, packages.json expects {package['sha256']}")
    if arguments.record:
        MANIFEST.write_text("[\n" + ",\n".join(json.dumps(package) for package in packages) + "\n]\n")


def command(package: dict[str, Any]) -> list[str]:
    if package["file"].endswith(".deb"):
        return ["apt-get", "download", f"{package['name']}={package['version']}"]
    pure = [
        "--only-binary",
        ":all:",
        "--platform",
        "any",
        "--implementation",
        "py",
        "--abi",
        "none",
        "--python-version",
        "3.11",
    ]
    return [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *pure, f"{package['name']}=={package['version']}"]


if __name__ == "__main__":
    main()
