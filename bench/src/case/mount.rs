//! A mounted stead compared with the disk below it and with a mounted AgentFS: plain system calls, and programs that
//! people wait for.
//!
//! The programs run as their users run them. Reads are measured with and without the kernel's cache: a page in the
//! cache is as fast on any file system.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::fs::{Advice, fadvise};

use crate::Result;
use crate::agentfs_mount;
use crate::case::Effort;
use crate::content::{SMALL, noise, text};
use crate::measure::{Sample, in_turns, timed};
use crate::table::{Table, Unit};

/// How many files are measured one by one.
const FEW: usize = 1_000;
/// How many files the listed directory, the repository and the removed directory have.
const MANY: usize = 10_000;
/// The size of the large file in bytes.
const LARGE: usize = 256 << 20;
/// How many reads or writes at random offsets of the large file one round makes.
const RANDOM_OFFSETS: usize = 2_000;

/// A directory that is measured.
struct Target {
    label: &'static str,
    path: PathBuf,
}

/// A mounted stead. Dropping it unmounts it.
struct MountedStead(Child);

impl Drop for MountedStead {
    fn drop(&mut self) {
        // The process unmounts the stead when it gets SIGTERM.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

const CONFIG: &str = r#"
[stores.main]
kind = "virtual"

[stores.disk]
kind = "physical"
path = "files"

[agents.bench]
workspaces = [
  { prefix = "/virtual", store = "main", scope = "rw", protect = [] },
  { prefix = "/physical", store = "disk", scope = "rw", protect = [] },
]
"#;

fn mount(data: &Path) -> Result<MountedStead> {
    let stead = std::env::var_os("STEAD_BENCH_STEAD").map(PathBuf::from).filter(|path| path.is_file());
    let stead = stead.ok_or("STEAD_BENCH_STEAD names no file; `cargo xtask bench mount` sets it")?;
    fs::write(data.join("stead.toml"), CONFIG)?;
    for directory in ["files", "mnt", "plain", "agentfs", "agentfs-mnt"] {
        fs::create_dir_all(data.join(directory))?;
    }
    let mut mount = Command::new(stead);
    mount.args(["mount", "mnt"]).current_dir(data).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = mount.spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("stdout is piped")).read_line(&mut line)?;
    if !line.starts_with("Mounted") {
        return Err("the stead could not be mounted".into());
    }
    Ok(MountedStead(child))
}

/// One table.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    let _mounted = mount(data)?;
    let target = |label, path: &str| Target { label, path: data.join(path) };
    let _agentfs = agentfs_mount::mount(&data.join("agentfs"), &data.join("agentfs-mnt"))?;
    let targets = [
        target("Virtual", "mnt/virtual"),
        target("Physical", "mnt/physical"),
        target("disk", "plain"),
        target("AgentFS", "agentfs-mnt"),
    ];
    let labels = targets.each_ref().map(|target| target.label);
    let ratios = [("Virtual", "disk"), ("Physical", "disk"), ("Virtual", "AgentFS")];
    let mut table = Table::new("on a mount", &labels, &ratios);
    let rounds = effort.rounds();
    let slow_rounds = if effort == Effort::Full { 5 } else { 1 };

    for target in &targets {
        fs::create_dir(target.path.join("few"))?;
        for number in 0..FEW {
            fs::write(small_file(target, number), text(number, SMALL))?;
        }
    }
    let stats = in_turns(&targets, rounds, |target, _| {
        Ok(Some(timed(FEW, || {
            (0..FEW).try_for_each(|number| Ok(fs::metadata(small_file(target, number)).map(drop)?))
        })?))
    })?;
    table.row("stat, known to the kernel", &stats, Unit::Time);
    let mut buffer = vec![0; SMALL];
    let reads = in_turns(&targets, rounds, |target, _| {
        Ok(Some(median(FEW, |number| {
            let file = File::open(small_file(target, number))?;
            let count = file.read_at(&mut buffer, 0)?;
            if count == SMALL { Ok(()) } else { Err("a file is too short".into()) }
        })?))
    })?;
    table.row("open, read 4 KiB, close, p50", &reads, Unit::Time);
    let writes = in_turns(&targets, rounds, |target, round| {
        let directory = target.path.join(format!("new{round}"));
        fs::create_dir(&directory)?;
        let contents: Vec<_> = (0..FEW).map(|number| text(round * FEW + number, SMALL)).collect();
        Ok(Some(median(FEW, |number| Ok(fs::write(directory.join(number.to_string()), &contents[number])?))?))
    })?;
    table.row("create, write 4 KiB, close, p50", &writes, Unit::Time);

    measure_many_files(&targets, slow_rounds, &mut table)?;
    measure_large_file(&targets, rounds.min(5), &mut table)?;
    measure_programs(&targets, slow_rounds, &mut table)?;
    Ok(vec![table])
}

fn small_file(target: &Target, number: usize) -> PathBuf {
    target.path.join("few").join(number.to_string())
}

