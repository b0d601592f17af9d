"""Compiled steps: a step is captured once, as the calls that it makes, and replayed."""
