//! A directory is swapped for a symlink that leads outside, back and forth, while calls go through it: how many of them
//! land or look outside.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::client::{Call, Client};
use super::server::{Programs, Server};
use crate::Result;
use crate::contender::fresh;

/// Stands in the file outside, and nowhere inside.
const SECRET: &str = "outside-secret";
/// The name of a file that is only outside.
const ONLY_OUTSIDE: &str = "only-outside";

/// Races a server over files on disk, which are its own below `data`, and counts the calls that reached outside.
pub fn run(programs: &Programs, server: Server, data: &Path, wanted: usize) -> Result<usize> {
    let (files, outside) = (fresh(data, "files")?, fresh(data, "outside")?);
    let (d, link) = (fresh(&files, "d")?, files.join("link"));
    std::fs::write(d.join("f"), "inside\n")?;
    std::fs::write(outside.join("f"), format!("{SECRET}\n"))?;
    std::fs::write(outside.join(ONLY_OUTSIDE), "")?;
    symlink(&outside, &link)?;
    let (mut client, _) = Client::start(programs.command(server, data))?;
    let (done, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let swapper = scope.spawn(|| -> Result {
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, &d, CWD, &link, RenameFlags::EXCHANGE)?;
                swaps.fetch_add(1, Ordering::Relaxed);
                // Each state has to last about as long as a call takes, or whoever looks twice never finds the same.
                std::thread::sleep(Duration::from_micros(50));
            }
            Ok(())
        });
        let raced = race(&mut client, server, data, &outside, wanted);
        done.store(true, Ordering::Relaxed);
        swapper.join().expect("the swapper does not panic")?;
        if swaps.load(Ordering::Relaxed) < wanted as u64 / 10 {
            return Err("the directory was hardly ever swapped".into());
        }
        raced
    })
}

fn race(client: &mut Client, server: Server, data: &Path, outside: &Path, wanted: usize) -> Result<usize> {
    let (mut escaped, mut inside) = (0, 0);
    for number in 0..wanted {
        let name = format!("new{}", number % 7);
        let call: Call = match number % 4 {
            0 => server.read(data, "d/f"),
            1 => server.list(data, "d"),
            2 => server.find(data, "d", "**/*outs*"),
            _ => server.write(data, &format!("d/{name}"), "inside\n"),
        };
        // A refusal is an answer, too: most calls that find a symlink get one.
        let (text, _) = client.call(&call)?;
        let looked = text.contains(SECRET) || names_a_file(&text, ONLY_OUTSIDE);
        // A write that landed outside is counted, and taken away, so that the next one is counted as well.
        let landed = call.tool == "write_file" && std::fs::remove_file(outside.join(&name)).is_ok();
        escaped += usize::from(looked || landed);
        inside += usize::from(text.starts_with("inside\n"));
    }
    // Whoever refuses everything can't let anything escape.
    if inside == 0 {
        return Err(format!("{} has read nothing in {wanted} calls", server.label()).into());
    }
    Ok(escaped)
}

/// Whether one of the lines ends with this name, or has it before a tab.
fn names_a_file(text: &str, name: &str) -> bool {
    text.lines().any(|line| line.split('\t').next().is_some_and(|line| line.ends_with(name)))
}
