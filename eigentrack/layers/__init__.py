"""The mixers and their initialisers, by the names that configurations use, and the projections for sets of eigenvalues."""

from eigentrack.layers.attention import Attention as Attention
from eigentrack.layers.convolution import Convolution as Convolution
from eigentrack.layers.delta_net import DeltaNet as DeltaNet
from eigentrack.layers.dense import Dense as Dense
from eigentrack.layers.gla import GLA as GLA
from eigentrack.layers.initialisers import INITIALISERS as INITIALISERS
from eigentrack.layers.lstm import LSTM as LSTM
from eigentrack.layers.mamba import Mamba as Mamba
from eigentrack.layers.mamba2 import Mamba2 as Mamba2
from eigentrack.layers.mixer import LinearMixer as LinearMixer
from eigentrack.layers.mixer import Mixer as Mixer
from eigentrack.layers.mixer import MixerState as MixerState
from eigentrack.layers.mixer import scheduled as scheduled
from eigentrack.layers.mlstm import MLSTM as MLSTM
from eigentrack.layers.pd_ssm import PDSSM as PDSSM
from eigentrack.layers.rotating_gates import PROJECTIONS as PROJECTIONS
from eigentrack.layers.rwkv7 import RWKV7 as RWKV7
from eigentrack.layers.s4d import S4D as S4D
from eigentrack.layers.sd_ssm import SDSSM as SDSSM
from eigentrack.layers.slstm import SLSTM as SLSTM
from eigentrack.layers.ttt import TTT as TTT

MIXERS: dict[str, type[Mixer]] = {
    "mamba": Mamba,
    "mamba2": Mamba2,
    "gla": GLA,
    "s4d": S4D,
    "deltanet": DeltaNet,
    "rwkv7": RWKV7,
    "mlstm": MLSTM,
    "dense": Dense,
    "pd_ssm": PDSSM,
    "sd_ssm": SDSSM,
    "slstm": SLSTM,
    "lstm": LSTM,
    "ttt": TTT,
    "attention": Attention,
    "convolution": Convolution,
}
