"""Bundles: a batch in one file, with what proves the chain's facts about it (docs/protocol.md, section 17).

Reading one needs no network; gathering what goes into it needs an RPC (gathering.py).
"""
