//! Tunes the C library's allocator, so that freed memory goes back to the host.

/// Makes glibc's allocator return large blocks to the host when they are freed, and use at most two arenas.
///
/// By default it keeps blocks as large as the largest that was ever freed, and has an arena for nearly every thread: a
/// server that was sent a few files of 15 MiB would hold a hundred megabytes from then on.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub(crate) fn tune_allocator() {
    const LARGE: i32 = 1 << 20;
    let rules = [(libc::M_MMAP_THRESHOLD, LARGE), (libc::M_TRIM_THRESHOLD, LARGE), (libc::M_ARENA_MAX, 2)];
    for (rule, value) in rules {
        // SAFETY: `mallopt` only sets a parameter of the allocator, and rejects a value that isn't valid.
        unsafe { libc::mallopt(rule, value) };
    }
}

/// Other C libraries need no tuning.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn tune_allocator() {}
