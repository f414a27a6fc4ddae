"""The sequence model, whose layers can be any mixers, its configuration, and how it is saved and loaded."""

from eigentrack.models.config import ModelConfig as ModelConfig
from eigentrack.models.sequence_model import ModelState as ModelState
from eigentrack.models.sequence_model import SequenceModel as SequenceModel
from eigentrack.models.storage import load_model as load_model
from eigentrack.models.storage import save_model as save_model
