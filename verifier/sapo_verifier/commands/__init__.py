"""One file for each command of `sapo-verify`."""
