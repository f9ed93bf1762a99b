"""Parts for tests: a chain, a network, a daemon, batches without a model, hostile servers, who still runs."""
