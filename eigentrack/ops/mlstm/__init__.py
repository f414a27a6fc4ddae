"""mLSTM."""
