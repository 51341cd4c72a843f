//! What a live, idle stead of a thread costs. It has a process of its own, because it measures the memory of its process.
//! `cargo xtask bench threads` measures times, and `STEAD_TEST_LONG=1` opens 10,000 steads instead of 1,000.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use stead::{Config, Identity};
use stead_server::{ServerLimits, SteadRegistry};

/// The memory of this process in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}

/// How much CPU time this process has used.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

fn os_threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// The most memory that an idle stead of a thread may use.
const MOST_BYTES: u64 = 8 << 10;

#[test]
fn s16_an_idle_stead_of_a_thread_uses_little_memory_and_no_thread_of_the_system() {
    let sizes: &[usize] =
        if std::env::var_os("STEAD_TEST_LONG").is_some() { &[1_000, 10_000] } else { &[1_000] };
    for kind in ["virtual", "memory", "physical"] {
        let host = tempfile::tempdir().unwrap();
        std::fs::create_dir(host.path().join("files")).unwrap();
        let path = if kind == "physical" { "path = \"files\"\n" } else { "" };
        let text = format!(
            "[database]\ndurability = \"fast\"\n[stores.s]\nkind = \"{kind}\"\n{path}[agents.a]\nscope = \"thread\"\n\
             [[agents.a.workspaces]]\nprefix = \"/w\"\nscope = \"rw\"\nstore = \"s\"\n"
        );
        let config = Config::parse(&text, &host.path().join("stead.toml")).unwrap();
        let registry = SteadRegistry::of(&config, ServerLimits::default());
        let open = |number: usize| {
            registry.get(&Identity::agent("a").with_thread(format!("thread-{number}"))).unwrap();
        };
        // The database, the audit and whatever else is made once.
        (0..100).for_each(open);
        let mut made = 100;
        let (start_memory, start_threads) = (resident(), os_threads());
        for &until in sizes {
            let (memory, began, cpu_before) = (resident(), Instant::now(), cpu());
            (made..until).for_each(open);
            let count = (until - made) as u64;
            println!(
                "{kind}: {count} more steads: {} bytes each, {:?} each, {:?} of CPU each",
                resident().saturating_sub(memory) / count,
                began.elapsed() / u32::try_from(count).unwrap(),
                (cpu() - cpu_before) / u32::try_from(count).unwrap(),
            );
            made = until;
        }
        let each = resident().saturating_sub(start_memory) / (made as u64 - 100);
        println!("{kind}: {each} bytes each in all, {} OS threads more", os_threads() - start_threads);
        assert!(each <= MOST_BYTES, "{kind}: {each} bytes for each stead");
        assert!(os_threads() <= start_threads + 1, "no OS thread is kept per stead");
    }
}
