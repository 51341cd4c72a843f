//! Identifies the current boot of the machine. Data that was not synced survives a killed process, but may be lost in a
//! reboot, so recovery has to know whether the machine was restarted.

/// The length of a boot id in bytes.
pub(crate) const ID_LENGTH: usize = 36;

/// Returns the id of the current boot, or `None` if the host doesn't provide one.
///
/// A power-cut test sets `STEAD_TEST_BOOT` to make a recorded program look as if it ran in an earlier boot.
pub(crate) fn id() -> Option<[u8; ID_LENGTH]> {
    #[cfg(all(feature = "leave-out-syncs", debug_assertions))]
    if let Ok(boot) = std::env::var("STEAD_TEST_BOOT") {
        return format!("{boot:0<ID_LENGTH$}").as_bytes().first_chunk().copied();
    }
    std::fs::read("/proc/sys/kernel/random/boot_id").ok()?.first_chunk().copied()
}
