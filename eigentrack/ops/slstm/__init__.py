"""sLSTM."""
