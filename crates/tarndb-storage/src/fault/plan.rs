//! `FaultPlan`: how often each fault happens to each kind of request.
//!
//! Invariant: the chances of the faults that one request can meet are together at most 1;
//! an option that is not understood is an error, never ignored.
//! Spec: docs/guide/faults.md.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::kind::{Fault, Operation};
use crate::error::StoreError;
use crate::options::{StoreOptions, invalid};

/// How often each fault happens: probabilities between 0 and 1, together at most 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// Where the random numbers start.
    pub seed: u64,
    /// Each request waits this long first.
    pub latency: Duration,
    /// By which share of it the latency is longer or shorter, at random; between 0 and 1.
    pub jitter: f64,
    /// See [`Fault::ErrorBefore`].
    pub error_before: f64,
    /// See [`Fault::ErrorAfter`].
    pub error_after: f64,
    /// See [`Fault::LostAnswer`].
    pub lost_answer: f64,
    /// See [`Fault::SelfConflict`].
    pub self_conflict: f64,
    /// See [`Fault::PhantomConflict`].
    pub phantom_conflict: f64,
    /// See [`Fault::LateEffect`].
    pub late_effect: f64,
    /// See [`Fault::Duplicate`].
    pub duplicate: f64,
    /// See [`Fault::Stall`].
    pub stall: f64,
    /// See [`Fault::PartialRead`].
    pub partial_read: f64,
    /// See [`Fault::StaleList`].
    pub stale_list: f64,
    /// Chances of one kind of request, in place of those above.
    pub only: BTreeMap<(Operation, Fault), f64>,
    /// Where each fault is noted, a line of JSON each; several processes may share the file.
    pub report: Option<PathBuf>,
}

/// The kinds of request that options name.
const GROUPS: [(&str, &[Operation]); 4] = [
    ("get", &[Operation::Get, Operation::Head]),
    ("list", &[Operation::List]),
    ("put", &[Operation::Create, Operation::Put, Operation::Part]),
    ("delete", &[Operation::Delete]),
];

impl FaultPlan {
    /// A plan of one fault.
    #[must_use]
    pub fn of(fault: Fault, chance: f64) -> Self {
        let mut plan = Self::default();
        *plan.general_mut(fault) = chance;
        plan
    }

    /// The chance that such a request meets the fault.
    pub fn chance(&self, operation: Operation, fault: Fault) -> f64 {
        if !fault.can_meet(operation) {
            return 0.0;
        }
        let own = self.only.get(&(operation, fault)).copied();
        own.unwrap_or_else(|| self.general(fault))
    }

    /// The plan given by options `fault.*`; `None` when there are none.
    ///
    /// # Errors
    /// [`StoreError::InvalidOption`] for an unknown name, a fault that a kind of request cannot
    /// meet, a value that is not a number of the kind it takes, and chances above 1 together.
    pub fn from_options(options: &StoreOptions) -> Result<Option<Self>, StoreError> {
        let mut plan = Self::default();
        let mut given = false;
        for (key, value) in options.fault() {
            given = true;
            plan.set(key, value)
                .map_err(|reason| invalid(&format!("fault.{key}"), reason))?;
        }
        for (group, operations) in GROUPS {
            for operation in operations {
                let all = Fault::ALL.iter();
                let together: f64 = all.map(|fault| plan.chance(*operation, *fault)).sum();
                if together > 1.0 + 1e-9 {
                    let reason = format!("the chances of {group} are {together} together, above 1");
                    return Err(invalid("fault.*", reason));
                }
            }
        }
        Ok(given.then_some(plan))
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let whole = || {
            let parsed = value.parse::<u64>();
            parsed.map_err(|_| "a whole number is needed".to_owned())
        };
        match key {
            "seed" => self.seed = whole()?,
            "latency_ms" => self.latency = Duration::from_millis(whole()?),
            "jitter" => self.jitter = share(value)?,
            "report" => self.report = Some(PathBuf::from(value)),
            _ => match key.split_once('.') {
                None => *self.general_mut(named(key)?) = share(value)?,
                Some((group, name)) => self.set_only(group, named(name)?, share(value)?)?,
            },
        }
        Ok(())
    }

    fn set_only(&mut self, group: &str, fault: Fault, chance: f64) -> Result<(), String> {
        let Some((_, operations)) = GROUPS.iter().find(|(name, _)| *name == group) else {
            return Err("the kinds of request are get, list, put and delete".to_owned());
        };
        let mut met = false;
        for operation in operations.iter().filter(|one| fault.can_meet(**one)) {
            self.only.insert((*operation, fault), chance);
            met = true;
        }
        match met {
            true => Ok(()),
            false => Err(format!("{group} cannot meet this fault")),
        }
    }

    fn general(&self, fault: Fault) -> f64 {
        match fault {
            Fault::ErrorBefore => self.error_before,
            Fault::ErrorAfter => self.error_after,
            Fault::LostAnswer => self.lost_answer,
            Fault::SelfConflict => self.self_conflict,
            Fault::PhantomConflict => self.phantom_conflict,
            Fault::LateEffect => self.late_effect,
            Fault::Duplicate => self.duplicate,
            Fault::Stall => self.stall,
            Fault::PartialRead => self.partial_read,
            Fault::StaleList => self.stale_list,
        }
    }

    fn general_mut(&mut self, fault: Fault) -> &mut f64 {
        match fault {
            Fault::ErrorBefore => &mut self.error_before,
            Fault::ErrorAfter => &mut self.error_after,
            Fault::LostAnswer => &mut self.lost_answer,
            Fault::SelfConflict => &mut self.self_conflict,
            Fault::PhantomConflict => &mut self.phantom_conflict,
            Fault::LateEffect => &mut self.late_effect,
            Fault::Duplicate => &mut self.duplicate,
            Fault::Stall => &mut self.stall,
            Fault::PartialRead => &mut self.partial_read,
            Fault::StaleList => &mut self.stale_list,
        }
    }
}

fn named(name: &str) -> Result<Fault, String> {
    let found = Fault::ALL.into_iter().find(|fault| fault.name() == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
        format!(
            "no such fault; there are seed, latency_ms, jitter, report, {}, \
             and each of the faults as <get|list|put|delete>.<fault>",
            names.join(", ")
        )
    })
}

fn share(value: &str) -> Result<f64, String> {
    match value.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a number from 0 to 1 is needed".to_owned()),
    }
}
