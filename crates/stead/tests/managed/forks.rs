//! A fork of a managed Workspace routes and tracks like its base, with a manifest of its own, and a merge brings its rows along.

use stead::managed::{Category, SearchPattern, TagMode};
use stead::vfs::managed::{CleanupOptions, MoveTarget};
use stead::vfs::{
    MergeChoice, MergeConflict, MergeOptions, MergeResult, MergeRule, Overwrite, RemoveOptions, RulePaths,
    UndoOptions, UndoTarget,
};

use super::*;

#[track_caller]
fn merge(stead: &Stead) {
    let merged = stead.merge_fork("draft", &MergeOptions::default()).unwrap();
    assert!(merged.done, "{:?} {:?}", merged.conflicts, merged.refused);
}

fn update(stead: &Stead) {
    assert!(stead.update_fork("draft", &MergeOptions::default()).unwrap().done);
}

/// Options with a rule for each glob.
fn rules<const N: usize>(rules: [(&str, MergeChoice); N]) -> MergeOptions {
    let mut options = MergeOptions::default();
    let rule = |(glob, choice)| MergeRule { paths: RulePaths::parse(glob, &[]).unwrap(), choice };
    options.rules = rules.map(rule).into();
    options
}

/// The files whose tags a merge changes, as `PATH +TAG, -TAG`.
fn retagged(merged: &MergeResult) -> Vec<String> {
    merged.retagged.iter().map(|file| format!("{} {file}", file.path)).collect()
}

/// A line of [`tagged`] with the tags in the order of the alphabet.
fn sorted_tags(line: String) -> String {
    let (name, tags) = line.split_once(' ').unwrap();
    let mut tags: Vec<_> = tags.split(',').collect();
    tags.sort();
    format!("{name} {}", tags.join(","))
}

/// The same path in the fork.
fn forked(path: &str) -> String {
    path.replacen("/w/", "/forks/draft/", 1)
}

#[test]
fn w28_a_fork_routes_and_has_a_manifest_apart_from_that_of_its_base() {
    Host::each(AGENT, |host| {
        let stead = host.open("a");
        let path = write(&stead, "/w/plan.md", "one");
        tag(&stead, "/w", &path, TagMode::Add, "mine");
        let stead = stead.fork("/w", "draft").unwrap();
        let new = write(&stead, "/forks/draft/new.py", "x");
        assert!(new.starts_with("/forks/draft/code/20"), "{new}");
        assert_eq!(tagged(&stead, "/forks/draft"), ["new.py ", "plan.md mine"]);
        tag(&stead, "/forks/draft", &forked(&path), TagMode::Add, "fork");
        assert_eq!(tagged(&stead, "/w"), ["plan.md mine"]);
        if host.kind == Kind::Physical {
            // A fork of a host directory shows what it has not changed as it is, so it changes the file first.
            stead.vfs().write(&*forked(&path), "two").unwrap();
        }
        stead.vfs().remove_file(&*path, RemoveOptions::default()).unwrap();
        assert_eq!(tagged(&stead, "/w"), Vec::<String>::new());
        assert_eq!(tagged(&stead, "/forks/draft"), ["new.py ", "plan.md mine,fork"]);
    });
}

#[test]
fn w20_a_bare_name_finds_its_file_in_a_fork_that_nothing_has_listed_yet() {
    let review = format!("{}fork = \"agent\"\n", AGENT.replace("agents.a", "agents.b"));
    let threads = format!(
        "[agents.c]\nscope = \"thread\"\n{}fork = \"thread\"\n",
        AGENT.replace("agents.a", "agents.c")
    );
    Host::each(&[AGENT, &review, &threads].concat(), |host| {
        let stead = host.open("a");
        stead.vfs().write("/w/documents/2026-01-01/log.md", "old").unwrap();
        let in_fork = stead.fork("/w", "draft").unwrap();
        let in_review = host.open("b");
        let in_thread = host.open_thread("c", "t");
        for (stead, prefix) in [(&in_fork, "/forks/draft"), (&in_review, "/w"), (&in_thread, "/w")] {
            let (bare, found) = (format!("{prefix}/log.md"), format!("{prefix}/documents/2026-01-01/log.md"));
            assert_eq!(stead.vfs().append(&*bare, "new").unwrap().path.to_string(), found);
            assert_eq!(stead.vfs().read(&*bare).unwrap().bytes, b"oldnew");
            assert_eq!(tagged(stead, prefix), ["log.md "], "there is no second file");
        }
        assert_eq!(stead.vfs().read("/w/log.md").unwrap().bytes, b"old");
    });
}

#[test]
fn w20_a_bare_name_finds_what_a_host_directory_has_got_since_its_fork_was_listed() {
    let host = Host::new(Kind::Physical, AGENT);
    let stead = host.open("a").fork("/w", "draft").unwrap();
    assert_eq!(tagged(&stead, "/forks/draft"), Vec::<String>::new());
    let later = write(&stead, "/w/later.md", "1");
    assert_eq!(stead.vfs().read("/forks/draft/later.md").unwrap().bytes, b"1");
    // The newest file with the name counts, wherever it is.
    write(&stead, "/forks/draft/data/later.md", "2");
    assert_eq!(stead.vfs().read("/forks/draft/later.md").unwrap().bytes, b"2");
    stead.vfs().remove_file("/forks/draft/data/later.md", RemoveOptions::default()).unwrap();
    assert_eq!(stead.vfs().read("/forks/draft/later.md").unwrap().path.to_string(), forked(&later));
    // What the fork has removed stays removed, although the directory has it.
    stead.vfs().remove_file(&*forked(&later), RemoveOptions::default()).unwrap();
    assert!(!stead.vfs().exists("/forks/draft/later.md").unwrap());
}

