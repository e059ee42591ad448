"""Rules: pure functions from a tool declaration and a finished slot to findings."""
