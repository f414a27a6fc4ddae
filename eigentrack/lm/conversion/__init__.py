"""Conversion of other projects' checkpoints to ours and back, and of models to wider eigenvalue ranges."""

from eigentrack.lm.conversion.conversion import FAMILIES as FAMILIES
from eigentrack.lm.conversion.conversion import Conversion as Conversion
from eigentrack.lm.conversion.conversion import convert as convert
from eigentrack.lm.conversion.family import Family as Family
from eigentrack.lm.conversion.weights import in_our_names as in_our_names
from eigentrack.lm.conversion.weights import in_their_names as in_their_names
from eigentrack.lm.conversion.widen import widen as widen