#[test]
fn w79_a_dry_run_of_a_cleanup_in_a_fork_that_nothing_has_listed_yet_lists_what_the_cleanup_removes() {
    Host::each(AGENT, |host| {
        let stead = host.open("a");
        let path = write(&stead, "/w/temp/old", "1");
        drop(stead);
        let conn = rusqlite::Connection::open(host.path(".stead/stead.db")).unwrap();
        conn.execute("UPDATE workspace_files SET modified_at = '2020-01-01T00:00:00.000Z'", []).unwrap();
        if host.kind == Kind::Physical {
            let file = std::fs::File::options().write(true).open(host.path("files/temp/old")).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }
        let stead = host.open("a").fork("/w", "draft").unwrap();
        for dry_run in [true, false] {
            let report = files(&stead, "/forks/draft").cleanup(&CleanupOptions { dry_run }).unwrap();
            let paths: Vec<_> = report.paths.iter().map(ToString::to_string).collect();
            assert_eq!((report.run.removed, paths), (1, vec![forked(&path)]), "dry run: {dry_run}");
        }
        assert!(stead.vfs().exists(&*path).unwrap(), "the base keeps it");
    });
}

#[test]
fn w28_after_a_merge_the_manifest_of_the_target_is_right_without_a_sync() {
    Host::each(AGENT, |host| {
        let stead = host.open("a");
        let (kept, removed) = (write(&stead, "/w/kept.md", "1"), write(&stead, "/w/removed.md", "2"));
        let moved = write(&stead, "/w/moved.md", "3");
        assert_eq!(tagged(&stead, "/w").len(), 3);
        let stead = stead.fork("/w", "draft").unwrap();
        stead.vfs().write(&*forked(&kept), "longer").unwrap();
        stead.vfs().remove_file(&*forked(&removed), RemoveOptions::default()).unwrap();
        let target = MoveTarget { category: Some(Category::Data), name: Some("to.md") };
        files(&stead, "/forks/draft").move_file(&*forked(&moved), target).unwrap();
        write(&stead, "/forks/draft/new.py", "four");
        merge(&stead);
        assert_eq!(tagged(&stead, "/w"), ["kept.md ", "new.py ", "to.md "]);
        assert!(files(&stead, "/w").sync().unwrap().counts.is_empty());
        let sizes = host.query(
            "SELECT original_name || ' ' || category || ' ' || size_bytes FROM workspace_files f
             JOIN managed_workspace m USING (workspace) ORDER BY f.workspace, original_name",
        );
        let expected = ["kept.md documents 6", "moved.md data 1", "new.py code 4"];
        assert_eq!(sizes, [expected, expected].concat(), "of the target and of the fork");
    });
}

#[test]
fn w74_and_w90_a_merge_carries_tags_and_pins_both_ways() {
    Host::each(AGENT, |host| {
        let stead = host.open("a");
        let (one, two) = (write(&stead, "/w/one.md", "1"), write(&stead, "/w/two.md", "2"));
        for path in [&one, &two] {
            tag(&stead, "/w", path, TagMode::Add, "base, old");
        }
        let stead = stead.fork("/w", "draft").unwrap();
        // Tags alone, on a file whose content stays.
        tag(&stead, "/forks/draft", &forked(&one), TagMode::Add, "pin");
        tag(&stead, "/forks/draft", &forked(&one), TagMode::Remove, "old");
        tag(&stead, "/w", &one, TagMode::Add, "target");
        merge(&stead);
        assert_eq!(tagged(&stead, "/w"), ["one.md base,target,pin", "two.md base,old"]);
        assert_eq!(tagged(&stead, "/forks/draft"), ["one.md base,pin,target", "two.md base,old"]);
        // What the target took off later stays off, although the fork still goes on.
        tag(&stead, "/w", &one, TagMode::Remove, "pin");
        let new = write(&stead, "/forks/draft/new.py", "x");
        tag(&stead, "/forks/draft", &new, TagMode::Add, "pin");
        merge(&stead);
        assert_eq!(tagged(&stead, "/w"), ["new.py pin", "one.md base,target", "two.md base,old"]);
        assert_eq!(tagged(&stead, "/forks/draft"), ["new.py pin", "one.md base,target", "two.md base,old"]);
        merge(&stead);
        assert_eq!(tagged(&stead, "/w"), ["new.py pin", "one.md base,target", "two.md base,old"]);
    });
}

