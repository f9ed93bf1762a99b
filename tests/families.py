"""Families of models, each as a random one so small that a test takes a second: folders as they come from a hub.

RIGHT: every pass of ours gives what a plain pass gives. REFUSED: what is said of them before anything is generated.
docs/settings.md has both as a table, which tests/integration/test_families.py compares.
"""

from pathlib import Path
from typing import Any, NamedTuple

import torch

from sapo_client.pocket import EOS_ID, VOCAB, make_tokenizer, save_tokenizer

FULL, SLIDING, EXPERTS, HYBRID = "full attention", "sliding windows", "mixtures of experts", "recurrent and hybrid"
WINDOW, CONTEXT = 4, 256


class Family(NamedTuple):
    """kind: the table's row; changes: of the small config; words: what its refusal says."""

    kind: str
    changes: dict[str, Any]
    words: str = ""


def _alternating(first: str, second: str = "full_attention") -> dict[str, Any]:
    return {"layer_types": [first, second, first, second]}


MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_n_groups": 1, "mamba_d_state": 8}
LATENT = {
    "q_lora_rank": 16, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8, "head_dim": 4,
    "n_group": 1, "topk_group": 1, "num_key_value_heads": 4,
}  # fmt: skip
KIMI = {"linear_head_dim": 8, "linear_num_heads": 4, "qk_head_dim": 12, "num_experts_per_token": 2}
NEMOTRON = {
    "mamba_num_heads": 4,
    "mamba_head_dim": 16,
    "n_groups": 1,
    "ssm_state_size": 8,
    "moe_shared_expert_intermediate_size": 16,
}
LONGROPE = {
    "rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4, "rope_theta": 10000.0,
    "factor": 16.0,
}  # fmt: skip
LONG = {"rope_parameters": LONGROPE, "original_max_position_embeddings": 40}  # other frequencies from 41 tokens on

RIGHT: dict[str, Family] = {
    **{name: Family(FULL, {}) for name in (
        "gemma", "glm4", "gpt2", "gpt_neox", "llama", "olmo2", "opt", "phi", "phi3", "qwen2", "qwen3", "smollm3",
        "stablelm", "starcoder2",
    )},
    **{name: Family(SLIDING, {}) for name in ("exaone4", "gemma3_text", "mistral", "olmo3")},
    **{name: Family(EXPERTS, {}) for name in (
        "ernie4_5_moe", "glm4_moe", "gpt_oss", "granitemoe", "mixtral", "olmoe", "phimoe", "qwen2_moe", "qwen3_moe",
    )},
    "deepseek_v3": Family(EXPERTS, LATENT),
    "bamba": Family(HYBRID, {**MAMBA, "attn_layer_indices": [1, 3]}),
    "falcon_h1": Family(HYBRID, {**MAMBA, "mamba_d_ssm": 64}),
    "granitemoehybrid": Family(HYBRID, {**MAMBA, "layer_types": ["mamba", "attention"] * 2}),
    "jamba": Family(HYBRID, {"attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False}),
    "kimi_linear": Family(HYBRID, {**LATENT, **KIMI, **_alternating("linear_attention")}),
    "lfm2": Family(HYBRID, _alternating("conv")),
    "lfm2_moe": Family(HYBRID, _alternating("conv")),
    "mamba2": Family(HYBRID, {"head_dim": 16, "num_heads": 4, "n_groups": 1, "state_size": 8}),
    "nemotron_h": Family(HYBRID, NEMOTRON),
    "olmo_hybrid": Family(HYBRID, {}),
    "qwen3_5_moe_text": Family(HYBRID, {}),
    "qwen3_5_text": Family(HYBRID, {}),
    "qwen3_next": Family(HYBRID, {}),
}  # fmt: skip

REFUSED: dict[str, Family] = {
    "cohere": Family(FULL, {"logit_scale": 0.0625}, "changes logits after its output layer"),
    "gemma2": Family(SLIDING, {"final_logit_softcapping": 30.0}, "changes logits after its output layer"),
    "granite": Family(FULL, {"logits_scaling": 8.0}, "changes logits after its output layer"),
    "bert": Family(FULL, {"is_decoder": False}, "changes logits after its output layer"),
    "mamba": Family(HYBRID, {}, "states run through the padding"),
    "falcon_mamba": Family(HYBRID, {}, "states run through the padding"),
    "rwkv": Family(HYBRID, {"attention_hidden_size": 32}, "states run through the padding"),
    "recurrent_gemma": Family(HYBRID, {"lru_width": 32, "attention_window_size": WINDOW}, "caps logits"),
    "minimax": Family(HYBRID, {}, "a cache of its own"),
    "deepseek_v4": Family(SLIDING, {}, "in a padded batch"),
    "bart": Family(FULL, {}, "in a padded batch"),
    "openai-gpt": Family(FULL, {}, "does not decode a batch"),
    "xlm": Family(FULL, {}, "for a sequence in a batch"),
}

SMALL: dict[str, Any] = {
    "vocab_size": VOCAB, "bos_token_id": None, "eos_token_id": EOS_ID, "pad_token_id": EOS_ID,
    "tie_word_embeddings": False, "max_position_embeddings": CONTEXT, "n_positions": CONTEXT,
    "hidden_size": 32, "n_embd": 32, "d_model": 32, "word_embed_proj_dim": 32, "head_dim": 8,
    "intermediate_size": 48, "ffn_dim": 48, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16,
    "num_hidden_layers": 4, "n_layer": 4, "num_attention_heads": 4, "n_head": 4, "num_key_value_heads": 2,
    "sliding_window": WINDOW, "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4,
    "num_experts_per_tok": 2, "state_size": 8, "time_step_rank": 4, "linear_num_value_heads": 4,
    "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
}  # fmt: skip


def family_folder(folder: Path, name: str, changes: dict[str, Any], *, seed: int = 0) -> Path:
    """A Hugging Face folder with the pocket tokenizer; weights are so large that positions matter."""
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    made = CONFIG_MAPPING[name]
    known = made()
    config = made(**{key: value for key, value in SMALL.items() if _has(known, key)} | changes)
    torch.manual_seed(seed)
    model: Any = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.ndim in (2, 3) and "conv" not in parameter_name:
                parameter.normal_(0, 0.2)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    save_tokenizer(make_tokenizer(), folder)
    return folder


def _has(config: Any, name: str) -> bool:
    """Some configs name an entry by another one, and refuse it while layers have their own."""
    try:
        return hasattr(config, name)
    except ValueError:
        return False
