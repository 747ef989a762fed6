//! Child processes. Each one leads a process group of its own: Ctrl-C reaches only this program,
//! which then stops its children in the right order and waits for them. No child outlives its
//! [`Child`] value, not even after a panic.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal};

use crate::signals::Interrupt;

/// How often a wait looks again.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long a command that was asked to stop may take before it is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// A running child and the group it leads.
pub(crate) struct Child {
    name: String,
    child: std::process::Child,
    pid: Pid,
    status: Option<ExitStatus>,
}

impl Child {
    /// Starts a command with no standard input.
    pub(crate) fn spawn(name: &str, command: &mut Command) -> anyhow::Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| {
                format!("cannot start {name} ({})", command.get_program().display())
            })?;
        let pid = Pid::from_child(&child);
        Ok(Self {
            name: name.to_owned(),
            child,
            pid,
            status: None,
        })
    }

    /// The process id.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// The exit status, if the child has ended.
    pub(crate) fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self
                .child
                .try_wait()
                .with_context(|| format!("cannot wait for {}", self.name))?;
        }
        Ok(self.status)
    }

    /// Waits for the end, at most this long.
    pub(crate) fn wait_for(&mut self, patience: Duration) -> anyhow::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + patience;
        loop {
            let status = self.ended()?;
            if status.is_some() || Instant::now() >= deadline {
                return Ok(status);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Sends a signal to the child alone, and waits for its end at most this long.
    pub(crate) fn stop(
        &mut self,
        signal: Signal,
        patience: Duration,
    ) -> anyhow::Result<Option<ExitStatus>> {
        if self.ended()?.is_none() {
            // A failure means that it has just ended, which the wait below will see.
            let _ = rustix::process::kill_process(self.pid, signal);
        }
        self.wait_for(patience)
    }

    /// Waits until the command ends. When this program is told to stop first, stops the command
    /// with all that it started, and fails.
    fn finish(mut self, interrupt: &Interrupt) -> anyhow::Result<ExitStatus> {
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if let Err(interrupted) = interrupt.check() {
                let _ = rustix::process::kill_process_group(self.pid, Signal::TERM);
                self.wait_for(STOP_PATIENCE)?;
                // Whatever the command left behind in its group ends with it.
                let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
                return Err(interrupted.into());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Runs a command to its end, its output shown.
///
/// # Errors
/// It cannot be started, or this program was told to stop. A failing status is no error here.
pub(crate) fn run(
    name: &str,
    command: &mut Command,
    interrupt: &Interrupt,
) -> anyhow::Result<ExitStatus> {
    interrupt.check()?;
    Child::spawn(name, command)?.finish(interrupt)
}

/// Says whether a process runs whose command line names this path. A zombie does not count.
pub(crate) fn runs_with(pid: Pid, path: &Path) -> bool {
    command_line(pid).is_some_and(|line| line.contains(&*path.to_string_lossy()))
}

/// The command line of any process, from `/proc` where there is one, else from `ps`.
fn command_line(pid: Pid) -> Option<String> {
    let pid = pid.as_raw_nonzero();
    let line = if Path::new("/proc/self/cmdline").exists() {
        std::fs::read(format!("/proc/{pid}/cmdline")).ok()?
    } else {
        let pid = pid.to_string();
        Command::new("ps")
            .args(["-ww", "-o", "command=", "-p", &pid])
            .output()
            .ok()?
            .stdout
    };
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    (!line.trim().is_empty()).then_some(line)
}

/// Signals a process that is no child of this program until it is gone or the time is over.
/// Returns whether it is gone.
pub(crate) fn stop_stranger(pid: Pid, path: &Path, signal: Signal, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    if runs_with(pid, path) {
        let _ = rustix::process::kill_process(pid, signal);
    }
    while runs_with(pid, path) {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    true
}

/// The exit status with which this program passes on how a command ended.
pub(crate) fn exit_status(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(1);
    // A status that does not fit must not turn into success.
    u8::try_from(code).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// Success, failure and death by a signal come out as a shell would report them.
    #[test]
    fn status_of_a_command_is_passed_on() {
        let interrupt = Interrupt::install().unwrap();
        for (script, expected) in [("exit 0", 0), ("exit 101", 101), ("kill -TERM $$", 143)] {
            let status = run("sh", &mut shell(script), &interrupt).unwrap();
            assert_eq!(exit_status(status), expected, "{script}");
        }
    }

    /// A child that ignores the request to stop ends with its value, and so does what it started.
    #[test]
    fn no_child_outlives_its_value() {
        let mark = format!("{}.5", 100_000 + std::process::id());
        let script = format!("trap '' TERM; sleep {mark} & echo $!; wait");
        let mut child = Child::spawn("sh", shell(&script).stdout(Stdio::piped())).unwrap();
        let mut said = String::new();
        BufReader::new(child.child.stdout.take().unwrap())
            .read_line(&mut said)
            .unwrap();
        let grandchild = Pid::from_raw(said.trim().parse().unwrap()).unwrap();
        let pid = child.pid();
        assert_eq!(
            child
                .stop(Signal::TERM, Duration::from_millis(100))
                .unwrap(),
            None
        );
        assert!(runs_with(pid, Path::new(&mark)));
        drop(child);
        assert!(!runs_with(pid, Path::new(&mark)));
        let deadline = Instant::now() + Duration::from_secs(5);
        while runs_with(grandchild, Path::new("sleep")) && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
        assert!(!runs_with(grandchild, Path::new("sleep")));
    }
}
