"""What every custom error of the contracts means, and what to do about it. A test holds this table against the ABIs.

In braces: the error's arguments. Amounts are in coins (10^18 wei), addresses lower case, hashes shortened.
"""

NODE_STATES = ("not registered", "registered", "exiting", "withdrawn", "slashed")
AMOUNTS = {"value", "bond", "missing", "amount"}  # arguments in wei

REVERTS = {
    # Nodes
    "AlreadyRegistered": "the node {node} is registered already; nothing is left to do",
    "ExitNotOver": "the bond of {node} is locked until block {exitBlock}, and this is {blockNumber}; withdraw then",
    "InvalidNodesParameters": "no such Nodes contract can be made: bond {bond}, exit blocks {exitBlocks} and Audits at "
    "{audits} must all be above zero and not too large; correct the spec and deploy again",
    "NotAudits": "only the Audits contract may call this, not {caller}",
    "NotBonded": "the node {node} has no locked bond (it is {state}); register it first",
    "NotExiting": "the node {node} did not ask to exit (it is {state}); ask first, then wait, then withdraw",
    "NotRegistered": "the node {node} would have to be registered, and it is {state}; register it first",
    "NotSettled": "something of the node {node} is overdue; settle it first, then withdraw",
    "PaymentFailed": "{to} did not take the {amount} coins; name an address that can receive",
    "ShareTooLarge": "a share of {share} ten-thousandths is more than everything",
    "SlashedForEver": "the node {node} was slashed and can never register again; make a new key",
    "WrongBond": "the bond is exactly {bond} coins, and {value} were sent; send that amount",
    "WrongEndpointLength": "an endpoint has 1 to 256 bytes, and this one has {length}; set a multiaddr such as "
    "/dns4/example.org/tcp/8080/http",
    "WrongTopUp": "the bond of {node} misses exactly {missing} coins, and {value} were sent; send that amount",
    "ZeroAddress": "the zero address was given for the operator or the receiver of {node}; name a real one",
    # Rounds
    "BatchAlreadySubmitted": "the node {node} has its batch of round {round} on chain already, as index {index}; "
    "nothing is left to do",
    "BeaconNotCaptured": "round {round} has no beacon (yet); poke it while the round lasts, otherwise it is void",
    "ClaimTooLong": "the claim has bits beyond the batch's {completions} completions; this is a fault of the client",
    "ExitTooShort": "a bond that can leave after {exitBlocks} blocks does not outlive a round, which takes {least}; "
    "raise exit_rounds in the spec and deploy again",
    "FirstBlockIsPast": "round 0 would begin at block {firstBlock}, and this is block {blockNumber} already; deploy "
    "again with a later first block",
    "InvalidParameters": "the contract refuses the spec's numbers {parameters}; correct the spec and deploy again",
    "NoBatchOfOwn": "the node {voter} has no batch in round {round}, and only who has one judges it",
    "NoBatches": "round {round} has no batches to draw from; nobody audits it",
    "NoPolicyCommitted": "the node {node} committed no policy for round {round}, so it cannot submit in it; commit one "
    "for a coming round",
    "NoSuchBatch": "there is no batch {index}: the chain holds {count}; was the chain reset?",
    "NoSuchStage": "there is no stage {stage}: the stages are 1 and 2",
    "NodeNotActive": "the node {node} is not active: not registered, exiting, or without its full bond; look at its "
    "status, and register it or top its bond up",
    "NodeNotSettled": "something of the node {node} is overdue; settle it first",
    "NotOwnerOrOperator": "{caller} is neither the owner nor the operator of the node {node}; use its key, or let the "
    "owner set this operator",
    "NotStarted": "round 0 begins at block {firstBlock}, and this is block {blockNumber}; wait",
    "OtherBeaconClock": "the beacon's rounds begin with block {firstBlock} and have {roundBlocks} blocks, and those of "
    "Rounds do not; deploy both with one spec",
    "PolicyAlreadyCommitted": "the node {node} has committed a policy for round {round} already ({policy}), and it "
    "cannot be replaced",
    "RoundHasBegun": "round {round} has begun (this is round {current}), and a policy is committed before; commit one "
    "for the next round",
    "RoundIsOver": "round {round} is over: this is round {current}; the batch came too late and earns nothing",
    "RoundNotBegun": "round {round} has not begun: this is round {current}; wait",
    "RoundTooFarAhead": "round {round} is too far ahead of round {current}: a policy is committed at most two rounds "
    "before; wait",
    "WrongAcc": "the verdicts on round {round} are about other batches ({given}) than this chain has ({expected}): "
    "they were found before a reorganization; judge them again",
    "WrongBeacon": "what was sent was made with the beacon {given}, and this chain's of round {round} is {expected}: "
    "made for another chain, or before a reorganization; make it again",
    "WrongSlots": "a batch has 1 to {maxSlots} slots, and {slots} were given; set a number in between",
    "ZeroManifest": "the manifest's digest of round {round} is zero; this is a fault of the client",
    "ZeroPolicy": "the policy's digest of round {round} is zero; this is a fault of the client",
    "ZeroRoot": "the tree's root of round {round} is zero; this is a fault of the client",
    # Audits
    "BatchIsClosed": "batch {index} is closed: its round is final, or it was proven false; nothing more can be proven "
    "about it",
    "EmptyWindow": "the window of {voter} over round {round}, stage {stage}, holds no batch to judge; there is nothing "
    "to commit",
    "NotAPart": "only Disputes and Proofs may do this, not {caller}",
    "NotTheAuditsOf": "Nodes names {audits} as its Audits, which is another contract; deploy again, with nothing else "
    "using the key",
    "NodeNotBonded": "the node {node} has no locked bond (withdrawn, slashed or never registered); register it first",
    "NotFinal": "this has to wait for round {due}, when the batches are final, and this is round {current}",
    "NotInStage2": "batch {index} is not disputed, so in stage 2 nothing can be said about it (verdict {verdict}); "
    "this is "
    "a fault of the client",
    "NotInThisRound": "this could be done in round {due} only, and this is round {current}",
    "NothingToReveal": "the voter {voter} has no verdicts of round {round}, stage {stage}, that wait to be revealed",
    "VerdictsAlreadyCommitted": "the verdicts of {voter} on round {round}, stage {stage}, are committed already, and "
    "cannot be replaced",
    "AnswersTooLong": "the answers take {length} bytes, and there can be {most}; this is a fault of the client",
    "VerdictsTooLong": "the verdicts have bits beyond a window of {size} batches; this is a fault of the client",
    "WrongReveal": "what is revealed hashes to {revealed}, and {committed} was committed; reveal what was committed",
    "ZeroCommitment": "the commitment of {voter} for round {round} is zero; this is a fault of the client",
    # Disputes
    "AlreadyDisputed": "batch {index} was disputed about {about} already, by {disputer}; nothing is left to do",
    "InvalidTerms": "the contract refuses the fees {terms}: none may be more than the bond of {bond} coins, and a "
    "dispute has to cost something; correct the spec and deploy again",
    "NoBounty": "no part of a bounty for batch {index} waits for {voter}; nothing is left to do",
    "NoDispute": "nobody has a bond locked in a dispute of batch {index} about {about}; nothing is left to do",
    "NotDisputable": "batch {index} cannot be disputed: stage 1 did not accept it, or it is closed",
    "NothingAnswered": "the node of batch {index} accepted no batch {about} in stage 1, so nothing it said about that "
    "can be disputed",
    "NothingToSettle": "the node {node} owes nothing for round {round} that is due (batch {index}); nothing is left "
    "to do",
    "NotNodes": "only Nodes pays in here, not {caller}",
    "SettleFirst": "batch {index} was rejected and its node {node} is not slashed yet; settle that first",
    "WrongDisputeBond": "the bond of a dispute is exactly {bond} coins, and {value} were sent; send that amount",
    # Fraud proofs
    "ChunkIsFalse": "the chunk has {length} bytes and should have {expected}; prove that instead",
    "LengthIsFalse": "the completion has {n} records, and 1 to {maxNewTokens} are allowed; prove that instead",
    "NotAPadLeaf": "position {position} is no pad leaf: the batch has {completions} completions; name one behind them",
    "NothingFalse": "what was shown is as it has to be (position {position}); nothing is proven",
    "NotInTree": "the proof leads to the root {computed}, and the batch's is {root}; the bytes are not the node's",
    "PositionOutsideTree": "position {position} is outside of a tree of {levels} levels; this is a fault of the client",
    "PositionTooLarge": "there is no position {position}: there are {count}; this is a fault of the client",
    "RecordOutsideChunk": "there is no record {position} in a chunk of {length} bytes; this is a fault of the client",
    "WrongPathLength": "a path of {length} hashes was given, and this tree has {levels} levels; this is a fault of the "
    "client",
    # Rewards and SapoToken
    "AlreadyClaimed": "the node {node} was paid for round {round} already; nothing is left to do",
    "InvalidSchedule": "the contract refuses the schedule {schedule}: the pools of all rounds together may be at most "
    "the "
    "supply; correct the spec and deploy again",
    "NothingToClaim": "the node {node} earned nothing in round {round}",
    "TooManyRounds": "{count} rounds cannot be claimed at once; claim at most {most}",
    "ERC20InsufficientAllowance": "{spender} may move {allowance} of these tokens, and {needed} are needed; approve "
    "more",
    "ERC20InsufficientBalance": "{sender} has {balance} of these tokens, and {needed} are needed",
    "ERC20InvalidApprover": "tokens cannot be approved by {approver}; use a real address",
    "ERC20InvalidReceiver": "tokens cannot be sent to {receiver}; name a real address",
    "ERC20InvalidSender": "tokens cannot be sent from {sender}; use a real address",
    "ERC20InvalidSpender": "tokens cannot be approved for {spender}; name a real address",
    "SafeERC20FailedOperation": "the token {token} refused the transfer; this is no SapoToken, so check the deployment",
    # BlockhashBeacon and DrandBeacon
    "InvalidBeaconClock": "a round of {roundBlocks} blocks is too short to have a beacon; set round_blocks to 4 or "
    "more in the spec and deploy again",
    "InvalidDrandClock": "drand cannot have this clock: genesis {genesis}, period {period}, margin {margin} seconds; "
    "correct what was said of drand and deploy again",
    "InvalidGroupKey": "this is no key of a drand group, or the chain lacks the precompiles of EIP-2537 that its "
    "signatures need; check the key, or deploy with --beacon blockhash",
    "InvalidSignature": "what was given is not drand's signature of its round {drandRound}, which round {round} waits "
    "for; ask another relay",
    "NoBlockhash": "the chain gives no hash of block {blockNumber} any more, so round {round} has no beacon",
    "NotRequested": "nobody poked in round {round}, so no drand round was fixed for it; poke first",
    "TooEarly": "the beacon of round {round} can be captured from the block after its first, {blockNumber}, on; wait "
    "one block",
    "TooLate": "the beacon of round {round} could be captured, or asked for, up to block {lastBlock}; the round is "
    "void",
}

