"""The architectures that transformers 5.24 has as language models: which run here, and why others do not.

Data alone, as the lean decoder's is in family_table.py. A table rather than a question to the library: the
header of a model is read where importing it would take seconds. Standard library only.
"""

from __future__ import annotations

from engine.words import mark

# model_type=class, without the ForCausalLM that most end with
_RUN = """
    afmoe=Afmoe apertus=Apertus apertus1p5_text=Apertus1p5Text arcee=Arcee aria_text=AriaText axk1=AXK1
    axk2=AXK2 bailing_hybrid=BailingHybrid bamba=Bamba beam=Beam biogpt=BioGpt bitnet=BitNet bloom=Bloom
    codegen=CodeGen cohere=Cohere cohere2=Cohere2 cohere2_moe=Cohere2Moe cohere_compass_text=CohereCompass
    ctrl=CTRLLMHeadModel cwm=Cwm dbrx=Dbrx deepseek_v2=DeepseekV2 deepseek_v3=DeepseekV3
    deepseek_v32=DeepseekV32 deepseek_v4=DeepseekV4 diffllama=DiffLlama doge=Doge dots1=Dots1
    dots3_note_text=Dots3Note ernie4_5=Ernie4_5 ernie4_5_moe=Ernie4_5_Moe exaone=Llama exaone4=Exaone4
    exaone_moe=ExaoneMoe falcon=Falcon falcon_h1=FalconH1 falcon_mamba=FalconMamba flex_olmo=FlexOlmo
    flint=Flint gemma=Gemma gemma2=Gemma2 gemma3_text=Gemma3 gemma3n_text=Gemma3n gemma4_text=Gemma4
    gemma4_unified_text=Gemma4Unified glm=Glm glm4=Glm4 glm4_moe=Glm4Moe glm4_moe_lite=Glm4MoeLite
    glm_moe_dsa=GlmMoeDsa gpt-sw3=GPT2LMHeadModel gpt2=GPT2LMHeadModel gpt_bigcode=GPTBigCode gpt_neo=GPTNeo
    gpt_neox=GPTNeoX gpt_neox_japanese=GPTNeoXJapanese gpt_oss=GptOss gptj=GPTJ granite=Granite
    granite_swa=GraniteSWA granitemoe=GraniteMoe granitemoe_swa=GraniteMoeSWA
    granitemoehybrid=GraniteMoeHybrid granitemoeshared=GraniteMoeShared helium=Helium
    hunyuan_v1_dense=HunYuanDenseV1 hunyuan_v1_moe=HunYuanMoEV1 hy_v3=HYV3 hy_v4=HYV4
    hyperclovax=HyperCLOVAX inkling2_loop_text=Inkling2Loop inkling2_text=Inkling2 inkling_text=Inkling
    internlm3=Llama iquestcoder=Llama jais2=Jais2 jamba=Jamba jetmoe=JetMoe kimi_linear=KimiLinear
    kolibri1=Kolibri1 laguna=Laguna lara_mini=LaraMini lfm2=Lfm2 lfm2_moe=Lfm2Moe lfm3=Lfm3 llama=Llama
    llama4_text=Llama4 longcat_flash=LongcatFlash mamba=Mamba mamba2=Mamba2 mellum=Mellum
    mimo_v2_flash=MiMoV2Flash minicpm3=MiniCPM3 minimax_m2=MiniMaxM2 minimax_m3_vl_text=MiniMaxM3VL
    ministral=Ministral ministral3=Ministral3 mistral=Mistral mixtral=Mixtral
    modernbert-decoder=ModernBertDecoder mpt=Mpt nanochat=NanoChat nemotron=Nemotron nemotron_h=NemotronH
    olmo=Olmo olmo2=Olmo2 olmo3=Olmo3 olmo_hybrid=OlmoHybrid olmoe=Olmoe opt=OPT persimmon=Persimmon phi=Phi
    phi3=Phi3 phimoe=Phimoe qwen2=Qwen2 qwen2_moe=Qwen2Moe qwen3=Qwen3 qwen3_5_moe_text=Qwen3_5Moe
    qwen3_5_text=Qwen3_5 qwen3_moe=Qwen3Moe qwen3_next=Qwen3Next qwen4_exp_text=Qwen4Exp
    sarvam_mla=DeepseekV3 sarvam_moe=Glm4Moe seed_oss=SeedOss smollm3=SmolLM3 solar_open=SolarOpen
    stablelm=StableLm starcoder2=Starcoder2 vaultgemma=VaultGemma xglm=XGLM youtu=Youtu zamba=Zamba
    zaya=Zaya
"""
_ENCODERS = """
    bert bert-generation big_bird camembert data2vec-text electra ernie megatron-bert rembert roberta
    roberta-prelayernorm roc_bert roformer xlm xlm-roberta xlm-roberta-xl xlnet xmod
"""
_HALVES = """
    bart bigbird_pegasus blenderbot blenderbot-small marian mbart mvp pegasus plbart prophetnet trocr
    whisper
"""
_OTHERS = """
    emu3 gemma4_assistant gemma4_unified_assistant git mllama moshi musicgen musicgen_melody phi4_multimodal
"""
_OWN_CACHES = """
    blt cpmant dory hrm_text minimax openai-gpt recurrent_gemma reformer rwkv xlstm zamba2
"""


