"""The protocol's test vectors: tests/vectors/protocol.json, made from the code."""
