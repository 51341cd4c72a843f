//! Leases between processes: a thread that a process uses stays, one whose process is gone can end, and a process that was
//! stopped past its lease writes nothing until it has renewed.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use stead::{Error, ThreadKey};

use crate::connection::{Connection, Era};
use crate::host::{Host, KINDS, read, store, wait_until, write};

/// How long leases hold here.
const LEASE: Duration = Duration::from_secs(4);

fn host(kind: &str, idle_timeout: &str) -> Host {
    let agent = format!(
        "[agents.a]\nscope = \"thread\"\nidle_timeout = \"{idle_timeout}\"\n\
         workspaces = [{{ prefix = \"/w\", store = \"s\", path = \"/app\", scope = \"rw\" }}]\n"
    );
    Host::new(&format!("{}{agent}", store(kind)), LEASE)
}

fn key() -> ThreadKey {
    ThreadKey::new("a", "one")
}

/// Runs a test on a Virtual and on a Physical Store, both at the same time because most of it is waiting.
fn on_both_kinds(test: impl Fn(&str) + Sync) {
    std::thread::scope(|scope| {
        for kind in ["virtual", "physical"] {
            let test = &test;
            scope.spawn(move || test(kind));
        }
    });
}

/// Stops a process outside any write transaction. In the middle of one, it would keep all others from writing.
fn stop(host: &Host, signal: impl Fn(Signal)) {
    // A process has these files locked while it waits for its turn to write, and while it writes.
    let locks = ["-next", "-turn"].map(|suffix| {
        let file = host.path(&format!(".stead/stead.db{suffix}"));
        fs::File::open(file).unwrap()
    });
    wait_until("it is stopped outside any transaction", || {
        signal(Signal::STOP);
        // Until all its threads have stopped.
        std::thread::sleep(Duration::from_millis(100));
        let can_write = locks.iter().all(|lock| lock.try_lock().is_ok());
        locks.iter().for_each(|lock| lock.unlock().unwrap());
        if !can_write {
            signal(Signal::CONT);
        }
        can_write
    });
}

