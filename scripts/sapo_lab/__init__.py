"""What the project is tried with: attacks, sweeps, simulations, experiments, benchmarks. Only tests import it."""
