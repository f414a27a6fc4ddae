"""What an architecture can and cannot do: verdicts with their theorems, and the theorems on concrete matrices."""

from eigentrack.expressivity.architecture import STANDARD as STANDARD
from eigentrack.expressivity.architecture import Architecture as Architecture
from eigentrack.expressivity.construction import Construction as Construction
from eigentrack.expressivity.rules import judge as judge
from eigentrack.expressivity.rules import verdicts as verdicts
from eigentrack.expressivity.verdict import Verdict as Verdict
