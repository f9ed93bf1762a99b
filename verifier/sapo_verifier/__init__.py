"""What anybody needs to audit the network: protocol objects, tasks, block store, chain reader, checks. No torch."""

__version__ = "0.1.0"
