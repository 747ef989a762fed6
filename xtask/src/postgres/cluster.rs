//! Makes a database cluster and supervises its server. Durability stays on, as in production:
//! what an acknowledged write means is the point of running a real database here.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::Signal;

use super::postmaster::{Postmaster, clear_leftover};
use super::{Account, Binaries};
use crate::process::{self, Child, POLL_INTERVAL};
use crate::signals::Interrupt;

/// Name of the superuser and of the database that the URL leads to.
const SUPERUSER: &str = "postgres";

/// Random bytes of a password.
const PASSWORD_BYTES: usize = 24;

/// How long the start may take: after a crash it includes the replay of the log.
const START_PATIENCE: Duration = Duration::from_secs(300);

/// How long a fast stop may take: it writes a checkpoint.
const FAST_STOP_PATIENCE: Duration = Duration::from_secs(60);

/// How long an immediate stop may take.
const IMMEDIATE_STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Lines of the log that an error message shows.
const LOG_LINES: usize = 15;

/// Settings of every cluster. Durability is named here so that no file can switch it off.
const SETTINGS: [&str; 5] = [
    "fsync=on",
    "full_page_writes=on",
    "synchronous_commit=on",
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
];

/// A folder with one cluster: the data, the password beside it, the log, and a lock.
pub(crate) struct Home {
    folder: PathBuf,
    /// Held as long as this value lives; ends with the program, however it ends.
    _lock: File,
}

impl Home {
    /// Opens or makes a folder, for this program alone. Stops a server that a killed run left on it.
    ///
    /// # Errors
    /// It cannot be written, Postgres could not reach it, or another run uses it.
    pub(crate) fn open(folder: &Path, account: &Account) -> anyhow::Result<Self> {
        let hint = "is the folder writable for the user who runs this?";
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}; {hint}", folder.display()))?;
        if let Some(barrier) = account.barrier(folder) {
            bail!(
                "Postgres does not run as root, and its account cannot enter {} to reach {}",
                barrier.display(),
                folder.display()
            );
        }
        let path = folder.join("lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .with_context(|| format!("cannot write {}; {hint}", path.display()))?;
        lock.try_lock().map_err(|_| {
            anyhow::anyhow!(
                "another run of this command uses {}: stop it first, with Ctrl-C in its terminal",
                folder.display()
            )
        })?;
        let home = Self {
            folder: folder.to_owned(),
            _lock: lock,
        };
        // With the lock in hand: whoever still serves this folder was left behind.
        clear_leftover(&home.data())?;
        Ok(home)
    }

    /// Where the cluster is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The log of the running server; the log of the run before is kept beside it.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Removes the data.
    pub(crate) fn erase(&self) -> anyhow::Result<()> {
        if self.data().exists() {
            std::fs::remove_dir_all(self.data())
                .with_context(|| format!("cannot remove {}", self.data().display()))?;
        }
        Ok(())
    }

    /// Makes the cluster if there is none yet. It appears under its name only when it is whole.
    fn create(
        &self,
        binaries: &Binaries,
        account: &Account,
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
        let unfinished = self.folder.join("data.unfinished");
        if unfinished.exists() {
            std::fs::remove_dir_all(&unfinished)?;
        }
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&unfinished)
            .with_context(|| format!("cannot create {}", unfinished.display()))?;
        account.give(&unfinished)?;
        let password = self.folder.join("password");
        write_secret(&password, &random_password()?)?;
        account.give(&password)?;
        let log = self.folder.join("initdb.log");
        let output = File::create(&log)?;
        let mut initdb = binaries.command("initdb");
        initdb
            .args(["--no-locale", "--encoding=UTF8", "--auth=scram-sha-256"])
            .arg(format!("--username={SUPERUSER}"))
            .arg("--pwfile")
            .arg(&password)
            .arg("--pgdata")
            .arg(&unfinished)
            .stdout(output.try_clone()?)
            .stderr(output);
        account.apply(&mut initdb);
        let status = process::run("initdb", &mut initdb, interrupt)?;
        anyhow::ensure!(status.success(), "initdb failed:\n{}", last_lines(&log));
        std::fs::rename(&unfinished, self.data())?;
        Ok(())
    }

    /// Fails if the data cannot be served by these programs.
    fn check(&self, binaries: &Binaries, account: &Account) -> anyhow::Result<()> {
        let path = self.data().join("PG_VERSION");
        let found = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        anyhow::ensure!(
            found.trim() == binaries.version.major.to_string(),
            "{} was made by PostgreSQL {}, but {} is used now: use that version again, or remove \
             the folder (or give --fresh) to start over",
            self.data().display(),
            found.trim(),
            binaries.version
        );
        account.check_owner(&self.data())
    }
}

/// A running server. Dropping it stops it.
pub(crate) struct Cluster {
    server: Child,
    port: u16,
    password: String,
    stopped: bool,
}

