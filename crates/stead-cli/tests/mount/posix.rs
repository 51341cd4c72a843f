//! POSIX behaviour that programs rely on.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::process::Command;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, renameat_with};

use super::common::{TestDir, WORKSPACES};

fn open(path: &std::path::Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

#[test]
fn a_removed_file_stays_open() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let directory = mount.path(workspace);
        let mut file = open(&directory.join("f"));
        file.write_all(b"before").unwrap();
        fs::remove_file(directory.join("f")).unwrap();
        file.write_all(b" and after").unwrap();
        file.sync_all().unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        assert_eq!(file.metadata().unwrap().len(), 16);
        fs::write(directory.join("f"), "another").unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "before and after");
        file.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(directory.join("f")).unwrap(), "another");
        fs::remove_file(directory.join("f")).unwrap();
        fs::remove_dir(directory.join("f")).unwrap_err();
        assert!(!directory.join("f").exists());
    }
}

#[test]
fn files_are_renamed_over_each_other_and_exchanged() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let directory = mount.path(workspace);
        let write = |name: &str| fs::write(directory.join(name), name).unwrap();
        let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
        write("a");
        write("b");
        let replaced = open(&directory.join("b"));
        fs::set_permissions(directory.join("a"), fs::Permissions::from_mode(0o640)).unwrap();
        let inode = fs::metadata(directory.join("a")).unwrap().ino();
        fs::rename(directory.join("a"), directory.join("b")).unwrap();
        assert_eq!(read("b"), "a");
        let moved = fs::metadata(directory.join("b")).unwrap();
        assert_eq!((moved.mode() & 0o777, moved.ino()), (0o640, inode));
        let mut content = [0; 1];
        replaced.read_exact_at(&mut content, 0).unwrap();
        assert_eq!(&content, b"b");
        write("c");
        let exchange = |first: &str, second: &str, flags| {
            renameat_with(CWD, directory.join(first), CWD, directory.join(second), flags)
        };
        exchange("b", "c", RenameFlags::EXCHANGE).unwrap();
        assert_eq!((read("b"), read("c")), ("c".into(), "a".into()));
        exchange("b", "c", RenameFlags::NOREPLACE).unwrap_err();
        fs::create_dir_all(directory.join("d/e")).unwrap();
        fs::write(directory.join("d/e/f"), "f").unwrap();
        fs::create_dir(directory.join("g")).unwrap();
        fs::rename(directory.join("d/e"), directory.join("g")).unwrap();
        assert_eq!(read("g/f"), "f");
        exchange("g", "d", RenameFlags::EXCHANGE).unwrap();
        assert_eq!(read("d/f"), "f");
        assert_eq!(
            fs::rename(directory.join("d"), directory.join("d/x")).unwrap_err().raw_os_error(),
            Some(22)
        );
        fs::rename(directory.join("g"), directory.join("d")).unwrap_err();
    }
}

#[test]
fn parts_of_a_large_file_are_written_at_their_offsets() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let path = mount.path(workspace).join("large");
        let mut model = vec![0_u8; 40 << 20];
        let file = open(&path);
        file.set_len(model.len() as u64).unwrap();
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let offset = random.usize(..model.len() - 70_000);
            let length = random.usize(1..70_000);
            let byte = random.u8(..);
            model[offset..offset + length].fill(byte);
            file.write_all_at(&vec![byte; length], offset as u64).unwrap();
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
        let content = dir.run(["cat", &format!("/{workspace}/large")]).stdout;
        assert!(content == model, "{workspace}");
    }
}

#[test]
fn appends_and_mapped_writes_are_stored() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let directory = mount.path(workspace);
        let append = || OpenOptions::new().append(true).create(true).open(directory.join("log")).unwrap();
        let (mut first, mut second) = (append(), append());
        for number in 0..20 {
            writeln!(first, "one {number}").unwrap();
            writeln!(second, "other {number}").unwrap();
        }
        drop((first, second));
        assert_eq!(fs::read_to_string(directory.join("log")).unwrap().lines().count(), 40);
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
        let content = dir.run(["cat", &format!("/{workspace}/mapped")]).stdout;
        assert_eq!(
            (&content[..3], &content[50000..50005], content.len()),
            (&b"abc"[..], &b"hello"[..], 100_000)
        );
    }
}

