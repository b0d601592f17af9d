"""Compiled steps: the calls that a step makes are captured once, then replayed."""
