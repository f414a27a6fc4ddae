"""What trained or compiled weights do: spectra, horizon, robustness, the automaton that they compute."""
