"""A compiler from regular languages to networks with a proof: automaton → plan → weights → certificate."""

from eigentrack.compiler.certificate import Certificate as Certificate
from eigentrack.compiler.certificate import certify as certify
from eigentrack.compiler.choice import ARCHITECTURES as ARCHITECTURES
from eigentrack.compiler.choice import Choice as Choice
from eigentrack.compiler.choice import choose_plan as choose_plan
from eigentrack.compiler.compiled import DTYPES as DTYPES
from eigentrack.compiler.compiled import Compiled as Compiled
from eigentrack.compiler.compiled import Verification as Verification
from eigentrack.compiler.compiled import compile_network as compile_network
from eigentrack.compiler.compiled import load_compiled as load_compiled
from eigentrack.compiler.compiled import save_compiled as save_compiled
from eigentrack.compiler.compiled import verify as verify
from eigentrack.compiler.plan import NetworkPlan as NetworkPlan
from eigentrack.compiler.robustness import Robustness as Robustness
from eigentrack.compiler.robustness import certify_robust as certify_robust
from eigentrack.compiler.robustness import network_boxes as network_boxes
