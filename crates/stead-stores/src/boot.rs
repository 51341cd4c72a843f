//! Which start of the machine this is: what was not synced is there after a kill, and may not be after a restart.

/// How long the text is.
pub(crate) const ID_LENGTH: usize = 36;

/// The present start of this machine, where the host tells. A power-cut test says that the program it records ran before the
/// present one.
pub(crate) fn id() -> Option<[u8; ID_LENGTH]> {
    #[cfg(all(feature = "leave-out-syncs", debug_assertions))]
    if let Ok(boot) = std::env::var("STEAD_TEST_BOOT") {
        return format!("{boot:0<ID_LENGTH$}").as_bytes().first_chunk().copied();
    }
    std::fs::read("/proc/sys/kernel/random/boot_id").ok()?.first_chunk().copied()
}
