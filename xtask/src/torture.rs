//! `cargo xtask torture`: runs programs that are made to break file systems on a mounted stead.
//!
//! fsx does random operations on one file and compares the result with what it expects. pjdfstest checks the mount
//! against POSIX, except for the cases that `tests/mount/pjdfstest.toml` lists with a reason. What is stored is
//! verified after each program.
//!
//! If root runs it, fsx runs a second time as another user, with fewer operations. pjdfstest acts as several users,
//! which only root can.

use std::fs;
use std::path::PathBuf;

use crate::Result;
use crate::mounted_stead::{MountSetup, MountedStead};
use crate::programs::{self, capture, cargo, program};
use crate::required_programs;
use crate::second_user::SecondUser;
use crate::steps::StepRunner;
use crate::test::RunLength;
use crate::test_clients::{self, TestClients};

/// The Workspaces that every program runs on.
const TESTED_WORKSPACES: [&str; 2] = ["virtual", "physical"];
/// The names of the fsx runs, and their configurations.
const FSX_VARIANTS: [(&str, &str); 2] = [("fsx", "fsx.toml"), ("fsx without mmap", "fsx-without-mmap.toml")];
/// How much fsx does. It never unmaps some of its mappings, and a process may have 65,530 of them: one run can do some 300,000
/// operations, so that a long test is many runs.
#[derive(Clone, Copy)]
struct FsxAmount {
    /// How many runs there are, each with its own seed.
    seeds: u32,
    /// How many operations each run does.
    operations: &'static str,
}

/// How many operations fsx does as another user.
const SECOND_USER_OPERATIONS: &str = "20000";
/// The end of the last line that pjdfstest has to print.
const EXPECTED_SUMMARY: &str = "0 failed, 14 skipped, 259 passed, 125 expected failures, 398 total";

/// Runs all of them.
pub(crate) fn run(length: RunLength) -> Result {
    required_programs::install_missing(&[required_programs::FUSE])?;
    let programs = TorturePrograms::install()?;
    let (profile, profile_directory) = match length {
        // The build of the other tests: a separate build would take longer than the short run.
        RunLength::Short => ("dev", "debug"),
        // The long run takes hours, so a release build pays off.
        RunLength::Long => ("release", "release"),
    };
    capture(cargo().args(["build", "--package", "stead-cli", "--profile", profile]))?;
    let binary = programs::target().join(profile_directory).join("stead");
    let mut steps = StepRunner::default();
    for workspace in TESTED_WORKSPACES {
        for (name, config) in FSX_VARIANTS {
            let setup = MountSetup::new(&binary, programs.clients.fresh_directory("fsx")?, None)?;
            let name = format!("{name}, {workspace}");
            let amount = match length {
                RunLength::Short => FsxAmount { seeds: 1, operations: "100000" },
                RunLength::Long => FsxAmount { seeds: 100, operations: "100000" },
            };
            steps.run(&name, || programs.fsx(&setup, workspace, config, amount))?;
        }
        if programs::is_root() {
            // A socket's path has at most 107 bytes, and the suite adds about 70 of its own.
            let directory = std::env::temp_dir().join(format!("pjd-{}", std::process::id()));
            fs::create_dir(&directory)?;
            let setup = MountSetup::new(&binary, directory.clone(), None)?;
            steps.run(&format!("pjdfstest, {workspace}"), || programs.pjdfstest(&setup, workspace))?;
            fs::remove_dir_all(&directory)?;
        } else {
            println!("pjdfstest, {workspace}: skipped, because only root can act as several users");
        }
    }
    if programs::is_root() {
        let user = SecondUser::nobody()?;
        for workspace in TESTED_WORKSPACES {
            let setup = MountSetup::new(&binary, programs.clients.fresh_directory("fsx")?, Some(&user))?;
            let (name, config) = FSX_VARIANTS[0];
            let name = format!("{name}, {workspace}, another user");
            let amount = FsxAmount { seeds: 1, operations: SECOND_USER_OPERATIONS };
            steps.run(&name, || programs.fsx(&setup, workspace, config, amount))?;
        }
    }
    steps.finish()
}

fn sources_directory() -> PathBuf {
    programs::root().join("tests/mount")
}

/// The programs, in pinned versions.
struct TorturePrograms {
    clients: TestClients,
    directory: PathBuf,
}

impl TorturePrograms {
    /// Builds the programs that are missing.
    fn install() -> Result<Self> {
        let clients = TestClients::without_fetching()?;
        let installed = TorturePrograms { directory: clients.folder().join("cargo"), clients };
        let pinned = sources_directory().join("programs.txt");
        test_clients::unless_up_to_date(&installed.directory.join("programs.txt"), &pinned, || {
            for line in fs::read_to_string(&pinned)?.lines() {
                let (name, version) = line.split_once(' ').ok_or("a line has to be a name and a version")?;
                eprintln!("building {name} {version}");
                let mut install = cargo();
                install.args(["install", "--locked", "--force", name, "--version", version, "--root"]);
                capture(install.arg(&installed.directory))?;
            }
            Ok(())
        })?;
        Ok(installed)
    }

    fn fsx(&self, setup: &MountSetup<'_>, workspace: &str, config: &str, amount: FsxAmount) -> Result {
        let mounted = MountedStead::new(setup)?;
        let mut config = sources_directory().join(config);
        if amount.seeds > 1 {
            // Once in some 65,000 times fsx allocates 0 bytes. Every file system refuses that, and fsx gives up.
            let new_config =
                fs::read_to_string(&config)?.replace("posix_fallocate = 1", "posix_fallocate = 0");
            config = setup.directory().join("fsx.toml");
            fs::write(&config, new_config)?;
        }
        for seed in 1..=amount.seeds {
            let mut fsx = setup.program(self.directory.join("bin/fsx"));
            fsx.args(["-S", &seed.to_string(), "-N", amount.operations, "-P"]).arg(setup.directory());
            fsx.arg("-f").arg(&config).arg(mounted.path(workspace).join("file"));
            capture(&mut fsx).map_err(|error| format!("with the seed {seed}: {error}"))?;
        }
        mounted.unmount()?;
        setup.verify()
    }

    /// Runs pjdfstest. Only root can, because its tests act as several users.
    fn pjdfstest(&self, setup: &MountSetup<'_>, workspace: &str) -> Result {
        let mounted = MountedStead::new(setup)?;
        let second_directory = setup.directory().join("second");
        fs::create_dir(&second_directory)?;
        let mut tests = program(self.directory.join("bin/pjdfstest"));
        tests.arg("--configuration-file").arg(sources_directory().join("pjdfstest.toml"));
        tests.arg("--path").arg(mounted.path(workspace)).arg("--secondary-fs").arg(second_directory);
        // A suite that ran nothing reports no failure. That must not count as a clean result.
        let output = capture(tests.env("NO_COLOR", "1").env("RUST_BACKTRACE", "0"))?;
        let summary = output.lines().last().unwrap_or_default();
        if !summary.ends_with(EXPECTED_SUMMARY) {
            return Err(format!("{summary}; expected: {EXPECTED_SUMMARY}").into());
        }
        mounted.unmount()?;
        setup.verify()
    }
}