#[test]
fn w74_and_w90_an_update_brings_the_tags_of_the_target_into_the_fork() {
    Host::each(AGENT, |host| {
        let stead = host.open("a");
        let path = write(&stead, "/w/one.md", "1");
        let stead = stead.fork("/w", "draft").unwrap();
        assert_eq!(tagged(&stead, "/forks/draft"), ["one.md "]);
        // The fork moves the file, and the target tags it.
        stead.vfs().rename(&*forked(&path), "/forks/draft/data/moved.md", Overwrite::Refuse).unwrap();
        tag(&stead, "/w", &path, TagMode::Add, "pin");
        update(&stead);
        assert_eq!(tagged(&stead, "/forks/draft"), ["moved.md pin"]);
        merge(&stead);
        assert_eq!(tagged(&stead, "/w"), ["moved.md pin"]);
        assert_eq!(all(&stead, "/w")[0].file.original_name.as_deref(), Some("one.md"));
    });
}

#[test]
fn w90_a_file_that_a_fork_overwrites_before_its_first_list_keeps_its_pin() {
    Host::each(AGENT, |host| {
        let stead = host.open("a");
        let (one, two) = (write(&stead, "/w/one.md", "1"), write(&stead, "/w/two.md", "2"));
        for path in [&one, &two] {
            tag(&stead, "/w", path, TagMode::Add, "pin");
        }
        let stead = stead.fork("/w", "draft").unwrap();
        // After the fork was made, so the fork's file still has it.
        tag(&stead, "/w", &two, TagMode::Remove, "pin");
        stead.vfs().write(&*forked(&one), "overwritten").unwrap();
        stead.vfs().rename(&*forked(&two), "/forks/draft/data/moved.md", Overwrite::Refuse).unwrap();
        assert_eq!(tagged(&stead, "/forks/draft"), ["moved.md pin", "one.md pin"]);
        merge(&stead);
        assert_eq!(tagged(&stead, "/w"), ["moved.md ", "one.md pin"]);
    });
}

#[test]
fn w31_and_w32_a_file_that_is_new_in_a_fork_keeps_its_name_tool_and_session() {
    Host::each(AGENT, |host| {
        let stead = host.open("a").fork("/w", "draft").unwrap();
        let path = stead.vfs().operation("write_file").write("/forks/draft/first.py", "x").unwrap().path;
        let target = MoveTarget { name: Some("second.py"), category: None };
        files(&stead, "/forks/draft").move_file(&path, target).unwrap();
        merge(&stead);
        let file = &all(&stead, "/w")[0].file;
        assert!(file.path.ends_with("/second.py"), "{file:?}");
        assert_eq!(file.original_name.as_deref(), Some("first.py"));
        assert_eq!(
            (file.source_tool.as_deref(), file.session_key.as_deref()),
            (Some("write_file"), Some("a"))
        );
        assert!(file.created_at <= file.modified_at);
    });
}

#[test]
fn a_merge_that_leaves_a_file_out_leaves_its_tags_out() {
    Host::each(AGENT, |host| {
        let stead = host.open("a");
        let path = write(&stead, "/w/one.md", "1");
        let stead = stead.fork("/w", "draft").unwrap();
        stead.vfs().write(&*forked(&path), "2").unwrap();
        tag(&stead, "/forks/draft", &forked(&path), TagMode::Add, "draft");
        let mut options = MergeOptions::default();
        options.rules = vec![MergeRule {
            paths: RulePaths::parse("documents/**", &[]).unwrap(),
            choice: MergeChoice::LeaveOut,
        }];
        assert!(stead.merge_fork("draft", &options).unwrap().done);
        assert_eq!(tagged(&stead, "/w"), ["one.md "]);
        merge(&stead);
        assert_eq!(tagged(&stead, "/w"), ["one.md draft"]);
    });
}

#[test]
fn g24_a_merge_leaves_out_the_tags_of_a_file_that_a_rule_leaves_out() {
    Host::each(AGENT, |host| {
        let stead = host.open("a");
        let (one, two) = (write(&stead, "/w/one.md", "1"), write(&stead, "/w/two.py", "2"));
        tag(&stead, "/w", &one, TagMode::Add, "base");
        let stead = stead.fork("/w", "draft").unwrap();
        tag(&stead, "/forks/draft", &forked(&one), TagMode::Set, "pin");
        tag(&stead, "/forks/draft", &forked(&two), TagMode::Add, "two");
        tag(&stead, "/w", &one, TagMode::Add, "target");
        for is_dry_run in [true, false] {
            let mut options = rules([("documents/**", MergeChoice::LeaveOut)]);
            options.dry_run = is_dry_run;
            let merged = stead.merge_fork("draft", &options).unwrap();
            assert_eq!(merged.left_out.iter().map(ToString::to_string).collect::<Vec<_>>(), [&*one]);
            assert_eq!(retagged(&merged), [format!("{two} +two")]);
            assert!(!merged.took_everything());
        }
        assert_eq!(tagged(&stead, "/w"), ["one.md base,target", "two.py two"]);
        // What was left out is still a change of the fork.
        assert_eq!(tagged(&stead, "/forks/draft"), ["one.md pin,target", "two.py two"]);
        assert!(stead.merge_fork("draft", &rules([("**", MergeChoice::LeaveOut)])).unwrap().done);
        update(&stead);
        assert_eq!(tagged(&stead, "/w"), ["one.md base,target", "two.py two"]);
        merge(&stead);
        assert_eq!(tagged(&stead, "/w"), ["one.md target,pin", "two.py two"]);
    });
}

