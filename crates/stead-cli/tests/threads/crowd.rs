//! Many threads that work at the same time in one server: none sees another's files, none ends while it is in use, and all are
//! gone after their time-out.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::host::{Host, KINDS, read, store, wait_until, write};

#[test]
fn s16_many_threads_work_at_once_and_are_gone_after_their_time_out() {
    let (threads, duration) = if crate::is_long() { (200, 60) } else { (40, 3) };
    for kind in KINDS {
        let agent = "[agents.a]\nscope = \"thread\"\nidle_timeout = \"2s\"\n\
                     workspaces = [{ prefix = \"/w\", store = \"s\", path = \"/app\", scope = \"rw\" }]\n";
        let host = Host::new(
            &format!("[database]\ndurability = \"fast\"\n{}{agent}", store(kind)),
            Duration::from_secs(3),
        );
        let server = host.serve();
        let end = Instant::now() + Duration::from_secs(duration);
        let calls: usize = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|number| {
                    let (host, server) = (&host, &server);
                    scope.spawn(move || {
                        let own = format!("own words of {number} only");
                        let mut client = host.connect(server, "a", Some(&format!("t{number}")));
                        let (mut files, mut calls) = (0, 0);
                        while Instant::now() < end {
                            let path = format!("/w/f{}", files % 10);
                            client.try_call("read_file", json!({ "path": path }));
                            write(&mut client, &path, &format!("{own}, round {files}")).unwrap();
                            files += 1;
                            let text = read(&mut client, &path).unwrap();
                            assert!(text.contains(&own), "{kind} {number}: {text}");
                            let listed = client.call("list_directory", json!({ "path": "/w" })).to_string();
                            let names = (0..10).filter(|file| listed.contains(&format!("f{file}"))).count();
                            assert_eq!(names, files.min(10), "{kind} {number}: {listed}");
                            let found = client.call("grep", json!({ "pattern": "own words", "path": "/w" }));
                            let found = found.to_string();
                            assert_eq!(
                                found.matches("own words of").count(),
                                found.matches(&own).count(),
                                "{kind} {number}: {found}"
                            );
                            calls += 5;
                            // Some rest for less than the time-out.
                            if number % 4 == 0 && !crate::is_long() {
                                std::thread::sleep(Duration::from_millis(300));
                            }
                        }
                        calls
                    })
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        println!("{kind}: {threads} threads at once, {calls} calls in {duration} s");
        wait_until("all threads end", || host.threads().is_empty());
        for directory in ["files/app/threads/a", "files/app/threads"] {
            let names = std::fs::read_dir(host.path(directory)).into_iter().flatten().count();
            assert!(names <= 1 && (names == 0 || !directory.ends_with("/a")), "{kind} {directory}");
        }
        server.stop();
        let verified = host.command(&["verify"]).output().unwrap();
        assert!(verified.status.success(), "{kind}: {verified:?}");
    }
}
