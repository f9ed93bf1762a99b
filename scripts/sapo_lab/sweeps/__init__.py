"""Long runs that tests are samples of: hostile batches, documents and answers, traffic, and a node's use of memory."""
