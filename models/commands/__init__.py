"""Commands on models, a module each, with `add_flags(parser)` and `run(options)`; `shared` has what all commands share."""