#[test]
fn attributes_are_kept() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let path = mount.path(workspace).join("f");
        let time = SystemTime::UNIX_EPOCH + Duration::new(1_500_000_000, 123_456_789);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o751).open(&path).unwrap();
        file.write_all(b"12345").unwrap();
        // Set before the close, as rsync and tar do.
        file.set_modified(time).unwrap();
        assert_eq!(file.metadata().unwrap().modified().unwrap(), time);
        drop(file);
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.modified().unwrap(), time, "{workspace}");
        assert_eq!((metadata.mode() & 0o777, metadata.len()), (0o751, 5));
        let inode = metadata.ino();
        fs::write(&path, "more").unwrap();
        let after = fs::metadata(&path).unwrap();
        assert_eq!((after.mode() & 0o777, after.ino()), (0o751, inode));
        assert!(after.modified().unwrap() > time);
        let modified_at_close = after.modified().unwrap();
        std::thread::sleep(Duration::from_millis(1200));
        assert_eq!(
            fs::metadata(&path).unwrap().modified().unwrap(),
            modified_at_close,
            "the modification time must not change later"
        );
        let uid = rustix::process::getuid().as_raw();
        assert_eq!(after.uid(), uid);
        std::os::unix::fs::chown(&path, Some(uid), None).unwrap();
    }
}

#[test]
fn large_directories_are_listed_completely_and_removed() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let directory = mount.path(workspace).join("many");
        fs::create_dir(&directory).unwrap();
        let count = 6_000;
        for number in 0..count {
            File::create(directory.join(format!("f{number}"))).unwrap();
        }
        assert_eq!(fs::read_dir(&directory).unwrap().count(), count);
        // Removing while reading, as `rm -r` does, leaves nothing.
        mount.sh(workspace, "rm -r many");
        assert!(!directory.exists());
        fs::create_dir(&directory).unwrap();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    }
}

#[test]
fn a_file_is_created_and_truncated_only_on_request() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let path = mount.path(workspace).join("f");
        fs::write(&path, "first").unwrap();
        OpenOptions::new().write(true).create_new(true).open(&path).unwrap_err();
        let reader = File::open(&path).unwrap();
        fs::write(&path, "2nd").unwrap();
        let mut text = String::new();
        (&reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "2nd", "a program that has the file open has to see the new content");
        fs::File::options().write(true).open(&path).unwrap().set_len(1).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "2");
    }
}

/// The kernel caches the attributes that a listing returns for a file.
#[test]
fn a_listing_that_began_before_a_change_does_not_undo_it() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let directory = mount.path(workspace).join("listed");
        fs::create_dir(&directory).unwrap();
        for name in ["grows", "moves", "goes"] {
            fs::write(directory.join(name), "short").unwrap();
        }
        let listing = fs::read_dir(&directory).unwrap();
        let mut grows = OpenOptions::new().read(true).append(true).open(directory.join("grows")).unwrap();
        grows.write_all(b", and longer").unwrap();
        fs::rename(directory.join("moves"), directory.join("moved")).unwrap();
        fs::remove_file(directory.join("goes")).unwrap();
        listing.for_each(|entry| drop(entry.unwrap()));
        let mut content = String::new();
        grows.seek(SeekFrom::Start(0)).unwrap();
        grows.read_to_string(&mut content).unwrap();
        assert_eq!(content, "short, and longer", "{workspace}");
        assert_eq!(fs::read_to_string(directory.join("moved")).unwrap(), "short", "{workspace}");
        assert!(!directory.join("moves").exists() && !directory.join("goes").exists(), "{workspace}");
    }
}

#[test]
fn a_running_program_cannot_be_written_to() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let program = mount.path(workspace).join("sleep");
        mount.sh(workspace, "cp \"$(command -v sleep)\" sleep && chmod 755 sleep");
        for _ in 0..10 {
            let mut running = Command::new(&program).arg("1000").spawn().unwrap();
            let truncate = OFlags::RDONLY | OFlags::TRUNC;
            for flags in [OFlags::WRONLY, OFlags::RDWR, truncate, OFlags::WRONLY | OFlags::TRUNC] {
                let refused = rustix::fs::open(&program, flags, Mode::empty()).unwrap_err();
                assert_eq!(refused, rustix::io::Errno::TXTBSY, "{workspace}, {flags:?}");
            }
            assert!(running.try_wait().unwrap().is_none(), "{workspace}: the program was ended");
            running.kill().unwrap();
            running.wait().unwrap();
        }
    }
}

/// A reader's close commits what a writer has written so far, while the writer goes on.
#[test]
fn a_file_has_the_size_that_was_written_while_a_reader_closes_it() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let path = mount.path(workspace).join("f");
        for _ in 0..200 {
            let mut options = OpenOptions::new();
            let writer = options.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
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
