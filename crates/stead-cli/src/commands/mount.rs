use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use stead::config::StoreConfig;
use stead::{Config, ErrorKind, Stead};
use stead_fuse::{FuseMount, MountError, MountOptions, OrphanedMount};
use stead_server::ShutdownSignals;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::server_lock;
use crate::command_error::{CommandError, CommandResult, Exit};
use crate::session::{AsOfArg, Session};
use crate::{human, json};

/// Mount the stead as an ordinary directory, for any program
///
/// The mount lasts until this command ends (Ctrl-C or a signal) or until it is unmounted. Everything done there counts
/// as done by the agent: its Access Scopes, protected names, quotas, history and audit are the same as for its tools.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An empty directory of this host
    #[arg(value_name = "DIR")]
    mount_point: PathBuf,
    #[command(flatten)]
    at: AsOfArg,
    /// Let other users of this host use the mount too
    #[arg(long)]
    allow_other: bool,
    /// The user id that owns everything [default: the current user]
    #[arg(long, value_name = "ID")]
    uid: Option<u32>,
    /// The group id that owns everything [default: the current group]
    #[arg(long, value_name = "ID")]
    gid: Option<u32>,
    /// Refuse root's `chown` to another owner [default: accept and ignore it]
    #[arg(long)]
    strict_owner: bool,
    /// Keep running in the background once it is mounted
    #[arg(long)]
    background: bool,
}

/// Wait for a mount's process to end, and remove the mount if it was killed
#[derive(Debug, clap::Args)]
pub(crate) struct WatchdogArgs {
    device: String,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    if args.background {
        return run_in_background(session);
    }
    let config = session.config_of_agent()?;
    check_no_overlap(&args.mount_point, &config)?;
    let _lock = server_lock::take(&config)?;
    let stead = session.stead_of_agent()?;
    // The thread is in use for as long as it is mounted, also while no program touches the files.
    let _in_use = stead.keep_in_use()?;
    let immutable = args.at.is_some();
    let stead = args.at.apply_to(stead, "/")?;
    // Before the mount exists: from then on, someone may want to end it.
    let signals = MountSignals::new()?;
    let mount = FuseMount::new(stead.vfs(), &args.mount_point, options(&args, &config, &stead, immutable))
        .map_err(|error| to_command_error(&error))?;
    let mut watchdog = spawn_watchdog(&mount);
    print_mounted(&mount, session)?;
    signals.wait(&mount);
    let unmounted = mount.unmount().map_err(|error| to_command_error(&error));
    if let Some(watchdog) = &mut watchdog {
        if let (Some(mut stdin), Ok(())) = (watchdog.stdin.take(), &unmounted) {
            // Tells the watchdog that the mount is gone, so that it doesn't remove anything.
            let _ = stdin.write_all(b"done");
        }
        let _ = watchdog.wait();
    }
    unmounted?;
    Ok(Exit::OK)
}

/// Refuses a mount point inside a directory that the stead uses, or above one: requests to the mount would wait for the
/// mount itself.
fn check_no_overlap(mount_point: &Path, config: &Config) -> Result<(), CommandError> {
    let own_directories = config.stores.values().filter_map(|store| match store {
        StoreConfig::Physical { path, .. } => Some(path.clone()),
        StoreConfig::Virtual { .. } | StoreConfig::Memory => None,
    });
    // A mount point that doesn't exist is reported when it is mounted.
    let Ok(mount_point) = mount_point.canonicalize() else { return Ok(()) };
    for directory in own_directories.chain([config.state_directory()]) {
        let Ok(directory) = directory.canonicalize() else { continue };
        if mount_point.starts_with(&directory) || directory.starts_with(&mount_point) {
            return Err(CommandError::invalid(
                "the stead can't be mounted there, because its own files are in that directory; name another one",
            ));
        }
    }
    Ok(())
}

fn options(args: &Args, config: &Config, stead: &Stead, immutable: bool) -> MountOptions {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    MountOptions {
        immutable,
        allow_other: args.allow_other,
        owner: (args.uid.unwrap_or(uid), args.gid.unwrap_or(gid)),
        strict_owner: args.strict_owner,
        name: stead.vfs().identity().agent.clone(),
        space_directory: Some(config.state_directory()),
    }
}

fn print_mounted(mount: &FuseMount, session: &mut Session) -> Result<(), CommandError> {
    let shown_path = human::escape_text(&mount.mount_point().to_string_lossy()).to_string();
    if session.wants_json() {
        session.print_json(&json::mounted(&shown_path))?;
    } else {
        session.print_line(format_args!("Mounted at {shown_path}"))?;
        if session.is_terminal() {
            session.say("To unmount it, press Ctrl-C or use `umount`.");
        }
    }
    session.flush()
}

