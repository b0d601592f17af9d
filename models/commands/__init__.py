"""Commands on models, one module each, with `add_flags(parser)` and `run(options)`; `shared` has what they share."""
