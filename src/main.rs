//! The server's binary: arguments and exit codes.

fn main() {}
