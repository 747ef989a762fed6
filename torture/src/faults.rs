//! What goes wrong: servers killed, frozen and restarted, connections cut, replay paused, PostgreSQL
//! stopped in the middle of everything.

use std::time::Duration;

use harness::{Random, Replicated, TestDatabase};
use rustix::process::Signal;
use sqlx::AssertSqlSafe;
use tokio::time::{Instant, sleep};

use crate::instance::Instance;
use crate::ledger::Ledger;

/// Between two faults, at most.
const PAUSE_MS: u64 = 3_000;

/// How long a paused or frozen part stays so, at most.
const FROZEN_MS: u64 = 2_500;

/// One kind of fault. Its name is what the summary counts.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    Freeze,
    Restart,
    CutTailers,
    CutAll,
    PauseReplay,
    RestartPrimary,
    RestartStandby,
}

const FAULTS: [Fault; 8] = [
    Fault::Kill,
    Fault::Freeze,
    Fault::Restart,
    Fault::CutTailers,
    Fault::CutAll,
    Fault::PauseReplay,
    Fault::RestartPrimary,
    Fault::RestartStandby,
];

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Self::Kill => "server killed",
            Self::Freeze => "server frozen",
            Self::Restart => "server restarted",
            Self::CutTailers => "tailers cut",
            Self::CutAll => "connections cut",
            Self::PauseReplay => "replay paused",
            Self::RestartPrimary => "primary crashed",
            Self::RestartStandby => "standby crashed",
        }
    }
}

/// Makes faults.
pub(crate) struct Faults<'r> {
    databases: &'r mut Replicated,
    database: &'r TestDatabase,
    instances: &'r [Instance; 2],
    ledger: &'r Ledger,
    random: Random,
}

impl<'r> Faults<'r> {
    /// Faults of these servers and databases.
    pub(crate) fn new(
        databases: &'r mut Replicated,
        database: &'r TestDatabase,
        instances: &'r [Instance; 2],
        ledger: &'r Ledger,
        random: Random,
    ) -> Self {
        Self {
            databases,
            database,
            instances,
            ledger,
            random,
        }
    }

    /// Makes one fault after the other for this long, each kind in turn, in an order that changes.
    /// Everything runs again when this returns.
    pub(crate) async fn run(&mut self, time: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + time;
        let mut due: Vec<Fault> = Vec::new();
        while Instant::now() < until {
            self.rest().await?;
            if due.is_empty() {
                due.extend(FAULTS);
            }
            let place = self.random.below(due.len() as u64);
            let fault = due.swap_remove(usize::try_from(place)?);
            self.ledger.fault(fault.name());
            self.make(fault).await?;
        }
        self.rest().await
    }

    /// A while without a new fault, in which whatever ended is started again.
    async fn rest(&mut self) -> anyhow::Result<()> {
        let pause = Duration::from_millis(500 + self.random.below(PAUSE_MS));
        let until = Instant::now() + pause;
        while Instant::now() < until {
            for instance in self.instances {
                instance.keep_running().await?;
            }
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    async fn make(&mut self, fault: Fault) -> anyhow::Result<()> {
        let instance = &self.instances[usize::from(self.random.once_in(2))];
        let frozen = Duration::from_millis(self.random.below(FROZEN_MS));
        match fault {
            Fault::Kill => instance.signal(Signal::KILL).await,
            Fault::Freeze => {
                instance.signal(Signal::STOP).await;
                sleep(frozen).await;
                instance.signal(Signal::CONT).await;
            }
            Fault::Restart => instance.stop().await,
            Fault::CutTailers => self.cut("xmtp-backend tailer").await,
            Fault::CutAll => self.cut("xmtp-backend%").await,
            Fault::PauseReplay => {
                self.databases.pause_replay().await;
                sleep(frozen).await;
                self.databases.resume_replay().await;
            }
            Fault::RestartPrimary => self.databases.crash_primary().await,
            Fault::RestartStandby => self.databases.crash_standby().await,
        }
        Ok(())
    }

    /// Ends the database sessions of servers, on the primary and on the standby.
    async fn cut(&self, application: &str) {
        let statement = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
              WHERE application_name LIKE '{application}'"
        );
        let mut primary = self.database.connection().await;
        let mut standby = self.databases.standby_connection(self.database).await;
        for connection in [&mut primary, &mut standby] {
            // The session that asks may be lost as well.
            let _ = sqlx::raw_sql(AssertSqlSafe(statement.clone()))
                .execute(connection)
                .await;
        }
    }
}