#[test]
fn g31_the_fork_gives_up_the_tags_of_a_file_whose_change_is_dropped() {
    Host::each(AGENT, |host| {
        let stead = host.open("a");
        let (one, two) = (write(&stead, "/w/one.md", "1"), write(&stead, "/w/two.py", "2"));
        let moved = write(&stead, "/w/moved.md", "3");
        for path in [&one, &moved] {
            tag(&stead, "/w", path, TagMode::Add, "base, off");
        }
        let stead = stead.fork("/w", "draft").unwrap();
        tag(&stead, "/forks/draft", &forked(&one), TagMode::Set, "pin, base");
        tag(&stead, "/forks/draft", &forked(&two), TagMode::Add, "two");
        let target = MoveTarget { category: Some(Category::Data), name: None };
        let in_data = files(&stead, "/forks/draft").move_file(&*forked(&moved), target).unwrap().to;
        tag(&stead, "/forks/draft", in_data.as_str(), TagMode::Set, "pin");
        tag(&stead, "/w", &one, TagMode::Add, "target");
        let options = rules([("**", MergeChoice::Drop), ("code/**", MergeChoice::TakeFork)]);
        let merged = stead.merge_fork("draft", &options).unwrap();
        assert!(merged.done && merged.fork_gave_up && merged.took_everything(), "{merged:?}");
        let both = ["moved.md base,off", "one.md base,off,target", "two.py two"];
        assert_eq!(tagged(&stead, "/w"), both);
        let in_fork: Vec<_> = tagged(&stead, "/forks/draft").into_iter().map(sorted_tags).collect();
        assert_eq!(in_fork, both);
        assert!(stead.merge_fork("draft", &MergeOptions::default()).unwrap().is_unchanged());
        // Tags alone, of which nothing is taken.
        tag(&stead, "/forks/draft", &forked(&two), TagMode::Remove, "two");
        let merged = stead.merge_fork("draft", &rules([("**", MergeChoice::Drop)])).unwrap();
        assert!(merged.done && merged.fork_gave_up && merged.is_unchanged(), "{merged:?}");
        assert_eq!(tagged(&stead, "/forks/draft")[2], "two.py two");
    });
}

#[test]
fn g27_tags_that_the_merger_may_not_change_are_refused_and_can_be_left_out() {
    let mergers = ["hide", "protect"].map(|key| {
        let agent = AGENT.replace("agents.a", &format!("agents.{key}"));
        format!("{agent}{key} = [\"*.md\"]\n")
    });
    Host::each(&[AGENT, &mergers.concat()].concat(), |host| {
        let stead = host.open("a");
        let (one, two) = (write(&stead, "/w/one.md", "1"), write(&stead, "/w/two.py", "2"));
        for (merger, choice) in [
            ("hide", MergeRule { paths: RulePaths::Hidden, choice: MergeChoice::LeaveOut }),
            ("protect", rules([("documents/**", MergeChoice::LeaveOut)]).rules.remove(0)),
        ] {
            let stead = stead.fork("/w", merger).unwrap();
            let fork = format!("/forks/{merger}");
            for path in [&one, &two] {
                tag(&stead, &fork, &path.replacen("/w", &fork, 1), TagMode::Add, merger);
            }
            let other = host.open(merger);
            let name = format!("a/{merger}");
            let refused = other.merge_fork(&name, &MergeOptions::default()).unwrap();
            assert!(!refused.done && refused.refused.len() == 1, "{refused:?}");
            let mut options = MergeOptions::default();
            options.rules = vec![choice];
            let merged = other.merge_fork(&name, &options).unwrap();
            assert!(merged.done, "{merged:?}");
            assert_eq!(
                (merged.left_out_unseen, merged.left_out.len()),
                match merger {
                    "hide" => (true, 0),
                    _ => (false, 1),
                }
            );
            assert_eq!(retagged(&merged), [format!("{two} +{merger}")]);
        }
        assert_eq!(tagged(&stead, "/w"), ["one.md ", "two.py hide,protect"]);
    });
}

/// The conflicts of a merge or an update, as `PATH KIND`.
fn conflicts(merged: &MergeResult) -> Vec<String> {
    let line = |conflict: &MergeConflict| format!("{} {}", conflict.path, conflict.kind.as_str());
    merged.conflicts.iter().map(line).collect()
}

