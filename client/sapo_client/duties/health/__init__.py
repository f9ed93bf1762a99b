"""Is a node well? A file for each subject: what was read of it, and sentences that say what is wrong and what to do."""
