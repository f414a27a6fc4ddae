"""Architectures and hybrids by the names of layers: what they mean, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from eigentrack.expressivity import Architecture, Hybrid, named_design
from eigentrack.expressivity.hybrid import Design
from eigentrack.layers import MIXERS
from eigentrack.spectrum import EigenDisk, EigenPolygon, EigenRange

FORGET, FLIP, DISK = EigenRange(0, 1), EigenRange(-1, 1), EigenDisk()
MAMBA, DELTA = Architecture("diagonal", FLIP, 1), Architecture("deltanet", FLIP, 1, 1)


@pytest.mark.parametrize(
    ("names", "options", "expected"),
    [
        (["mamba"], {}, Architecture("diagonal", FLIP)),
        (["gla"], {"layers": 3, "eigenvalues": [FORGET]}, Architecture("diagonal", FORGET, 3)),
        (["mamba2"], {"eigenvalues": [EigenRange(-1, 1, overshoot=0.05)]}, Architecture("diagonal", FLIP)),
        (["gla"], {"eigenvalues": [DISK]}, Architecture("complex-diagonal")),
        (["s4d"], {"eigenvalues": [DISK], "layers": 2}, Architecture("s4d", layers=2)),
        (["s4d"], {}, Architecture("s4d-real", FLIP)),
        (["deltanet"], {}, Architecture("deltanet", FLIP, None, 1)),
        (["deltanet"], {"householders": [None]}, Architecture("deltanet", FLIP)),
        (["kda"], {"householders": [2], "layers": 1}, Architecture("kda", FLIP, 1, 2)),
        (["pd_ssm"], {"layers": 1}, Architecture("pd_ssm", layers=1)),
        (["sd_ssm"], {}, Architecture("sd_ssm")),
        (["attention"], {"precision": "log"}, Architecture("attention", precision="log")),
        (["open-diagonal"], {"precision": "constrained"}, Architecture("open-diagonal", FLIP, precision="constrained")),
        (["mamba", "mamba"], {}, Architecture("diagonal", FLIP, 2)),
        (["mamba", "gla"], {"layers": 2}, Architecture("diagonal", FLIP, 2)),  # one kind of layer in theory
        (["mamba", "deltanet"], {}, Hybrid((MAMBA, DELTA))),
        (["mamba", "deltanet"], {"any_depth": True}, Hybrid((MAMBA, DELTA), any_depth=True)),
        (
            ["s4d", "mamba"],
            {"eigenvalues": [FLIP, FORGET]},
            Hybrid((Architecture("s4d-real", FLIP, 1), Architecture("diagonal", FORGET, 1))),
        ),
        (
            ["attention", "deltanet", "mamba", "kda"],
            {"eigenvalues": [FLIP, FORGET, FLIP], "householders": [2, 3]},
            Hybrid(
                (
                    Architecture("attention", layers=1),
                    Architecture("deltanet", FLIP, 1, 2),
                    Architecture("diagonal", FORGET, 1),
                    Architecture("kda", FLIP, 1, 3),
                )
            ),
        ),
    ],
)
def test_a_design_by_names(names: list[str], options: dict[str, Any], expected: Design) -> None:
    assert named_design(names, **options) == expected


def test_every_mixer_but_the_convolution_has_a_name_in_theory() -> None:
    for name in MIXERS.keys() - {"convolution"}:
        assert named_design([name], layers=1).kinds


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        ([], {}, "no layer is named"),
        (["convolution"], {}, "layer 'convolution' is not known to theory; there are mamba, mamba2, gla, diagonal"),
        (["mamba", "deltanet"], {"layers": 3}, "2 layers are named for layers=3: name one, or one a layer"),
        (["mamba"], {"layers": 3, "any_depth": True}, "layers=3 and any depth are both asked for"),
        (
            ["attention", "lstm"],
            {"eigenvalues": [FLIP]},
            "eigenvalues are given, but none of attention, lstm takes them: leave",
        ),
        (["mamba"], {"householders": [2]}, "householders are given, but none of mamba takes them: leave them out"),
        (["mamba", "gla"], {"eigenvalues": [FLIP] * 3}, "eigenvalues are given 3 times for 2 layers that take them"),
        (["deltanet"], {"eigenvalues": [DISK]}, "layer 'deltanet' takes a range of eigenvalues, such as -1,1, not disk"),
        (["gla"], {"eigenvalues": [EigenPolygon(5)]}, "eigenvalues polygon 5: of complex eigenvalues theory knows the whole"),
        (["mamba"], {"precision": "double"}, "precision 'double' is not known; there are finite"),
        (["open-diagonal"], {}, "choose eta-finite or constrained"),
    ],
)
def test_bad_designs_are_named(names: list[str], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        named_design(names, **options)
