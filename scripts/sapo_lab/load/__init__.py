"""What a node needs of its chain and its peers, by the number of nodes in the network."""
