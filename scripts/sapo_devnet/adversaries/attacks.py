"""Which class plays which attack."""

from sapo_devnet.adversaries import content, policies, serving, voters
from sapo_devnet.adversaries.adversary import Adversary

CLASSES: dict[str, type[Adversary]] = {
    "solver": content.Solver,
    "forger": content.Forger,
    "copier": content.Copier,
    "replayer": content.Replayer,
    "best_of_n": content.BestOfN,
    "false_reward": content.FalseReward,
    "wrong_root": content.WrongRoot,
    "made_up_intervals": content.MadeUpIntervals,
    "early_stop": content.EarlyStop,
    "filler": content.Filler,
    "schema_bomber": content.SchemaBomber,
    "wrong_policy": policies.WrongPolicy,
    "stale_policy": policies.StalePolicy,
    "unrunnable_base": policies.UnrunnableBase,
    "unloadable_weights": policies.UnloadableWeights,
    "withholder": serving.Withholder,
    "half_withholder": serving.HalfWithholder,
    "trickle": serving.Trickler,
    "serves_then_withholds": serving.ServesThenWithholds,
    "selective_aborter": serving.SelectiveAborter,
    "lazy": voters.Lazy,
    "liar": voters.Liar,
    "silent": voters.Silent,
    "frivolous_disputer": voters.FrivolousDisputer,
}
