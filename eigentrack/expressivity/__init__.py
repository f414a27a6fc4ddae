"""Verdicts on the languages that an architecture can recognise, with their theorems, and the theorems on concrete matrices."""

from eigentrack.expressivity.architecture import STANDARD as STANDARD
from eigentrack.expressivity.architecture import Architecture as Architecture
from eigentrack.expressivity.construction import Construction as Construction
from eigentrack.expressivity.containment import contains as contains
from eigentrack.expressivity.eigenvalue_conditions import layers_that_may_count as layers_that_may_count
from eigentrack.expressivity.eigenvalue_conditions import layers_that_may_flip as layers_that_may_flip
from eigentrack.expressivity.eigenvalue_conditions import words_with_a_group as words_with_a_group
from eigentrack.expressivity.householder_products import factor_contraction as factor_contraction
from eigentrack.expressivity.householder_products import factor_permutation as factor_permutation
from eigentrack.expressivity.hybrid import Hybrid as Hybrid
from eigentrack.expressivity.named_layers import named_design as named_design
from eigentrack.expressivity.precision_models import find_cycle as find_cycle
from eigentrack.expressivity.precision_models import simulate as simulate
from eigentrack.expressivity.rules import judge as judge
from eigentrack.expressivity.rules import verdicts as verdicts
from eigentrack.expressivity.verdict import Verdict as Verdict
