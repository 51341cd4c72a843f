//! Power cuts while programs work on a mount: what they have synced with `fsync` is there afterwards.
//!
//! A disk is recorded and rebuilt in the same way as for the library: `crates/stead/tests/powercut`.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

#[path = "../../../stead/tests/powercut/cuts.rs"]
mod cuts;
#[path = "../../../stead/tests/powercut/disk.rs"]
mod disk;
#[path = "../../../stead/tests/powercut/recording.rs"]
mod recording;
#[path = "../../../stead/tests/powercut/tmpfs.rs"]
mod tmpfs;
#[path = "../../../stead/tests/powercut/trace.rs"]
mod trace;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use stead::vfs::WalkQuery;
use stead::{ArchiveLookup, Config, Identity, NodeKind, Stead, Stores};

use disk::Image;
use recording::{Recording, Reporter, record};
use tmpfs::{Tmpfs, rename_staging_area};

/// The environment variable that names the Workspace which the programs work in.
const WORKSPACE: &str = "STEAD_POWERCUT_WORKSPACE";
/// The environment variable that names the directory of the mount.
const MOUNT_POINT: &str = "STEAD_POWERCUT_AT";

const CONFIG: &str = r#"
[stores.main]
kind = "virtual"
[stores.project]
kind = "physical"
path = "project"
[stores.plain]
kind = "physical"
path = "plain"
keep = false
[agents.coder]
workspaces = [
  { prefix = "/v", store = "main", path = "/v", scope = "rw", protect = [] },
  { prefix = "/p", store = "project", scope = "rw", protect = [] },
  { prefix = "/n", store = "plain", scope = "rw", protect = [] },
]
"#;

type Files = BTreeMap<String, Vec<u8>>;

