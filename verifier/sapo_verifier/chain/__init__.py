"""The chain as a client sees it: the deployment file, reads, events, errors in words, deploying."""