# Parts of what providers answer to a read, lower case, where the same question will have an answer later, or elsewhere;
# and codes that they give to it (EIP-1474: internal error, limit exceeded; over a rate).
PASSING = (
    "header not found",
    "missing trie node",
    "block not found",
    "unknown block",
    "timed out",
    "timeout",
    "too many requests",
    "rate limit",
    "limit exceeded",
    "capacity",
    "try again",
    "temporarily",
    "unavailable",
    "internal error",
    "syncing",
    "indexing",
)
PASSING_CODES = frozenset({-32603, -32005, -32016})

# Parts of what nodes answer to a send or a read, lower case, and what they mean.
RPC_ERRORS = {
    "insufficient funds": "the account has too little coin for this transaction; send it some and try again",
    "nonce too low": "this transaction, or another one with its nonce, was mined already; look which before anything "
    "is sent again",
    "nonce too high": "transactions before this one are missing on the chain; was it reset?",
    "already imported": "the chain has this very transaction already and will mine it; wait",
    "already known": "the chain has this very transaction already and will mine it; wait",
    "replacement transaction underpriced": "another transaction of this key waits with the same nonce, and this one "
    "pays too little to replace it; wait, or raise the fee",
    "less than block base fee": "the fee offered is below what a block asks for now; wait until it asks less",
    "underpriced": "the fee offered is too low for this chain's nodes; raise the cap",
    "intrinsic gas too low": "the transaction has too little gas to begin with; this is a fault of the client",
    "exceeds block gas limit": "the transaction needs more gas than a block of this chain has",
    "exceeds the configured cap": "the RPC refuses transactions this expensive; lower the fee cap, or use another RPC",
    "method not found": "this RPC does not know a method that is needed; use another one",
    "header not found": "the RPC does not know that block (yet); try again",
    "missing trie node": "the RPC does not keep the state of that block any more; ask again, or use one that keeps old "
    "state (an archive node)",
    "historical state": "the RPC does not keep the state of that block any more; ask again, or use one that keeps old "
    "state (an archive node)",
    "no signer available": "the RPC holds no key of that account; use a keystore",
    "unknown account": "the RPC holds no key of that account; use a keystore",
}
