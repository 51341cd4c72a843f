//! When the power is cut, and what is lost then.

use std::ops::Range;

use crate::disk::{Fate, Image, Unsynced};
use crate::recording::Recording;

/// Cuts the power at and before every sync, at every acknowledged step, and once per seed in between.
/// Returns how many cuts were made, or the first error of `check`.
pub(crate) fn cut(
    recording: &Recording,
    seeds: Range<u64>,
    check: impl Fn(u64, &Image) -> Result<(), String>,
) -> Result<usize, String> {
    let disk = &recording.disk;
    let mut lines: Vec<usize> =
        disk.syncs().iter().copied().chain(recording.reports.iter().map(|report| report.0)).collect();
    lines.sort_unstable();
    let mut cuts = 0;
    // Everything unsynced is lost; or unsynced names are kept, but not the content that they lead to.
    for kept_kind in [None, Some(Unsynced::Names)] {
        let mut last = None;
        for &line in &lines {
            let fate = |unsynced| if Some(unsynced) == kept_kind { Fate::Kept } else { Fate::Lost };
            let current = (disk.cut(line, fate), recording.last_acknowledged_step(line));
            // Skipped if nothing has reached the disk since the last cut.
            if last.as_ref() != Some(&current) {
                check(current.1, &current.0)
                    .map_err(|error| format!("cut at line {line}, {kept_kind:?} on disk: {error}"))?;
                cuts += 1;
                last = Some(current);
            }
        }
    }
    // Just before a sync: unsynced names are lost, and unsynced content is torn.
    for &line in disk.syncs() {
        let (line, mut seed) = (line.saturating_sub(1), line as u64);
        let image = disk.cut(line, |unsynced| {
            seed += 1;
            if unsynced == Unsynced::Names { Fate::Lost } else { Fate::Torn(seed) }
        });
        check(recording.last_acknowledged_step(line), &image)
            .map_err(|error| format!("cut at line {line}, content torn: {error}"))?;
        cuts += 1;
    }
    let lines = disk.lines();
    for seed in seeds {
        let mut random = fastrand::Rng::with_seed(seed);
        let line = lines[random.usize(..lines.len())];
        let odds = random.u8(1..9);
        let image = disk.cut(line, |_| match random.u8(..10) {
            roll if roll < odds => Fate::Kept,
            _ if random.bool() => Fate::Torn(random.u64(..)),
            _ => Fate::Lost,
        });
        check(recording.last_acknowledged_step(line), &image)
            .map_err(|error| format!("cut at line {line}, seed {seed}: {error}"))?;
        cuts += 1;
    }
    Ok(cuts)
}
