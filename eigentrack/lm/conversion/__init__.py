"""Checkpoints of other projects → ours and back, and [0, 1] models → wider ranges, with the logits compared."""

from eigentrack.lm.conversion.conversion import FAMILIES as FAMILIES
from eigentrack.lm.conversion.conversion import Conversion as Conversion
from eigentrack.lm.conversion.conversion import convert as convert
from eigentrack.lm.conversion.family import Family as Family
from eigentrack.lm.conversion.weights import in_our_names as in_our_names
from eigentrack.lm.conversion.weights import in_their_names as in_their_names
from eigentrack.lm.conversion.widen import widen as widen
