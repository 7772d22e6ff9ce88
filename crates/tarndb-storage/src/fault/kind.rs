//! `Fault`: the ways to misbehave, by name, and how often each happened.
//!
//! Invariant: names are those of the options `fault.<name>` and of the report.
//! Spec: docs/guide/faults.md.

use std::fmt;

/// One way to misbehave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fault {
    /// An error; nothing happened. Any request.
    ErrorBefore,
    /// An error; everything happened. Any request.
    ErrorAfter,
    /// A timeout; everything happened. Writes.
    LostAnswer,
    /// "Already exists" although this very request created the object, as a client is told
    /// that repeats by itself. Conditional creates.
    SelfConflict,
    /// "Already exists" although no object does (S3's answer 409). Conditional creates.
    PhantomConflict,
    /// A timeout; the request takes effect after some later requests. Conditional creates.
    LateEffect,
    /// Answered as it should be, and applied once more after some later requests. Writes of
    /// whole objects, deletions.
    Duplicate,
    /// An answer that never comes; by chance nothing or everything happened. Any request.
    Stall,
    /// A body that ends early, with an error or without one. Reads of objects.
    PartialRead,
    /// Up to three of the names that were written last are not in the answer. Listings.
    StaleList,
}

/// What a request does, as far as faults differ by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Operation {
    /// Reads of objects and of parts of them.
    Get,
    /// What is known about an object.
    Head,
    /// Listings.
    List,
    /// Conditional creates.
    Create,
    /// Overwriting.
    Put,
    /// Large objects, in parts; copies.
    Part,
    /// Deletions.
    Delete,
}

impl Operation {
    /// Its name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Head => "head",
            Self::List => "list",
            Self::Create => "create",
            Self::Put => "put",
            Self::Part => "part",
            Self::Delete => "delete",
        }
    }
}

impl Operation {
    fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::Head | Self::List)
    }
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::ErrorBefore,
        Self::ErrorAfter,
        Self::LostAnswer,
        Self::SelfConflict,
        Self::PhantomConflict,
        Self::LateEffect,
        Self::Duplicate,
        Self::Stall,
        Self::PartialRead,
        Self::StaleList,
    ];

    /// Its name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::ErrorBefore => "error_before",
            Self::ErrorAfter => "error_after",
            Self::LostAnswer => "lost_answer",
            Self::SelfConflict => "self_conflict",
            Self::PhantomConflict => "phantom_conflict",
            Self::LateEffect => "late_effect",
            Self::Duplicate => "duplicate",
            Self::Stall => "stall",
            Self::PartialRead => "partial_read",
            Self::StaleList => "stale_list",
        }
    }

    /// Whether such a request can meet it.
    pub fn can_meet(self, operation: Operation) -> bool {
        match self {
            Self::ErrorBefore | Self::ErrorAfter | Self::Stall => true,
            Self::LostAnswer => operation.is_write(),
            Self::Duplicate => operation.is_write() && operation != Operation::Part,
            Self::SelfConflict | Self::PhantomConflict | Self::LateEffect => {
                operation == Operation::Create
            }
            Self::PartialRead => operation == Operation::Get,
            Self::StaleList => operation == Operation::List,
        }
    }
}

/// What was injected so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Requests that passed.
    pub none: u64,
    /// See [`Fault::ErrorBefore`].
    pub error_before: u64,
    /// See [`Fault::ErrorAfter`].
    pub error_after: u64,
    /// See [`Fault::LostAnswer`].
    pub lost_answer: u64,
    /// See [`Fault::SelfConflict`].
    pub self_conflict: u64,
    /// See [`Fault::PhantomConflict`].
    pub phantom_conflict: u64,
    /// See [`Fault::LateEffect`].
    pub late_effect: u64,
    /// See [`Fault::Duplicate`].
    pub duplicate: u64,
    /// See [`Fault::Stall`].
    pub stall: u64,
    /// See [`Fault::PartialRead`].
    pub partial_read: u64,
    /// See [`Fault::StaleList`].
    pub stale_list: u64,
}

impl FaultCounts {
    /// How often a fault happened.
    pub fn of(&self, fault: Fault) -> u64 {
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

    /// All faults together.
    pub fn faults(&self) -> u64 {
        Fault::ALL.iter().map(|fault| self.of(*fault)).sum()
    }

    pub(super) fn add(&mut self, fault: Option<Fault>) {
        let counter = match fault {
            None => &mut self.none,
            Some(Fault::ErrorBefore) => &mut self.error_before,
            Some(Fault::ErrorAfter) => &mut self.error_after,
            Some(Fault::LostAnswer) => &mut self.lost_answer,
            Some(Fault::SelfConflict) => &mut self.self_conflict,
            Some(Fault::PhantomConflict) => &mut self.phantom_conflict,
            Some(Fault::LateEffect) => &mut self.late_effect,
            Some(Fault::Duplicate) => &mut self.duplicate,
            Some(Fault::Stall) => &mut self.stall,
            Some(Fault::PartialRead) => &mut self.partial_read,
            Some(Fault::StaleList) => &mut self.stale_list,
        };
        *counter += 1;
    }
}

impl fmt::Display for FaultCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "none={}", self.none)?;
        for fault in Fault::ALL {
            write!(f, " {}={}", fault.name(), self.of(fault))?;
        }
        Ok(())
    }
}

/// The error of an injected fault.
#[derive(Debug)]
pub struct Injected(pub Fault);

impl fmt::Display for Injected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "injected fault: {}", self.0.name())
    }
}

impl std::error::Error for Injected {}
