//! The steps of the demonstration, in the order in which they are shown.

use tarndb::Context;

use super::data::TABLES;
use super::{Demo, numbers, texts, writers};
use crate::args::{ImportPlan, ImportShape, TableFiles};
use crate::command::{import, inspect};
use crate::failure::Failure;
use crate::render::human_duration;

/// Writer processes, and the updates that each makes.
const WRITERS: usize = 4;
const UPDATES: usize = 10;

/// What the writers are about to change: planes, their seats before, and the versions then.
struct Before {
    tailnums: Vec<String>,
    seats: Vec<i64>,
    database_version: u64,
    table_version: u64,
}

impl Demo<'_> {
    /// Everything, in order.
    pub(super) async fn show(&mut self) -> Result<(), Failure> {
        self.load().await?;
        self.query().await?;
        self.fail_half_way().await?;
        let before = self.write_at_once().await?;
        self.travel(&before).await?;
        self.log().await?;
        self.read_published().await
    }

    async fn load(&mut self) -> Result<(), Failure> {
        self.heading("1. Five tables of real data, loaded in one transaction")?;
        self.say(&format!(
            "Flights from New York City in 2013, from {}",
            self.data.folder.display()
        ))?;
        let files = TABLES
            .map(|(table, file)| format!("--table {table}={file}"))
            .join(" \\\n    ");
        self.say(&format!(
            "$ tarndb import --create --null NA \\\n    {files}"
        ))?;
        let tables = TABLES.map(|(table, file)| TableFiles {
            table: table.to_owned(),
            files: vec![self.data.folder.join(file)],
        });
        let plan = ImportPlan {
            tables: tables.to_vec(),
            create: true,
            schema: None,
            shape: ImportShape {
                null: Some("NA".to_owned()),
                delimiter: b',',
                header: true,
            },
        };
        let before = self.version().await?;
        import::run(&plan, &self.database, &self.interrupt, self.output).await?;
        let after = self.version().await?;
        Self::must(after == before + 1, "the import is one database version")?;
        self.say(&format!(
            "One record moved the database from version {before} to {after}."
        ))
    }

    async fn query(&mut self) -> Result<(), Failure> {
        self.heading("2. A query across the five tables")?;
        self.sql(
            "SELECT a.name AS airline, count(*) AS flights,\n\
             \x20      round(avg(f.arr_delay), 1) AS delay_min,\n\
             \x20      round(avg(f.year - p.year), 1) AS plane_age,\n\
             \x20      round(avg(w.wind_speed), 1) AS wind_mph,\n\
             \x20      round(avg(d.alt)) AS alt_ft\n\
             FROM flights f\n\
             JOIN airlines a ON a.carrier = f.carrier\n\
             JOIN planes p ON p.tailnum = f.tailnum\n\
             JOIN weather w ON w.origin = f.origin AND w.time_hour = f.time_hour\n\
             JOIN airports d ON d.faa = f.dest\n\
             GROUP BY a.name ORDER BY flights DESC LIMIT 5",
        )
        .await
    }

    async fn fail_half_way(&mut self) -> Result<(), Failure> {
        self.heading("3. A transaction over two tables that fails half-way")?;
        let version = self.version().await?;
        self.sql("BEGIN").await?;
        self.sql("INSERT INTO airlines VALUES ('ZZ', 'Nowhere Air')")
            .await?;
        self.sql("UPDATE flights SET carrier = 'ZZ' WHERE carrier = 'HA'")
            .await?;
        const SEEN: &str = "SELECT (SELECT count(*) FROM airlines WHERE carrier = 'ZZ') AS airlines,\n\
                            \x20      (SELECT count(*) FROM flights WHERE carrier = 'ZZ') AS flights";
        self.say("The transaction itself sees what it did:")?;
        self.sql(SEEN).await?;
        let mut other = self.database.session()?;
        let elsewhere = numbers(&mut other, SEEN).await?;
        other.close().await?;
        self.say(&format!(
            "Another session sees {} airlines and {} flights of it.\nNow a statement that fails:",
            elsewhere.first().copied().unwrap_or(-1),
            elsewhere.get(1).copied().unwrap_or(-1)
        ))?;
        let failed = self
            .sql("UPDATE planes SET seats = CAST('many' AS BIGINT)")
            .await;
        let Err(failure) = failed else {
            return Err(Failure::bug("a statement that must fail did not"));
        };
        self.say(&failure.to_string())?;
        Self::must(
            self.runner.session.is_failed(),
            "the error fails the transaction",
        )?;
        self.sql("ROLLBACK").await?;
        self.say("Nothing of it is there, in either table:")?;
        self.sql(SEEN).await?;
        let nothing = vec![0, 0];
        let after = self.numbers(SEEN).await?;
        Self::must(
            elsewhere == nothing && after == nothing,
            "nothing is visible",
        )?;
        Self::must(
            self.version().await? == version,
            "the database version did not move",
        )?;
        self.say(&format!("The database is still at version {version}."))
    }

    async fn write_at_once(&mut self) -> Result<Before, Failure> {
        self.heading("4. Four processes write to one table at the same time")?;
        let before = self.before().await?;
        let scripts: Vec<String> = before
            .tailnums
            .iter()
            .map(|tailnum| {
                format!("UPDATE planes SET seats = seats + 1 WHERE tailnum = '{tailnum}';\n")
                    .repeat(UPDATES)
            })
            .collect();
        self.say(&format!(
            "{WRITERS} processes, each {UPDATES} times, each for a plane of its own; all rows lie in one file:"
        ))?;
        self.echo("UPDATE planes SET seats = seats + 1 WHERE tailnum = '..'")?;
        let started = Context::system().monotonic();
        let (url, storage) = (self.url.clone(), self.storage.clone());
        tokio::task::block_in_place(|| writers::run_all(&url, &storage, &scripts))?;
        let time = Context::system().monotonic().saturating_sub(started);
        let commits = self.version().await? - before.database_version;
        self.say(&format!(
            "All processes succeeded, with {commits} commits in {}.",
            human_duration(time)
        ))?;
        self.say(&format!("Seats before: {:?}. Now:", before.seats))?;
        self.sql(&seats_query(&before.tailnums, "planes")).await?;
        let after = self.seats(&before.tailnums).await?;
        let added: Vec<i64> = after
            .iter()
            .zip(&before.seats)
            .map(|(a, b)| a - b)
            .collect();
        Self::must(
            commits == (WRITERS * UPDATES) as u64,
            "every update is a commit",
        )?;
        Self::must(added == vec![UPDATES as i64; WRITERS], "no update was lost")?;
        self.say("No update was lost, and none had to fail for another.")?;
        Ok(before)
    }

    async fn travel(&mut self, before: &Before) -> Result<(), Failure> {
        self.heading("5. Time travel")?;
        self.database.publish().await?;
        self.say(&format!(
            "Before the four processes the database was at version {}, and planes at its\nversion {}:",
            before.database_version, before.table_version
        ))?;
        let path = self.table_path("planes").await?;
        let scan = format!("delta_scan('{path}', version => {})", before.table_version);
        let query = seats_query(&before.tailnums, &scan);
        self.sql(&query).await?;
        let seats = self.column(&query).await?;
        Self::must(seats == before.seats, "the old version has the old seats")
    }

    async fn log(&mut self) -> Result<(), Failure> {
        self.heading("6. The log: every line is one commit")?;
        self.say("$ tarndb log --limit 6")?;
        inspect::log(&self.database, 6, self.output).await?;
        let first = self.database.log(usize::MAX).await?;
        self.say(&format!(
            "{} transactions in all, back to the creation.",
            first.len()
        ))
    }

    async fn read_published(&mut self) -> Result<(), Failure> {
        self.heading("7. The published tables, read by their paths as any Delta reader does")?;
        self.database.publish().await?;
        let mut scans = Vec::new();
        let mut counts = Vec::new();
        for (table, _) in TABLES {
            let path = self.table_path(table).await?;
            let select = format!("SELECT '{table}' AS name, count(*) AS rows FROM");
            scans.push(format!("{select} delta_scan('{path}')"));
            counts.push(format!("{select} {table}"));
        }
        let ordered = |parts: &[String]| parts.join(" UNION ALL\n") + "\nORDER BY rows DESC";
        self.sql(&ordered(&scans)).await?;
        let by_path = texts(&mut self.runner.session, &ordered(&scans), 1).await?;
        let in_database = texts(&mut self.runner.session, &ordered(&counts), 1).await?;
        Self::must(by_path == in_database, "both ways give the same counts")?;
        self.say("The database counts the same rows.")?;
        self.say("")?;
        self.say("$ tarndb status")?;
        inspect::status(&self.database, false, self.output).await
    }

    async fn version(&self) -> Result<u64, Failure> {
        Ok(self.database.snapshot().await?.version().0)
    }

    async fn before(&mut self) -> Result<Before, Failure> {
        let query = format!(
            "SELECT tailnum FROM planes WHERE seats IS NOT NULL ORDER BY tailnum LIMIT {WRITERS}"
        );
        let tailnums = texts(&mut self.runner.session, &query, 0).await?;
        let seats = self.seats(&tailnums).await?;
        let snapshot = self.database.snapshot().await?;
        let table_version = snapshot.table("planes").await?.version.0;
        Ok(Before {
            tailnums,
            seats,
            database_version: snapshot.version().0,
            table_version,
        })
    }

    async fn seats(&mut self, tailnums: &[String]) -> Result<Vec<i64>, Failure> {
        self.column(&seats_query(tailnums, "planes")).await
    }

    /// The seats that a query of `seats_query` gives, in its order.
    async fn column(&mut self, query: &str) -> Result<Vec<i64>, Failure> {
        let seats = texts(&mut self.runner.session, query, 1).await?;
        let number = |text: &String| text.parse::<i64>().ok();
        seats
            .iter()
            .map(number)
            .collect::<Option<_>>()
            .ok_or_else(|| Failure::bug("no seats"))
    }
}

fn seats_query(tailnums: &[String], source: &str) -> String {
    let list = tailnums
        .iter()
        .map(|t| format!("'{t}'"))
        .collect::<Vec<_>>()
        .join(", ");
    format!("SELECT tailnum, seats FROM {source}\nWHERE tailnum IN ({list}) ORDER BY tailnum")
}
