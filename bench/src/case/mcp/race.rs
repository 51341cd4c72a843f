//! Swaps a directory for a symlink that leads outside, back and forth, while calls go through it, and counts the calls
//! that read or write outside.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::client::{Call, Client};
use super::server::{Programs, Server};
use crate::Result;
use crate::contender::new_directory;

/// The content of the file outside, which no file inside has.
const SECRET: &str = "outside-secret";
/// The name of a file that is only outside.
const ONLY_OUTSIDE: &str = "only-outside";

/// Runs the race against a server over files on disk below `data`, which no other server uses. Returns how many calls
/// reached outside.
pub fn run(programs: &Programs, server: Server, data: &Path, call_count: usize) -> Result<usize> {
    let (files, outside) = (new_directory(data, "files")?, new_directory(data, "outside")?);
    let (directory, link) = (new_directory(&files, "d")?, files.join("link"));
    std::fs::write(directory.join("f"), "inside\n")?;
    std::fs::write(outside.join("f"), format!("{SECRET}\n"))?;
    std::fs::write(outside.join(ONLY_OUTSIDE), "")?;
    symlink(&outside, &link)?;
    let (mut client, _) = Client::start(programs.command(server, data))?;
    let (stop, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let swapper = scope.spawn(|| -> Result {
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &directory, CWD, &link, RenameFlags::EXCHANGE)?;
                swaps.fetch_add(1, Ordering::Relaxed);
                // Each state has to last about as long as a call takes. Otherwise a server that checks a path twice
                // would never see the same state twice.
                std::thread::sleep(Duration::from_micros(50));
            }
            Ok(())
        });
        let result = race(&mut client, server, data, &outside, call_count);
        stop.store(true, Ordering::Relaxed);
        swapper.join().expect("the swapper does not panic")?;
        if swaps.load(Ordering::Relaxed) < call_count as u64 / 10 {
            return Err("the directory was hardly ever swapped".into());
        }
        result
    })
}

fn race(
    client: &mut Client,
    server: Server,
    data: &Path,
    outside: &Path,
    call_count: usize,
) -> Result<usize> {
    let (mut escaped, mut inside_reads) = (0, 0);
    for number in 0..call_count {
        let name = format!("new{}", number % 7);
        let call: Call = match number % 4 {
            0 => server.read(data, "d/f"),
            1 => server.list(data, "d"),
            2 => server.find(data, "d", "**/*outs*"),
            _ => server.write(data, &format!("d/{name}"), "inside\n"),
        };
        // A refusal is an answer, too: most calls that meet the symlink are refused.
        let (text, _) = client.call(&call)?;
        let read_outside = text.contains(SECRET) || names_file(&text, ONLY_OUTSIDE);
        // A file that was written outside is counted and removed, so that the next one is counted as well.
        let wrote_outside = call.tool == "write_file" && std::fs::remove_file(outside.join(&name)).is_ok();
        escaped += usize::from(read_outside || wrote_outside);
        inside_reads += usize::from(text.starts_with("inside\n"));
    }
    // A server that refuses everything lets nothing escape, and that would prove nothing.
    if inside_reads == 0 {
        return Err(format!("{} has read nothing in {call_count} calls", server.label()).into());
    }
    Ok(escaped)
}

/// Whether one of the lines ends with this name, or has it right before the first tab.
fn names_file(text: &str, name: &str) -> bool {
    text.lines().any(|line| line.split('\t').next().is_some_and(|line| line.ends_with(name)))
}
