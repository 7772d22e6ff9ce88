//! `Session`: statements one after the other, with transactions.
//!
//! Invariant: outside BEGIN every statement is a transaction of its own and runs again by
//! itself after a retryable conflict, on a new snapshot, until its time is up. Inside one, a
//! failed statement ends the transaction's use: everything is refused until ROLLBACK (or
//! COMMIT, which then rolls back), or ROLLBACK TO a savepoint. What was not committed is never visible to anybody.
//! Spec: docs/sql/transactions.md.

use std::sync::Arc;

use futures::FutureExt as _;
use tarndb_db::{Database, Transaction, TxnOptions};
use tarndb_delta::DeltaCodec;
use tarndb_types::{TxnId, TxnRef};

mod prepared;
mod rerun;
mod savepoint;

use crate::dml::Change;
use crate::engine::Engine;
use crate::error::SqlError;
use crate::name::Spelling;
use crate::object::version::{AS_OF, AsOf};
use crate::options::SessionOptions;
use crate::outcome::Outcome;
use crate::parser::{self, Explain, ParsedStatement, Savepoint, Show, Statement};
use crate::query::{Scope, Storage};
use crate::statement::{is_conditional, reads_nothing};
use prepared::PreparedStatements;
pub(crate) use rerun::Rerun;
use savepoint::Savepoints;

use crate::timeout::Committing;
use crate::{
    attach, copy, copy_from, explain, native, native_alter, object, restore, setting, show,
    timeout, upkeep, vacuum,
};

/// What the session is in the middle of.
#[derive(Debug)]
enum Mode {
    /// Nothing: each statement commits by itself.
    Auto,
    /// A transaction.
    Open(Box<Transaction>),
    /// A transaction that failed; it is kept while a savepoint may bring it back, else its
    /// changes are gone already.
    Failed(Option<Box<Transaction>>),
}

/// One user's conversation with a database. Not shared: statements run one at a time.
#[derive(Debug)]
pub struct Session {
    pub(crate) db: Database,
    pub(crate) engine: Engine,
    pub(crate) storage: Storage,
    pub(crate) options: SessionOptions,
    mode: Mode,
    savepoints: Savepoints,
    prepared: PreparedStatements,
    last_txn: Option<TxnRef>,
    pub(crate) as_of: Option<AsOf>,
    pub(crate) notices: Vec<String>,
    committing: Committing,
}

impl Session {
    /// A session over an open database.
    ///
    /// # Errors
    /// The folder for spilling cannot be used.
    ///
    /// # Cost
    /// No store request.
    pub fn new(db: Database, options: SessionOptions) -> Result<Self, SqlError> {
        let engine = Engine::new(&db, &options)?;
        let storage = Storage {
            options: options.storage.clone(),
            context: db.store().context().clone(),
            codec: Arc::new(DeltaCodec::default()),
        };
        let (mode, last_txn, notices) = (Mode::Auto, None, Vec::new());
        Ok(Self {
            savepoints: Savepoints::default(),
            prepared: PreparedStatements::default(),
            db,
            engine,
            storage,
            options,
            mode,
            last_txn,
            as_of: None,
            notices,
            committing: Committing::default(),
        })
    }