/// What a program does, up to the `fsync` that it waits for.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Writes a file, and syncs it.
    Written(&'static str, u8),
    /// Writes a second file, renames it to the name, and syncs the directory.
    Renamed(&'static str, u8),
    /// Writes a file and closes it; opens it again, and syncs it.
    Flushed(&'static str, u8),
    /// Makes a directory with a file in it, and syncs both directories.
    Made(&'static str, &'static str, u8),
    /// Appends to a file, and syncs it.
    Appended(&'static str, u8),
    /// Removes a file, and syncs the directory.
    Removed(&'static str),
}

const STEPS: [Step; 9] = [
    Step::Written("one", 1),
    Step::Renamed("two", 2),
    Step::Flushed("three", 3),
    Step::Made("inner", "inner/four", 4),
    Step::Renamed("one", 5),
    Step::Removed("three"),
    Step::Appended("two", 6),
    Step::Flushed("two", 7),
    Step::Renamed("inner/four", 8),
];

fn content(seed: u8) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed.into());
    (0..500 * usize::from(seed)).map(|_| random.alphanumeric() as u8).collect()
}

impl Step {
    fn perform(self, root: &Path) {
        let path = |name: &str| root.join(name);
        let sync = |path: &Path| File::open(path).unwrap().sync_all().unwrap();
        match self {
            Step::Written(name, seed) => {
                let mut file = File::create(path(name)).unwrap();
                file.write_all(&content(seed)).unwrap();
                file.sync_all().unwrap();
            }
            Step::Renamed(name, seed) => {
                let temporary = path(&format!("{name}.new"));
                fs::write(&temporary, content(seed)).unwrap();
                fs::rename(&temporary, path(name)).unwrap();
                sync(path(name).parent().unwrap());
            }
            Step::Flushed(name, seed) => {
                fs::write(path(name), content(seed)).unwrap();
                sync(&path(name));
            }
            Step::Made(directory, name, seed) => {
                fs::create_dir(path(directory)).unwrap();
                fs::write(path(name), content(seed)).unwrap();
                sync(&path(directory));
                sync(root);
            }
            Step::Appended(name, seed) => {
                let mut file = OpenOptions::new().append(true).open(path(name)).unwrap();
                file.write_all(&content(seed)).unwrap();
                file.sync_all().unwrap();
            }
            Step::Removed(name) => {
                fs::remove_file(path(name)).unwrap();
                sync(root);
            }
        }
    }

    /// The file that the step is about.
    fn name(self) -> &'static str {
        match self {
            Step::Written(name, _) | Step::Renamed(name, _) | Step::Flushed(name, _) => name,
            Step::Made(_, name, _) | Step::Appended(name, _) | Step::Removed(name) => name,
        }
    }

    fn apply_to(self, files: &mut Files) {
        match self {
            Step::Removed(name) => drop(files.remove(name)),
            Step::Appended(name, seed) => files.get_mut(name).unwrap().extend(content(seed)),
            Step::Written(name, seed) | Step::Renamed(name, seed) | Step::Flushed(name, seed) => {
                files.insert(name.into(), content(seed));
            }
            Step::Made(_, name, seed) => drop(files.insert(name.into(), content(seed))),
        }
    }
}

#[test]
#[ignore = "a child process: the tests start it and record it"]
fn the_recorded_program() {
    let mut reporter = Reporter::new();
    let mount_point = std::env::var(MOUNT_POINT).unwrap();
    let mut mount = Command::new(env!("CARGO_BIN_EXE_stead"));
    mount.args(["mount", "--agent", "coder", &mount_point]).current_dir(&reporter.top).stdin(Stdio::null());
    // An absolute path: the trace wouldn't show where a relative one begins.
    mount.env("STEAD_CONFIG", reporter.top.join("stead.toml")).env_remove("STEAD_TOKEN");
    let mut mount = mount.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(mount.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("Mounted at "), "{line:?}");
    let root = Path::new(&mount_point).join(std::env::var(WORKSPACE).unwrap());
    for (step, number) in STEPS.into_iter().zip(1..) {
        step.perform(&root);
        reporter.report_step(number);
    }
    kill_process(Pid::from_child(&mount), Signal::TERM).unwrap();
    assert!(mount.wait().unwrap().success());
}

fn record_program(workspace: &str, variables: &[(&str, &str)]) -> Recording {
    let tmpfs = Tmpfs::new();
    for directory in ["project", "plain"] {
        fs::create_dir(tmpfs.path().join(directory)).unwrap();
    }
    fs::write(tmpfs.path().join("stead.toml"), CONFIG).unwrap();
    let mount_point = tempfile::tempdir().unwrap();
    let mut all_variables = vec![(WORKSPACE, workspace), (MOUNT_POINT, mount_point.path().to_str().unwrap())];
    all_variables.extend(variables);
    let program = std::env::current_exe().unwrap();
    record(&tmpfs, &program, &["--ignored", "--exact", "the_recorded_program", "--nocapture"], &all_variables)
}

/// Returns an error if something is wrong on the disk that a power cut has left.
fn check_disk(workspace: &str, synced_steps: u64, image: &Image) -> Result<(), String> {
    let synced_steps = usize::try_from(synced_steps).unwrap();
    let tmpfs = Tmpfs::with(image);
    rename_staging_area(tmpfs.path());
    let config = Config::parse(CONFIG, &tmpfs.path().join("stead.toml")).unwrap();
    let stores = Stores::of(&config);
    let stead = Stead::open_in(&stores, &Identity::agent("coder")).map_err(|error| error.to_string())?;
    let prefix = format!("/{workspace}");
    let walk = stead.vfs().walk(&*prefix, &WalkQuery::default()).map_err(|error| error.to_string())?;
    let mut found = Files::new();
    for entry in walk.entries.into_iter().filter(|entry| entry.kind == NodeKind::File) {
        let read = stead.vfs().read(&*entry.path).map_err(|error| format!("{}: {error}", entry.path))?;
        found.insert(entry.path[prefix.len() + 1..].to_owned(), read.bytes);
    }
    let mut expected = Files::new();
    STEPS[..synced_steps].iter().for_each(|step| step.apply_to(&mut expected));
    let mut next = expected.clone();
    let pending = STEPS.get(synced_steps).copied();
    if let Some(step) = pending {
        step.apply_to(&mut next);
    }
    for name in expected.keys().chain(found.keys()) {
        let content = found.get(name);
        if content == expected.get(name) || content == next.get(name) {
            continue;
        }
        // The step wasn't acknowledged yet. In a database the file is complete all the same, or empty, as it was
        // created.
        let is_touched = pending.is_some_and(|step| name.strip_suffix(".new").unwrap_or(name) == step.name());
        let is_complete_or_empty = name.ends_with(".new") || content.is_none_or(Vec::is_empty);
        if !is_touched || (workspace == "v" && !is_complete_or_empty) {
            let size = |files: &Files| files.get(name).map(Vec::len);
            return Err(format!(
                "{name} has {:?} bytes after step {synced_steps}, not {:?}",
                size(&found),
                size(&expected)
            ));
        }
    }
    for (name, verified) in stores.verify(&mut |_, _| ()).map_err(|error| error.to_string())? {
        if !verified.problems.is_empty() {
            return Err(format!("{name}: {:?}", verified.problems));
        }
    }
    if let Some(audit) = stores.audit_access().map_err(|error| error.to_string())? {
        let verified =
            audit.verify(&ArchiveLookup::default(), &mut |_| ()).map_err(|error| error.to_string())?;
        if !verified.problems.is_empty() {
            return Err(format!("the audit: {:?}", verified.problems));
        }
    }
    Ok(())
}

fn check_power_cuts(workspace: &str) {
    if !Tmpfs::is_possible() || !Path::new("/dev/fuse").exists() {
        eprintln!("SKIPPED: this host lets this user mount no tmpfs, or has no /dev/fuse");
        return;
    }
    let seeds = if std::env::var_os("STEAD_TEST_LONG").is_some() { 1_000 } else { 100 };
    let recording = record_program(workspace, &[]);
    match cuts::cut(&recording, 0..seeds, |synced_steps, image| check_disk(workspace, synced_steps, image)) {
        Ok(cuts) => println!("/{workspace}: {} syncs, {cuts} power cuts", recording.disk.syncs().len()),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn data_synced_on_a_mount_survives_a_power_cut_in_a_database() {
    check_power_cuts("v");
}

#[test]
fn data_synced_on_a_mount_survives_a_power_cut_in_a_directory() {
    check_power_cuts("p");
}

#[test]
fn data_synced_on_a_mount_survives_a_power_cut_in_a_directory_without_history() {
    check_power_cuts("n");
}
