"""One step, one loop, evaluation by length."""

from eigentrack.training.config import TrainingConfig as TrainingConfig
from eigentrack.training.evaluation import accuracy_by_length as accuracy_by_length
from eigentrack.training.evaluation import horizon as horizon
from eigentrack.training.evaluation import scaled_accuracy as scaled_accuracy
from eigentrack.training.loop import train as train
