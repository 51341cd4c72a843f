//! Mounting, unmounting, and removing the mount of a killed process.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use stead_core::Vfs;

use crate::linux::feed_follower::{FeedFollower, FollowerControl};
use crate::linux::fuse_adapter::FuseAdapter;
use crate::linux::mount_table::{self, SOURCE_PREFIX};
use crate::linux::requests::FuseServer;
use crate::linux::session_end::SessionEnd;
use crate::{MountError, MountOptions};

/// The type that `mount` shows after `fuse.`, if the host shows it.
const SUBTYPE: &str = "stead";
/// How many threads answer requests.
const THREADS: usize = 8;
/// How long programs may keep using the mount before it is detached in spite of them.
const UNMOUNT_TIMEOUT: Duration = Duration::from_secs(2);

/// A mounted stead. Dropping it unmounts it.
#[derive(Debug)]
pub struct FuseMount {
    mount_point: PathBuf,
    /// Identifies the mount, also after a directory above it is renamed.
    device: Option<String>,
    adapter: Arc<FuseAdapter>,
    session: Option<BackgroundSession>,
    session_end: SessionEnd,
    follower: Option<(JoinHandle<()>, Arc<FollowerControl>)>,
    workers: Vec<JoinHandle<()>>,
}

impl FuseMount {
    /// Mounts what a `Vfs` can reach at an empty directory.
    pub fn new(vfs: &Vfs, mount_point: &Path, options: MountOptions) -> Result<Self, MountError> {
        if !Path::new("/dev/fuse").exists() {
            return Err(MountError::Unsupported(
                "this host has no /dev/fuse; load the kernel module fuse, or give the container the device"
                    .into(),
            ));
        }
        clear_stale(mount_point)?;
        let mount_point = empty_directory(mount_point)?;
        if mount_table::is_inside(&mount_point) {
            return Err(MountError::MountPoint(
                "the directory is inside a mounted stead; name one outside".into(),
            ));
        }
        let config = config(&options);
        let adapter = FuseAdapter::new(vfs, &mount_point, options)
            .map_err(|error| MountError::MountPoint(error.to_string()))?;
        let adapter = Arc::new(adapter);
        // Before the first request is answered, so that no change is missed.
        let follower = FeedFollower::new(&adapter);
        let workers = [
            adapter.invalidation_worker.start("stead-inval"),
            adapter.write_reply_worker.start("stead-reply"),
        ];
        let workers = workers.into_iter().collect::<io::Result<_>>().map_err(|error| mount_error(&error))?;
        let session_end = SessionEnd::default();
        let server = FuseServer { adapter: Arc::clone(&adapter), _end_on_drop: session_end.end_on_drop() };
        let session = Session::new(server, &mount_point, &config).map_err(|error| mount_error(&error))?;
        let session = session.spawn().map_err(|error| mount_error(&error))?;
        let notifier = session.notifier();
        adapter.notifier.set(notifier.clone()).expect("it is set only here");
        let mut mount = FuseMount {
            device: mount_table::device_at(&mount_point),
            mount_point,
            adapter: Arc::clone(&adapter),
            session: Some(session),
            session_end,
            follower: None,
            workers,
        };
        if !follower.is_empty() {
            let control = follower.control();
            let thread = Builder::new().name("stead-feed".into());
            let thread = thread.spawn(move || follower.run(&adapter, &notifier));
            mount.follower = Some((thread.map_err(|error| mount_error(&error))?, control));
        }
        Ok(mount)
    }

    /// The directory where it is mounted, as it was named when it was mounted.
    pub fn mount_point(&self) -> &Path {
        &self.mount_point
    }

    /// The device (`major:minor`), which identifies the mount even after its directory is renamed; `None` if the host
    /// doesn't list its mounts.
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// The end of the mount, by this process or another, for someone who waits for it.
    pub fn session_end(&self) -> SessionEnd {
        self.session_end.clone()
    }

    /// Unmounts it. When this returns, everything that was written is committed. Programs that still have files open on
    /// the mount get errors.
    pub fn unmount(mut self) -> Result<(), MountError> {
        self.shut_down()
    }

    fn shut_down(&mut self) -> Result<(), MountError> {
        if let Some((thread, control)) = self.follower.take() {
            control.stop();
            // A panic of that thread was already printed to stderr.
            let _ = thread.join();
        }
        let Some(session) = self.session.take() else { return Ok(()) };
        if !self.session_end.has_ended() {
            self.detach()?;
        }
        self.adapter.invalidation_worker.stop();
        self.adapter.write_reply_worker.stop();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
        // What programs have left open is committed now: the kernel sends no more requests for it.
        self.adapter.close_all();
        // Dropping the session would unmount whatever is at the path by now, which may be another mount.
        std::mem::forget(session);
        Ok(())
    }

    /// Unmounts. At first this waits until no program uses the mount; after the timeout, the mount is detached in spite
    /// of them.
    fn detach(&self) -> Result<(), MountError> {
        let deadline = Instant::now() + UNMOUNT_TIMEOUT;
        let mut wait_for_users = true;
        loop {
            let flags = if wait_for_users { UnmountFlags::empty() } else { UnmountFlags::DETACH };
            let mount_point = match &self.device {
                Some(device) => mount_table::mount_point_of(device),
                None => Some(self.mount_point.clone()),
            };
            // It isn't mounted any more.
            let Some(mount_point) = mount_point else { break };
            match unmount(&mount_point, flags) {
                Err(Errno::BUSY) if wait_for_users => {
                    wait_for_users = Instant::now() < deadline;
                    std::thread::sleep(Duration::from_millis(20));
                }
                Ok(()) => break,
                // The mount point was renamed, or isn't mounted any more: the next round finds out which.
                Err(Errno::INVAL | Errno::NOENT) if self.device.is_some() && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(Errno::INVAL | Errno::NOENT) => break,
                Err(Errno::PERM) => {
                    fusermount(&mount_point)?;
                    break;
                }
                Err(error) => return Err(mount_error(&error.into())),
            }
        }
        // After a detach, the session ends when the last program lets go of the mount. That isn't waited for.
        let deadline = if wait_for_users { Instant::now() + UNMOUNT_TIMEOUT } else { Instant::now() };
        self.session_end.wait_until(deadline);
        Ok(())
    }
}