/// Times each operation, and takes the median.
fn median(count: usize, mut operation: impl FnMut(usize) -> Result) -> Result<Sample> {
    let mut times = Vec::with_capacity(count);
    for number in 0..count {
        let start = Instant::now();
        operation(number)?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(Sample { each: times[count / 2], worst: times[count - 1] })
}

fn measure_many_files(targets: &[Target], rounds: usize, table: &mut Table) -> Result {
    let fill = |target: &Target| -> Result {
        let path = target.path.join("many");
        fs::create_dir(&path)?;
        for number in 0..MANY {
            fs::write(path.join(number.to_string()), b"x")?;
        }
        Ok(())
    };
    for target in targets {
        fill(target)?;
    }
    let listed = in_turns(targets, rounds.max(3), |target, _| {
        let list_all = || match fs::read_dir(target.path.join("many"))?.count() {
            MANY => Ok(()),
            _ => Err("a listing is incomplete".into()),
        };
        Ok(Some(timed(1, list_all)?))
    })?;
    table.row("readdir of 10,000", &listed, Unit::Time);
    let removed = in_turns(targets, rounds, |target, _| {
        let sample = timed(1, || run_program(Command::new("rm").arg("-rf").arg(target.path.join("many"))))?;
        fill(target)?;
        Ok(Some(sample))
    })?;
    table.row("rm -rf of 10,000 files", &removed, Unit::Time);
    Ok(())
}

fn measure_large_file(targets: &[Target], rounds: usize, table: &mut Table) -> Result {
    let size = LARGE as f64 / f64::from(1 << 20);
    // New bytes every time: Stead stores equal content once, so the same bytes would be unrealistically fast.
    let mut seed = 0;
    let written = in_turns(targets, rounds.min(3), |target, _| {
        seed += 1;
        let content = noise(seed, LARGE);
        Ok(Some(timed(1, || {
            let mut file = File::create(target.path.join("large"))?;
            content.chunks(1 << 20).try_for_each(|piece| file.write_all(piece))?;
            drop(file);
            Ok(())
        })?))
    })?;
    table.row("write 256 MiB and close", &written, Unit::Throughput(size));
    let read = |target: &Target, is_uncached: bool| -> Result<Sample> {
        let file = File::open(target.path.join("large"))?;
        if is_uncached {
            // The kernel drops only pages that are on the disk.
            file.sync_all()?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
        let mut buffer = vec![0; 1 << 20];
        timed(1, || {
            for part in 0..LARGE >> 20 {
                file.read_exact_at(&mut buffer, (part << 20) as u64)?;
            }
            Ok(())
        })
    };
    let uncached = in_turns(targets, rounds, |target, _| Ok(Some(read(target, true)?)))?;
    table.row("read 256 MiB, not known to the kernel", &uncached, Unit::Throughput(size));
    let cached = in_turns(targets, rounds, |target, _| Ok(Some(read(target, false)?)))?;
    table.row("read 256 MiB, known to the kernel", &cached, Unit::Throughput(size));
    let random_offset = |random: &mut fastrand::Rng| random.u64(..(LARGE - SMALL) as u64 / 4096) * 4096;
    let random_reads = in_turns(targets, rounds, |target, round| {
        let file = File::open(target.path.join("large"))?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
        fadvise(&file, 0, None, Advice::Random)?;
        let (mut random, mut buffer) = (fastrand::Rng::with_seed(round as u64), vec![0; SMALL]);
        Ok(Some(timed(RANDOM_OFFSETS, || {
            (0..RANDOM_OFFSETS)
                .try_for_each(|_| Ok(file.read_exact_at(&mut buffer, random_offset(&mut random))?))
        })?))
    })?;
    table.row("read 4 KiB at random places", &random_reads, Unit::Time);
    let random_writes = in_turns(targets, rounds, |target, round| {
        let file = File::options().write(true).open(target.path.join("large"))?;
        let mut random = fastrand::Rng::with_seed(round as u64);
        let content = noise(round, SMALL * RANDOM_OFFSETS);
        Ok(Some(timed(RANDOM_OFFSETS, || {
            let mut pieces = content.chunks(SMALL);
            pieces.try_for_each(|piece| file.write_all_at(piece, random_offset(&mut random)))?;
            Ok(file.sync_all()?)
        })?))
    })?;
    table.row("write 4 KiB at random places, then fsync", &random_writes, Unit::Time);
    Ok(())
}

fn measure_programs(targets: &[Target], rounds: usize, table: &mut Table) -> Result {
    let git = |target: &Target, arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b"]);
        // Otherwise git would go on in the background.
        git.args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"]).args(arguments);
        run_program(git.current_dir(target.path.join("repository")))
    };
    for target in targets {
        let path = target.path.join("repository");
        for directory in 0..100 {
            fs::create_dir_all(path.join(directory.to_string()))?;
            for number in 0..MANY / 100 {
                fs::write(path.join(format!("{directory}/{number}")), format!("{directory} {number}\n"))?;
            }
        }
        git(target, &["init", "-q", "."])?;
        git(target, &["add", "."])?;
        git(target, &["commit", "-qm", "all"])?;
    }
    // Git reads files again that are not older than its index. The pause keeps that out of the measurement.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let status =
        in_turns(targets, rounds.max(3), |target, _| Ok(Some(timed(1, || git(target, &["status"]))?)))?;
    table.row("git status of 10,000 files", &status, Unit::Time);
    for target in targets {
        let path = target.path.join("crate");
        fs::create_dir_all(path.join("src"))?;
        let manifest = "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
        fs::write(path.join("Cargo.toml"), manifest)?;
        fs::write(path.join("src/main.rs"), "fn main() { println!(\"{:?}\", std::env::args()); }\n")?;
    }
    let built = in_turns(targets, rounds.max(3), |target, _| {
        let path = target.path.join("crate");
        if path.join("target").exists() {
            fs::remove_dir_all(path.join("target"))?;
        }
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "-q", "--offline"]).current_dir(&path).env_remove("CARGO_TARGET_DIR");
        Ok(Some(timed(1, || run_program(&mut cargo))?))
    })?;
    table.row("cargo build of a small crate", &built, Unit::Time);
    Ok(())
}

fn run_program(command: &mut Command) -> Result {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("{:?} failed", command.get_program()).into()) }
}
