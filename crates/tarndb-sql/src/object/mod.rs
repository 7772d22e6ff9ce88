//! Statements about views, tags, versions of the database and definitions.
//!
//! Invariant: each runs in a transaction like any other statement and sees its changes.
//! Spec: docs/guide/sql.md, "Views", "Versions of the database".

pub(crate) mod show_create;
pub(crate) mod version;
pub(crate) mod view;

use tarndb_db::Transaction;

use crate::dml::Change;
use crate::error::SqlError;
use crate::outcome::Outcome;
use crate::parser::{ObjectStatement, ParsedStatement};
use crate::session::Session;

impl ObjectStatement {
    /// Whether it is satisfied by what others created or dropped meanwhile, or means whatever is
    /// there when it runs.
    pub(crate) fn is_conditional(&self) -> bool {
        match self {
            Self::CreateView(create) => create.if_not_exists || create.or_replace,
            Self::CreateTag { if_not_exists, .. } => *if_not_exists,
            Self::DropView { if_exists, .. }
            | Self::RenameView { if_exists, .. }
            | Self::DropTag { if_exists, .. } => *if_exists,
            Self::CommentView { .. } | Self::RestoreDatabase { .. } => true,
            _ => false,
        }
    }
}

/// Runs a statement of this module: the outcome, and what the user should be told.
pub(crate) async fn run(
    session: &Session,
    txn: &mut Transaction,
    statement: &ObjectStatement,
    parsed: &ParsedStatement,
) -> Result<(Outcome, Vec<String>), SqlError> {
    if let Some(outcome) = show(session, txn, statement).await? {
        return Ok((outcome, Vec::new()));
    }
    let mut change = session.change(txn, &parsed.spelling);
    let (tag, notices) = define(&mut change, statement).await?;
    Ok((Outcome::Done { tag }, notices))
}

async fn show(
    session: &Session,
    txn: &mut Transaction,
    statement: &ObjectStatement,
) -> Result<Option<Outcome>, SqlError> {
    let scope = session.scope(txn);
    Ok(Some(match statement {
        ObjectStatement::ShowViews { schema } => view::show_views(&scope, schema.as_deref())?,
        ObjectStatement::ShowTags => version::show_tags(&scope)?,
        ObjectStatement::ShowTransactions { limit } => {
            version::show_transactions(&scope, *limit).await?
        }
        ObjectStatement::ShowColumns { name } => show_create::columns(&scope, name).await?,
        ObjectStatement::ShowCreateTable { name } => show_create::table(&scope, name).await?,
        ObjectStatement::ShowCreateView { name } => show_create::view(&scope, name)?,
        ObjectStatement::RestoreDatabase { to } => {
            let newest = txn.snapshot().catalog();
            let version = version::resolve(scope.db, newest, to).await?;
            version::restored(&txn.restore_database(version).await?)?
        }
        _ => return Ok(None),
    }))
}

async fn define(
    change: &mut Change<'_>,
    statement: &ObjectStatement,
) -> Result<(&'static str, Vec<String>), SqlError> {
    match statement {
        ObjectStatement::CreateView(create) => {
            let done = change.create_view(create).await?;
            let notice = (!done).then(|| format!("{} exists already", create.name));
            Ok(("CREATE VIEW", notice.into_iter().collect()))
        }
        ObjectStatement::DropView { names, if_exists } => {
            let missing = change.drop_views(names, *if_exists)?;
            let notices = missing.iter().map(|name| missing_view(name)).collect();
            Ok(("DROP VIEW", notices))
        }
        ObjectStatement::RenameView {
            name,
            if_exists,
            to,
            schema,
        } => {
            let Some((in_schema, view)) = change.view_if(name, *if_exists)? else {
                return Ok(("ALTER VIEW", vec![missing_view(&name.to_string())]));
            };
            let to_schema = schema.as_ref().unwrap_or(&in_schema);
            change.check_schema(to_schema)?;
            let to = (to_schema.as_str(), to.as_ref().unwrap_or(&view).as_str());
            change.txn.rename_view((&in_schema, &view), to)?;
            Ok(("ALTER VIEW", Vec::new()))
        }
        ObjectStatement::CommentView { name, text } => {
            change.comment_view(name, text.as_deref())?;
            Ok(("COMMENT", Vec::new()))
        }
        ObjectStatement::CreateTag {
            name,
            if_not_exists,
            version,
        } => {
            if *if_not_exists && change.txn.catalog().tag(name).is_some() {
                return Ok(("CREATE TAG", vec![format!("tag {name} exists already")]));
            }
            let newest = change.txn.snapshot().catalog();
            let version = match version {
                Some(wanted) => Some(version::resolve(change.db, newest, wanted).await?),
                None => None,
            };
            let version = change.txn.create_tag(name, version).await?;
            let notice = format!("tag {name} is version {version}");
            Ok(("CREATE TAG", vec![notice]))
        }
        ObjectStatement::DropTag { name, if_exists } => {
            match change.txn.catalog().tag(name) {
                Some(_) => change.txn.drop_tag(name)?,
                None if *if_exists => {
                    return Ok(("DROP TAG", vec![format!("tag {name} does not exist")]));
                }
                None => return Err(version::unknown_tag(change.txn.catalog(), name)),
            }
            Ok(("DROP TAG", Vec::new()))
        }
        ObjectStatement::Undrop { name } => {
            let (schema, table) = version::dropped_name(name);
            change.check_schema(schema)?;
            let undropped = change.txn.undrop_table(schema, table);
            undropped.map_err(|error| version::undrop_error(error, name))?;
            Ok(("UNDROP TABLE", Vec::new()))
        }
        _ => Err(SqlError::Internal {
            context: "a statement that defines nothing",
        }),
    }
}

fn missing_view(name: &str) -> String {
    format!("view {name} does not exist")
}
