//! Proof that a store honours put-if-absent, taken before the first write to a root.
//!
//! Invariant: `Ok` means that this very store refused to create a name that existed and kept
//! the first content. Does not: trust the kind of error alone; it reads the object back.
//! Spec: docs/format/log.md, "What the store must do".

use bytes::Bytes;
use object_store::path::Path;

use crate::error::StoreError;
use crate::store::{PutOutcome, Store};

/// How often an unclear answer is asked again.
const ATTEMPTS: u32 = 5;

impl Store {
    /// Creates a unique name below `dir` twice and requires the second attempt to be refused
    /// and without effect; removes it again. About 4 requests.
    ///
    /// # Errors
    /// [`StoreError::ConditionalPutIgnored`] when the store overwrites; [`StoreError::Unsupported`]
    /// when it has no put-if-absent; otherwise why it could not be tried.
    pub async fn probe(&self, dir: &Path) -> Result<(), StoreError> {
        let id = self.context().uuid();
        let key = dir.clone().join(format!("probe-{id}"));
        let verdict = self.probe_key(&key, id.to_string()).await;
        // Best effort: a probe left behind is small, uniquely named and names itself.
        let removed = self.delete(&key).await;
        if let Err(error) = removed {
            tracing::debug!(%key, %error, "probe object not removed");
        }
        verdict
    }

    async fn probe_key(&self, key: &Path, id: String) -> Result<(), StoreError> {
        let first = Bytes::from(format!("{{\"probe\":\"{id}\",\"attempt\":1}}\n"));
        let second = Bytes::from(format!("{{\"probe\":\"{id}\",\"attempt\":2}}\n"));
        self.settle(key, &first).await?;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let outcome = self.put_if_absent(key, second.clone()).await?;
            let kept = self.holds(key, &first).await?;
            match outcome {
                PutOutcome::AlreadyExists if kept => return Ok(()),
                PutOutcome::Unknown(_) if kept && attempt < ATTEMPTS => {}
                PutOutcome::Unknown(error) if kept => return Err(error),
                _ => {
                    return Err(StoreError::ConditionalPutIgnored {
                        url: self.url().to_owned(),
                    });
                }
            }
        }
    }

    /// Makes sure that `key`, a unique name, holds `bytes`.
    async fn settle(&self, key: &Path, bytes: &Bytes) -> Result<(), StoreError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let outcome = self.put_if_absent(key, bytes.clone()).await?;
            if matches!(outcome, PutOutcome::Created) {
                return Ok(());
            }
            // Nobody else knows the name: what is there is our own earlier attempt.
            if self.holds(key, bytes).await? {
                return Ok(());
            }
            match outcome {
                PutOutcome::Unknown(error) if attempt >= ATTEMPTS => return Err(error),
                _ if attempt >= ATTEMPTS => {
                    return Err(StoreError::contradicted("create an object", key));
                }
                _ => {}
            }
        }
    }
    /// Whether `key` holds exactly `bytes`; a failed read is tried again.
    async fn holds(&self, key: &Path, bytes: &Bytes) -> Result<bool, StoreError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.get(key).await {
                Ok(found) => return Ok(found.is_some_and(|found| found == *bytes)),
                Err(error) if attempt >= ATTEMPTS => return Err(error),
                Err(_) => {}
            }
        }
    }
}
