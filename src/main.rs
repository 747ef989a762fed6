//! The server's binary: arguments, exit statuses, nothing else.
//!
//! 0 after a signal, 1 when the server could not start or had to give up, 2 for a command line that
//! cannot be used.

use std::process::ExitCode;

use xmtp_backend::config::{self, Args, Error};
use xmtp_backend::run;

fn main() -> ExitCode {
    let config = Args::from_command_line(std::env::args_os())
        .and_then(|args| config::load(&args, &|name| std::env::var_os(name), &config::read_file));
    match config {
        Ok(config) => match run::run(config) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            if let Error::Help { text } = &error {
                print!("{text}");
            } else {
                eprintln!("{error}");
            }
            ExitCode::from(error.exit_status())
        }
    }
}
