"""What a forger can do to the folder of a compiled network: edit a number, and make all hashes those of the edited files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from eigentrack.compiler import load_compiled
from eigentrack.compiler.certificate import json_hash, weights_hash


def repair_hashes(folder: Path, **changes: Any) -> None:
    """Make the hashes of the certificate those of the files, and change other entries of it."""
    weights = folder / "model" / "model.safetensors"
    save_file(load_file(weights), weights)  # without the checksums of what it was, and of its configuration
    compiled = load_compiled(folder)
    path = folder / "certificate.json"
    hashes = {
        "weights_sha256": weights_hash(compiled.model),
        "automaton_sha256": json_hash(compiled.dfa.to_json()),
        "plan_sha256": json_hash(compiled.summary),
    }
    path.write_text(json.dumps({**json.loads(path.read_text()), **hashes, **changes}))
