"""A kept network: a trained network with a correction, what it computes, and the proof that it does so at every length.

model/            config.json and model.safetensors, the codes among the weights
language.json     the automaton that is tracked, and the tokens of its letters
certificate.json  what was proved, with hashes of weights and language

`verify_kept` proves it again from these files alone.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from eigentrack.compiler.certificate import json_hash, weights_hash
from eigentrack.compiler.correction_proof import CorrectionProof, Language, Refuted, prove_correction
from eigentrack.files import write_json, written_together
from eigentrack.json_text import parse_json
from eigentrack.models import SequenceModel, load_model, save_model

MODEL, LANGUAGE, CERTIFICATE, REPORT = "model", "language.json", "certificate.json", "correction.json"
ENTRIES = (CERTIFICATE, REPORT, LANGUAGE, MODEL)  # the entries of a folder
KIND = "correction"  # certificates of compiled networks have no kind


@dataclass(frozen=True)
class KeptNetwork:
    """A corrected network with its language and its proof."""

    model: SequenceModel
    language: Language
    names: tuple[str, ...]  # the names of the letters
    proof: CorrectionProof

    def run(self, word: Sequence[int]) -> list[int]:
        """Return the network's answer after each letter of a word."""
        opening = [] if self.language.opening is None else [self.language.opening]
        tokens = torch.tensor([[*opening, *(self.language.letters[letter] for letter in word)]])
        with torch.no_grad():
            logits, _ = self.model(tokens)
        return logits[0, len(opening) :, : self.language.classes].argmax(-1).tolist()


def save_kept(kept: KeptNetwork, folder: Path) -> None:
    """Write a kept network to `folder`; the certificate comes last, so that a folder with one is complete."""
    with written_together(folder, last=CERTIFICATE) as new:
        save_model(kept.model, new / MODEL)
        write_json(new / LANGUAGE, _language_json(kept.language, kept.names))
        write_json(new / CERTIFICATE, _certificate_json(kept))


def is_kept(folder: Path) -> bool:
    """Return whether a folder holds a certificate of a kept network."""
    path = folder / CERTIFICATE
    if not path.is_file():
        return False
    values = _read(path)
    return isinstance(values, dict) and values.get("kind") == KIND


def load_kept(folder: Path) -> KeptNetwork:
    """Read a kept network from the files in `folder`, without proving it again."""
    _check_files_are_inside(folder)
    model = load_model(folder / MODEL)
    language, names = _language(_read(folder / LANGUAGE), folder / LANGUAGE, model)
    return KeptNetwork(model, language, names, _proof(_read(folder / CERTIFICATE), folder / CERTIFICATE))


@dataclass(frozen=True)
class KeptVerification:
    """The result of proving a kept network again."""

    proof: CorrectionProof | None  # the new proof; None if there is none
    differences: tuple[str, ...]  # why there is no proof, or where it differs from what the folder says

    @property
    def holds(self) -> bool:
        return self.proof is not None and not self.differences


def verify_kept(folder: Path) -> KeptVerification:
    """Prove a kept network again, from its files alone.

    Args:
        folder: what `save_kept` wrote.
    """
    kept = load_kept(folder)
    try:
        proof = prove_correction(kept.model, kept.language)
    except Refuted as reason:
        return KeptVerification(None, (str(reason),))
    claimed = _read(folder / CERTIFICATE)
    found = _certificate_json(dataclasses.replace(kept, proof=proof))
    differences = [
        f"{name} is {found[name]}, the certificate says {claimed.get(name)}"
        for name in found
        if not _is_same(name, found[name], claimed.get(name))
    ]
    differences += [f"the certificate has {name!r}, which no proof says" for name in sorted(set(claimed) - set(found))]
    return KeptVerification(proof, tuple(differences))


def _is_same(name: str, found: Any, claimed: Any) -> bool:
    """Return whether two entries agree; processors differ in the last digits of bounds that are computed in float64."""
    if isinstance(found, float):
        return isinstance(claimed, float) and abs(found - claimed) <= 1e-6 * (abs(found) + 1e-6)
    return json_hash(found) == json_hash(claimed)


def _certificate_json(kept: KeptNetwork) -> dict[str, Any]:
    proof = json.loads(json.dumps(dataclasses.asdict(kept.proof)))
    hashes = {
        "weights_sha256": weights_hash(kept.model),
        "language_sha256": json_hash(_language_json(kept.language, kept.names)),
    }
    return {"kind": KIND, **proof, **hashes}


def _language_json(language: Language, names: Sequence[str]) -> dict[str, Any]:
    return json.loads(json.dumps({**dataclasses.asdict(language), "names": list(names)}))


def _language(values: Any, path: Path, model: SequenceModel) -> tuple[Language, tuple[str, ...]]:
    fields = {*(item.name for item in dataclasses.fields(Language)), "names"}
    if not isinstance(values, dict) or set(values) != fields:
        raise ValueError(f"{path} must hold exactly {', '.join(sorted(fields))}")
    rows, outputs, letters, names = (values[name] for name in ("transitions", "outputs", "letters", "names"))
    numbers = [rows, outputs, letters, [values["start"], values["classes"]]]
    if not all(isinstance(part, list) for part in numbers) or not all(isinstance(row, list) for row in rows):
        raise ValueError(f"{path}: transitions, outputs and letters must be lists")
    flat = [*(number for row in rows for number in row), *outputs, *letters, values["start"], values["classes"]]
    if any(type(number) is not int for number in flat):
        raise ValueError(f"{path}: states, answers and tokens must be whole numbers")
    opening, vocab = values["opening"], model.config.vocab_size
    tokens = letters if opening is None else [*letters, opening]
    if any(type(token) is not int or not 0 <= token < vocab for token in tokens) or len(set(tokens)) < len(tokens):
        raise ValueError(f"{path}: letters and opening must be different tokens from 0 to {vocab - 1}")
    states = len(rows)
    if not states or any(len(row) != len(letters) for row in rows) or not letters:
        raise ValueError(f"{path}: every state needs a next state for each of the {len(letters)} letters")
    if not all(0 <= state < states for row in [*rows, [values["start"]]] for state in row) or len(outputs) != states:
        raise ValueError(f"{path}: there are {states} states, and a transition, the start or the outputs do not fit")
    if not 1 <= values["classes"] <= vocab or not all(0 <= answer < values["classes"] for answer in outputs):
        raise ValueError(f"{path}: answers must lie below classes={values['classes']}, which is at most {vocab}")
    if not isinstance(names, list) or len(names) != len(letters) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{path}: names must be {len(letters)} texts")
    made = Language(tuple(map(tuple, rows)), tuple(outputs), values["start"], tuple(letters), opening, values["classes"])
    return made, tuple(names)


def _proof(values: Any, path: Path) -> CorrectionProof:
    names = [item.name for item in dataclasses.fields(CorrectionProof)]
    if not isinstance(values, dict) or values.get("kind") != KIND or not set(names) <= set(values):
        raise ValueError(f"{path} is no certificate of a corrected network: it must hold {', '.join(names)}")
    given = {name: values[name] for name in names}
    return CorrectionProof(**{**given, "backends": tuple(given["backends"] or ())})


def _check_files_are_inside(folder: Path) -> None:
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder of a kept network")
    home = folder.resolve()
    for path in [*folder.iterdir(), *(folder / MODEL).glob("*")]:
        if not path.resolve().is_relative_to(home):
            raise ValueError(f"{path} leads outside of {folder}: copy the file into it")


def _read(path: Path) -> Any:
    try:
        return parse_json(path.read_text())
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing: this is no folder of a kept network") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
