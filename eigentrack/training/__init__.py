"""Training and evaluation: the training step, the loop, runs that can resume, and accuracy by length."""

from eigentrack.training.config import TrainingConfig as TrainingConfig
from eigentrack.training.evaluation import LengthCurve as LengthCurve
from eigentrack.training.evaluation import accuracy_between as accuracy_between
from eigentrack.training.evaluation import horizon as horizon
from eigentrack.training.evaluation import length_curve as length_curve
from eigentrack.training.evaluation import scaled_accuracy as scaled_accuracy
from eigentrack.training.evaluation import shortest_asked as shortest_asked
from eigentrack.training.loop import Diverged as Diverged
from eigentrack.training.loop import train as train
