//! What a cleanup says about bringing files back.

use serde_json::{Map, json};
use stead_core::AccessScope;
use stead_core::tools::{ApprovalAnswer, Toolbox};
use stead_core::vfs::ManagedFiles;
use stead_core::vfs::managed::{CleanupOptions, CleanupReport};

use crate::host::Host;

fn cleanup(files: &ManagedFiles, dry_run: bool) -> CleanupReport {
    files.cleanup(&CleanupOptions { dry_run }).unwrap()
}

#[test]
fn w92_a_cleanup_says_how_many_files_it_cant_bring_back() {
    Host::each(|host| {
        let workspace = host.workspace("/notes", AccessScope::ReadWrite).with_scratch(["*.tmp"]).unwrap();
        let vfs = host.vfs_with(workspace);
        for name in ["kept", "one.tmp", "two.tmp"] {
            vfs.write(format!("/notes/{name}"), "x").unwrap();
        }
        host.advance_days(8);
        let files = vfs.managed(None).unwrap();
        let dry = cleanup(&files, true).run;
        assert_eq!((dry.removed, dry.not_kept), (3, 2));
        let arguments = json!({ "action": "cleanup" }).as_object().unwrap().clone();
        let reply = Toolbox::new(vfs).call("workspace", arguments, ApprovalAnswer::NobodyToAsk).unwrap();
        let text = reply.joined_text();
        assert!(text.contains("2 files can't be brought back") && text.contains("undo takes"), "{text}");
        assert_eq!(files.last_cleanup().unwrap().unwrap().not_kept, 2);
    });
}

#[test]
fn w91_the_operation_of_the_last_cleanup_that_removed_files_stays_known() {
    Host::each(|host| {
        let files = host.files();
        for name in ["first", "second"] {
            host.vfs().write(format!("/notes/{name}"), "x").unwrap();
            host.advance_days(8);
            let removal = cleanup(&files, false).run;
            assert_eq!((removal.removed, &removal.last_removal), (1, &None));
            let operation = removal.operation.unwrap();
            for _ in 0..2 {
                host.advance_days(1);
                cleanup(&files, false);
                let last = files.last_cleanup().unwrap().unwrap();
                assert_eq!((last.removed, last.at), (0, host.now().to_string()));
                let known = last.last_removal.unwrap();
                assert_eq!((known.at, known.removed, &known.operation), (removal.at.clone(), 1, &operation));
            }
        }
        let arguments: Map<_, _> = json!({ "action": "cleanup" }).as_object().unwrap().clone();
        let reply =
            Toolbox::new(host.vfs()).call("workspace", arguments, ApprovalAnswer::NobodyToAsk).unwrap();
        let text = reply.joined_text();
        assert!(text.contains("the one before that removed 1 file"), "{text}");
    });
}

#[test]
fn w56_a_list_with_a_query_is_a_search() {
    Host::each(|host| {
        for name in ["plan.md", "other.md"] {
            host.vfs().write(format!("/notes/{name}"), "x").unwrap();
        }
        let tools = Toolbox::new(host.vfs());
        let reply = |action: &str| {
            let arguments = json!({ "action": action, "query": "plan" }).as_object().unwrap().clone();
            tools.call("workspace", arguments, ApprovalAnswer::NobodyToAsk).unwrap().joined_text()
        };
        assert_eq!(reply("list"), reply("search"));
        assert!(reply("list").contains("[1 to 1 of 1]"));
    });
}
