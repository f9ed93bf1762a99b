"""gensyn-genrl: a game of one player and one stage on its local backend, as its examples put one together."""

from collections.abc import Sequence
from typing import Any

from datasets import Dataset
from genrl.communication.local.null_comm import NullCommunicationBackend
from genrl.data.text_data_managers import SimpleTextDataManager
from genrl.game import BaseGameManager
from genrl.rewards import DefaultRewardManager, RewardFnStore, RoundRewardFnStore
from genrl.state import GameState
from genrl.trainer.grpo_trainer import GRPOLanguageTrainerModule, GRPOTrainerConfig
from transformers import AutoModelForCausalLM

from sapo_client.bench.meter import Meter, Taken
from sapo_lab.bench.work import WARM_UP_TOKENS, Report, Step, Work, do, reward, versions


class Trainer(GRPOLanguageTrainerModule):  # type: ignore[misc]  # genrl is installed in its own environment only
    """Its trainer, with a clock. The first round is a warm-up: few tokens of one question."""

    def begin(self, work: Work) -> None:
        self.work = work
        self.steps: list[Step] = []
        self.generated: Taken | None = None
        self.tokens = self.prompt_tokens = 0
        self._length(WARM_UP_TOKENS)

    def _length(self, tokens: int) -> None:
        self.generation_config.max_new_tokens = self.generation_config.min_new_tokens = tokens

    def generate(self, inputs: Any, return_completion_ids: bool = False, stage: int = 0) -> Any:
        with Meter() as meter:
            texts, ids = super().generate(inputs, return_completion_ids=True)
        self.generated = meter.taken
        self.tokens = sum(len(completion) for group in ids for completion in group)
        self.prompt_tokens = int(self._process_inputs(inputs).attention_mask.sum()) * self.work.group_size
        return texts

    def train(self, state: Any, data_manager: Any, reward_manager: Any) -> None:
        with Meter() as meter:
            super().train(state, data_manager, reward_manager)
        if state.round > 0:
            assert self.generated is not None
            self.steps.append(Step(self.generated, meter.taken, self.tokens))
        self._length(self.work.new_tokens)


def rewards(state: GameState) -> dict[Any, dict[Any, list[list[float]]]]:
    """[player][question][node]: a reward per completion."""
    return {
        agent: {item: [[reward(k) for k in range(len(texts))] for texts in nodes] for item, nodes in items.items()}
        for agent, items in state.get_stage_actions(0).items()
    }


def questions(work: Work) -> Any:
    """Its data generator: one question in the warm-up, all of them afterwards."""
    rounds = iter(range(work.steps + 2))

    def generator(**_: Any) -> Dataset:
        chosen: Sequence[str] = work.questions if next(rounds) else work.questions[:1]
        metadata = [{"number": number} for number in range(len(chosen))]
        return Dataset.from_dict({"question": list(chosen), "answer": [""] * len(chosen), "metadata": metadata})

    return generator


def run(work: Work) -> Report:
    settings = {
        "dtype": "float32",
        "num_generations": work.group_size,
        "max_new_tokens": work.new_tokens,
        "learning_rate": work.learning_rate,
        "epsilon": 0.2,
        "epsilon_high": 0.28,
        "beta": 0.0,
        "temperature": 1.0,
        **work.options,
    }
    trainer = Trainer(
        [AutoModelForCausalLM.from_pretrained(work.policy, local_files_only=True)],
        GRPOTrainerConfig(**settings),
        log_with="none",
    )
    trainer.begin(work)
    game = BaseGameManager(
        max_stage=1,
        max_round=1 + work.steps,
        game_state=GameState(round=0, stage=0),
        reward_manager=DefaultRewardManager(RewardFnStore(1 + work.steps, [RoundRewardFnStore(1, [rewards])])),
        trainer=trainer,
        data_manager=SimpleTextDataManager(
            None, num_train_samples=None, data_generator=questions(work), system_prompt=work.system
        ),
        communication=NullCommunicationBackend(),
        run_mode="train",
    )
    game.run_game()  # it swallows errors; whoever called counts the steps
    packages = versions("gensyn-genrl", "torch", "transformers")
    return Report(trainer.steps, settings, packages, trainer.prompt_tokens)


if __name__ == "__main__":
    do(run)
