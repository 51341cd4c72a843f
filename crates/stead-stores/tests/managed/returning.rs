//! Rows that stay or come back with their files: files that a move replaces, that an undo or a restore brings back.

use stead_core::OperationId;
use stead_core::managed::{FileFilter, Tags};
use stead_core::vfs::{
    OnConflict, Overwrite, PointInTime, RemoveOptions, RestoreOptions, RevertResult, UndoOptions, UndoTarget,
};

use crate::host::{DAY, Host, listed_with};

fn tag(host: &Host, path: &str, tags: &[&str]) {
    host.files().tag(path, Default::default(), &Tags::parse(tags).unwrap()).unwrap();
}

fn remove(host: &Host, path: &str) -> OperationId {
    host.vfs().remove_file(path, RemoveOptions::default()).unwrap().operation
}

fn undo(host: &Host, operation: OperationId) -> RevertResult {
    let undone = host.vfs().undo(UndoTarget::Operation(operation), UndoOptions::default()).unwrap();
    assert!(undone.done, "{undone:?}");
    undone
}

/// What a row says that an overwrite must keep, and its tags.
fn lasting(host: &Host, path: &str) -> String {
    let file = host.files().info(path).unwrap().file;
    let name = file.original_name.unwrap();
    format!("{} {name} {} [{}]", file.id, file.created_at, file.tags)
}

/// The paths of the files with a tag, by the index of tags.
fn with_tag(host: &Host, tag: &str) -> Vec<String> {
    listed_with(&host.files(), &FileFilter { tags: Tags::parse([tag]).unwrap(), ..FileFilter::default() })
}

#[test]
fn w24_and_w36_a_file_that_is_saved_by_a_move_over_it_keeps_its_row_and_tags() {
    Host::each(|host| {
        let path = host.vfs().write("/notes/back", "before").unwrap().path;
        tag(host, path.as_str(), &["pin"]);
        host.vfs().read(&path).unwrap();
        let before = lasting(host, path.as_str());
        let accessed = host.files().info(&path).unwrap().file.accessed_at;
        // From the same directory, as editors save; from a place that isn't tracked; and one change after another.
        for (number, temp) in [format!("temp/{DAY}/sed0WPFt8"), "drafts/x".into()].into_iter().enumerate() {
            host.advance_days(1);
            let temp = format!("/notes/{temp}");
            host.vfs().operation("editor").write(&*temp, format!("saved {number}")).unwrap();
            host.vfs().operation("editor").rename(&*temp, &path, Overwrite::Replace).unwrap();
            assert_eq!(lasting(host, path.as_str()), before);
            let file = host.files().info(&path).unwrap().file;
            assert_eq!((file.size, file.modified_at, file.accessed_at), (7, host.now(), accessed));
            assert_eq!(file.source_tool.as_deref(), Some("editor"));
            assert_eq!(host.rows(), [format!("temp/{DAY}/back")]);
            assert_eq!(with_tag(host, "pin"), [format!("temp/{DAY}/back")]);
        }
        assert!(host.files().sync().unwrap().counts.is_empty());
    });
}

#[test]
fn w24_a_file_that_is_moved_over_another_brings_its_tags_along() {
    Host::each(|host| {
        let (from, to) = ("/notes/data/from", "/notes/code/to");
        for (path, tags) in [(from, ["pin", "both"]), (to, ["both", "own"])] {
            host.vfs().write(path, path).unwrap();
            tag(host, path, &tags);
        }
        let (first, second) = (lasting(host, from), lasting(host, to));
        let moved = host.vfs().rename(from, to, Overwrite::Replace).unwrap();
        assert_eq!(lasting(host, to), second.replace("both,own", "both,own,pin"));
        assert_eq!(
            (host.rows(), with_tag(host, "pin")),
            (vec!["code/to".to_owned()], vec!["code/to".to_owned()])
        );
        // The undo gives each file its own row back.
        undo(host, moved.operation);
        assert_eq!((lasting(host, from), lasting(host, to)), (first, second));
        assert_eq!(host.files().info(to).unwrap().file.size, to.len() as u64);
        assert_eq!(with_tag(host, "pin"), ["data/from"]);
        assert!(host.files().sync().unwrap().counts.is_empty());
    });
}

#[test]
fn w24_files_that_only_swap_their_names_swap_their_rows() {
    Host::each(|host| {
        for (path, name) in [("/notes/code/a", "a"), ("/notes/data/b", "b")] {
            host.vfs().write(path, path).unwrap();
            tag(host, path, &[name]);
        }
        let first = host.vfs().rename("/notes/code/a", "/notes/aside", Overwrite::Refuse).unwrap().operation;
        undo(host, first);
        for (from, to) in [("code/a", "code/c"), ("data/b", "code/a"), ("code/c", "data/b")] {
            let path = |path: &str| format!("/notes/{path}");
            host.vfs().rename(path(from), path(to), Overwrite::Refuse).unwrap();
        }
        assert_eq!(
            (with_tag(host, "a"), with_tag(host, "b")),
            (vec!["data/b".into()], vec!["code/a".into()])
        );
        let undone = host.vfs().undo(UndoTarget::Last(3), UndoOptions::default()).unwrap();
        assert!(undone.done);
        assert_eq!(
            (with_tag(host, "a"), with_tag(host, "b")),
            (vec!["code/a".into()], vec!["data/b".into()])
        );
    });
}

