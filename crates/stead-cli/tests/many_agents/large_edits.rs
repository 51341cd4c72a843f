//! Large edits of several agents at once: they wait for each other, and the server's memory stays within its limit.

use std::io::Write;

use serde_json::json;

use crate::connection::{Connection, Era};
use crate::server::Server;

const AGENTS: usize = 4;
const EDITS_EACH: usize = 2;
/// The size of each file.
const FILE_SIZE: u64 = 96 << 20;
/// The most memory that the server may ever have used: 512 MiB for file contents, and what it needs anyway.
const MEMORY_LIMIT: u64 = 640 << 20;

#[test]
fn large_edits_of_several_agents_at_once_take_bounded_memory() {
    let mut config = String::from(
        "[database]\ndurability = \"fast\"\n[stores.shared]\nkind = \"physical\"\npath = \"shared\"\nkeep = false\n",
    );
    for number in 0..AGENTS {
        config += &format!(
            "[[agents.a{number}.workspaces]]\nprefix = \"/w\"\nscope = \"rw\"\nstore = \"shared\"\n"
        );
    }
    let server = Server::launch_with(&config, |directory| {
        std::fs::create_dir(directory.join("shared")).unwrap();
        for number in 0..AGENTS * EDITS_EACH {
            let mut file = std::fs::File::create(directory.join(format!("shared/{number}"))).unwrap();
            let line = [&[b'x'; 1023][..], b"\n"].concat().repeat(1024);
            for _ in 0..FILE_SIZE / line.len() as u64 {
                file.write_all(&line).unwrap();
            }
            file.write_all(b"needle").unwrap();
        }
    });
    let tokens = server.tokens((0..AGENTS).map(|number| format!("a{number}")));
    std::thread::scope(|scope| {
        for number in 0..AGENTS * EDITS_EACH {
            let (token, address) = (&tokens[number % AGENTS], server.address);
            scope.spawn(move || {
                let mut connection = Connection::open(address, token, Era::NoSessions);
                let path = format!("/w/{number}");
                connection.call(
                    "edit_file",
                    json!({ "path": path, "old_string": "needle", "new_string": "thread" }),
                );
            });
        }
    });
    let peak = server.peak();
    println!(
        "{} edits of {} MiB at once: {} MiB at the most",
        AGENTS * EDITS_EACH,
        FILE_SIZE >> 20,
        peak >> 20
    );
    assert!(peak < MEMORY_LIMIT, "{} MiB", peak >> 20);
    for number in 0..AGENTS * EDITS_EACH {
        assert_eq!(std::fs::metadata(server.path(&format!("shared/{number}"))).unwrap().len(), FILE_SIZE + 6);
    }
}