#[test]
fn w90_a_file_that_was_pinned_since_the_fork_was_made_is_not_removed_by_the_merge_of_a_cleanup() {
    Host::each(AGENT, |host| {
        let stead = host.open("a");
        let [one, two, three] =
            ["one", "two", "three"].map(|name| write(&stead, &format!("/w/temp/d/{name}"), "1"));
        drop(stead);
        let conn = rusqlite::Connection::open(host.path(".stead/stead.db")).unwrap();
        conn.execute("UPDATE workspace_files SET modified_at = '2020-01-01T00:00:00.000Z'", []).unwrap();
        if host.kind == Kind::Physical {
            for name in ["one", "two", "three"] {
                let path = host.path(&format!("files/temp/d/{name}"));
                let file = std::fs::File::options().write(true).open(path).unwrap();
                file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
            }
        }
        let stead = host.open("a").fork("/w", "draft").unwrap();
        let cleaned = files(&stead, "/forks/draft").cleanup(&CleanupOptions::default()).unwrap();
        assert_eq!(cleaned.run.removed, 3);
        for path in [&one, &two] {
            tag(&stead, "/w", path, TagMode::Add, "pin");
        }
        let expected = [format!("{one} deleted/changed"), format!("{two} deleted/changed")];
        let merged = stead.merge_fork("draft", &MergeOptions::default()).unwrap();
        assert!(!merged.done);
        assert_eq!(conflicts(&merged), expected);
        assert!(merged.conflicts[0].base.as_ref().is_some_and(|base| base.size == 1));
        assert_eq!(tagged(&stead, "/w"), ["one pin", "three ", "two pin"]);
        let updated = stead.update_fork("draft", &MergeOptions::default()).unwrap();
        assert_eq!(conflicts(&updated), [forked(&expected[0]), forked(&expected[1])]);
        // Each side can be chosen.
        let choices = rules([("temp/d/one", MergeChoice::TakeTarget), ("temp/d/two", MergeChoice::TakeFork)]);
        assert!(stead.merge_fork("draft", &choices).unwrap().done);
        assert_eq!(tagged(&stead, "/w"), ["one pin"]);
        assert_eq!(tagged(&stead, "/forks/draft"), ["one pin"]);
        assert!(!stead.vfs().exists(&*three).unwrap());
        assert!(stead.merge_fork("draft", &MergeOptions::default()).unwrap().is_unchanged());
    });
}

#[test]
fn w74_and_w90_a_file_that_a_merge_brings_back_has_all_its_tags_on_both_sides() {
    Host::each(AGENT, |host| {
        let stead = host.open("a");
        let (one, two) = (write(&stead, "/w/one.md", "1"), write(&stead, "/w/two.md", "1"));
        for path in [&one, &two] {
            tag(&stead, "/w", path, TagMode::Add, "pin, base");
        }
        let stead = stead.fork("/w", "draft").unwrap();
        // The fork removes one, and gives that up.
        stead.vfs().remove_file(&*forked(&one), RemoveOptions::default()).unwrap();
        assert!(stead.merge_fork("draft", &rules([("**", MergeChoice::Drop)])).unwrap().done);
        assert_eq!(tagged(&stead, "/forks/draft"), ["one.md pin,base", "two.md pin,base"]);
        assert!(stead.merge_fork("draft", &MergeOptions::default()).unwrap().is_unchanged());
        // The target removes one, and the fork has changed it.
        stead.vfs().append(&*forked(&two), "2").unwrap();
        stead.vfs().remove_file(&*two, RemoveOptions::default()).unwrap();
        let refused = stead.merge_fork("draft", &MergeOptions::default()).unwrap();
        assert_eq!(conflicts(&refused), [format!("{two} deleted/changed")]);
        assert!(stead.merge_fork("draft", &rules([("**", MergeChoice::TakeFork)])).unwrap().done);
        for prefix in ["/w", "/forks/draft"] {
            assert_eq!(tagged(&stead, prefix), ["one.md pin,base", "two.md pin,base"], "{prefix}");
        }
        // What the target removes, and the fork has not changed, leaves no change behind.
        stead.vfs().remove_file(&*one, RemoveOptions::default()).unwrap();
        update(&stead);
        assert!(stead.merge_fork("draft", &MergeOptions::default()).unwrap().is_unchanged());
        assert_eq!(tagged(&stead, "/forks/draft"), ["two.md pin,base"]);
    });
}

#[test]
fn w90_a_file_that_the_fork_has_pinned_is_not_lost_because_the_target_has_removed_it() {
    Host::each(AGENT, |host| {
        let stead = host.open("a");
        let (path, saved) = (write(&stead, "/w/one.md", "1"), write(&stead, "/w/two.md", "1"));
        let stead = stead.fork("/w", "draft").unwrap();
        // On a host directory, what the fork has not changed follows the directory.
        stead.vfs().append(&*forked(&path), "2").unwrap();
        merge(&stead);
        tag(&stead, "/forks/draft", &forked(&path), TagMode::Add, "pin");
        // Saved by a move, the file counts as changed, not as removed.
        tag(&stead, "/forks/draft", &forked(&saved), TagMode::Add, "pin");
        stead.vfs().write("/w/documents/temp", "saved").unwrap();
        stead.vfs().rename("/w/documents/temp", &*saved, Overwrite::Replace).unwrap();
        stead.vfs().remove_file(&*path, RemoveOptions::default()).unwrap();
        let merged = stead.merge_fork("draft", &MergeOptions::default()).unwrap();
        assert_eq!(conflicts(&merged), [format!("{path} deleted/changed")]);
        let updated = stead.update_fork("draft", &MergeOptions::default()).unwrap();
        assert_eq!(conflicts(&updated), [format!("{} deleted/changed", forked(&path))]);
        assert_eq!(tagged(&stead, "/forks/draft"), ["one.md pin", "two.md pin"]);
        let choices = rules([("**", MergeChoice::TakeFork)]);
        assert!(stead.merge_fork("draft", &choices).unwrap().done);
        assert_eq!(tagged(&stead, "/w"), ["one.md pin", "two.md pin"]);
        assert_eq!(stead.vfs().read(&*saved).unwrap().bytes, b"saved");
    });
}