impl Cluster {
    /// Starts the server on a port of the loopback interface, after making the cluster if need be.
    ///
    /// # Errors
    /// The data cannot be used by these programs, the server does not become ready, or this program
    /// was told to stop meanwhile.
    pub(crate) fn start(
        home: &Home,
        binaries: &Binaries,
        account: &Account,
        port: u16,
        settings: &[&str],
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let data = home.data();
        if data.exists() {
            home.check(binaries, account)?;
        } else {
            home.create(binaries, account, interrupt)?;
        }
        let password = std::fs::read_to_string(home.folder.join("password"))
            .context("cannot read the password of the database")?;
        let log = home.log();
        if log.exists() {
            std::fs::rename(&log, home.folder.join("log.before"))?;
        }
        let output = File::create(&log)?;
        let mut command = binaries.command("postgres");
        command.arg("-D").arg(&data).arg("-p").arg(port.to_string());
        for setting in SETTINGS.iter().chain(settings) {
            command.arg("-c").arg(setting);
        }
        command.stdout(output.try_clone()?).stderr(output);
        account.apply(&mut command);
        let mut cluster = Self {
            server: Child::spawn("postgres", &mut command)?,
            port,
            password,
            stopped: false,
        };
        cluster.await_ready(&data, &log, interrupt)?;
        Ok(cluster)
    }

    /// Where clients connect, password included.
    pub(crate) fn url(&self) -> String {
        format!(
            "postgres://{SUPERUSER}:{}@127.0.0.1:{}/{SUPERUSER}",
            self.password, self.port
        )
    }

    /// The same for the client programs, as variables: what stands in a command line is public.
    pub(crate) fn variables(&self) -> [(&'static str, String); 5] {
        [
            ("PGHOST", "127.0.0.1".to_owned()),
            ("PGPORT", self.port.to_string()),
            ("PGUSER", SUPERUSER.to_owned()),
            ("PGPASSWORD", self.password.clone()),
            ("PGDATABASE", SUPERUSER.to_owned()),
        ]
    }

    /// Whether the server ended by itself.
    pub(crate) fn ended(&mut self) -> anyhow::Result<bool> {
        Ok(self.server.ended()?.is_some())
    }

    /// Stops the server: running transactions are rolled back, acknowledged ones are on disk.
    ///
    /// # Errors
    /// It had to be killed, or ended with a failure.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        self.shut_down()
    }

    fn await_ready(
        &mut self,
        data: &Path,
        log: &Path,
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_PATIENCE;
        loop {
            interrupt.check()?;
            if let Some(status) = self.server.ended()? {
                bail!("Postgres did not start ({status}):\n{}", last_lines(log));
            }
            match Postmaster::read(data)? {
                Some(Postmaster { pid, ready: true }) if pid == self.server.pid() => return Ok(()),
                Some(_) | None => {}
            }
            if Instant::now() >= deadline {
                bail!(
                    "Postgres is not ready after {} s:\n{}",
                    START_PATIENCE.as_secs(),
                    last_lines(log)
                );
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn shut_down(&mut self) -> anyhow::Result<()> {
        if std::mem::replace(&mut self.stopped, true) {
            return Ok(());
        }
        if let Some(status) = self.server.ended()? {
            bail!("Postgres ended by itself ({status})");
        }
        match self.server.stop(Signal::INT, FAST_STOP_PATIENCE)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("Postgres stopped with a failure ({status})"),
            None => {
                // Nothing acknowledged is lost by this: the next start replays the log.
                self.server.stop(Signal::QUIT, IMMEDIATE_STOP_PATIENCE)?;
                bail!(
                    "Postgres did not stop in {} s",
                    FAST_STOP_PATIENCE.as_secs()
                )
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = self.shut_down() {
            eprintln!("{error:#}");
        }
    }
}

/// A password nobody can guess, of letters and digits that need no escaping in a URL.
fn random_password() -> anyhow::Result<String> {
    let mut bytes = [0; PASSWORD_BYTES];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Writes a file that only its owner may read, replacing whatever was there.
fn write_secret(path: &Path, secret: &str) -> anyhow::Result<()> {
    if path.exists() {
        std::fs::remove_file(path)?;
    }
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(secret.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The end of a log, for an error message.
fn last_lines(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.len().saturating_sub(LOG_LINES);
    format!(
        "{}\n(from {})",
        lines.get(first..).unwrap_or_default().join("\n"),
        log.display()
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()))
    }

    /// The second run on one folder is refused, and the folder is free again after the first.
    #[test]
    fn folder_serves_one_run_at_a_time() {
        let folder = scratch("lock");
        let account = Account::Own { uid: 0 };
        let first = Home::open(&folder, &account).unwrap();
        let second = Home::open(&folder, &account).map(|_| ());
        drop(first);
        let third = Home::open(&folder, &account).map(|_| ());
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(second.unwrap_err().to_string().contains("another run"));
        assert!(third.is_ok());
    }

    /// A secret is readable by its owner alone, also where a wider file of that name was.
    #[test]
    fn secret_is_for_its_owner_alone() {
        let path = scratch("secret");
        std::fs::write(&path, "old").unwrap();
        write_secret(&path, "new").unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((mode & 0o777, text.as_str()), (0o600, "new"));
    }

    /// Passwords are long, need no escaping, and differ.
    #[test]
    fn passwords_differ() {
        let (one, other) = (random_password().unwrap(), random_password().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.len(), 2 * PASSWORD_BYTES);
        assert!(one.chars().all(|c| c.is_ascii_hexdigit()));
    }

    /// An error message shows the end of the log, not the whole of it.
    #[test]
    fn end_of_the_log_is_shown() {
        let path = scratch("log");
        let text: String = (1..=20).map(|line| format!("line {line}\n")).collect();
        std::fs::write(&path, text).unwrap();
        let shown = last_lines(&path);
        std::fs::remove_file(&path).unwrap();
        assert!(shown.starts_with("line 6\n"), "{shown}");
        assert!(shown.contains("line 20\n"), "{shown}");
    }
}
