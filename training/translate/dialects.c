/* SPDX-License-Identifier: BSD-3-Clause */
/* dialects.c: what other trainers call what is a fact here. tests/training/dialects.txt says in which file of
 * theirs each key was found. */
#include "training/translate/translate.h"

#include <string.h>

/* Micro-batches are counted by their size, and ranks of dp are those that are left. */
static const struct tr_phrase megatron[] = {
    { "model", "", "gpt=|llama=" },
    { "norm", "normalization", "layer=LayerNorm|rms=RMSNorm" },
    { "positions", "position-embedding-type", "learned=learned_absolute|rope=rope" },
    { "feed-forward", "swiglu", "swiglu=" },
    { "biases", "disable-bias-linear", "0=" },
    { "grouped", "group-query-attention", "1=" },
    { "kv-heads", "num-query-groups", NULL },
    { "hidden", "ffn-hidden-size", NULL },
    { "layers", "num-layers", NULL },
    { "channels", "hidden-size", NULL },
    { "heads", "num-attention-heads", NULL },
    { "context", "seq-length", NULL },
    { "context", "max-position-embeddings", NULL },
    { "vocabulary", "vocab-size", NULL },
    { "untied", "untie-embeddings-and-output-weights", "1=" },
    { "dropout", "hidden-dropout", NULL },
    { "attention-dropout", "attention-dropout", NULL },
    { "experts", "num-experts", NULL },
    { "top-k", "moe-router-topk", NULL },
    { "capacity-factor", "moe-expert-capacity-factor", NULL },
    { "aux-loss", "moe-aux-loss-coeff", NULL },
    { "dp", "", NULL },
    { "tp", "tensor-model-parallel-size", NULL },
    { "sp", "sequence-parallel", "1=" },
    { "pp", "pipeline-model-parallel-size", NULL },
    { "chunks", "num-virtual-stages-per-pipeline-rank", NULL },
    { "schedule", "", "1f1b=|interleaved=" },
    { "cp", "context-parallel-size", NULL },
    { "cp-attention", "cp-comm-type", "gather=all_gather|ulysses=a2a|ring=p2p|ulysses+ring=a2a+p2p" },
    { "cp-map", "", "zigzag=" },
    { "ep", "expert-model-parallel-size", NULL },
    { "zero", "use-distributed-optimizer", "1=" },
    { "zero", "use-megatron-fsdp", "2=|3=" },
    { "zero", "data-parallel-sharding-strategy", "2=optim_grads|3=optim_grads_params" },
    { "recompute", "recompute-granularity", "selective=selective|full=full" },
    { "recompute", "recompute-method", "full=uniform" },
    { "recompute", "recompute-num-layers", "full=1" },
    { "offload", "optimizer-cpu-offload", "optimizer=" },
    { "overlap", "overlap-grad-reduce", "1=" },
    { "precision", "bf16", "bfloat16=" },
    { "micro-batch", "micro-batch-size", NULL },
    { "micro", "", NULL },
    { "batch", "global-batch-size", NULL },
    { "steps", "train-iters", NULL },
    { "optimizer", "optimizer", "adamw=adam|sgd=sgd" },
    { "rate", "lr", NULL },
    { "rate-schedule", "lr-decay-style", "constant=constant|linear=linear|cosine=cosine" },
    { "warmup", "lr-warmup-iters", NULL },
    { "rate-steps", "lr-decay-iters", NULL },
    { "rate-min", "min-lr", NULL },
    { "decay", "weight-decay", NULL },
    { "clip", "clip-grad", NULL },
    { "seed", "seed", NULL },
    { NULL, "adam-beta1", "0.9" },
    { NULL, "adam-beta2", "0.95" },
    { NULL, "adam-eps", "1e-08" },
};