#[test]
fn w74_a_fork_that_was_given_away_gets_no_tags_of_files_that_it_has_not_changed() {
    let stranger = "[stores.other]\nkind = \"memory\"\n[[agents.b.workspaces]]\nprefix = \"/own\"\nscope = \"rw\"\nstore = \"other\"\n";
    Host::each(&[AGENT, stranger].concat(), |host| {
        let stead = host.open("a");
        let (plan, mine) = (write(&stead, "/w/plan.md", "1"), write(&stead, "/w/mine.md", "1"));
        stead.fork_to("/w", "draft", "b").unwrap();
        let stranger = host.open("b");
        assert_eq!(tagged(&stranger, "/forks/draft"), ["mine.md ", "plan.md "]);
        stranger.vfs().write(&*forked(&mine), "2").unwrap();
        tag(&stead, "/w", &plan, TagMode::Add, "confidential");
        assert!(stead.merge_fork("b/draft", &MergeOptions::default()).unwrap().done);
        assert_eq!(tagged(&stead, "/w"), ["mine.md ", "plan.md confidential"]);
        assert_eq!(tagged(&host.open("b"), "/forks/draft"), ["mine.md ", "plan.md "]);
    });
}

#[test]
fn w74_and_w90_a_merge_of_tags_alone_says_so() {
    Host::each(AGENT, |host| {
        let stead = host.open("a");
        let (one, two) = (write(&stead, "/w/one.md", "1"), write(&stead, "/w/two.md", "2"));
        tag(&stead, "/w", &one, TagMode::Add, "pin");
        let stead = stead.fork("/w", "draft").unwrap();
        tag(&stead, "/forks/draft", &forked(&one), TagMode::Remove, "pin");
        let mut options = MergeOptions::default();
        for is_dry_run in [true, false] {
            options.dry_run = is_dry_run;
            let merged = stead.merge_fork("draft", &options).unwrap();
            assert_eq!((merged.done, merged.changes.len()), (!is_dry_run, 0));
            assert_eq!(merged.retagged.iter().map(|file| file.path.to_string()).collect::<Vec<_>>(), [&*one]);
        }
        assert!(stead.merge_fork("draft", &options).unwrap().is_unchanged());
        tag(&stead, "/w", &two, TagMode::Add, "pin");
        let updated = stead.update_fork("draft", &options).unwrap();
        assert_eq!(
            updated.retagged.iter().map(|file| file.path.to_string()).collect::<Vec<_>>(),
            [forked(&two)]
        );
    });
}

#[test]
fn w74_and_w90_the_undo_of_a_merge_takes_its_tags_back() {
    Host::each(AGENT, |host| {
        let stead = host.open("a");
        let (one, two) = (write(&stead, "/w/one.md", "1"), write(&stead, "/w/two.md", "2"));
        tag(&stead, "/w", &one, TagMode::Add, "pin, old");
        let stead = stead.fork("/w", "draft").unwrap();
        tag(&stead, "/forks/draft", &forked(&one), TagMode::Remove, "pin");
        tag(&stead, "/forks/draft", &forked(&one), TagMode::Add, "new");
        tag(&stead, "/forks/draft", &forked(&two), TagMode::Add, "two");
        stead.vfs().write(&*forked(&two), "longer").unwrap();
        let merged = stead.merge_fork("draft", &MergeOptions::default()).unwrap();
        assert_eq!(tagged(&stead, "/w"), ["one.md old,new", "two.md two"]);
        tag(&stead, "/w", &one, TagMode::Add, "later");
        let undo = UndoTarget::Operation(merged.operation.unwrap());
        let undone = stead.vfs().undo(undo, UndoOptions::default()).unwrap();
        assert!(undone.done, "{undone:?}");
        assert_eq!(tagged(&stead, "/w"), ["one.md old,later,pin", "two.md "]);
        // The undo can be undone, too.
        let redone =
            stead.vfs().undo(UndoTarget::Operation(undone.operation.unwrap()), UndoOptions::default());
        assert!(redone.unwrap().done);
        assert_eq!(tagged(&stead, "/w"), ["one.md old,later,new", "two.md two"]);
    });
}

#[test]
fn w74_and_w90_the_undo_of_a_merge_takes_its_tags_back_from_a_file_that_it_has_moved() {
    Host::each(AGENT, |host| {
        let stead = host.open("a");
        let path = write(&stead, "/w/one.md", "1");
        tag(&stead, "/w", &path, TagMode::Add, "one");
        let stead = stead.fork("/w", "draft").unwrap();
        let target = MoveTarget { category: Some(Category::Data), name: None };
        let moved = files(&stead, "/forks/draft").move_file(&*forked(&path), target).unwrap().to;
        tag(&stead, "/forks/draft", moved.as_str(), TagMode::Set, "two");
        let merged = stead.merge_fork("draft", &MergeOptions::default()).unwrap();
        let in_target = moved.as_str().replacen("/forks/draft", "/w", 1);
        assert_eq!(all(&stead, "/w")[0].path.as_str(), in_target);
        assert_eq!(tagged(&stead, "/w"), ["one.md two"]);
        // What is tagged later stays.
        tag(&stead, "/w", &in_target, TagMode::Add, "later");
        let undo =
            |operation| stead.vfs().undo(UndoTarget::Operation(operation), UndoOptions::default()).unwrap();
        let undone = undo(merged.operation.unwrap());
        assert_eq!(all(&stead, "/w")[0].path.as_str(), path);
        assert_eq!(tagged(&stead, "/w"), ["one.md later,one"]);
        undo(undone.operation.unwrap());
        assert_eq!(all(&stead, "/w")[0].path.as_str(), in_target);
        assert_eq!(tagged(&stead, "/w"), ["one.md later,two"]);
    });
}

