"""The report of a correction: what the terminal shows, row by row."""

from __future__ import annotations

from eigentrack.analysis.correction.correct import LINEAR_SPEED, Correction
from eigentrack.analysis.horizon import PatternHorizon, worst_first


def rows(found: Correction) -> list[tuple[str, str]]:
    """Return the rows of the report, name and value."""
    proof, kept = found.corrected.kept.proof, found.corrected.kept
    speed = (
        "the speed of a linear RNN"
        if proof.every >= LINEAR_SPEED
        else f"slower than a linear RNN, as C is below {LINEAR_SPEED}"
    )
    lines = [
        ("automaton of the task", f"{len(kept.language.transitions)} states, {len(kept.language.letters)} letters"),
        ("codes", f"{proof.codes}, found without labels; {proof.pairs} pairs of a code and a token"),
        ("corrected every", f"{proof.every} tokens, {speed}; a proof holds up to {proof.largest_every}"),
        (
            "error per token ε, half the least gap r",
            f"{proof.error:.3g}, {proof.half_gap:.3g}: r/ε = {proof.half_gap / proof.error:.0f}",
        ),
        ("farthest from a code when corrected", f"{proof.reach:.3g}, all answers right there by at least {proof.margin:.3g}"),
        ("noise borne for ever", f"{proof.noise:.3g} in the memory after every token"),
        ("proved", f"right on every word of every length, backends {' and '.join(proof.backends)}, {proof.weights_dtype}"),
    ]
    for name, horizons in (("horizon before", found.before), ("horizon after", found.after)):
        worst = worst_first(horizons)[0]
        lines.append((name, f"{_reach(horizons[0])} on random words; at worst {_reach(worst)} ({worst.pattern})"))
    return lines


def _reach(horizon: PatternHorizon) -> str:
    return f"{'beyond ' if horizon.is_open else ''}{horizon.letters:,} letters"
