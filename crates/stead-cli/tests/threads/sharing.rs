//! One thread in several processes at once: two servers, a mount, commands and the library see the same files.

use std::fs;
use std::sync::Barrier;
use std::time::Duration;

use stead::{AuditQuery, Identity, Stead};

use crate::host::{Host, read, store, wait_until, write};

fn host(kind: &str) -> Host {
    let agent = "[agents.a]\nscope = \"thread\"\nidle_timeout = \"3s\"\n\
                 workspaces = [{ prefix = \"/w\", store = \"s\", path = \"/app\", scope = \"rw\" }]\n";
    Host::new(&format!("{}{agent}", store(kind)), Duration::from_secs(3))
}

/// How many records of a step in a thread's life the audit has.
fn steps(host: &Host, call: &str) -> usize {
    let stores = host.stores();
    let access = stores.audit_access().unwrap().unwrap();
    let query = AuditQuery { call: Some(call.to_owned()), ..AuditQuery::default() };
    access.page(&query, None, 10_000).unwrap().entries.len()
}

#[test]
fn s14_two_servers_a_mount_and_commands_share_one_thread() {
    let rounds = if crate::is_long() { 60 } else { 6 };
    for kind in ["virtual", "physical"] {
        let host = host(kind);
        let servers = [host.serve(), host.serve()];
        let mut clients: Vec<_> =
            servers.iter().map(|server| host.connect(server, "a", Some("one"))).collect();
        // All of them make it at once.
        let barrier = Barrier::new(3);
        let mounted = std::thread::scope(|scope| {
            for (number, client) in clients.iter_mut().enumerate() {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    write(client, &format!("/w/first-{number}"), "1").unwrap();
                });
            }
            barrier.wait();
            host.mount("mnt", "a", "one", &[])
        });
        assert_eq!(steps(&host, "thread.create"), 1, "{kind}");
        let mount_file = |name: &str| mounted.as_ref().map(|mounted| mounted.point.join("w").join(name));
        let stores = host.stores();
        for round in 0..rounds {
            let (name, content) = (format!("f{round}"), format!("content {round}"));
            let path = format!("/w/{name}");
            match (round % 4, mount_file(&name)) {
                (0, Some(file)) => fs::write(file, &content).unwrap(),
                (1, _) => drop(host.stead_in("a", "one", &["write", &path, &content])),
                (2, _) => {
                    let stead = Stead::open_in(&stores, &Identity::agent("a").with_thread("one")).unwrap();
                    stead.vfs().write(&path, &*content).unwrap();
                }
                (writer, _) => write(&mut clients[writer % 2], &path, &content).unwrap(),
            }
            for client in &mut clients {
                assert!(read(client, &path).unwrap().contains(&content), "{kind} {round}");
            }
            assert_eq!(host.stead_in("a", "one", &["cat", &path]), content, "{kind} {round}");
            if let Some(file) = mount_file(&name) {
                wait_until("the mount shows it", || {
                    fs::read(&file).is_ok_and(|bytes| bytes == content.as_bytes())
                });
            }
            assert!(stores.threads().sweep().unwrap().ended.is_empty(), "{kind}: it is in use");
        }
        // Nobody calls, and nothing ends while the mount or a server has it: longer than the idle time-out.
        std::thread::sleep(Duration::from_millis(3_300));
        assert!(stores.threads().sweep().unwrap().ended.is_empty(), "{kind}");
        assert_eq!(steps(&host, "thread.create"), 1, "{kind}: it was made once");
        drop(mounted);
        // Once the second server alone has the thread, it may end it after the idle time-out, which begins anew here.
        assert!(read(&mut clients[1], "/w/f0").unwrap().contains("content 0"), "{kind}");
        drop(clients);
        let [first, second] = servers;
        first.stop();
        assert_eq!(host.threads(), ["one"], "{kind}: the second server has it");
        second.stop();
        wait_until("it ends", || {
            stores.threads().sweep().unwrap();
            host.threads().is_empty()
        });
    }
}
