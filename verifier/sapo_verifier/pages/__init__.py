"""The auditor's pages (`sapo-verify serve`), on localhost: what the chain says, and beside it what this machine finds.

What a page shows is made by the functions that the commands use; here is only how it is laid out. Installed with
`pip install 'sapo-network[pages]'`.
"""
