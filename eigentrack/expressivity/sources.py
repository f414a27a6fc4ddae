"""Sources of verdicts, and the models of arithmetic in which the verdicts hold.

"proved in": the cited proof was read. "stated in": only the statement was read, in the paper's abstract or as others report it.
"derived in": the proof is in docs/theory.md.
"""

from __future__ import annotations


def proved(where: str) -> str:
    return f"proved in {where}"


def stated(where: str) -> str:
    return f"stated in {where}"


def derived(section: str, beside: str = "") -> str:
    """Return the source of a result that a section of docs/theory.md derives; `beside` names a second source."""
    return f"derived in docs/theory.md, section {section}" + (f"; {beside}" if beside else "")


GRAZZI = "Grazzi et al. 2025 (arXiv 2411.12537)"
SARROF = "Sarrof et al. 2024 (arXiv 2405.17394)"
SHAKERINAVA = "Shakerinava et al. 2026 (arXiv 2603.01959)"
KHAVARI = "Khavari et al. 2025 (arXiv 2508.07395)"
MERRILL = "Merrill et al. 2024 (arXiv 2404.08819)"
DELTAPRODUCT = "Siems et al. 2025 (DeltaProduct, arXiv 2502.10297)"
RWKV7 = "Peng et al. 2025 (RWKV-7, arXiv 2503.14456)"
PD_SSM = "Terzić et al. 2025 (PD-SSM, arXiv 2509.22284)"
SD_SSM = "Terzić et al. 2024 (SD-SSM, arXiv 2412.19350)"
LI_COTTERELL = "Li & Cotterell 2025 (arXiv 2505.23623)"
LIU = "Liu et al. 2023 (arXiv 2210.10749)"
MERRILL_SABHARWAL = "Merrill & Sabharwal 2023 (TACL 11)"
METRIC_AUTOMATA = "Dankowiakowski & Ronca 2025 (Metric Automata Theory)"

# precision models
SMALL_INTEGERS = "exact: states and gates are 0 and ±1, in every float type and every order of evaluation"
ENOUGH_BITS = "finite precision with enough bits; rounding does not matter"
CASTS = "casts of exact products"
CASTS_OF_THE_RECURRENCE = (
    "casts of exact products; nothing is claimed of the stabilised form, which rounds in units that depend on the state"
)
CASTS_OFF_BOUNDARY = "casts of exact products, if no limit of the state lies on a rounding boundary"
SEQUENTIAL = "IEEE floats, one token after the other"
CASTS_OR_SEQUENTIAL = "casts of exact products; also IEEE floats, one token after the other"
FINITE_OR_SEQUENTIAL = "finite precision as in the paper; also IEEE floats, one token after the other"
ROUNDED_ANGLES = "casts of exact products; in IEEE floats the angles are rounded and errors grow with the length"
FINITE_REACH = "exact arithmetic with finitely many reachable states, gates of norm at most 1"
LOG = "log precision"
CONSTRAINED = "geometrically constrained"