def _class_name(word: str) -> str:
    return word if word.endswith("LMHeadModel") else word + "ForCausalLM"


CLASSES = {name: _class_name(word) for name, word in (pair.split("=") for pair in _RUN.split())}
"""model_type → the class of transformers that runs it."""

REFUSED = {
    **dict.fromkeys(_ENCODERS.split(), mark("an encoder: it reads text and writes none")),
    **dict.fromkeys(_HALVES.split(), mark("half of a model that has an encoder too")),
    **dict.fromkeys(
        _OTHERS.split(), mark("no chat model by itself: it goes with speech, images or another model")
    ),
    **dict.fromkeys(
        _OWN_CACHES.split(), mark("run by transformers with a cache that prompts in pieces do not fit")
    ),
}
"""model_type → why it is not run although transformers knows it."""

STEPWISE = frozenset({"falcon_mamba", "jamba", "mamba", "zamba"})
"""Whose states transformers continues by one token at a time only (several at once start from nothing)."""

_EAGER = """
    bloom deepseek_v4 flint gemma2 gpt_neo gpt_neox_japanese gpt_oss granite_swa granitemoe_swa hy_v4
    inkling2_loop_text inkling2_text mimo_v2_flash mpt vaultgemma xglm
"""
EAGER = frozenset(_EAGER.split())
"""Whose attention transformers computes with all scores in memory at once."""

SCORE_BYTES = dict.fromkeys(EAGER, (8, 10)) | {
    "bloom": (16, 14),
    "falcon": (9, 9),  # torch has no flash attention for a head of keys that is not repeated
    "flint": (12, 12),
    "gpt_neo": (12, 11),
    "gpt_neox_japanese": (16, 8),
    "gpt_oss": (12, 6),
    "mimo_v2_flash": (10, 5),
    "mpt": (12, 12),
    "xglm": (8, 4),
}
"""model_type → bytes that its attention holds for a score, in float32 and in 16 bits; measured. Most hold the
scores, and those before and behind the softmax, which is float32."""

ALL_EXPERTS = frozenset({"llama4_text"})
"""Whose experts compute every row, whichever it chose."""

FUSED = frozenset({"gpt_neox", "persimmon"})
"""Whose queries, keys and values are parts of one product, which stays while they are used."""

_UNGATED = """
    biogpt codegen falcon gpt-sw3 gpt2 gpt_bigcode gpt_neo gpt_neox gptj opt persimmon phi starcoder2 xglm
"""
UNGATED = frozenset(_UNGATED.split())
"""Whose feed-forward part has no gate."""

_ROUTED = """
    axk1 axk2 beam deepseek_v3 deepseek_v32 dots1 dots3_note_text ernie4_5_moe exaone_moe glm4_moe
    glm4_moe_lite glm_moe_dsa hy_v3 mimo_v2_flash nemotron_h sarvam_mla sarvam_moe solar_open
"""
KEPT_F32 = dict.fromkeys(_ROUTED.split(), ("e_score_correction_bias", "gate.weight")) | {
    "afmoe": ("expert_bias",),
    "deepseek_v2": ("gate.weight",),
    "flint": ("gate.weight", "sinks"),
    "kimi_linear": ("e_score_correction_bias", "gate.weight", "dt_bias"),
    "kolibri1": ("e_score_correction_bias",),
}
"""model_type → parts of names of tensors that transformers keeps in float32 whatever the format."""