#[test]
fn w74_and_w90_the_undo_of_an_update_takes_its_tags_back_from_a_file_that_the_target_has_moved() {
    Host::each(AGENT, |host| {
        let stead = host.open("a");
        let path = write(&stead, "/w/one.md", "1");
        tag(&stead, "/w", &path, TagMode::Add, "kept, gone");
        let stead = stead.fork("/w", "draft").unwrap();
        // The fork changes the file, so it is one of its own on a host directory, too.
        stead.vfs().append(&*forked(&path), "2").unwrap();
        assert_eq!(tagged(&stead, "/forks/draft"), ["one.md kept,gone"]);
        let target = MoveTarget { category: Some(Category::Data), name: None };
        let moved = files(&stead, "/w").move_file(&*path, target).unwrap().to;
        tag(&stead, "/w", moved.as_str(), TagMode::Remove, "gone");
        let updated = stead.update_fork("draft", &MergeOptions::default()).unwrap();
        assert_eq!(all(&stead, "/forks/draft")[0].path.as_str(), forked(moved.as_str()));
        assert_eq!(tagged(&stead, "/forks/draft"), ["one.md kept"]);
        let undo = UndoTarget::Operation(updated.operation.unwrap());
        assert!(stead.vfs().undo(undo, UndoOptions::default()).unwrap().done);
        let listed = all(&stead, "/forks/draft");
        let own = listed.iter().find(|listed| listed.path.as_str() == forked(&path)).unwrap();
        assert_eq!(own.file.tags.to_string(), "kept,gone");
    });
}

#[test]
fn w24_and_w90_a_file_that_is_saved_by_a_move_in_a_fork_keeps_its_pin_in_the_merge() {
    Host::each(AGENT, |host| {
        let stead = host.open("a");
        let path = write(&stead, "/w/one.md", "1");
        tag(&stead, "/w", &path, TagMode::Add, "pin");
        let id = host.query("SELECT id || ' ' || created_at FROM workspace_files");
        let stead = stead.fork("/w", "draft").unwrap();
        stead.vfs().write("/forks/draft/documents/temp", "saved").unwrap();
        stead.vfs().rename("/forks/draft/documents/temp", &*forked(&path), Overwrite::Replace).unwrap();
        assert_eq!(tagged(&stead, "/forks/draft"), ["one.md pin"]);
        merge(&stead);
        assert_eq!(tagged(&stead, "/w"), ["one.md pin"]);
        assert_eq!(tagged(&stead, "/forks/draft"), ["one.md pin"]);
        let rows = host.query("SELECT id || ' ' || created_at FROM workspace_files ORDER BY id");
        assert!(rows.contains(&id[0]), "{id:?} {rows:?}");
        assert_eq!(stead.vfs().read(&*path).unwrap().bytes, b"saved");
    });
}

#[test]
fn w30_and_w35_a_directory_that_is_copied_in_a_fork_has_its_rows_with_the_change() {
    Host::each(AGENT, |host| {
        let stead = host.open("a");
        write(&stead, "/w/drafts/deep/x.md", "x");
        let stead = stead.fork("/w", "draft").unwrap();
        assert_eq!(tagged(&stead, "/forks/draft"), Vec::<String>::new());
        let copying = stead.vfs().operation("cp");
        copying.copy("/forks/draft/drafts", "/forks/draft/code/copy", Overwrite::Refuse).unwrap();
        let rows = host.query("SELECT path || ' ' || source_tool FROM workspace_files");
        assert_eq!(rows, ["code/copy/deep/x.md cp"]);
    });
}

#[test]
fn w68_and_w90_in_a_fork_a_file_that_its_base_moves_keeps_its_tags_and_its_tool() {
    Host::each(AGENT, |host| {
        let stead = host.open("a");
        let [one, two, three] = ["one.md", "two.md", "three.md"].map(|name| format!("/w/documents/d/{name}"));
        for path in [&one, &two, &three] {
            stead.vfs().operation("write_file").write(&**path, "1").unwrap();
            tag(&stead, "/w", path, TagMode::Add, "base, off");
        }
        let stead = stead.fork("/w", "draft").unwrap();
        tag(&stead, "/forks/draft", &forked(&one), TagMode::Set, "mine, pin, base");
        let move_to = |path: &str, category| {
            let target = MoveTarget { category: Some(category), name: None };
            files(&stead, "/w").move_file(path, target).unwrap().to.to_string()
        };
        // Twice, and the fork looks at it in between.
        let at = move_to(&one, Category::Data);
        let in_fork = ["one.md mine,pin,base", "three.md base,off", "two.md base,off"];
        assert_eq!(tagged(&stead, "/forks/draft"), in_fork);
        let at = move_to(&at, Category::Code);
        assert_eq!(tagged(&stead, "/forks/draft"), in_fork);
        // The fork writes one where it is now before anything lists it.
        tag(&stead, "/forks/draft", &forked(&two), TagMode::Add, "pin");
        let moved = move_to(&two, Category::Data);
        if host.kind == Kind::Physical {
            stead.vfs().append(&*forked(&moved), "2").unwrap();
        }
        let tools: Vec<_> = all(&stead, "/forks/draft")
            .into_iter()
            .filter(|listed| !listed.path.as_str().contains("two"))
            .map(|listed| listed.file.source_tool)
            .collect();
        assert_eq!(tools, [Some("write_file".to_owned()), Some("write_file".to_owned())]);
        assert_eq!(tagged(&stead, "/forks/draft")[2], "two.md base,off,pin");
        tag(&stead, "/w", &at, TagMode::Add, "later");
        merge(&stead);
        assert_eq!(
            tagged(&stead, "/w"),
            ["one.md base,later,mine,pin", "three.md base,off", "two.md base,off,pin"]
        );
    });
}