    /// Cuts a script into statements; see [`parser::parse`].
    ///
    /// # Errors
    /// The first statement that does not parse.
    pub fn parse(text: &str) -> Result<Vec<ParsedStatement>, SqlError> {
        parser::parse(text)
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// Whether a transaction is open, failed or not.
    pub fn in_transaction(&self) -> bool {
        !matches!(self.mode, Mode::Auto)
    }

    /// Whether the open transaction has failed, so that only ROLLBACK helps.
    pub fn is_failed(&self) -> bool {
        matches!(self.mode, Mode::Failed(_))
    }

    /// The open transaction, else the last one that was committed here.
    pub fn transaction(&self) -> Option<TxnRef> {
        match &self.mode {
            Mode::Open(txn) => Some(txn.reference()),
            _ => self.last_txn,
        }
    }

    /// Chooses the id of the next transaction.
    pub fn set_txn_id(&mut self, id: Option<tarndb_types::Uuid>) {
        self.options.txn_id = id;
    }

    /// What the user should be told since the last call.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Runs a script and gives the outcome of its last statement; stops at the first error.
    ///
    /// # Errors
    /// As [`Self::execute`]; a script that does not parse runs not at all, and fails an open
    /// transaction.
    pub async fn sql(&mut self, text: &str) -> Result<Outcome, SqlError> {
        let statements = parser::parse(text).inspect_err(|_| self.fail())?;
        let mut outcome = Outcome::Done { tag: "" };
        for statement in &statements {
            outcome = Box::pin(self.execute(statement)).await?;
        }
        Ok(outcome)
    }

    /// Runs one statement. Rows are read from the outcome, later and independently.
    ///
    /// # Errors
    /// Whatever went wrong; nothing of the statement is visible then, and an open transaction
    /// has failed. `SqlError::Db(DbError::Pending)`: the outcome of a commit is open.
    ///
    /// # Cost
    /// Outside a transaction one GET finds what was committed since (none for INSERT .. VALUES
    /// and queries without tables); a change adds its data files and one PUT of its record.
    pub async fn execute(&mut self, statement: &ParsedStatement) -> Result<Outcome, SqlError> {
        self.committing.clear();
        let Some(limit) = self.options.statement_timeout else {
            return Box::pin(self.execute_now(statement)).await;
        };
        let context = self.db.store().context().clone();
        let committing = self.committing.clone();
        let work = self.execute_now(statement);
        timeout::limited(&context, limit, &committing, work).await
    }

    async fn execute_now(&mut self, statement: &ParsedStatement) -> Result<Outcome, SqlError> {
        self.check_as_of(&statement.statement)
            .inspect_err(|_| self.fail())?;
        match &statement.statement {
            Statement::Begin { isolation } => {
                return self
                    .begin(isolation.unwrap_or(self.options.isolation))
                    .await;
            }
            Statement::Commit => return Box::pin(self.commit()).await,
            Statement::Rollback => return Ok(self.rollback()),
            Statement::Savepoint(savepoint) => return self.savepoint(savepoint),
            Statement::Prepared(prepared) if !self.is_failed() => {
                return Box::pin(self.prepared(prepared)).await;
            }
            Statement::Upkeep(upkeep) if !self.in_transaction() => {
                return Box::pin(upkeep::run(self, upkeep, &statement.spelling)).await;
            }
            Statement::Vacuum(statement) if !self.in_transaction() => {
                return Box::pin(vacuum::run(self, statement)).await;
            }
            _ => {}
        }
        match std::mem::replace(&mut self.mode, Mode::Failed(None)) {
            Mode::Failed(kept) => {
                self.mode = Mode::Failed(kept);
                Err(SqlError::TransactionFailed)
            }
            Mode::Open(mut txn) => {
                // The mode stays failed when the call is dropped half-way.
                let ran = Box::pin(self.run(&mut txn, statement)).await;
                self.mode = Mode::Open(txn);
                ran.inspect_err(|_| self.fail())
            }
            Mode::Auto => {
                self.mode = Mode::Auto;
                self.engine.functions.pins.clear();
                if let Some(tag) = self.change_as_of(&statement.statement).boxed().await? {
                    return Ok(Outcome::Done { tag });
                }
                if let Statement::Convert { url, partitions } = &statement.statement {
                    let (notice, outcome) = native::convert(&self.storage, url, partitions)
                        .boxed()
                        .await?;
                    self.notices.push(notice);
                    return Ok(outcome);
                }
                if let Some((notices, outcome)) =
                    attach::run(&self.db, &statement.statement).boxed().await?
                {
                    self.notices.extend(notices);
                    return Ok(outcome);
                }
                match native::changed(&statement.statement) {
                    Some(path) if matches!(statement.statement, Statement::AlterTable { .. }) => {
                        Box::pin(self.alter_by_path(path, &statement.statement)).await
                    }
                    Some(path) => Box::pin(self.change_by_path(path, statement)).await,
                    None => Box::pin(self.autocommit(statement)).await,
                }
            }
        }
    }

    /// Ends the session; an open transaction is rolled back.
    ///
    /// # Errors
    /// None at present. Does not close the database.
    pub async fn close(mut self) -> Result<(), SqlError> {
        self.mode = Mode::Auto;
        Ok(())
    }

    /// Marks an open transaction as failed and forgets its changes, but for those before a
    /// savepoint: what every error of [`Self::execute`] does. For callers that meet an error
    /// while they read the rows of an outcome.
    pub fn fail(&mut self) {
        self.mode = match std::mem::replace(&mut self.mode, Mode::Auto) {
            Mode::Open(txn) => Mode::Failed((!self.savepoints.is_empty()).then_some(txn)),
            mode => mode,
        };
    }

    fn savepoint(&mut self, statement: &Savepoint) -> Result<Outcome, SqlError> {
        let done = self.do_savepoint(statement);
        if done.is_err() {
            self.fail();
        }
        done
    }

    fn do_savepoint(&mut self, statement: &Savepoint) -> Result<Outcome, SqlError> {
        let tag = match (statement, &mut self.mode) {
            (_, Mode::Auto) => {
                return Err(SqlError::NoTransaction);
            }
            (Savepoint::RollbackTo(name), Mode::Open(txn) | Mode::Failed(Some(txn))) => {
                self.savepoints.back_to(name, txn)?;
                self.mode = match std::mem::replace(&mut self.mode, Mode::Auto) {
                    Mode::Failed(Some(txn)) => Mode::Open(txn),
                    mode => mode,
                };
                statement.tag()
            }
            (_, Mode::Failed(_)) => return Err(SqlError::TransactionFailed),
            (Savepoint::Set(name), Mode::Open(txn)) => {
                self.savepoints.set(name, txn);
                statement.tag()
            }
            (Savepoint::Release(name), Mode::Open(_)) => {
                self.savepoints.release(name)?;
                statement.tag()
            }
        };
        Ok(Outcome::Done { tag })
    }

    async fn begin(&mut self, isolation: tarndb_txn::Isolation) -> Result<Outcome, SqlError> {
        match self.mode {
            Mode::Open(_) => {
                self.fail();
                return Err(SqlError::TransactionOpen);
            }
            Mode::Failed(_) => return Err(SqlError::TransactionFailed),
            Mode::Auto => {}
        }
        self.engine.functions.pins.clear();
        let options = TxnOptions {
            isolation,
            id: self.take_id(),
            ..Default::default()
        };
        self.savepoints.clear();
        let txn = match &self.as_of {
            Some(as_of) => as_of.snapshot.transaction(options),
            None => self.db.begin(options).await?,
        };
        self.mode = Mode::Open(Box::new(txn));
        Ok(Outcome::Done { tag: "BEGIN" })
    }

    async fn commit(&mut self) -> Result<Outcome, SqlError> {
        self.savepoints.clear();
        match std::mem::replace(&mut self.mode, Mode::Auto) {
            Mode::Auto => {
                self.notices.push("there is no open transaction".to_owned());
                Ok(Outcome::Done { tag: "COMMIT" })
            }
            Mode::Failed(_) => {
                self.notices
                    .push("the transaction had failed: it was rolled back".to_owned());
                Ok(Outcome::Done { tag: "ROLLBACK" })
            }
            Mode::Open(txn) => {
                Box::pin(self.commit_txn(*txn)).await?;
                Ok(Outcome::Done { tag: "COMMIT" })
            }
        }
    }

    fn rollback(&mut self) -> Outcome {
        if let Mode::Auto = self.mode {
            self.notices.push("there is no open transaction".to_owned());
        }
        self.savepoints.clear();
        self.mode = Mode::Auto;
        Outcome::Done { tag: "ROLLBACK" }
    }

    /// Commits and remembers what to tell.
    pub(crate) async fn commit_txn(&mut self, txn: Transaction) -> Result<(), SqlError> {
        // What a table by path held cannot be judged at the commit.
        let serializable = txn.isolation() == tarndb_txn::Isolation::Serializable;
        if serializable
            && !txn.is_read_only()
            && let Some(path) = self.engine.functions.pins.first()
        {
            return Err(native::not_serializable(&path));
        }
        if let Some(as_of) = self.as_of.as_ref().filter(|_| !txn.is_read_only()) {
            return Err(as_of.refused());
        }
        self.last_txn = Some(txn.reference());
        self.committing.begin();
        // After a conflict the statement runs again, and may be cancelled again.
        let committing = self.committing.clone();
        let committed = txn
            .commit()
            .boxed()
            .await
            .inspect_err(|_| committing.clear())?;
        self.last_txn = Some(committed.txn);
        for notice in committed.notices {
            if !self.notices.contains(&notice) {
                self.notices.push(notice);
            }
        }
        Ok(())
    }

    pub(crate) fn take_id(&mut self) -> Option<TxnId> {
        self.options.txn_id.take().map(TxnId)
    }

    /// The open transaction, taken out so that it can be used beside the session.
    pub(crate) fn take_open(&mut self) -> Result<Option<Box<Transaction>>, SqlError> {
        match std::mem::replace(&mut self.mode, Mode::Failed(None)) {
            Mode::Open(txn) => Ok(Some(txn)),
            Mode::Failed(kept) => {
                self.mode = Mode::Failed(kept);
                Err(SqlError::TransactionFailed)
            }
            Mode::Auto => {
                self.mode = Mode::Auto;
                Ok(None)
            }
        }
    }

    /// Puts a transaction back after its use went well.
    pub(crate) fn put_open(&mut self, txn: Box<Transaction>) {
        self.mode = Mode::Open(txn);
    }

    async fn autocommit(&mut self, statement: &ParsedStatement) -> Result<Outcome, SqlError> {
        if let Some(outcome) = self.without_transaction(&statement.statement)? {
            return Ok(outcome);
        }
        let id = self.take_id();
        let mut cached = reads_nothing(&statement.statement);
        let mut retry = Rerun::new(self);
        retry.set_conditional(is_conditional(&statement.statement));
        loop {
            let options = TxnOptions {
                isolation: self.options.isolation,
                id,
                cached_snapshot: cached,
                ..Default::default()
            };
            let mut txn = match &self.as_of {
                Some(as_of) => as_of.snapshot.transaction(options),
                None => retry.begin(options).await?,
            };
            let ran = Box::pin(self.run(&mut txn, statement)).await;
            let error = match ran {
                Ok(outcome) if txn.is_read_only() => return Ok(outcome),
                Ok(outcome) => match Box::pin(self.commit_txn(txn)).await {
                    Ok(()) => return Ok(outcome),
                    Err(error) => error,
                },
                // What an old view made fail may be right in the present one.
                Err(_) if cached => {
                    cached = false;
                    continue;
                }
                Err(error) => error,
            };
            cached = false;
            retry.after(error).await?;
        }
    }

    /// Changes a table by path, and runs again after a conflict with another writer of it.
    async fn change_by_path(
        &mut self,
        path: &str,
        statement: &ParsedStatement,
    ) -> Result<Outcome, SqlError> {
        let mut retry = Rerun::new(self);
        loop {
            self.engine.functions.pins.clear();
            let options = TxnOptions {
                isolation: self.options.isolation,
                ..Default::default()
            };
            // Only to read the tables of the database that the statement names.
            let txn = retry.begin(options).await?;
            let scope = self.scope(&txn);
            let ran = match &statement.statement {
                Statement::Restore(to) => native::restore(&self.storage, path, to).boxed().await,
                _ => {
                    let changed = native::change(&scope, &self.options, path, statement).boxed();
                    let changed = changed.await;
                    changed.map(|(tag, rows)| Outcome::Count { tag, rows })
                }
            };
            match ran {
                Ok(outcome) => return Ok(outcome),
                Err(error) => retry.after(error).await?,
            }
        }
    }

    /// Alters a table by path, and again after a conflict with another writer of it.
    async fn alter_by_path(
        &mut self,
        path: &str,
        statement: &Statement,
    ) -> Result<Outcome, SqlError> {
        let Statement::AlterTable {
            if_exists, action, ..
        } = statement
        else {
            return Err(native::not_here(path));
        };
        let mut retry = Rerun::new(self);
        loop {
            let altered = native_alter::alter(&self.storage, path, *if_exists, action).boxed();
            match altered.await {
                Ok(notice) => {
                    self.notices.extend(notice);
                    let tag = action.tag();
                    return Ok(Outcome::Done { tag });
                }
                Err(error) => retry.after(error).await?,
            }
        }
    }

    /// Statements that read no database.
    fn without_transaction(&mut self, statement: &Statement) -> Result<Option<Outcome>, SqlError> {
        match statement {
            Statement::Set { name, .. } | Statement::Reset { name } if name == AS_OF => {
                Err(SqlError::TransactionOpen)
            }
            Statement::Set { name, value } => {
                setting::set(&self.engine, &mut self.options, name, value)?;
                Ok(Some(Outcome::Done { tag: "SET" }))
            }
            Statement::Reset { name } => {
                setting::reset(&self.engine, &mut self.options, name)?;
                Ok(Some(Outcome::Done { tag: "RESET" }))
            }
            Statement::Show(Show::Setting(name)) => self.show_setting(name, None).map(Some),
            Statement::Show(Show::All) => self.show_all(None).map(Some),
            _ => Ok(None),
        }
    }

    fn show_setting(&self, name: &str, txn: Option<&Transaction>) -> Result<Outcome, SqlError> {
        if name == AS_OF {
            return show::text_rows(&[name], vec![vec![self.as_of_text()]]);
        }
        let txn = self.shown_transaction(txn);
        let value = setting::get(&self.engine, &self.options, txn, name)?;
        show::text_rows(&[name], vec![vec![value]])
    }

    fn show_all(&self, txn: Option<&Transaction>) -> Result<Outcome, SqlError> {
        let txn = self.shown_transaction(txn);
        let all = setting::all(&self.engine, &self.options, txn.as_deref());
        let as_of = (AS_OF.to_owned(), self.as_of_text());
        let rows = all.into_iter().chain([as_of]);
        let rows = rows.map(|(name, value)| vec![Some(name), value]);
        show::text_rows(&["name", "value"], rows.collect())
    }

    fn as_of_text(&self) -> Option<String> {
        self.as_of.as_ref().map(|as_of| as_of.text.clone())
    }

    fn shown_transaction(&self, txn: Option<&Transaction>) -> Option<String> {
        let reference = txn.map(Transaction::reference).or(self.last_txn);
        reference.map(|reference| reference.to_string())
    }

    /// Runs a statement in a transaction.
    async fn run(
        &mut self,
        txn: &mut Transaction,
        parsed: &ParsedStatement,
    ) -> Result<Outcome, SqlError> {
        let (statement, spelling) = (&parsed.statement, &parsed.spelling);
        match statement {
            Statement::Query(query) => {
                let scope = self.scope(txn);
                let planned = scope.plan(query, spelling, None).boxed().await?;
                let reads = planned.reads.clone();
                let (schema, stream) = scope.run(planned).boxed().await?;
                reads.note(txn);
                Ok(Outcome::Rows { schema, stream })
            }
            Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Truncate { .. } => {
                let (tag, changed) = Box::pin(self.change(txn, spelling).run(statement)).await?;
                let rows = changed.rows;
                let count = Outcome::Count { tag, rows };
                Ok(changed.returned.unwrap_or(count))
            }
            Statement::Merge(merge) => {
                let mut change = self.change(txn, spelling);
                let report = crate::merge::merge(&mut change, merge).boxed().await?;
                for notice in &report.notices {
                    if !self.notices.contains(notice) {
                        self.notices.push(notice.clone());
                    }
                }
                report.outcome()
            }
            Statement::CreateTable(_)
            | Statement::CloneTable(_)
            | Statement::CreateSchema { .. }
            | Statement::DropSchema { .. }
            | Statement::DropTable { .. }
            | Statement::AlterTable { .. } => {
                let mut change = self.change(txn, spelling);
                let notice = change.notice(statement);
                let (tag, rows) = Box::pin(change.define(statement)).await?;
                self.notices.extend(notice);
                Ok(match rows {
                    Some(rows) => Outcome::Count { tag, rows },
                    None => Outcome::Done { tag },
                })
            }
            Statement::Convert { url, .. } => Err(native::not_here(url)),
            Statement::Attach { .. } | Statement::Detach { .. } => Err(attach::refused()),
            Statement::Explain(explain) => Box::pin(self.explain(txn, explain, spelling)).await,
            Statement::Copy(copy) => {
                let (rows, reads) = copy::copy(&self.scope(txn), copy, spelling).boxed().await?;
                reads.note(txn);
                Ok(Outcome::Count { tag: "COPY", rows })
            }
            Statement::CopyFrom(copy) => Box::pin(copy_from::run(self, txn, copy, spelling)).await,
            Statement::Describe { name } => show::describe(&self.scope(txn), name).boxed().await,
            Statement::DescribeHistory { name, limit } => {
                show::history(&self.scope(txn), name, *limit).boxed().await
            }
            Statement::Show(Show::Tables { schema }) => {
                show::tables(&self.scope(txn), schema.as_deref())
            }
            Statement::Show(Show::Schemas) => show::schemas(&self.scope(txn)),
            Statement::Show(Show::Setting(name)) => self.show_setting(name, Some(txn)),
            Statement::Show(Show::All) => self.show_all(Some(txn)),
            Statement::Set { .. } | Statement::Reset { .. } => self
                .without_transaction(statement)?
                .ok_or(SqlError::Internal {
                    context: "setting a value",
                }),
            Statement::Vacuum(_) => Err(vacuum::refused()),
            Statement::Upkeep(statement) => Err(upkeep::refused(statement)),
            Statement::Restore(statement) => Box::pin(restore::run(self, txn, statement)).await,
            Statement::Object(statement) => {
                let (outcome, notices) = object::run(self, txn, statement, parsed).boxed().await?;
                self.notices.extend(notices);
                Ok(outcome)
            }
            Statement::Begin { .. }
            | Statement::Commit
            | Statement::Rollback
            | Statement::Savepoint(_)
            | Statement::Prepared(_) => Err(SqlError::Internal {
                context: "a transaction inside a transaction",
            }),
        }
    }

    async fn explain(
        &self,
        txn: &mut Transaction,
        explain: &Explain,
        spelling: &Spelling,
    ) -> Result<Outcome, SqlError> {
        if let Statement::Query(_) = explain.statement.as_ref() {
            let (outcome, reads) = explain::query(&self.scope(txn), explain, spelling).await?;
            if explain.analyze {
                reads.note(txn);
            }
            return Ok(outcome);
        }
        let lines = if explain.analyze {
            explain::analyze(&mut self.change(txn, spelling), &explain.statement).await?
        } else {
            let scope = self.scope(txn);
            explain::change(&scope, &explain.statement, &self.options, spelling).await?
        };
        explain::outcome(lines)
    }

    pub(crate) fn scope<'a>(&'a self, txn: &'a Transaction) -> Scope<'a> {
        Scope {
            engine: &self.engine,
            db: &self.db,
            txn,
            storage: &self.storage,
        }
    }

    pub(crate) fn change<'a>(
        &'a self,
        txn: &'a mut Transaction,
        spelling: &'a Spelling,
    ) -> Change<'a> {
        Change {
            engine: &self.engine,
            db: &self.db,
            txn,
            storage: &self.storage,
            options: &self.options,
            spelling,
        }
    }
}
