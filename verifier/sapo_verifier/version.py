"""The version of node, verifier and their package: in one place."""

__version__ = "0.1.0"
