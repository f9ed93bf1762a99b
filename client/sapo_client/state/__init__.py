"""What a node keeps on disk: settings, its home, reports, small databases."""
