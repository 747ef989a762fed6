//! The project's tasks: one subcommand per promise.

fn main() {}
