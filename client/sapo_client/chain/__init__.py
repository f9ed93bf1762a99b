"""What a node sends to the chain: each transaction once, the bond, what anybody may do."""
