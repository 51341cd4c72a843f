//! A change and its rows: both are there, or neither is, unless a row alone can't be written.

use std::sync::{Arc, Mutex};

use stead_core::vfs::RemoveOptions;
use stead_core::vfs::managed::MoveTarget;

use crate::host::{DAY, Host, Kind, listed};

/// Lets the database refuse a statement.
fn refuse(host: &Host, statement: &str) {
    let conn = rusqlite::Connection::open(host.directory.path().join("stead.db")).unwrap();
    let sql = format!("CREATE TRIGGER refused BEFORE {statement} BEGIN SELECT RAISE(ABORT, 'refused'); END");
    conn.execute_batch(&sql).unwrap();
}

fn allow(host: &Host) {
    let conn = rusqlite::Connection::open(host.directory.path().join("stead.db")).unwrap();
    conn.execute_batch("DROP TRIGGER refused").unwrap();
}

#[test]
fn w35_a_change_whose_transaction_cant_be_made_is_not_made() {
    Host::each(|host| {
        let (vfs, files) = (host.vfs(), host.files());
        let path = vfs.write("/notes/a.py", "one").unwrap().path;
        listed(&files);
        refuse(host, "INSERT ON revision");
        assert!(host.vfs().write("/notes/b.py", "x").is_err());
        assert!(host.vfs().write(&path, "longer").is_err());
        assert!(host.vfs().remove_file(&path, RemoveOptions::default()).is_err());
        assert!(files.move_file(&path, MoveTarget { name: Some("c.py"), category: None }).is_err());
        allow(host);
        let found = host.vfs().list(format!("/notes/code/{DAY}"), &stead_core::vfs::ListPage::all()).unwrap();
        assert_eq!(found.entries.len(), 1);
        assert_eq!(host.vfs().read(&path).unwrap().bytes, b"one");
        assert_eq!(
            host.query("SELECT path || ' ' || size_bytes FROM workspace_files"),
            [format!("code/{DAY}/a.py 3")]
        );
        assert!(files.sync().unwrap().counts.is_empty());
    });
}

#[test]
fn w35_nobody_ever_sees_a_file_without_its_row_or_a_row_without_its_file() {
    Host::each(|host| {
        let vfs = host.vfs();
        vfs.write("/notes/first.py", "x").unwrap();
        listed(&host.files());
        // What the Store's own rows say: those of files or, on a Physical Store, of what happened to files.
        let files = match host.kind {
            Kind::Virtual => "(SELECT count(*) FROM entry WHERE kind = 1)",
            Kind::Physical => {
                "(SELECT count(*) FILTER (WHERE kind = 1) - count(*) FILTER (WHERE kind = 3) FROM ledger_event)"
            }
        };
        let differences = format!("SELECT {files} - (SELECT count(*) FROM workspace_files)");
        // The directories that the first write has made.
        let before = host.query(&differences);
        let is_done = std::sync::atomic::AtomicBool::new(false);
        let (look_sender, looks) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                // Dropped with this thread, so that the writer doesn't wait for ever if it fails.
                let sender = look_sender;
                while !is_done.load(std::sync::atomic::Ordering::Acquire) {
                    assert_eq!(host.query(&differences), before);
                    sender.send(()).unwrap();
                }
            });
            looks.recv().unwrap();
            for number in 0..60 {
                let path = vfs.write(format!("/notes/{number}.py"), "x").unwrap().path;
                if number % 3 == 0 {
                    vfs.remove_file(&path, RemoveOptions::default()).unwrap();
                }
            }
            is_done.store(true, std::sync::atomic::Ordering::Release);
            looking.join().unwrap();
        });
        assert_eq!(host.rows().len(), 41);
    });
}

/// Collects the texts of the warnings that are logged on a thread.
#[derive(Debug, Default, Clone)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            if field.name() == "message" {
                self.0.lock().unwrap().push(format!("{value:?}"));
            }
        });
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn w35_a_row_alone_that_cant_be_written_is_logged_and_left_to_sync() {
    Host::each(|host| {
        let files = host.files();
        host.vfs().write("/notes/a.py", "x").unwrap();
        listed(&files);
        refuse(host, "INSERT ON workspace_files WHEN NEW.path LIKE '%/b.py'");
        let warnings = Warnings::default();
        let path = tracing::subscriber::with_default(warnings.clone(), || {
            host.vfs().write("/notes/b.py", "two").unwrap().path
        });
        let logged = warnings.0.lock().unwrap().clone();
        assert_eq!(logged.len(), 1, "{logged:?}");
        for part in ["a row of a manifest could not be written", "refused"] {
            assert!(logged[0].contains(part), "{part} in {logged:?}");
        }
        assert_eq!(host.vfs().read(&path).unwrap().bytes, b"two");
        assert_eq!(host.rows(), [format!("code/{DAY}/a.py")]);
        allow(host);
        assert_eq!(listed(&files).len(), 2, "the next list runs sync");
        assert!(files.sync().unwrap().counts.is_empty());
    });
}
