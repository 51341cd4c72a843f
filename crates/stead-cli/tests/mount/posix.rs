//! POSIX behaviour that programs rely on.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::process::Command;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, renameat_with};

use super::common::{BOTH, Place};

fn open(path: &std::path::Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

#[test]
fn a_removed_file_stays_open() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        let at = mount.path(workspace);
        let mut file = open(&at.join("f"));
        file.write_all(b"before").unwrap();
        fs::remove_file(at.join("f")).unwrap();
        file.write_all(b" and after").unwrap();
        file.sync_all().unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        assert_eq!(file.metadata().unwrap().len(), 16);
        fs::write(at.join("f"), "another").unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "before and after");
        file.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(at.join("f")).unwrap(), "another");
        fs::remove_file(at.join("f")).unwrap();
        fs::remove_dir(at.join("f")).unwrap_err();
        assert!(!at.join("f").exists());
    }
}

#[test]
fn names_are_moved_over_and_exchanged() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        let at = mount.path(workspace);
        let write = |name: &str| fs::write(at.join(name), name).unwrap();
        let read = |name: &str| fs::read_to_string(at.join(name)).unwrap();
        write("a");
        write("b");
        let replaced = open(&at.join("b"));
        fs::set_permissions(at.join("a"), fs::Permissions::from_mode(0o640)).unwrap();
        let number = fs::metadata(at.join("a")).unwrap().ino();
        fs::rename(at.join("a"), at.join("b")).unwrap();
        assert_eq!(read("b"), "a");
        let moved = fs::metadata(at.join("b")).unwrap();
        assert_eq!((moved.mode() & 0o777, moved.ino()), (0o640, number));
        let mut left = [0; 1];
        replaced.read_exact_at(&mut left, 0).unwrap();
        assert_eq!(&left, b"b");
        write("c");
        let exchange =
            |one: &str, other: &str, flags| renameat_with(CWD, at.join(one), CWD, at.join(other), flags);
        exchange("b", "c", RenameFlags::EXCHANGE).unwrap();
        assert_eq!((read("b"), read("c")), ("c".into(), "a".into()));
        exchange("b", "c", RenameFlags::NOREPLACE).unwrap_err();
        fs::create_dir_all(at.join("d/e")).unwrap();
        fs::write(at.join("d/e/f"), "f").unwrap();
        fs::create_dir(at.join("g")).unwrap();
        fs::rename(at.join("d/e"), at.join("g")).unwrap();
        assert_eq!(read("g/f"), "f");
        exchange("g", "d", RenameFlags::EXCHANGE).unwrap();
        assert_eq!(read("d/f"), "f");
        assert_eq!(fs::rename(at.join("d"), at.join("d/x")).unwrap_err().raw_os_error(), Some(22));
        fs::rename(at.join("g"), at.join("d")).unwrap_err();
    }
}

#[test]
fn parts_of_a_large_file_are_written_where_they_belong() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        let path = mount.path(workspace).join("large");
        let mut model = vec![0_u8; 40 << 20];
        let file = open(&path);
        file.set_len(model.len() as u64).unwrap();
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let at = random.usize(..model.len() - 70_000);
            let length = random.usize(1..70_000);
            let byte = random.u8(..);
            model[at..at + length].fill(byte);
            file.write_all_at(&vec![byte; length], at as u64).unwrap();
            if random.u8(..) < 10 {
                file.sync_data().unwrap();
            }
        }
        file.set_len(30 << 20).unwrap();
        file.set_len(35 << 20).unwrap();
        model.truncate(30 << 20);
        model.resize(35 << 20, 0);
        drop(file);
        assert!(fs::read(&path).unwrap() == model, "{workspace}");
        let told = place.run(["cat", &format!("/{workspace}/large")]).stdout;
        assert!(told == model, "{workspace}");
    }
}

#[test]
fn writing_at_the_end_and_through_memory() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        let at = mount.path(workspace);
        let append = || OpenOptions::new().append(true).create(true).open(at.join("log")).unwrap();
        let (mut one, mut other) = (append(), append());
        for number in 0..20 {
            writeln!(one, "one {number}").unwrap();
            writeln!(other, "other {number}").unwrap();
        }
        drop((one, other));
        assert_eq!(fs::read_to_string(at.join("log")).unwrap().lines().count(), 40);
        let script = "import mmap, os
fd = os.open('mapped', os.O_RDWR | os.O_CREAT, 0o644)
os.ftruncate(fd, 100000)
m = mmap.mmap(fd, 100000)
os.close(fd)
m[50000:50005] = b'hello'
assert open('mapped', 'rb').read()[50000:50005] == b'hello'
m[0:3] = b'abc'
m.flush()
m.close()
";
        let script = format!("cat > program.py <<'END'\n{script}END\npython3 program.py");
        mount.sh(workspace, &script);
        let told = place.run(["cat", &format!("/{workspace}/mapped")]).stdout;
        assert_eq!((&told[..3], &told[50000..50005], told.len()), (&b"abc"[..], &b"hello"[..], 100_000));
    }
}