/* ZeRO 2 gathers parameters once, for both parts of a step. Sizes of a model stand in its own registry. */
static const struct tr_phrase torchtitan[] = {
    { "replicas", "parallelism.data_parallel_replicate_degree", NULL },
    { "shards", "parallelism.data_parallel_shard_degree", NULL },
    { "dp", "", NULL },
    { "zero", "parallelism.fsdp_reshard_after_forward", "0=|2=never|3=always" },
    { "tp", "parallelism.tensor_parallel_degree", NULL },
    { "sp", "parallelism.enable_sequence_parallel", "1=" },
    { "sp", "parallelism.no_enable_sequence_parallel", "0=" },
    { "pp", "parallelism.pipeline_parallel_degree", NULL },
    { "schedule", "parallelism.pipeline_parallel_schedule",
        "1f1b=1F1B|gpipe=GPipe|interleaved=Interleaved1F1B" },
    { "slices", "parallelism.num_pp_microbatches", NULL },
    { "cp", "parallelism.context_parallel_degree", NULL },
    { "cp-attention", "", "gather=" },
    { "cp-map", "parallelism.context_parallel_load_balancer", "zigzag=headtail" },
    { "ep", "parallelism.expert_parallel_degree", NULL },
    { "context", "training.max_context_length", NULL },
    { "micro-tokens", "training.num_tokens_per_microbatch_per_dp_rank", NULL },
    { "tokens", "training.num_tokens_per_train_step", NULL },
    { "batch", "", NULL },
    { "micro", "", NULL },
    { "steps", "training.steps", NULL },
    { "clip", "training.max_norm", NULL },
    { "precision", "training.mixed_precision_param", "float32=float32|bfloat16=bfloat16" },
    { "seed", "debug.seed", NULL },
};

/* Its pipeline is a class of the program's, and so is the model. */
static const struct tr_phrase deepspeed[] = {
    { "batch", "train_batch_size", NULL },
    { "micro-batch", "train_micro_batch_size_per_gpu", NULL },
    { "micro", "gradient_accumulation_steps", NULL },
    { "clip", "gradient_clipping", NULL },
    { "optimizer", "optimizer.type", "adamw=AdamW|sgd=SGD" },
    { "rate", "optimizer.params.lr", NULL },
    { "decay", "optimizer.params.weight_decay", NULL },
    { NULL, "optimizer.params.betas", "[0.9, 0.95]" },
    { NULL, "optimizer.params.eps", "1e-08" },
    { "zero", "zero_optimization.stage", NULL },
    { "overlap", "zero_optimization.overlap_comm", "1=true|0=false" },
    { "offload", "zero_optimization.offload_optimizer.device", "none=none|optimizer=cpu" },
    { "precision", "bf16.enabled", "bfloat16=true|float32=false" },
    { "tp", "tensor_parallel.autotp_size", NULL },
    { "dp", "", NULL },
    { "schedule", "", "1f1b=" },
};

static const struct tr_phrase nanotron[] = {
    { "seed", "general.seed", NULL },
    { "precision", "model.dtype", "float32=float32|bfloat16=bfloat16" },
    { "channels", "model.model_config.hidden_size", NULL },
    { "context", "model.model_config.max_position_embeddings", NULL },
    { NULL, "model.model_config.hidden_act", "silu" },
    { "hidden", "model.model_config.intermediate_size", NULL },
    { NULL, "model.model_config.rms_norm_eps", "1e-05" },
    { NULL, "model.model_config.rope_theta", "10000" },
    { NULL, "model.model_config.is_llama_config", "true" },
    { "model", "", "llama=" },
    { "heads", "model.model_config.num_attention_heads", NULL },
    { "kv-heads", "model.model_config.num_key_value_heads", NULL },
    { "layers", "model.model_config.num_hidden_layers", NULL },
    { "untied", "model.model_config.tie_word_embeddings", "0=true|1=false" },
    { "vocabulary", "model.model_config.vocab_size", NULL },
    { NULL, "optimizer.accumulate_grad_in_fp32", "true" },
    { "clip", "optimizer.clip_grad", NULL },
    { "rate", "optimizer.learning_rate_scheduler.learning_rate", NULL },
    { "falling-steps", "optimizer.learning_rate_scheduler.lr_decay_steps", NULL },
    { "rate-schedule", "optimizer.learning_rate_scheduler.lr_decay_style",
        "linear=linear|cosine=cosine|constant=linear" },
    { "warmup", "optimizer.learning_rate_scheduler.lr_warmup_steps", NULL },
    { NULL, "optimizer.learning_rate_scheduler.lr_warmup_style", "linear" },
    { "rate-end", "optimizer.learning_rate_scheduler.min_decay_lr", NULL },
    { "rate-min", "", NULL },
    { "rate-steps", "", NULL },
    { NULL, "optimizer.optimizer_factory.adam_beta1", "0.9" },
    { NULL, "optimizer.optimizer_factory.adam_beta2", "0.95" },
    { NULL, "optimizer.optimizer_factory.adam_eps", "1e-08" },
    { "optimizer", "optimizer.optimizer_factory.name", "adamw=adamW|sgd=sgd" },
    { "decay", "optimizer.weight_decay", NULL },
    { "zero", "optimizer.zero_stage", "0=0|1=1" },
    { "cp", "parallelism.context_parallel_size", NULL },
    { "dp", "parallelism.dp", NULL },
    { "pp", "parallelism.pp", NULL },
    { "schedule", "parallelism.pp_engine", "1f1b=1f1b|gpipe=afab" },
    { "recompute", "parallelism.recompute_layer", "none=false|full=true" },
    { "tp", "parallelism.tp", NULL },
    { "sp", "parallelism.tp_mode", "1=REDUCE_SCATTER|0=ALL_REDUCE" },
    { "micro", "tokens.batch_accumulation_per_replica", NULL },
    { "micro-batch", "tokens.micro_batch_size", NULL },
    { "context", "tokens.sequence_length", NULL },
    { "steps", "tokens.train_steps", NULL },
    { "batch", "", NULL },
};