/// The signals that end the mount.
struct MountSignals {
    runtime: Runtime,
    shutdown: ShutdownSignals,
}

impl MountSignals {
    fn new() -> Result<Self, CommandError> {
        let listen = || -> io::Result<Self> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let entered = runtime.enter();
            let shutdown = ShutdownSignals::new()?;
            drop(entered);
            Ok(MountSignals { runtime, shutdown })
        };
        listen().map_err(|error| CommandError::host("can't listen for signals", error))
    }

    /// Waits for a signal, or until someone unmounts the mount.
    fn wait(self, mount: &FuseMount) {
        let MountSignals { runtime, mut shutdown } = self;
        let session_end = mount.session_end();
        let (sender, ended) = tokio::sync::oneshot::channel();
        // In a plain thread: the runtime would wait for a task of its own to end.
        std::thread::spawn(move || {
            session_end.wait();
            let _ = sender.send(());
        });
        runtime.block_on(async {
            tokio::select! {
                () = shutdown.recv() => {}
                _ = ended => {}
            }
        });
    }
}

/// Starts a process that removes the mount if this process is killed.
fn spawn_watchdog(mount: &FuseMount) -> Option<Child> {
    let executable = std::env::current_exe().ok()?;
    let mut command = Command::new(executable);
    command
        .arg("mount-watchdog")
        .arg(mount.device()?)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // In its own process group, so that signals from the terminal don't reach it.
    command.process_group(0).spawn().ok()
}

pub(super) fn run_watchdog(args: &WatchdogArgs) -> CommandResult {
    // Nothing is mounted any more, so there is nothing to watch.
    let Some(mount) = OrphanedMount::new(&args.device) else { return Ok(Exit::OK) };
    if !wait_for_clean_exit().map_err(|error| CommandError::host("can't watch the mount", error))? {
        mount.remove();
    }
    Ok(Exit::OK)
}

/// Waits until the process that mounts has ended, and returns whether it ended in good order.
///
/// Relies on the kernel's signal for the death of the parent's main thread. The end of standard input alone isn't
/// enough: it comes when the last thread is gone, and the kernel may hold that thread until the mount has ended.
fn wait_for_clean_exit() -> io::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut killed = signal(SignalKind::user_defined1())?;
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::USR1))?;
        let (sender, receiver) = tokio::sync::oneshot::channel();
        // In a plain thread: the runtime would wait for a task of its own to end.
        std::thread::spawn(move || {
            sender.send(io::stdin().lock().read(&mut [0]).is_ok_and(|count| count > 0))
        });
        tokio::select! {
            biased;
            ended_cleanly = receiver => Ok(ended_cleanly.unwrap_or(false)),
            _ = killed.recv() => Ok(false),
        }
    })
}

/// Runs the same command in a process of its own, without `--background`, and waits until it has mounted or failed.
fn run_in_background(session: &mut Session) -> CommandResult {
    let failed = |error| CommandError::host("the process in the background can't be started", error);
    let executable = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(executable);
    if let Some(directory) = session.start_directory() {
        // The process gets `-C` too.
        command.current_dir(directory);
    }
    let mut child = command
        .args(foreground_arguments(std::env::args_os().skip(1)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let (mut line, mut error_text) = (String::new(), String::new());
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line).map_err(failed)?;
    }
    if line.starts_with("Mounted at ") || line.contains("\"mounted\"") {
        session.print_line(line.trim_end())?;
        return Ok(Exit::OK);
    }
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut error_text).map_err(failed)?;
    }
    let status = child.wait().map_err(failed)?;
    if !line.is_empty() {
        session.print_line(line.trim_end())?;
    }
    session.warn(error_text.trim_end());
    Ok(Exit::from_child(status.code()))
}

/// The arguments without the option `--background`. After `--`, that text is a directory.
fn foreground_arguments(arguments: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let mut are_options = true;
    arguments.filter(move |argument| {
        are_options &= argument != "--";
        !are_options || argument != "--background"
    })
}

fn to_command_error(error: &MountError) -> CommandError {
    let kind = match error {
        MountError::Unsupported(_) => ErrorKind::Unsupported,
        MountError::MountPoint(_) => ErrorKind::Invalid,
        MountError::Refused(_) => ErrorKind::Denied,
    };
    CommandError::Message(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_named_like_the_option_is_mounted_in_the_background_too() {
        let given = ["mount", "--background", "--thread", "t", "--", "--background"];
        let arguments: Vec<_> = foreground_arguments(given.into_iter().map(OsString::from)).collect();
        assert_eq!(arguments, ["mount", "--thread", "t", "--", "--background"]);
    }
}
