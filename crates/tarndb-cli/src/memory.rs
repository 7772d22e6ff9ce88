//! The allocator's settings of this process.
//!
//! Invariant: what is freed goes back to the system soon. The C library's own defaults keep
//! up to an arena per thread and raise their thresholds as they go, so that an import within
//! its memory limit would hold a multiple of it.

/// Freed memory above this is given back, and larger blocks are mapped on their own.
#[cfg(target_env = "gnu")]
const THRESHOLD_BYTES: libc::c_int = 64 << 10;
/// Arenas that threads share.
#[cfg(target_env = "gnu")]
const ARENAS: libc::c_int = 2;

/// Must run before the first thread starts.
#[cfg(target_env = "gnu")]
#[expect(
    unsafe_code,
    reason = "mallopt has no safe form; it takes two integers"
)]
pub(crate) fn bound_allocator() {
    let settings = [
        (libc::M_TRIM_THRESHOLD, THRESHOLD_BYTES),
        (libc::M_MMAP_THRESHOLD, THRESHOLD_BYTES),
        (libc::M_ARENA_MAX, ARENAS),
    ];
    for (setting, value) in settings {
        // SAFETY: no other thread runs yet, and mallopt only stores the number.
        unsafe {
            libc::mallopt(setting, value);
        }
    }
}

/// Other C libraries give memory back by themselves.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn bound_allocator() {}
