"""What trained or compiled weights do: spectra, horizon, robustness, the automaton that they compute."""

from eigentrack.analysis.extraction import Extraction as Extraction
from eigentrack.analysis.extraction import extract_machine as extract_machine
from eigentrack.analysis.horizon import PatternHorizon as PatternHorizon
from eigentrack.analysis.horizon import find_horizons as find_horizons
from eigentrack.analysis.input_patterns import input_patterns as input_patterns
from eigentrack.analysis.inspection import Inspection as Inspection
from eigentrack.analysis.inspection import inspect_network as inspect_network
from eigentrack.analysis.loading import load_inspected as load_inspected
from eigentrack.analysis.moore_machine import MooreMachine as MooreMachine
from eigentrack.analysis.noise import NoiseTolerance as NoiseTolerance
from eigentrack.analysis.noise import noise_tolerance as noise_tolerance
from eigentrack.analysis.page import write_inspection as write_inspection
from eigentrack.analysis.precision_sweep import precision_sweep as precision_sweep
from eigentrack.analysis.snap import Snapped as Snapped
from eigentrack.analysis.snap import snap_to_exact as snap_to_exact
from eigentrack.analysis.spectra import LayerSpectrum as LayerSpectrum
from eigentrack.analysis.spectra import layer_spectra as layer_spectra
from eigentrack.analysis.state_geometry import Geometry as Geometry
from eigentrack.analysis.state_geometry import state_geometry as state_geometry
from eigentrack.analysis.subject import Subject as Subject
from eigentrack.analysis.subject import compiled_subject as compiled_subject
from eigentrack.analysis.subject import trained_subject as trained_subject