#[test]
fn attributes_are_kept() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        let path = mount.path(workspace).join("f");
        let then = SystemTime::UNIX_EPOCH + Duration::new(1_500_000_000, 123_456_789);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o751).open(&path).unwrap();
        file.write_all(b"12345").unwrap();
        // Set before the close, as rsync and tar do.
        file.set_modified(then).unwrap();
        assert_eq!(file.metadata().unwrap().modified().unwrap(), then);
        drop(file);
        let found = fs::metadata(&path).unwrap();
        assert_eq!(found.modified().unwrap(), then, "{workspace}");
        assert_eq!((found.mode() & 0o777, found.len()), (0o751, 5));
        let number = found.ino();
        fs::write(&path, "more").unwrap();
        let after = fs::metadata(&path).unwrap();
        assert_eq!((after.mode() & 0o777, after.ino()), (0o751, number));
        assert!(after.modified().unwrap() > then);
        let closed = after.modified().unwrap();
        std::thread::sleep(Duration::from_millis(1200));
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), closed, "it is the same after a while");
        let uid = rustix::process::getuid().as_raw();
        assert_eq!(after.uid(), uid);
        std::os::unix::fs::chown(&path, Some(uid), None).unwrap();
    }
}

#[test]
fn large_directories_are_listed_whole_and_emptied() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        let at = mount.path(workspace).join("many");
        fs::create_dir(&at).unwrap();
        let count = 6_000;
        for number in 0..count {
            File::create(at.join(format!("f{number}"))).unwrap();
        }
        assert_eq!(fs::read_dir(&at).unwrap().count(), count);
        // Removing while reading, as `rm -r` does, leaves nothing.
        mount.sh(workspace, "rm -r many");
        assert!(!at.exists());
        fs::create_dir(&at).unwrap();
        assert_eq!(fs::read_dir(&at).unwrap().count(), 0);
    }
}

#[test]
fn a_file_is_opened_anew_only_where_that_is_asked_for() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        let path = mount.path(workspace).join("f");
        fs::write(&path, "first").unwrap();
        OpenOptions::new().write(true).create_new(true).open(&path).unwrap_err();
        let other = File::open(&path).unwrap();
        fs::write(&path, "2nd").unwrap();
        let mut text = String::new();
        (&other).read_to_string(&mut text).unwrap();
        assert_eq!(text, "2nd", "whoever has it open sees what is written");
        fs::File::options().write(true).open(&path).unwrap().set_len(1).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "2");
    }
}

/// The kernel caches the attributes that a listing returns for a file.
#[test]
fn a_listing_that_began_before_a_change_does_not_undo_it() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        let at = mount.path(workspace).join("listed");
        fs::create_dir(&at).unwrap();
        for name in ["grows", "moves", "goes"] {
            fs::write(at.join(name), "short").unwrap();
        }
        let listing = fs::read_dir(&at).unwrap();
        let mut grows = OpenOptions::new().read(true).append(true).open(at.join("grows")).unwrap();
        grows.write_all(b", and longer").unwrap();
        fs::rename(at.join("moves"), at.join("moved")).unwrap();
        fs::remove_file(at.join("goes")).unwrap();
        listing.for_each(|entry| drop(entry.unwrap()));
        let mut content = String::new();
        grows.seek(SeekFrom::Start(0)).unwrap();
        grows.read_to_string(&mut content).unwrap();
        assert_eq!(content, "short, and longer", "{workspace}");
        assert_eq!(fs::read_to_string(at.join("moved")).unwrap(), "short", "{workspace}");
        assert!(!at.join("moves").exists() && !at.join("goes").exists(), "{workspace}");
    }
}

#[test]
fn a_program_that_runs_is_not_written_to_and_goes_on() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        let program = mount.path(workspace).join("sleep");
        mount.sh(workspace, "cp \"$(command -v sleep)\" sleep && chmod 755 sleep");
        for _ in 0..10 {
            let mut running = Command::new(&program).arg("1000").spawn().unwrap();
            let cut = OFlags::RDONLY | OFlags::TRUNC;
            for flags in [OFlags::WRONLY, OFlags::RDWR, cut, OFlags::WRONLY | OFlags::TRUNC] {
                let refused = rustix::fs::open(&program, flags, Mode::empty()).unwrap_err();
                assert_eq!(refused, rustix::io::Errno::TXTBSY, "{workspace}, {flags:?}");
            }
            assert!(running.try_wait().unwrap().is_none(), "{workspace}: it was ended");
            running.kill().unwrap();
            running.wait().unwrap();
        }
    }
}

/// A reader's close commits what a writer has written so far, while the writer goes on.
#[test]
fn a_file_has_the_size_that_was_written_while_another_closes_it() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        let path = mount.path(workspace).join("f");
        for _ in 0..200 {
            let mut new = OpenOptions::new();
            let writer = new.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
            let reader = File::open(&path).unwrap();
            writer.write_all_at(&[b'x'; 9000], 0).unwrap();
            drop(reader);
            assert_eq!(writer.metadata().unwrap().len(), 9000, "{workspace}");
            OpenOptions::new().append(true).open(&path).unwrap().write_all(b"tail").unwrap();
            assert_eq!(writer.metadata().unwrap().len(), 9004, "{workspace}");
            assert_eq!(fs::read(&path).unwrap().len(), 9004, "{workspace}");
        }
    }
}
