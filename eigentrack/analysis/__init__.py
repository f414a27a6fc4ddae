"""What trained or compiled weights do: spectra, horizon, robustness, the automaton that they compute."""

from eigentrack.analysis.dynamics import Dynamics as Dynamics
from eigentrack.analysis.dynamics import decide as decide
from eigentrack.analysis.dynamics import letters_until_merged as letters_until_merged
from eigentrack.analysis.dynamics import prove_robust as prove_robust
from eigentrack.analysis.dynamics import recheck as recheck
from eigentrack.analysis.extraction import Extraction as Extraction
from eigentrack.analysis.extraction import extract_machine as extract_machine
from eigentrack.analysis.horizon import PatternHorizon as PatternHorizon
from eigentrack.analysis.horizon import find_horizons as find_horizons
from eigentrack.analysis.horizon import precision_sweep as precision_sweep
from eigentrack.analysis.inspected_network import InspectedNetwork as InspectedNetwork
from eigentrack.analysis.inspection import Inspection as Inspection
from eigentrack.analysis.inspection import inspect_network as inspect_network
from eigentrack.analysis.loading import load_inspected as load_inspected
from eigentrack.analysis.moore_machine import MooreMachine as MooreMachine
from eigentrack.analysis.noise import CertifiedNoise as CertifiedNoise
from eigentrack.analysis.noise import NoiseTolerance as NoiseTolerance
from eigentrack.analysis.noise import certified_noise as certified_noise
from eigentrack.analysis.noise import noise_tolerance as noise_tolerance
from eigentrack.analysis.page import write_inspection as write_inspection
from eigentrack.analysis.snap import Snapped as Snapped
from eigentrack.analysis.snap import snap_to_exact as snap_to_exact
from eigentrack.analysis.spectra import LayerSpectrum as LayerSpectrum
from eigentrack.analysis.spectra import layer_spectra as layer_spectra
from eigentrack.analysis.state_geometry import Geometry as Geometry
from eigentrack.analysis.state_geometry import state_geometry as state_geometry
from eigentrack.analysis.word_patterns import input_patterns as input_patterns

# their earlier names
