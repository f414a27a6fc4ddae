"""A second checker of compiled networks, which shares no code with the compiler: exact arithmetic on files, in plain Python.

It reads what `eigentrack compile` has written, builds the network's equations by itself, and goes through all joint states that
the certificate lists and all letters. It covers networks of linear layers all of whose values are floats exactly; it refuses
every other network by name. What it proves is stated in docs/derivations/certificates.md.
"""

from eigentrack.checker.check import Verdict as Verdict
from eigentrack.checker.check import check_folder as check_folder
from eigentrack.checker.network import OutOfScope as OutOfScope
