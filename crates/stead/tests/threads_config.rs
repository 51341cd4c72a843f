//! The keys of `stead.toml` about threads.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::Duration;

use stead::Config;
use stead::config::{FilesPer, SteadScope, ThreadSource};

fn parse(text: &str) -> Result<Config, String> {
    let text = format!("[stores.s]\nkind = \"virtual\"\n{text}");
    Config::parse(&text, Path::new("stead.toml")).map_err(|error| error.to_string())
}

fn workspace(agent: &str, prefix: &str, rest: &str) -> String {
    format!("[[agents.{agent}.workspaces]]\nprefix = \"{prefix}\"\nstore = \"s\"\n{rest}\n")
}

/// The prefixes of the Workspaces whose files are a thread's own.
fn thread_prefixes(config: &Config) -> Vec<&str> {
    let workspaces = config.agents["a"].workspaces.iter();
    let own = workspaces.filter(|workspace| workspace.per == FilesPer::Thread);
    own.map(|workspace| workspace.prefix.as_str()).collect()
}

#[test]
fn s3_the_scope_of_an_agent_says_whose_files_its_workspaces_show() {
    let workspaces = [
        workspace("a", "/project", "scope = \"rw\""),
        workspace("a", "/project/docs", "scope = \"ro\""),
        workspace("a", "/inbox", "scope = \"wo\""),
        workspace("a", "/shared", "scope = \"rw\""),
        workspace("a", "/handbook", "scope = \"ro\""),
    ]
    .concat();
    let with = |keys: &str| parse(&format!("[agents.a]\n{keys}\n{workspaces}")).unwrap();
    assert_eq!(thread_prefixes(&with("")), [""; 0]);
    assert_eq!(thread_prefixes(&with("scope = \"thread\"")), ["/project", "/inbox", "/shared"]);
    assert_eq!(thread_prefixes(&with("scope = \"hybrid\"")), ["/project", "/project/docs"]);
    let agent = &with("scope = \"thread\"\nidle_timeout = \"2h\"\nthread = \"session\"").agents["a"];
    assert_eq!(
        (agent.scope, agent.idle_timeout, agent.thread_source),
        (SteadScope::Thread, Duration::from_secs(7_200), ThreadSource::Session)
    );
    let default = &with("").agents["a"];
    assert_eq!((default.scope, default.idle_timeout), (SteadScope::Agent, Duration::from_secs(1_800)));
}

#[test]
fn s12a_a_workspace_says_whose_files_it_shows_where_the_scope_alone_does_not() {
    let text = |scope: &str, per: &str| {
        let own = workspace("a", "/one", &format!("scope = \"rw\"\nper = \"{per}\""));
        format!("[agents.a]\nscope = \"{scope}\"\n{own}{}", workspace("a", "/project", "scope = \"rw\""))
    };
    assert_eq!(thread_prefixes(&parse(&text("thread", "agent")).unwrap()), ["/project"]);
    assert_eq!(thread_prefixes(&parse(&text("hybrid", "thread")).unwrap()), ["/one", "/project"]);
    let error = parse(&text("agent", "thread")).unwrap_err();
    assert!(error.contains("9:7: `per = \"thread\"` needs an agent that has threads; set `scope"), "{error}");
    let read_only = format!(
        "[agents.a]\nscope = \"thread\"\n{}",
        workspace("a", "/one", "scope = \"ro\"\nper = \"thread\"")
    );
    assert!(parse(&read_only).unwrap().warnings()[0].message.contains("always empty"));
}

#[test]
fn s1_an_agent_without_workspace_and_executor_is_an_error_that_says_so() {
    for text in ["[agents.a]\n", "[agents.a]\nworkspaces = []\n"] {
        let error = parse(text).unwrap_err();
        assert!(error.contains("the agent `a` has neither a Workspace nor an Executor"), "{error}");
        assert!(error.contains("stead.toml:3:9"), "{error}");
    }
    assert!(parse("[agents.a]\n[agents.a.executor]\n").is_ok());
}

#[test]
fn mistakes_about_threads_are_reported_with_their_lines() {
    let project = workspace("a", "/project", "scope = \"rw\"");
    let shared = workspace("a", "/shared", "scope = \"rw\"");
    for (keys, workspaces, expected) in [
        ("scope = \"threads\"", &project, "4:9: `scope` can't be `threads`; did you mean `thread`?"),
        ("thread = \"request\"", &project, "4:10: `thread` can't be `request`; it takes `session`"),
        ("idle_timeout = \"soon\"", &project, "4:16: `soon` isn't a valid duration"),
        ("idle_timeout = \"0m\"", &project, "4:16: `idle_timeout` has to be at least \"1s\""),
        (
            "scope = \"hybrid\"",
            &shared,
            "4:9: the agent `a` has `scope = \"hybrid\"`, but none of its Workspaces is",
        ),
    ] {
        let error = parse(&format!("[agents.a]\n{keys}\n{workspaces}")).unwrap_err();
        assert!(error.contains(expected), "{keys}: {error}");
    }
    let warned = parse(&format!("[agents.a]\nidle_timeout = \"1h\"\n{project}")).unwrap();
    assert!(warned.warnings()[0].message.contains("the agent has no threads of its own"));
}

#[test]
fn the_name_of_an_agent_with_threads_is_never_taken_for_another_s_thread() {
    let thread_agent = |name: &str| {
        format!("[agents.{name}]\nscope = \"thread\"\n{}", workspace(name, "/w", "scope = \"rw\""))
    };
    let plain = |name: &str| workspace(name, "/w", "scope = \"rw\"");
    let error = parse(&thread_agent("\"a/b\"")).unwrap_err();
    assert!(error.contains("has threads, so its name has to be"), "{error}");
    let error = parse(&format!("{}{}", thread_agent("a"), plain("\"a/b\""))).unwrap_err();
    assert!(error.contains("the name of the agent `a/b` is like that of one of them"), "{error}");
    assert!(parse(&format!("{}{}", plain("a"), plain("\"a/b\""))).is_ok());
}