impl Drop for FuseMount {
    fn drop(&mut self) {
        // An error can't be reported here; `unmount` reports it.
        let _ = self.shut_down();
    }
}

/// The directory with all symlinks resolved. It has to be empty, because the mount would hide what is in it.
fn empty_directory(directory: &Path) -> Result<PathBuf, MountError> {
    let to_mount_error = |error: io::Error| {
        MountError::MountPoint(match error.kind() {
            io::ErrorKind::NotFound => "the directory doesn't exist".into(),
            io::ErrorKind::NotADirectory => "the path isn't a directory".into(),
            other => other.to_string(),
        })
    };
    let directory = directory.canonicalize().map_err(to_mount_error)?;
    match fs::read_dir(&directory).map_err(to_mount_error)?.next() {
        None => Ok(directory),
        Some(_) => Err(MountError::MountPoint("the directory isn't empty; name an empty one".into())),
    }
}

fn config(options: &MountOptions) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(format!("{SOURCE_PREFIX}{}", options.name.replace([',', '\\', ' '], "_"))),
        MountOption::Subtype(SUBTYPE.into()),
        MountOption::DefaultPermissions,
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoAtime,
    ];
    if options.immutable {
        config.mount_options.push(MountOption::RO);
    }
    if options.allow_other {
        config.acl = SessionACL::All;
    }
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    config
}

/// Removes a mount whose process was killed: until then, accessing it fails with ENOTCONN. Fails if a stead is mounted
/// there that still works, and does nothing if none is.
pub fn clear_stale(mount_point: &Path) -> Result<(), MountError> {
    // `FuseMount::new` reports a path that can't be resolved.
    let Some(mount_point) = mount_table::resolve_path(mount_point) else { return Ok(()) };
    if mount_table::device_at(&mount_point).is_none() {
        return Ok(());
    }
    match fs::metadata(&mount_point) {
        Err(error) if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => {
            match unmount(&mount_point, UnmountFlags::DETACH) {
                Ok(()) => Ok(()),
                Err(Errno::PERM) => fusermount(&mount_point),
                Err(error) => Err(mount_error(&error.into())),
            }
        }
        _ => Err(MountError::MountPoint("a stead is already mounted there".into())),
    }
}

/// A mount that another process watches, to remove it once the process behind it has ended.
#[derive(Debug)]
pub struct OrphanedMount {
    /// Identifies the mount: a later one at the same path has another device, and renaming a directory above it changes
    /// nothing.
    device: String,
}

impl OrphanedMount {
    /// The stead with this device ([`FuseMount::device`]), if it is mounted.
    pub fn new(device: &str) -> Option<Self> {
        mount_table::mount_point_of(device).map(|_| OrphanedMount { device: device.to_owned() })
    }

    /// Removes the mount, if it still exists. Call this after the process behind it has ended.
    ///
    /// Nothing on the mount is accessed: a thread of the killed process may be stuck in the kernel, waiting for a
    /// program that waits for a reply of this very mount, and an access would wait with them. Aborting the connection
    /// by force frees all of them.
    pub fn remove(&self) {
        let Some(mount_point) = mount_table::mount_point_of(&self.device) else { return };
        if let Err(Errno::PERM) = unmount(&mount_point, UnmountFlags::FORCE | UnmountFlags::DETACH) {
            // The user that mounted it may do this without root; not every host has this file.
            if let Some((_, minor)) = self.device.split_once(':') {
                let _ = fs::write(format!("/sys/fs/fuse/connections/{minor}/abort"), "1");
            }
            // An error can't be reported here.
            let _ = fusermount(&mount_point);
        }
    }
}

/// Unmounts without being root.
fn fusermount(mount_point: &Path) -> Result<(), MountError> {
    let output = Command::new("fusermount3").args(["-u", "-z", "--"]).arg(mount_point).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(_) => Err(MountError::Refused("fusermount3 could not unmount the stead".into())),
        Err(_) => Err(MountError::Refused("fusermount3 is missing; install the package fuse3".into())),
    }
}

fn mount_error(error: &io::Error) -> MountError {
    // The library's error text may contain host paths, so it isn't shown.
    let mentions = |text: &str| error.raw_os_error().is_none() && error.to_string().contains(text);
    let reason = match error.kind() {
        _ if mentions("allow_other") => {
            "`--allow-other` needs `user_allow_other` in /etc/fuse.conf, or root".to_owned()
        }
        _ if mentions("no write access to mountpoint") => {
            "this user may not write to the directory; name one that this user may write to".to_owned()
        }
        io::ErrorKind::NotFound => {
            "fusermount3 is missing; install the package fuse3, or mount as root".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "this user may not use /dev/fuse; install the package fuse3, or mount as root".to_owned()
        }
        _ => match error.raw_os_error() {
            Some(code) => Errno::from_raw_os_error(code).to_string(),
            None => "the mount failed; `stead doctor` shows what is missing".to_owned(),
        },
    };
    MountError::Refused(reason)
}
