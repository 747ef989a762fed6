//! The command line and the one source of the document (ARC-100).

use std::cell::Cell;
use std::io;
use std::path::Path;

use super::super::{Args, Config, DOCUMENT_BYTES_MAX, Error, LogLevel, load, read_file};
use super::{document, variables};

/// Runs the loader over a command line and a variable; the file holds `file`.
fn run(line: &[&str], variable: Option<&str>, file: &[u8]) -> Result<Config, Error> {
    let line = [&["xmtp-backend"], line].concat();
    let args = Args::from_command_line(line)?;
    let environment = |name: &str| {
        let value = variable.filter(|_| name == "XMTP_CONFIG");
        value.map(Into::into)
    };
    load(&args, &environment, &|_: &Path| Ok(file.to_vec()))
}

/// A document that can be told from the others.
fn named(identifier: &str) -> String {
    document(&[&format!("server.identifier = \"{identifier}\"")])
}

/// Goal: exactly one source is taken. Method: all eight combinations (ARC-100).
#[test]
fn exactly_one_source_is_taken() {
    let (option, variable, file) = (named("option"), named("variable"), named("file"));
    let inline = ["--config", option.as_str()];
    let path = ["--config-file", "backend.toml"];
    let both = [inline, path].concat();
    let identifier = |line: &[&str], variable: Option<&str>| {
        run(line, variable, file.as_bytes()).map(|config| config.server.identifier)
    };
    assert_eq!(identifier(&inline, None).unwrap(), "option");
    assert_eq!(identifier(&path, None).unwrap(), "file");
    assert_eq!(identifier(&[], Some(&variable)).unwrap(), "variable");
    assert_eq!(identifier(&inline, Some(&variable)).unwrap(), "option");
    assert!(matches!(identifier(&[], None), Err(Error::NoSource)));
    for (line, variable) in [
        (&both[..], None),
        (&both, Some(variable.as_str())),
        (&path, Some(&variable)),
    ] {
        assert!(matches!(identifier(line, variable), Err(Error::TwoSources)));
    }
}

/// Goal: an empty inline document counts as given. Method: it fails on its required keys, and
/// conflicts with a file.
#[test]
fn empty_inline_document_counts_as_given() {
    for (line, variable) in [(&[][..], Some("")), (&["--config", ""], None)] {
        let error = run(line, variable, b"").unwrap_err();
        assert!(matches!(error, Error::Missing { ref key } if key == "server.identifier"));
        assert_eq!(error.exit_status(), 1);
    }
    let error = run(&["--config-file", "x"], Some(""), named("file").as_bytes()).unwrap_err();
    assert!(matches!(error, Error::TwoSources));
}

/// Goal: source errors name the options, show no document and exit as a usage error.
#[test]
fn source_error_names_the_options() {
    let missing = run(&[], None, b"").unwrap_err();
    let conflict = run(&["--config-file", "x"], Some("canary = 1"), b"").unwrap_err();
    for option in ["--config", "--config-file", "XMTP_CONFIG"] {
        assert!(missing.to_string().contains(option), "{missing}");
        assert!(conflict.to_string().contains(option), "{conflict}");
    }
    assert!(!format!("{conflict}{conflict:?}").contains("canary"));
    assert_eq!((missing.exit_status(), conflict.exit_status()), (2, 2));
}

/// Goal: a malformed command line is a usage error that names at most the option. Method: arguments
/// that hold a canary; the parser's own message would quote them.
#[test]
fn usage_error_shows_no_argument() {
    let cases: [(&[&str], &str); 6] = [
        (&["canary"], "command line"),
        (&["--canary"], "command line"),
        (&["--log-level", "canary"], "--log-level"),
        (&["--log-level", "INFO"], "--log-level"),
        (&["--config-file"], "--config-file"),
        (
            &["--config", "canary = 1", "--config", "canary = 1"],
            "--config",
        ),
    ];
    for (line, option) in cases {
        let error = run(line, None, b"").unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("configuration error: {option}: ")),
            "{text}"
        );
        assert!(!format!("{text}{error:?}").contains("canary"), "{error:?}");
        assert_eq!(error.exit_status(), 2);
    }
}

