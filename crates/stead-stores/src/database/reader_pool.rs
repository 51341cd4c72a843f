//! The connections for reading: a few, opened when they are needed, each used by one caller at a time.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, MappedMutexGuard, Mutex};
use rusqlite::Connection;

use crate::database::error::Result;
use crate::database::schema::{ConnectionRole, connect};

/// How many connections there are at most. More would only wait for a processor, and each has its own cache.
static MAX_CONNECTIONS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(4, |cores| 2 * cores.get()).clamp(4, 8));

/// How long a caller waits for a connection before one more is opened. A caller may wait for another thread that takes a connection. If
/// all callers that have one did that at the same time, they would wait for each other for ever.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The reading connections of a database file.
pub(crate) struct ReaderPool {
    path: PathBuf,
    role: ConnectionRole,
    wait_timeout: Duration,
    state: Mutex<PoolState>,
    returned: Condvar,
}

#[derive(Default)]
struct PoolState {
    idle: Vec<Connection>,
    open_count: usize,
    /// The threads that took the connections that are in use.
    holders: Vec<ThreadId>,
    /// How many callers wait.
    waiting: usize,
}

impl ReaderPool {
    /// A pool for a file. `first` is a connection that is already open.
    pub(crate) fn new(
        path: PathBuf,
        role: ConnectionRole,
        wait_timeout: Duration,
        first: Option<Connection>,
    ) -> Self {
        let idle: Vec<_> = first.into_iter().collect();
        let state = PoolState { open_count: idle.len(), idle, ..PoolState::default() };
        ReaderPool { path, role, wait_timeout, state: Mutex::new(state), returned: Condvar::new() }
    }

    /// The database's file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a connection; waits for one if all are in use, but not for ever. A thread that has one already gets another one at once:
    /// threads that each had one and waited for the next one would never go on.
    pub(crate) fn take(&self) -> Result<ReadConnection<'_>> {
        let holder = std::thread::current().id();
        let mut state = self.state.lock();
        let may_wait = !state.holders.contains(&holder);
        let deadline = Instant::now() + LONGEST_WAIT;
        loop {
            // The connection that was used last has the warmest cache.
            if let Some(conn) = state.idle.pop() {
                state.holders.push(holder);
                return Ok(ReadConnection::Pooled { readers: self, conn: Some(conn), holder });
            }
            if state.open_count < *MAX_CONNECTIONS || !may_wait || Instant::now() >= deadline {
                state.open_count += 1;
                state.holders.push(holder);
                break;
            }
            state.waiting += 1;
            self.returned.wait_until(&mut state, deadline);
            state.waiting -= 1;
        }
        drop(state);
        // From here on, dropping this gives the place in the pool back, also if connecting fails.
        let mut reader = ReadConnection::Pooled { readers: self, conn: None, holder };
        if let ReadConnection::Pooled { conn, .. } = &mut reader {
            *conn = Some(connect(&self.path, self.role, self.wait_timeout)?);
        }
        Ok(reader)
    }

    fn return_connection(&self, conn: Option<Connection>, holder: ThreadId) {
        let mut state = self.state.lock();
        if let Some(place) = state.holders.iter().position(|held_by| *held_by == holder) {
            state.holders.swap_remove(place);
        }
        let is_kept = state.open_count <= *MAX_CONNECTIONS;
        let closed = match conn {
            Some(conn) if is_kept => {
                state.idle.push(conn);
                None
            }
            conn => {
                state.open_count -= 1;
                conn
            }
        };
        drop(state);
        self.returned.notify_one();
        // Without the lock, because closing takes a while.
        drop(closed);
    }
}

/// A connection for reading, which is returned when this is dropped.
pub(crate) enum ReadConnection<'a> {
    /// One connection of a pool.
    Pooled { readers: &'a ReaderPool, conn: Option<Connection>, holder: ThreadId },
    /// The only connection, which also writes.
    Writer(MappedMutexGuard<'a, Connection>),
}

impl Deref for ReadConnection<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        match self {
            ReadConnection::Pooled { conn, .. } => {
                conn.as_ref().expect("a reader that was handed out has a connection")
            }
            ReadConnection::Writer(conn) => conn,
        }
    }
}

impl Drop for ReadConnection<'_> {
    fn drop(&mut self) {
        if let ReadConnection::Pooled { readers, conn, holder } = self {
            readers.return_connection(conn.take(), *holder);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn pool(dir: &tempfile::TempDir) -> ReaderPool {
        let path = dir.path().join("db");
        drop(Connection::open(&path).unwrap());
        ReaderPool::new(path, ConnectionRole::Reader, Duration::from_secs(1), None)
    }

    fn assert_all_returned(pool: &ReaderPool) {
        let state = pool.state.lock();
        assert_eq!((state.open_count, state.holders.len()), (state.idle.len(), 0), "all were returned");
        assert!((1..=*MAX_CONNECTIONS).contains(&state.open_count), "{} stay open", state.open_count);
    }

    #[test]
    fn callers_that_hold_connections_and_take_more_do_not_wait_for_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let pool = pool(&dir);
        let all_hold_one = std::sync::Barrier::new(*MAX_CONNECTIONS);
        std::thread::scope(|scope| {
            for _ in 0..*MAX_CONNECTIONS {
                scope.spawn(|| {
                    let _first = pool.take().unwrap();
                    all_hold_one.wait();
                    let _second = pool.take().unwrap();
                });
            }
        });
        assert_all_returned(&pool);
    }

    #[test]
    fn callers_that_wait_for_threads_which_take_a_connection_do_not_wait_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let pool = pool(&dir);
        let all_hold_one = std::sync::Barrier::new(*MAX_CONNECTIONS);
        std::thread::scope(|scope| {
            for _ in 0..*MAX_CONNECTIONS {
                scope.spawn(|| {
                    let _first = pool.take().unwrap();
                    all_hold_one.wait();
                    std::thread::scope(|scope| scope.spawn(|| drop(pool.take().unwrap())).join().unwrap());
                });
            }
        });
        assert_all_returned(&pool);
    }

    #[test]
    fn many_callers_share_the_connections() {
        let dir = tempfile::tempdir().unwrap();
        let pool = pool(&dir);
        let (in_use, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 * *MAX_CONNECTIONS {
                scope.spawn(|| {
                    let _conn = pool.take().unwrap();
                    most.fetch_max(in_use.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(1));
                    in_use.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert!(most.into_inner() <= *MAX_CONNECTIONS);
        assert_all_returned(&pool);
    }
}