#[test]
fn s14_a_thread_in_use_is_not_destroyed_and_a_killed_server_gives_it_up_after_its_lease() {
    on_both_kinds(|kind| {
        let host = host(kind, "1h");
        let server = host.serve();
        let mut client = host.connect(&server, "a", Some("one"));
        write(&mut client, "/w/x", "1").unwrap();
        let stores = host.stores();
        // Longer than a lease: the heartbeat renews it, though no call comes.
        let end = Instant::now() + LEASE * 2;
        while Instant::now() < end {
            let error = stores.threads().destroy(&key()).unwrap_err();
            assert!(matches!(error, Error::ThreadInUse(_)), "{kind}: {error}");
            assert!(stores.threads().sweep().unwrap().ended.is_empty());
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(read(&mut client, "/w/x").unwrap().contains('1'));
        server.signal(Signal::KILL);
        assert!(stores.threads().destroy(&key()).is_err(), "{kind}: the lease of a killed process holds on");
        wait_until("the lease expires", || stores.threads().destroy(&key()).is_ok());
        assert_eq!(host.threads(), [""; 0]);
        assert!(!host.path("files/app/threads/a/one").exists());
    });
}

#[test]
fn s14_a_server_that_ends_gives_its_threads_up_at_once() {
    let host = host("virtual", "1h");
    let server = host.serve();
    let mut client = host.connect(&server, "a", Some("one"));
    write(&mut client, "/w/x", "1").unwrap();
    server.stop();
    assert!(host.stores().threads().destroy(&key()).unwrap().is_some());
}

/// Stops a server past its lease, does something meanwhile, and continues it. Returns what its client gets for two writes and a
/// read after that.
fn write_after_pause(host: &Host, meanwhile: impl FnOnce()) -> [Result<String, String>; 3] {
    let server = host.serve();
    let mut client = host.connect(&server, "a", Some("one"));
    write(&mut client, "/w/before", "1").unwrap();
    stop(host, |signal| server.signal(signal));
    std::thread::sleep(LEASE + Duration::from_millis(300));
    meanwhile();
    // The request waits in the socket until the server goes on, so that it comes before any heartbeat.
    let mut other = host.stores_client(&server);
    let writer = std::thread::spawn(move || {
        let first = write(&mut other, "/w/late", "2").map(|()| String::new());
        let second = write(&mut other, "/w/later", "3").map(|()| String::new());
        [first, second, read(&mut other, "/w/before")]
    });
    std::thread::sleep(Duration::from_millis(100));
    server.signal(Signal::CONT);
    writer.join().unwrap()
}

impl Host {
    /// Another connection of the same thread, which needs no answer to be open.
    fn stores_client(&self, server: &crate::host::Server) -> crate::connection::Connection {
        self.connect(server, "a", Some("one"))
    }
}

/// A request without a session is a first use of the thread, if the server itself has ended the thread meanwhile.
#[test]
fn s12_a_request_without_a_session_begins_an_ended_thread_anew() {
    for kind in KINDS {
        let host = host(kind, "1s");
        let server = host.serve();
        let mut client = host.connect(&server, "a", Some("one"));
        let mut in_session = Connection::open(server.address, &host.token("a", Some("two")), Era::Sessions);
        for client in [&mut client, &mut in_session] {
            write(client, "/w/x", "1").unwrap();
        }
        wait_until("the threads end", || host.threads().is_empty());
        assert!(read(&mut client, "/w/x").unwrap_err().contains("[not_found]"), "{kind}");
        write(&mut client, "/w/x", "2").unwrap();
        // A client with a session is told.
        let refused = write(&mut in_session, "/w/y", "2").unwrap_err();
        assert!(refused.contains("the thread has ended"), "{kind}: {refused}");
    }
}

#[test]
fn s14_a_process_that_was_stopped_past_its_lease_goes_on_if_the_thread_is_still_there() {
    on_both_kinds(|kind| {
        let host = host(kind, "1h");
        let [first, second, before] = write_after_pause(&host, || ());
        // It renews by itself at its first call.
        first.unwrap();
        second.unwrap();
        assert!(before.unwrap().contains('1'), "{kind}");
        for (name, content) in [("late", "2"), ("later", "3")] {
            assert_eq!(host.stead_in("a", "one", &["cat", &format!("/w/{name}")]), content, "{kind}");
        }
    });
}

#[test]
fn s14_a_process_that_was_stopped_past_its_lease_writes_nothing_if_the_thread_has_ended() {
    on_both_kinds(|kind| {
        let host = host(kind, "1s");
        let thread_directory = host.path("files/app/threads/a/one");
        let mut number = None;
        let [first, second, _] = write_after_pause(&host, || {
            let stores = host.stores();
            number = Some(stores.threads().list(None).unwrap()[0].id);
            let swept = stores.threads().sweep().unwrap();
            assert_eq!(swept.ended.len(), 1, "{kind}: {swept:?}");
            assert!(!thread_directory.exists(), "{kind}");
        });
        // The first call says what happened. After it, the thread is a new one.
        let error = first.unwrap_err();
        assert!(error.contains("the thread has ended"), "{kind}: {error}");
        second.unwrap();
        let stores = host.stores();
        let records = stores.threads().list(None).unwrap();
        assert_eq!(records.len(), 1, "{kind}");
        assert_ne!(Some(records[0].id), number, "{kind}: a new thread has a new number");
        let listed = host.run_in("a", "one", &["ls", "/w"]);
        assert_eq!(String::from_utf8_lossy(&listed.stdout).trim(), "later", "{kind}");
        if kind == "physical" {
            let names: Vec<_> =
                fs::read_dir(thread_directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(names, ["later"]);
        }
    });
}

#[test]
fn s14_a_mount_that_was_stopped_past_its_lease_writes_nothing_if_the_thread_has_ended() {
    for kind in ["virtual", "physical"] {
        let host = host(kind, "1s");
        let Some(mounted) = host.mount("mnt", "a", "one", &[]) else { return };
        let file = mounted.point.join("w/x");
        fs::write(&file, "1").unwrap();
        let mut open = fs::OpenOptions::new().append(true).open(&file).unwrap();
        stop(&host, |signal| mounted.signal(signal));
        std::thread::sleep(LEASE + Duration::from_millis(300));
        let stores = host.stores();
        assert_eq!(stores.threads().sweep().unwrap().ended.len(), 1, "{kind}");
        mounted.signal(Signal::CONT);
        // What can't be written is an error at the latest when the file is closed.
        let written = std::io::Write::write_all(&mut open, b"late").and_then(|()| open.sync_all());
        assert!(written.is_err(), "{kind}: {written:?}");
        assert!(fs::write(mounted.point.join("w/new"), "2").is_err(), "{kind}");
        assert!(fs::read(&file).is_err(), "{kind}");
        drop(open);
        drop(mounted);
        assert_eq!(host.threads(), [""; 0], "{kind}");
        assert!(!host.path("files/app/threads/a/one").exists(), "{kind}");
    }
}

#[test]
fn s14_a_mounted_thread_is_not_destroyed_and_its_files_stay() {
    for kind in ["virtual", "physical"] {
        let host = host(kind, "1h");
        let Some(mounted) = host.mount("mnt", "a", "one", &[]) else { return };
        let file = mounted.point.join("w/x");
        fs::write(&file, "1").unwrap();
        for args in [&["destroy", "one"][..], &["archive", "one", "one.tar", "--and-destroy"]] {
            let all = [&["threads", "--agent", "a"][..], args].concat();
            let refused = host.command(&all).output().unwrap();
            let text = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert_eq!(refused.status.code(), Some(1), "{kind} {args:?}: {text}");
            assert!(text.contains("try again when"), "{kind} {args:?}: {text}");
        }
        // The library is told the same, and nothing was marked or removed.
        let stores = host.stores();
        let error = stores.threads().destroy(&key()).unwrap_err();
        assert!(matches!(error, Error::ThreadInUse(_)), "{kind}: {error}");
        assert_eq!(fs::read(&file).unwrap(), b"1", "{kind}");
        fs::write(mounted.point.join("w/y"), "2").unwrap();
        assert_eq!(host.threads(), ["one"], "{kind}");
        drop(mounted);
        // After the unmount it can be destroyed.
        wait_until("the mount gives its lease back", || {
            stores.threads().destroy(&key()).is_ok_and(|removed| removed.is_some())
        });
        assert_eq!(host.threads(), [""; 0], "{kind}");
        assert!(!host.path("files/app/threads/a/one").exists(), "{kind}");
    }
}

#[test]
fn s15_an_idle_mount_keeps_its_thread() {
    let host = host("virtual", "1s");
    let Some(mounted) = host.mount("mnt", "a", "one", &[]) else { return };
    fs::write(mounted.point.join("w/x"), "1").unwrap();
    let stores = host.stores();
    let end = Instant::now() + LEASE + Duration::from_secs(1);
    while Instant::now() < end {
        assert!(stores.threads().sweep().unwrap().ended.is_empty());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(fs::read(mounted.point.join("w/x")).unwrap(), b"1");
    drop(mounted);
    wait_until("the thread ends", || stores.threads().sweep().unwrap().ended.len() == 1);
}
