"""Constructions: which architectures they are of, how they are told, and in which order they come."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eigentrack.automata import language, regex_dfa, word_problem_dfa
from eigentrack.expressivity import Architecture, Construction
from eigentrack.expressivity.construction import LARGEST_DENSE, MOST_STATES, constructions
from eigentrack.spectrum import EigenRange

FORGET, FLIP = EigenRange(0, 1), EigenRange(-1, 1)
THREE = Construction("cascade-products", "deltaproduct", layers=3, householders=2, eigenvalues=FLIP)
ROTATION = Construction("rotation", "rotation", layers=1, householders=2, eigenvalues=FLIP, exact=False)
CHANNELS = Construction("diagonal-cascade", "diagonal", layers=1, eigenvalues=FORGET)


@pytest.mark.parametrize(
    ("construction", "architecture", "fits"),
    [
        (THREE, Architecture("deltanet", FLIP), True),
        (THREE, Architecture("gated-deltanet", FLIP, layers=3, householders=2), True),
        (THREE, Architecture("deltanet", FLIP, layers=2), False),
        (THREE, Architecture("deltanet", FLIP, householders=1), False),
        (THREE, Architecture("deltanet", FORGET), False),
        (THREE, Architecture("deltanet", EigenRange(-0.5, 1)), False),
        (THREE, Architecture("dense"), False),
        (THREE, Architecture("deltanet", FLIP, precision="ieee"), True),
        (replace(THREE, architecture="gated"), Architecture("deltanet", FLIP), False),
        (replace(THREE, architecture="gated"), Architecture("gated-deltanet", FLIP), True),
        (ROTATION, Architecture("deltanet", FLIP), True),
        (ROTATION, Architecture("deltanet", FLIP, precision="ieee"), False),
        (CHANNELS, Architecture("diagonal", FORGET), True),
        (CHANNELS, Architecture("complex-diagonal"), True),
        (CHANNELS, Architecture("s4d-mamba"), True),
        (replace(CHANNELS, eigenvalues=FLIP), Architecture("s4d-mamba"), False),
        (CHANNELS, Architecture("mlstm", FORGET), False),
        (CHANNELS, Architecture("open-diagonal", FORGET, precision="eta-finite"), False),
        (Construction("dense", "dense", layers=1), Architecture("dense"), True),
        (Construction("dense", "dense", layers=1), Architecture("dense", precision="robust"), False),
    ],
)
def test_a_network_is_of_an_architecture(construction: Construction, architecture: Architecture, fits: bool) -> None:
    assert construction.fits(architecture) == fits


def test_it_is_told_in_the_words_of_the_command() -> None:
    assert THREE.options == "--architecture deltaproduct --construction cascade-products"
    assert THREE.sizes == "3 layers, 2 factors per token, eigenvalues in [-1, 1]"
    assert ROTATION.sizes == "1 layer, 2 factors per token, eigenvalues in [-1, 1], rounded"
    assert CHANNELS.to_json() == {
        "name": "diagonal-cascade",
        "architecture": "diagonal",
        "layers": 1,
        "householders": 0,
        "eigenvalues": [0.0, 1.0],
        "exact": True,
    }
    assert Construction("dense", "dense", layers=1).to_json()["eigenvalues"] is None


def test_exact_ones_with_few_layers_come_first() -> None:
    found = constructions(word_problem_dfa("Z7", "all"), 100)
    assert [c.exact for c in found] == sorted((c.exact for c in found), reverse=True)
    exact = [(c.layers, c.householders) for c in found if c.exact]
    assert exact == sorted(exact)
    assert found[-1].name == "two-layer-cyclic"


def test_large_automata_have_no_dense_network_and_huge_ones_none() -> None:
    def names(states: int) -> set[str]:
        return {found.name for found in constructions(regex_dfa(f"a{{{states - 2}}}"), image_limit=10)}

    assert "dense" in names(LARGEST_DENSE)
    assert "dense" not in names(LARGEST_DENSE + 1)
    assert "permutation" in names(LARGEST_DENSE + 1)
    assert names(MOST_STATES + 1) == set()


def test_a_cascade_beyond_the_limit_is_left_out() -> None:
    assert {"cascade-gated", "dense"} < {found.name for found in constructions(language("t3"), 100)}
    assert {found.name for found in constructions(language("t3"), 2)} == {"dense", "threshold-units"}
