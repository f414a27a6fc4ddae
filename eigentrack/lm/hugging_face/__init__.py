"""The SequenceModel as a model of transformers. Importing this package registers it with the Auto classes.

    model = EigentrackForCausalLM.around(load_model("runs/tiny"))
    model.save_pretrained("tiny")
    AutoModelForCausalLM.from_pretrained("tiny", trust_remote_code=True)  # in any process where eigentrack is installed

LoRA: `target_modules=["q_proj", "k_proj", "v_proj", "out_proj"]` for DeltaNet and GLA, `["in_proj", "out_proj"]` for Mamba
and Mamba-2, `["qkv_proj", "out_proj"]` for attention, and `["gate_proj", "up_proj", "down_proj"]` for the MLPs. Mamba's
`dt_proj` must not be among them: the layer reads its weight without calling the module.
"""

from __future__ import annotations

from transformers import AutoConfig, AutoModelForCausalLM

from eigentrack.lm.hugging_face.cache import RecurrentCache as RecurrentCache
from eigentrack.lm.hugging_face.config import EigentrackConfig as EigentrackConfig
from eigentrack.lm.hugging_face.model import EigentrackForCausalLM as EigentrackForCausalLM

AutoConfig.register(EigentrackConfig.model_type, EigentrackConfig, exist_ok=True)
AutoModelForCausalLM.register(EigentrackConfig, EigentrackForCausalLM, exist_ok=True)
