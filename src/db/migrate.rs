//! Bringing the schema up to date at startup (ARC-005, ARC-006, ARC-007).

use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Connection as _};

use super::locks::{GlobalLock, LOCK_CLASS};
use super::pools::session;
use super::{Database, Error};

/// PostgreSQL 17: the first with a timeout for whole transactions (ARC-007, ARC-051).
pub const MIN_SERVER_VERSION: u32 = 17_00_00;

/// How long to wait before another instance is asked again whether it is done. One blocking lock
/// call could be neither interrupted nor exempted from the statement timeout.
const LOCK_RETRY: Duration = Duration::from_millis(200);

static MIGRATIONS: Migrator = Migrator {
    locking: false,
    ..sqlx::migrate!("./migrations")
};

/// Why the schema could not be brought up to date.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MigrateError {
    /// The server is older than [`MIN_SERVER_VERSION`].
    #[error("PostgreSQL 17 or later is needed, the server reports version {found}")]
    ServerTooOld {
        /// Its version number, as `server_version_num` has it.
        found: u32,
    },
    /// The database was made by another form of this migration. Nothing was changed; development
    /// databases have to be created anew (ARC-006).
    #[error("migration {version} was applied in another form: create the database anew")]
    Changed {
        /// The migration's number.
        version: i64,
    },
    /// The database has a migration that this build does not know.
    #[error("migration {version} is unknown to this build: run a newer one")]
    Unknown {
        /// The migration's number.
        version: i64,
    },
    /// The primary cannot be reached, or does not let the server in.
    #[error("cannot connect with database.url: {0}")]
    Connect(Error),
    /// The database failed.
    #[error("database migration failed: {0}")]
    Database(#[from] Error),
}

impl Database {
    /// Applies the embedded migrations to the primary, one instance at a time.
    ///
    /// # Errors
    ///
    /// Any [`MigrateError`]; the schema is then as it was.
    pub async fn migrate(primary: &PgConnectOptions) -> Result<(), MigrateError> {
        // Long-running DDL is legitimate: no statement timeout.
        let options = session(primary, Duration::ZERO, "migrate");
        let connected = options.connect().await;
        let mut connection = connected.map_err(|error| MigrateError::Connect(error.into()))?;
        check_version(connection.server_version_num().unwrap_or_default())?;
        while !try_lock(&mut connection).await? {
            tokio::time::sleep(LOCK_RETRY).await;
        }
        let applied = apply(&mut connection).await;
        // The session holds the lock: closing it is what releases it.
        connection.close().await.map_err(Error::from)?;
        applied
    }
}

/// Refuses a server that is too old, before anything is read or changed on it. One that does not
/// tell its version counts as version 0.
fn check_version(found: u32) -> Result<(), MigrateError> {
    if found < MIN_SERVER_VERSION {
        return Err(MigrateError::ServerTooOld { found });
    }
    Ok(())
}

async fn try_lock(connection: &mut PgConnection) -> Result<bool, Error> {
    Ok(sqlx::query_scalar!(
        r#"SELECT pg_try_advisory_lock($1::int, $2::int) AS "locked!""#,
        LOCK_CLASS,
        GlobalLock::Migration.number(),
    )
    .fetch_one(connection)
    .await?)
}

async fn apply(connection: &mut PgConnection) -> Result<(), MigrateError> {
    use sqlx::migrate::MigrateError as Failure;
    match MIGRATIONS.run(connection).await {
        Ok(()) => Ok(()),
        Err(Failure::VersionMismatch(version)) => Err(MigrateError::Changed { version }),
        Err(Failure::VersionMissing(version)) => Err(MigrateError::Unknown { version }),
        Err(Failure::Execute(error) | Failure::ExecuteMigration(error, _)) => {
            Err(Error::from(error).into())
        }
        Err(_) => Err(Error::Refused {
            state: super::SqlState::NONE,
        }
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 17.0 is the first that will do, previews of it included; the rule is on the number that the
    /// server reports, at the limit and on either side (ARC-007).
    #[test]
    fn postgresql_17_is_the_first_that_will_do() {
        for (found, will_do) in [
            (0, false),
            (15_00_13, false),
            (16_99_99, false),
            (17_00_00, true),
            (17_00_10, true),
            (18_00_00, true),
        ] {
            let expected = if will_do {
                Ok(())
            } else {
                Err(MigrateError::ServerTooOld { found })
            };
            assert_eq!(check_version(found), expected);
        }
    }
}
