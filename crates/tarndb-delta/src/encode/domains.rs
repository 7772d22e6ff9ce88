//! Domain metadata of the commit being encoded.
//!
//! Invariant: at most one action per domain; what this build does not know stays as it is. A
//! domain whose name begins with `delta.` or is TarnDB's own is never set by a user.
//! Spec: Delta PROTOCOL, "Domain Metadata"; docs/format/delta.md, "Domains and clustering".

use std::collections::BTreeMap;

use tarndb_table::Commit;

use crate::action::DomainMetadata;
use crate::error::DeltaError;
use crate::state::DeltaState;

use super::DOMAIN;

/// Domains that the commit sets or (`None`) removes.
#[derive(Debug, Default)]
pub(super) struct Domains(BTreeMap<String, Option<String>>);

impl Domains {
    /// Sets or removes a user's domain.
    ///
    /// # Errors
    /// `SystemDomain`.
    pub(super) fn set_by_user(
        &mut self,
        domain: &str,
        configuration: Option<&str>,
    ) -> Result<(), DeltaError> {
        let own = domain.eq_ignore_ascii_case(DOMAIN);
        if own || domain.is_empty() || domain.to_ascii_lowercase().starts_with("delta.") {
            return Err(DeltaError::SystemDomain {
                domain: domain.to_owned(),
            });
        }
        self.set(domain, configuration.map(str::to_owned));
        Ok(())
    }

    /// Sets or removes any domain.
    pub(super) fn set(&mut self, domain: &str, configuration: Option<String>) {
        self.0.insert(domain.to_owned(), configuration);
    }

    /// The actions. A domain that is removed and not there needs none; a tombstone keeps the
    /// configuration that it ends.
    pub(super) fn actions(self, commit: &Commit<'_>) -> Result<Vec<DomainMetadata>, DeltaError> {
        let there = match commit.head {
            Some(head) => DeltaState::of(head)?.domains.clone(),
            None => imbl::OrdMap::new(),
        };
        let actions = self.0.into_iter().filter_map(|(domain, configuration)| {
            let removed = configuration.is_none();
            let configuration = configuration.or_else(|| there.get(&domain).cloned())?;
            Some(DomainMetadata {
                domain,
                configuration,
                removed,
            })
        });
        Ok(actions.collect())
    }
}
