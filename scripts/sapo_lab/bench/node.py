"""A SAPO node's own parts on the same work: forced sampling, records, one GRPO step."""

from pathlib import Path

from sapo_client.bench.prompts import bench_spec
from sapo_client.bench.work import bench
from sapo_client.policy.memory import MemoryOptions, is_large, pass_tokens
from sapo_client.policy.policy import Policy, PolicyOptions
from sapo_client.state.settings import GenerationSettings
from sapo_client.training.sapo import TrainConfig
from sapo_lab.bench.work import Report, Step, Work, do, versions
from sapo_verifier.spec import Spec


def never_ending(spec: Spec, folder: Path) -> Spec:
    """The same rules, with an end that the policy does not think of: completions have full length, as the others' have.

    The least used of the tokenizer's special tokens: one that neither its template nor its texts end with.
    """
    import json

    added = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    base = spec.bases[0]
    end = max(token["id"] for token in added if token["special"] and token["id"] not in base.eos)
    return spec.model_copy(update={"bases": [base.model_copy(update={"eos": [end]})]})


def run(work: Work) -> Report:
    from transformers import AutoTokenizer

    folder = Path(work.policy)
    options = dict(work.options)
    settings = GenerationSettings(engine=options.pop("engine"))
    spec = never_ending(bench_spec(folder, group_size=work.group_size, max_new_tokens=work.new_tokens), folder)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    memory = MemoryOptions(checkpointing=options.pop("checkpointing", None))
    policy = Policy.load(folder, spec.bases[0], options=PolicyOptions(memory=memory))
    prompts = [
        policy.tokenizer.prompt(
            str(tokenizer.apply_chat_template(work.messages(question), tokenize=False, add_generation_prompt=True))
        )
        for question in work.questions
    ]
    config = TrainConfig(learning_rate=work.learning_rate, **options)
    steps, results = [], []
    with bench(policy, spec, prompts, settings, config, threads=work.threads) as ready:
        ready.warm_up()
        for number in range(work.steps):
            generated, trained, result = ready.parts(seed=work.seed + number)
            steps.append(Step(generated, trained, result.tokens))
            results.append(result)
        engine = dict(getattr(ready.engine, "about", {}))
    settled = {
        "engine": settings.engine,
        "learning_rate": config.learning_rate,
        "micro_batch_tokens": config.micro_batch_tokens or pass_tokens(policy.model),
        "checkpointing": is_large(policy.model) if memory.checkpointing is None else memory.checkpointing,
        "clip_low": config.clip_low,
        "clip_high": config.clip_high,
        "epochs": config.epochs,
        "temperature": 1.0,
    }
    notes = {
        "engine_seconds": [result.engine_seconds for result in results],
        "records_seconds": [result.records_seconds for result in results],
        "repair_rate": sum(result.repaired for result in results) / sum(result.tokens for result in results),
        "widened_rate": max(result.widened_rate or 0.0 for result in results),
        "mismatch_kl": max(result.mismatch_kl or 0.0 for result in results),
    }
    packages = {**versions("sapo-network", "torch", "transformers"), **{k: str(v) for k, v in engine.items()}}
    return Report(steps, settled, packages, results[0].prompt_tokens, notes)


if __name__ == "__main__":
    do(run)