#[test]
fn w92_an_undo_brings_back_the_row_that_its_operation_ended() {
    Host::each(|host| {
        let path = "/notes/documents/q/r.md";
        let mut removals = Vec::new();
        let mut rows = Vec::new();
        for (content, name) in [("AAAA", "pin"), ("BB", "second"), ("C", "third")] {
            host.vfs().write(path, content).unwrap();
            tag(host, path, &[name]);
            rows.push(lasting(host, path));
            removals.push(remove(host, path));
        }
        undo(host, removals[0]);
        assert_eq!(host.vfs().read(path).unwrap().bytes, b"AAAA");
        assert_eq!(lasting(host, path), rows[0]);
        assert_eq!(with_tag(host, "pin"), ["documents/q/r.md"]);
        remove(host, path);
        undo(host, removals[2]);
        assert_eq!(lasting(host, path), rows[2]);
    });
}

#[test]
fn w92_an_undo_of_several_operations_brings_back_the_row_that_the_first_of_them_ended() {
    Host::each(|host| {
        let path = "/notes/documents/q/r.md";
        host.vfs().write(path, "AAAA").unwrap();
        tag(host, path, &["pin"]);
        let row = lasting(host, path);
        remove(host, path);
        host.vfs().write(path, "BB").unwrap();
        tag(host, path, &["second"]);
        remove(host, path);
        let undone = host.vfs().undo(UndoTarget::Last(3), UndoOptions::default()).unwrap();
        assert!(undone.done, "{undone:?}");
        assert_eq!(lasting(host, path), row);
    });
}

#[test]
fn w92_an_undo_that_leaves_a_path_as_it_is_brings_back_the_rows_of_the_others() {
    Host::each(|host| {
        for name in ["kept", "taken"] {
            host.vfs().write(format!("/notes/temp/d/{name}"), "x").unwrap();
            tag(host, &format!("/notes/temp/d/{name}"), &[name]);
        }
        let removal = host
            .vfs()
            .remove_directory("/notes/temp/d", RemoveOptions { recursive: true, ..RemoveOptions::default() });
        let removal = removal.unwrap().operation;
        host.vfs().write("/notes/temp/d/taken", "another").unwrap();
        let options = UndoOptions { on_conflict: OnConflict::Skip, ..UndoOptions::default() };
        let undone = host.vfs().undo(UndoTarget::Operation(removal), options).unwrap();
        assert!(undone.done && undone.conflicts.len() == 1, "{undone:?}");
        assert_eq!(with_tag(host, "kept"), ["temp/d/kept"]);
        assert_eq!(with_tag(host, "taken"), Vec::<String>::new());
    });
}

#[test]
fn w92_a_restore_brings_back_the_rows_with_the_files() {
    Host::each(|host| {
        let vfs = host.vfs();
        for name in ["removed", "moved", "kept"] {
            vfs.write(format!("/notes/temp/{name}"), "x").unwrap();
            tag(host, &format!("/notes/temp/{name}"), &["pin", name]);
        }
        vfs.write("/notes/temp/d/below", "x").unwrap();
        tag(host, "/notes/temp/d/below", &["below"]);
        let before: Vec<String> =
            host.query("SELECT id || path || tags || created_at FROM workspace_files ORDER BY id");
        let at = vfs.revision_at("/notes", PointInTime::Now).unwrap();
        host.advance_days(1);
        remove(host, "/notes/temp/removed");
        vfs.write("/notes/temp/removed", "later").unwrap();
        tag(host, "/notes/temp/removed", &["later"]);
        remove(host, "/notes/temp/removed");
        vfs.rename("/notes/temp/moved", "/notes/data/elsewhere", Overwrite::Refuse).unwrap();
        vfs.write("/notes/temp/kept", "longer").unwrap();
        let recursive = RemoveOptions { recursive: true, ..RemoveOptions::default() };
        vfs.remove_directory("/notes/temp/d", recursive).unwrap();
        let restored = vfs.restore("/notes", at, &RestoreOptions::default()).unwrap();
        assert!(restored.done, "{restored:?}");
        let after = host.query("SELECT id || path || tags || created_at FROM workspace_files ORDER BY id");
        assert_eq!(after, before);
        for (tag, path) in [("removed", "temp/removed"), ("moved", "temp/moved"), ("below", "temp/d/below")] {
            assert_eq!(with_tag(host, tag), [path]);
        }
        assert!(host.files().sync().unwrap().counts.is_empty());
    });
}

#[test]
fn w92_a_restore_leaves_the_tags_of_a_file_that_still_exists() {
    Host::each(|host| {
        let vfs = host.vfs();
        vfs.write("/notes/temp/x", "x").unwrap();
        tag(host, "/notes/temp/x", &["early"]);
        let at = vfs.revision_at("/notes", PointInTime::Now).unwrap();
        vfs.write("/notes/temp/x", "y").unwrap();
        tag(host, "/notes/temp/x", &["late"]);
        let row = lasting(host, "/notes/temp/x");
        assert!(vfs.restore("/notes", at, &RestoreOptions::default()).unwrap().done);
        assert_eq!(lasting(host, "/notes/temp/x"), row);
    });
}
