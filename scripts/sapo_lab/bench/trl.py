"""TRL's GRPOTrainer with its own generation, timed by a callback and by the moment at which it asks for rewards."""

import tempfile
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from sapo_client.bench.meter import Meter, Taken
from sapo_lab.bench.work import WARM_UP_TOKENS, Report, Step, Work, do, reward, versions

BATCH = 8  # completions at a time in training: its default


class Clock(TrainerCallback):
    """A step begins with generation; the rewards are asked for when that is over."""

    def __init__(self, group_size: int) -> None:
        self.group_size = group_size
        self.steps: list[Step] = []
        self._meter = Meter()
        self._generated: Taken | None = None
        self._tokens = 0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._meter.__enter__()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self._meter.__exit__(None, None, None)
        assert self._generated is not None
        self.steps.append(Step(self._generated, self._meter.taken, self._tokens))

    def rewards(self, completion_ids: list[list[int]], **_: Any) -> list[float]:
        self._meter.__exit__(None, None, None)
        self._generated = self._meter.taken
        self._tokens = sum(map(len, completion_ids))
        self._meter.__enter__()
        return [reward(i % self.group_size) for i in range(len(completion_ids))]


def train(
    model: Any, optimizer: Any, tokenizer: Any, folder: str, settings: dict[str, Any], prompts: Any
) -> list[Step]:
    clock = Clock(settings["num_generations"])
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=clock.rewards,
        args=GRPOConfig(output_dir=folder, **settings),
        train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in prompts]),
        processing_class=tokenizer,
        callbacks=[clock],
        optimizers=(optimizer, None),
    )
    trainer.train()
    return clock.steps


def run(work: Work) -> Report:
    model = AutoModelForCausalLM.from_pretrained(work.policy, local_files_only=True, dtype="float32")
    tokenizer = AutoTokenizer.from_pretrained(work.policy, local_files_only=True, padding_side="left")
    batch = min(BATCH, work.group_size * len(work.questions))
    settings = {
        "num_generations": work.group_size,
        "max_completion_length": work.new_tokens,
        "generation_kwargs": {"min_new_tokens": work.new_tokens},
        "per_device_train_batch_size": batch,
        "gradient_accumulation_steps": work.group_size * len(work.questions) // batch,
        "max_steps": work.steps,
        "learning_rate": work.learning_rate,
        "lr_scheduler_type": "constant",
        "epsilon": 0.2,
        "epsilon_high": 0.28,
        "beta": 0.0,
        "temperature": 1.0,
        "bf16": False,
        "use_cpu": True,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "shuffle_dataset": False,
        **work.options,
    }
    warm_up = {
        **settings,
        "num_generations": 2,
        "max_completion_length": WARM_UP_TOKENS,
        "generation_kwargs": {"min_new_tokens": WARM_UP_TOKENS},
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 1,
        "max_steps": 1,
    }
    prompts = [work.messages(question) for question in work.questions]
    # Its own choice, made here so that the warm-up leaves it as later steps find it.
    optimizer = torch.optim.AdamW(model.parameters(), lr=work.learning_rate, weight_decay=0.0, fused=True)
    with tempfile.TemporaryDirectory() as folder:
        train(model, optimizer, tokenizer, folder, warm_up, prompts[:1])
        steps = train(model, optimizer, tokenizer, folder, settings, prompts)
    ids = [tokenizer.apply_chat_template(p, add_generation_prompt=True, return_dict=False) for p in prompts]
    prompt_tokens = sum(map(len, ids)) * work.group_size
    return Report(steps, settings, versions("trl", "torch", "transformers"), prompt_tokens)


if __name__ == "__main__":
    do(run)