#[test]
fn w68_and_w90_a_pinned_file_that_a_host_directory_moves_before_its_fork_is_listed_stays_pinned() {
    let host = Host::new(Kind::Physical, AGENT);
    let stead = host.open("a");
    let path = write(&stead, "/w/one.md", "1");
    tag(&stead, "/w", &path, TagMode::Add, "pin");
    let stead = stead.fork("/w", "draft").unwrap();
    let target = MoveTarget { category: Some(Category::Data), name: None };
    let moved = files(&stead, "/w").move_file(&*path, target).unwrap().to;
    // The target's own change of a tag comes with an update, and the merge doesn't take it back.
    tag(&stead, "/w", moved.as_str(), TagMode::Remove, "pin");
    assert_eq!(tagged(&stead, "/forks/draft"), ["one.md pin"]);
    merge(&stead);
    assert_eq!(tagged(&stead, "/w"), ["one.md "]);
}

#[test]
fn w68_and_w90_a_file_that_a_fork_shows_in_two_places_is_pinned_in_both() {
    let host = Host::new(Kind::Physical, AGENT);
    let stead = host.open("a");
    let path = write(&stead, "/w/one.md", "1");
    let stead = stead.fork("/w", "draft").unwrap();
    tag(&stead, "/forks/draft", &forked(&path), TagMode::Add, "pin");
    stead.vfs().append(&*forked(&path), "2").unwrap();
    let target = MoveTarget { category: Some(Category::Data), name: Some("two.md") };
    files(&stead, "/w").move_file(&*path, target).unwrap();
    assert_eq!(tagged(&stead, "/forks/draft"), ["one.md pin", "two.md pin"]);
    assert!(files(&stead, "/forks/draft").sync().unwrap().counts.is_empty());
    update(&stead);
    assert_eq!(tagged(&stead, "/forks/draft"), ["two.md pin"]);
    merge(&stead);
    assert_eq!(tagged(&stead, "/w"), ["two.md pin"]);
}

#[test]
fn w49_and_w56_a_fork_of_a_host_directory_lists_what_it_shows() {
    let host = Host::new(Kind::Physical, AGENT);
    let stead = host.open("a");
    write(&stead, "/w/data/u/u.csv", "1");
    tag(&stead, "/w", "/w/data/u/u.csv", TagMode::Add, "pin");
    write(&stead, "/w/data/u/gone.csv", "1");
    let stead = stead.fork("/w", "draft").unwrap();
    assert_eq!(tagged(&stead, "/forks/draft"), ["gone.csv ", "u.csv pin"]);
    // The fork has changed none of these, so it shows them as they are now.
    write(&stead, "/w/data/u/later.csv", "2");
    stead.vfs().write("/w/data/u/u.csv", "2222").unwrap();
    stead.vfs().remove_file("/w/data/u/gone.csv", RemoveOptions::default()).unwrap();
    std::fs::write(host.path("files/data/u/outside.csv"), "333").unwrap();
    let sizes = |stead: &Stead| {
        let mut sizes: Vec<_> = all(stead, "/forks/draft")
            .into_iter()
            .map(|listed| format!("{} {}", listed.path.name().unwrap(), listed.file.size))
            .collect();
        sizes.sort();
        sizes
    };
    assert_eq!(sizes(&stead), ["later.csv 1", "outside.csv 3", "u.csv 4"]);
    let found = FileFilter { search: Some(SearchPattern::new("later")), ..FileFilter::default() };
    let page = files(&stead, "/forks/draft").list(&found, FilePage { offset: 0, limit: 9 }).unwrap();
    assert_eq!(page.total.count, 1);
    let info = files(&stead, "/forks/draft").info("/forks/draft/data/u/u.csv").unwrap().file;
    assert_eq!((info.size, info.tags.to_string()), (4, "pin".to_owned()));
    // An earlier version has the rows of that time, which no sync may change.
    let earlier = stead.vfs().revision_at("/forks/draft", stead::vfs::PointInTime::Now).unwrap();
    write(&stead, "/forks/draft/data/own.csv", "1");
    let past = stead.vfs().as_of(earlier).unwrap();
    let past = past.managed(Some("/forks/draft")).unwrap();
    assert_eq!(past.list(&FileFilter::default(), FilePage { offset: 0, limit: 9 }).unwrap().total.count, 3);
    merge(&stead);
    assert_eq!(tagged(&stead, "/w"), ["later.csv ", "own.csv ", "u.csv pin"]);
}
