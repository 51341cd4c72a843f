//! How memory goes back to the host.

/// Has the C library's allocator give large blocks back when they are freed, and keep few heaps.
///
/// By itself it keeps blocks as large as the largest that was ever freed, and has a heap for nearly every thread: a
/// server that was given a few files of 15 MiB has a hundred megabytes from then on.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub(crate) fn tune_allocator() {
    const LARGE: i32 = 1 << 20;
    let rules = [(libc::M_MMAP_THRESHOLD, LARGE), (libc::M_TRIM_THRESHOLD, LARGE), (libc::M_ARENA_MAX, 2)];
    for (rule, value) in rules {
        // SAFETY: it sets a number that the allocator goes by, and refuses one that does not fit.
        unsafe { libc::mallopt(rule, value) };
    }
}

/// Other C libraries do so by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn tune_allocator() {}