/// Goal: help and version are no failures, and help tells the options without the variable's value.
#[test]
fn help_is_no_failure() {
    let help = run(&["--help"], Some("canary"), b"").unwrap_err();
    for word in [
        "--config <TOML>",
        "XMTP_CONFIG",
        "--config-file <PATH>",
        "--log-level <LEVEL>",
    ] {
        assert!(help.to_string().contains(word), "{help}");
    }
    assert!(!help.to_string().contains("canary"));
    let version = run(&["--version"], None, b"").unwrap_err();
    assert!(version.to_string().contains(env!("CARGO_PKG_VERSION")));
    assert_eq!((help.exit_status(), version.exit_status()), (0, 0));
}

/// Goal: the command line's level beats the document's. Method: every level over a fixed one.
#[test]
fn command_line_level_beats_the_document() {
    let text = document(&[r#"server.log_level = "warn""#]);
    let level = |line: &[&str]| run(line, Some(&text), b"").unwrap().server.log_level;
    assert_eq!(level(&[]), LogLevel::Warn);
    for (word, expected) in LogLevel::WORDS {
        assert_eq!(level(&["--log-level", word]), expected);
    }
}

/// Goal: a file that cannot be used is named. Method: unreadable, not UTF-8, and too large by one.
#[test]
fn unusable_file_is_named() {
    let args = Args::from_command_line(["xmtp-backend", "--config-file", "/etc/b.toml"]).unwrap();
    let load_file = |read: &dyn Fn(&Path) -> io::Result<Vec<u8>>| load(&args, &|_| None, read);
    let unreadable = load_file(&|_| Err(io::ErrorKind::NotFound.into())).unwrap_err();
    assert!(matches!(unreadable, Error::FileUnreadable { .. }));
    let binary = load_file(&|_| Ok(vec![0xFF])).unwrap_err();
    assert!(matches!(binary, Error::FileNotText { .. }));
    for error in [unreadable, binary] {
        assert!(error.to_string().contains("/etc/b.toml"), "{error}");
        assert_eq!(error.exit_status(), 1);
    }
    let comment = |bytes: usize| {
        let mut text = named("file").into_bytes();
        text.push(b'#');
        text.resize(bytes, b'x');
        text
    };
    load_file(&|_| Ok(comment(DOCUMENT_BYTES_MAX))).unwrap();
    let large = load_file(&|_| Ok(comment(DOCUMENT_BYTES_MAX + 1))).unwrap_err();
    assert!(matches!(large, Error::DocumentTooLarge { .. }));
}

/// Goal: the file is read at startup from its path. Method: the real reader on a real file and on a
/// path that is not there.
#[test]
fn real_reader_reads_the_path() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("tests/fixtures/mission-example.toml");
    let args = Args::from_command_line(["x", "--config-file", path.to_str().unwrap()]).unwrap();
    let environment = variables(&[("XMTP_DATABASE_URL", "postgres://db/xmtp")]);
    assert_eq!(
        load(&args, &environment, &read_file)
            .unwrap()
            .server
            .identifier,
        "org.example.xmtp"
    );
    assert_eq!(
        read_file(&root.join("absent")).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
}

/// Goal: a file is not read before the sources are known to be one. Method: count the reads.
#[test]
fn conflicting_file_is_never_read() {
    let reads = Cell::new(0);
    let args = Args::from_command_line(["x", "--config-file", "y", "--config", ""]).unwrap();
    let read = |_: &Path| {
        reads.set(reads.get() + 1);
        Ok(Vec::new())
    };
    load(&args, &|_| None, &read).unwrap_err();
    assert_eq!(reads.get(), 0);
}
