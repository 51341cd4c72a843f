//! Programs that work alone in their directories: what they see is always true, and no operation is refused.
//!
//! The mount also hears of its own changes from the Store, a moment later. If it took them for changes of others, it
//! would forget what it knows: a file renamed twice would not be found, and pending attributes of an open file would be
//! lost.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Result, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::common::{TestDir, long_or};

const THREADS: u64 = 4;

#[test]
fn a_program_alone_in_its_directory_sees_exactly_its_own_changes() {
    let dir = TestDir::new();
    for workspace in ["v", "p"] {
        let mount = dir.mount();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let directory = mount.mount_point.join(workspace).join(thread.to_string());
                scope.spawn(move || Alone::new(directory, thread).work(long_or(50_000, 1_500)));
            }
        });
        mount.end_cleanly();
        dir.stead(["verify"]);
    }
}

/// A program with a directory of its own, and the files that have to be in it.
struct Alone {
    directory: PathBuf,
    random: fastrand::Rng,
    files: BTreeMap<String, (u32, Vec<u8>)>,
}

impl Alone {
    fn new(directory: PathBuf, seed: u64) -> Self {
        fs::create_dir(&directory).unwrap();
        Alone { directory, random: fastrand::Rng::with_seed(seed), files: BTreeMap::new() }
    }

    fn work(&mut self, steps: u32) {
        for step in 0..steps {
            // Few names, so that each is soon used again.
            let (first, second) = (self.name(), self.name());
            let result = match self.random.u8(..6) {
                0 | 1 => self.write(&first),
                2 => self.chmod(&first),
                3 | 4 => self.rename(&first, &second),
                _ => self.remove(&first),
            };
            result.unwrap_or_else(|error| panic!("operation {step} on {first} and {second}: {error}"));
            self.compare(&first).and_then(|()| self.compare(&second)).unwrap_or_else(|error| {
                panic!("after operation {step} on {first} and {second}: {error}");
            });
        }
    }

    fn name(&mut self) -> String {
        format!("f{}", self.random.u8(..3))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn write(&mut self, name: &str) -> Result<()> {
        let content = vec![self.random.u8(..); self.random.usize(..5_000)];
        let mut file = File::create(self.path(name))?;
        file.write_all(&content)?;
        self.files.entry(name.into()).or_insert((0o644, Vec::new())).1 = content;
        Ok(())
    }

    /// Sets the mode through an open file, as a program does that has just created it.
    fn chmod(&mut self, name: &str) -> Result<()> {
        let mode = *self.random.choice(&[0o600, 0o640, 0o755]).expect("the list isn't empty");
        let Some((known_mode, _)) = self.files.get_mut(name) else { return Ok(()) };
        *known_mode = mode;
        OpenOptions::new().write(true).open(self.path(name))?.set_permissions(Permissions::from_mode(mode))
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        let Some(file) = self.files.remove(from) else { return Ok(()) };
        self.files.insert(to.into(), file);
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        if self.files.remove(name).is_some() { fs::remove_file(self.path(name)) } else { Ok(()) }
    }

    fn compare(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        let Some((mode, content)) = self.files.get(name) else {
            assert!(!path.exists(), "{name} should not exist");
            return Ok(());
        };
        let mut read = Vec::new();
        File::open(&path)?.read_to_end(&mut read)?;
        assert!(read == *content, "{name} has {} bytes, not the {} written", read.len(), content.len());
        let actual_mode = fs::metadata(path)?.permissions().mode() & 0o7777;
        assert_eq!(actual_mode, *mode, "the mode of {name}");
        Ok(())
    }
}
