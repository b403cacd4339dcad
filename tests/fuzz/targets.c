/* targets.c - the list of harnesses */

#include "tests/fuzz/fuzz.h"

extern const struct fuzz_target fuzz_args, fuzz_args_file, fuzz_bpe, fuzz_cache,
    fuzz_cmdline, fuzz_data_args, fuzz_data_packed, fuzz_dataset_text, fuzz_fim, fuzz_hf_config,
    fuzz_indexed, fuzz_json_text, fuzz_jsonl, fuzz_layout, fuzz_manifest, fuzz_monitor,
    fuzz_nccl_config, fuzz_nodes, fuzz_npy, fuzz_parse, fuzz_plan, fuzz_roster,
    fuzz_safetensors, fuzz_serve_request, fuzz_shard, fuzz_store, fuzz_task, fuzz_template,
    fuzz_tokenizer, fuzz_tokenizer_json;

const struct fuzz_target *const fuzz_targets[] = {
    &fuzz_args, &fuzz_args_file, &fuzz_bpe, &fuzz_cache, &fuzz_cmdline,
    &fuzz_data_args, &fuzz_data_packed, &fuzz_dataset_text, &fuzz_fim, &fuzz_hf_config,
    &fuzz_indexed, &fuzz_json_text, &fuzz_jsonl,
    &fuzz_layout, &fuzz_manifest, &fuzz_monitor, &fuzz_nccl_config, &fuzz_nodes, &fuzz_npy,
    &fuzz_parse,
    &fuzz_plan, &fuzz_roster, &fuzz_safetensors,
    &fuzz_serve_request, &fuzz_shard, &fuzz_store, &fuzz_task, &fuzz_template,
    &fuzz_tokenizer, &fuzz_tokenizer_json, NULL,
};