static const struct tr_phrase picotron[] = {
    { "tp", "distributed.tp_size", NULL },
    { "cp", "distributed.cp_size", NULL },
    { "pp", "distributed.pp_size", NULL },
    { "dp", "distributed.dp_size", NULL },
    { "schedule", "distributed.pp_engine", "1f1b=1f1b|gpipe=afab" },
    { "cp-attention", "", "ring=" },
    { "cp-map", "", "contiguous=" },
    { "model", "", "llama=" },
    { "layers", "model.num_hidden_layers", NULL },
    { "heads", "model.num_attention_heads", NULL },
    { "kv-heads", "model.num_key_value_heads", NULL },
    { "precision", "model.dtype", "float32=float32|bfloat16=bfloat16" },
    { "seed", "training.seed", NULL },
    { "rate", "training.learning_rate", NULL },
    { "steps", "training.total_train_steps", NULL },
    { "context", "training.seq_length", NULL },
    { "micro-batch", "training.micro_batch_size", NULL },
    { "micro", "training.gradient_accumulation_steps", NULL },
    { "batch", "", NULL },
    { "optimizer", "", "adamw=" },
};

#define PHRASES(table) table, sizeof(table) / sizeof *(table)
const struct tr_dialect tr_dialects[] = {
    { "megatron", "pretrain_gpt.py", TR_FLAGS, PHRASES(megatron) },
    { "deepspeed", "deepspeed", TR_JSON, PHRASES(deepspeed) },
    { "torchtitan", "torchtitan.train", TR_FLAGS, PHRASES(torchtitan) },
    { "nanotron", "run_train.py", TR_YAML, PHRASES(nanotron) },
    { "picotron", "train.py", TR_JSON, PHRASES(picotron) },
};
const int tr_dialect_count = sizeof tr_dialects / sizeof *tr_dialects;

/* The pair that is ours or theirs; *length: of its other side. */
static const char *pair_of(const char *pairs, const char *value, bool ours, size_t *length)
{
    while (*pairs) {
        const char *middle = strchr(pairs, '='), *end = middle + strcspn(middle, "|");
        const char *side = ours ? pairs : middle + 1, *other = ours ? middle + 1 : pairs;
        size_t n = (size_t)((ours ? middle : end) - side);
        if (strlen(value) == n && !strncmp(side, value, n)) {
            *length = (size_t)((ours ? end : middle) - other);
            return other;
        }
        pairs = *end ? end + 1 : end;
    }
    return NULL;
}

static bool mapped(const struct tr_phrase *p, const char *value, bool ours, char to[TR_SAID])
{
    size_t length = strlen(value);
    const char *found = p->values ? pair_of(p->values, value, ours, &length) : value;
    if (found)
        snprintf(to, TR_SAID, "%.*s", (int)length, found);
    return found;
}

bool tr_phrase_there(const struct tr_phrase *p, const char *here, char there[TR_SAID])
{
    return mapped(p, here, true, there);
}

bool tr_phrase_here(const struct tr_phrase *p, const char *there, char here[TR_SAID])
{
    return mapped(p, there, false, here);
}
