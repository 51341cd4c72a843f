//! Records with strace what a program does to a disk, and when each step was acknowledged to the program.
//!
//! A mapped file is written without a system call. So the recorded program reports the content of such files whenever
//! it reports a step, and the model learns of it. Like every other write, it may be lost until the file is synced.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::disk::{Disk, Fate, Inode, Kind};
use crate::tmpfs::{Tmpfs, entries_below, kind_and_content};
use crate::trace::{CALLS, calls};

/// The environment variable that names the file which a recorded program reports to.
pub(crate) const REPORT_FILE: &str = "STEAD_POWERCUT_TELLS";
/// The environment variable that names the disk which is recorded.
pub(crate) const TOP: &str = "STEAD_POWERCUT_TOP";

/// Whether a file is written through a mapping only.
fn is_mapped(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap();
    name == "spool-0" || name == "spool-1"
}

/// Whether a file may be empty after a power cut: SQLite creates its shared memory again.
fn is_rebuilt(path: &str) -> bool {
    path.ends_with("-shm")
}

/// A recorded run of a program.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) disk: Disk,
    /// The lines of the trace at which the program reported a step, and that step.
    pub(crate) reports: Vec<(usize, u64)>,
}

/// Runs a program on a disk, and records what it does there.
pub(crate) fn record(
    tmpfs: &Tmpfs,
    program: &Path,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Recording {
    let mut disk = tmpfs.disk();
    let outside = tempfile::tempdir().unwrap();
    let (trace, report_file) = (outside.path().join("trace"), outside.path().join("reports"));
    File::create(&report_file).unwrap();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-xx", "-v", "-ttt", "-s", "16777216", "--seccomp-bpf", "-e", "signal=none"]);
    strace.args(["-e", &format!("trace={CALLS}"), "-o"]).arg(&trace).arg(program).args(arguments);
    strace.env(REPORT_FILE, &report_file).env(TOP, tmpfs.path()).envs(variables.iter().copied());
    // The processes that check the disk afterwards count as started after a reboot.
    static BOOTS: AtomicUsize = AtomicUsize::new(0);
    strace.env("STEAD_TEST_BOOT", format!("before cut {}", BOOTS.fetch_add(1, Ordering::Relaxed)));
    let output = strace.stdin(Stdio::null()).output().expect("strace is installed");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    let trace = fs::read_to_string(trace).unwrap();
    let mut reports = Vec::new();
    for call in calls(&trace) {
        if call.name != "write" || call.descriptor(0).is_none_or(|path| Path::new(&path) != report_file) {
            disk.apply_call(&call);
            continue;
        }
        match Report::parse(&call.bytes(1)) {
            Report::Step(step) => reports.push((call.ended, step)),
            Report::Mapped(path, offset, bytes) => disk.write_mapped(call.ended, &path, offset, bytes),
        }
    }
    let recording = Recording { disk, reports };
    recording.assert_matches(tmpfs);
    recording
}

impl Recording {
    /// Checks the model against the real files.
    fn assert_matches(&self, tmpfs: &Tmpfs) {
        use std::os::unix::fs::MetadataExt;
        let model = self.disk.cut(usize::MAX, |_| Fate::Kept);
        let mut real: Vec<(String, Inode, Kind, Vec<u8>)> = Vec::new();
        for path in entries_below(tmpfs.path()) {
            let (kind, content) = kind_and_content(&path);
            let name = path.strip_prefix(tmpfs.path()).unwrap().to_str().unwrap();
            real.push((name.to_owned(), path.symlink_metadata().unwrap().ino(), kind, content));
        }
        real.sort_by(|left, right| left.0.cmp(&right.0));
        let names: Vec<_> = real.iter().map(|(name, inode, ..)| (name, *inode)).collect();
        let modelled: Vec<_> = model.entries.iter().map(|(name, entry)| (name, entry.inode)).collect();
        assert_eq!(modelled, names, "the recording has missed a name");
        for (name, _, kind, content) in &real {
            let modelled = &model.entries[name];
            assert_eq!(&modelled.kind, kind, "{name}");
            assert!(
                modelled.content == *content || is_rebuilt(name),
                "the recording has missed a write to {name}"
            );
        }
    }

    /// The last step that had been acknowledged to the program at a line.
    pub(crate) fn last_acknowledged_step(&self, line: usize) -> u64 {
        self.reports
            .iter()
            .take_while(|(report_line, _)| *report_line <= line)
            .last()
            .map_or(0, |(_, step)| *step)
    }
}

enum Report {
    Step(u64),
    Mapped(String, usize, Vec<u8>),
}

impl Report {
    fn parse(bytes: &[u8]) -> Report {
        let mut parts = bytes.splitn(4, |byte| *byte == 0);
        let mut text = || std::str::from_utf8(parts.next().unwrap()).unwrap().to_owned();
        match &*text() {
            "sure" => Report::Step(text().parse().unwrap()),
            _ => {
                let (path, offset) = (text(), text().parse().unwrap());
                Report::Mapped(path, offset, parts.next().unwrap().to_vec())
            }
        }
    }
}

/// The side of the recorded program: reports its steps.
#[derive(Debug)]
pub(crate) struct Reporter {
    file: File,
    pub(crate) top: PathBuf,
    mapped: HashMap<PathBuf, Vec<u8>>,
}

impl Reporter {
    /// To be called in a program that is recorded.
    pub(crate) fn new() -> Self {
        let report_file = std::env::var_os(REPORT_FILE).expect("one of the tests starts this process");
        let file = OpenOptions::new().append(true).open(report_file).unwrap();
        Reporter { file, top: std::env::var_os(TOP).unwrap().into(), mapped: HashMap::new() }
    }

    /// Reports that everything up to a step is done.
    pub(crate) fn report_step(&mut self, step: u64) {
        for path in entries_below(&self.top).into_iter().filter(|path| is_mapped(path)) {
            // Fails if the file was just removed.
            let Ok(current) = fs::read(&path) else { continue };
            let before = self.mapped.entry(path.clone()).or_default();
            before.resize(current.len(), 0);
            for (index, (old_page, new_page)) in before.chunks(4_096).zip(current.chunks(4_096)).enumerate() {
                if old_page != new_page {
                    let head = format!("mapped\0{}\0{}\0", path.to_str().unwrap(), index * 4_096);
                    self.file.write_all(&[head.as_bytes(), new_page].concat()).unwrap();
                }
            }
            *before = current;
        }
        self.file.write_all(format!("sure\0{step}").as_bytes()).unwrap();
    }
}
