//! Which paths the calls of a managed Workspace accept, and what they answer about all others.

use std::sync::Arc;

use stead_core::managed::{Category, TagMode, Tags, Ttl};
use stead_core::store::StoreError;
use stead_core::vfs::WriteOptions;
use stead_core::vfs::managed::MoveTarget;
use stead_core::{AccessScope, Error, ErrorKind, Mount, Occurrences, VfsPath, Workspace};

use crate::host::{DAY, Host, Kind, listed};

fn to(category: Category) -> MoveTarget<'static> {
    MoveTarget { category: Some(category), ..MoveTarget::default() }
}

#[test]
fn w72_delete_and_move_dont_follow_a_symlink_out_of_the_category_directories() {
    Host::each(|host| {
        let (vfs, files) = (host.vfs(), host.files());
        vfs.write("/notes/memory/m.md", "mine").unwrap();
        vfs.write("/notes/a.py", "x").unwrap();
        vfs.symlink("/notes/code/mem", "../memory").unwrap();
        let through = "/notes/code/mem/m.md";
        assert_eq!(vfs.read(through).unwrap().bytes, b"mine", "a read follows it");
        assert!(files.delete(through).is_err());
        assert!(files.move_file(through, to(Category::Data)).is_err());
        assert!(files.tag(through, TagMode::Add, &Tags::parse(["x"]).unwrap()).is_err());
        assert_eq!(vfs.read("/notes/memory/m.md").unwrap().bytes, b"mine");
        // The target of a move as well.
        vfs.symlink("/notes/data", "memory").unwrap();
        let written = format!("/notes/code/{DAY}/a.py");
        assert!(files.move_file(&*written, to(Category::Data)).is_err());
        assert_eq!(host.rows(), [format!("code/{DAY}/a.py")]);
    });
}

#[test]
fn w68_move_takes_one_file_and_no_directory() {
    Host::each(|host| {
        host.vfs().write("/notes/a.py", "x").unwrap();
        let directory = format!("/notes/code/{DAY}");
        let refused = host.files().move_file(&*directory, to(Category::Data)).unwrap_err();
        assert!(matches!(refused, Error::Store { cause: StoreError::IsADirectory, .. }), "{refused}");
        assert_eq!(refused.to_string(), host.files().delete(&*directory).unwrap_err().to_string());
        assert_eq!(host.rows(), [format!("code/{DAY}/a.py")]);
    });
}

#[test]
fn w7_a_file_with_the_name_of_a_category_or_a_reserved_directory_is_routed_and_blocks_nothing() {
    Host::each(|host| {
        for name in ["data", "memory", "sessions"] {
            let written = host.vfs().write(format!("/notes/{name}"), "x").unwrap();
            assert_eq!(written.path.as_str(), format!("/notes/temp/{DAY}/{name}"));
        }
        host.vfs().write("/notes/x.csv", "x").unwrap();
        host.vfs().write("/notes/memory/m.md", "x").unwrap();
        assert!(host.vfs().write("/notes/data", "x").is_err(), "the directory is there now");
        assert_eq!(host.rows().len(), 4);
    });
}

#[test]
fn w13_what_is_in_the_place_of_a_categorys_directory_is_named() {
    Host::each(|host| {
        host.vfs_with(plain(host)).write("/notes/data", "written before").unwrap();
        let refused = host.vfs().write("/notes/x.csv", "x").unwrap_err().to_string();
        assert!(refused.contains(&format!("/notes/data/{DAY}/x.csv")), "{refused}");
    });
}

/// The same directory as a Workspace that isn't managed.
fn plain(host: &Host) -> Workspace {
    let mount = Mount::new(Arc::clone(&host.store));
    Workspace::new(VfsPath::parse("/notes").unwrap(), AccessScope::ReadWrite, mount)
}

#[test]
fn w10_and_w18_a_category_for_a_name_that_exists_at_the_root_is_refused() {
    Host::each(|host| {
        host.vfs_with(plain(host)).write("/notes/old.txt", "1").unwrap();
        let options = WriteOptions::new().category(Category::Data);
        for name in ["old.txt", "AGENTS.md"] {
            let path = format!("/notes/{name}");
            let refused = host.vfs().write_with(&*path, "2", &options).unwrap_err().to_string();
            assert!(refused.contains("`category` is for a new name"), "{refused}");
        }
        assert!(host.vfs().append_with("/notes/old.txt", "2", &options).is_err());
        assert_eq!(host.vfs().read("/notes/old.txt").unwrap().bytes, b"1");
    });
}

#[test]
fn w19_an_error_names_the_path_where_the_file_is() {
    Host::each(|host| {
        let path = host.vfs().write("/notes/a.py", "x").unwrap().path;
        let only_new = WriteOptions::new().create_only();
        let refused = host.vfs().write_with("/notes/a.py", "y", &only_new).unwrap_err().to_string();
        assert!(refused.contains(&format!("`{path}` already exists")), "{refused}");
        let missing = host.vfs().read("/notes/b.py").unwrap_err().to_string();
        assert!(missing.contains("`/notes/b.py`"), "{missing}");
    });
}

#[test]
fn w20_an_operation_of_many_calls_finds_the_name_that_it_is_made_with_and_no_other() {
    Host::each(|host| {
        let vfs = host.vfs();
        let path = vfs.write("/notes/a.py", "x").unwrap().path;
        let read = |at: &str, name: &str| {
            vfs.compound("test", at, |_: &Error| None, |vfs| vfs.read(name).map(|read| read.path))
        };
        assert_eq!(read("/notes/a.py", "/notes/a.py").unwrap(), path);
        assert!(read("/notes", "/notes/a.py").is_err(), "a copy of a directory keeps its paths");
    });
}

#[test]
fn w20_a_write_only_caller_that_edits_by_a_bare_name_is_told_which_path_counts() {
    Host::each(|host| {
        let blind = host.vfs_with(host.workspace("/notes", AccessScope::WriteOnly));
        let path = blind.write("/notes/w.py", "2").unwrap().path;
        let denied = blind.edit("/notes/w.py", "2", "3", Occurrences::One).unwrap_err().to_string();
        assert!(denied.contains("by the path that the write answered with"), "{denied}");
        blind.edit(&path, "2", "3", Occurrences::One).unwrap();
    });
}

#[test]
fn w66_info_about_a_file_that_is_not_managed_says_so() {
    Host::each(|host| {
        let (vfs, files) = (host.vfs(), host.files());
        for path in ["/notes/AGENTS.md", "/notes/memory/m.md"] {
            vfs.write(path, "x").unwrap();
            let refused = files.info(path).unwrap_err().to_string();
            assert!(refused.contains("isn't a managed file"), "{refused}");
        }
        for path in ["/notes/TOOLS.md", "/notes/memory/x.md", "/notes/code/x.py"] {
            let refused = files.info(path).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
        }
    });
}

#[test]
fn w70_info_and_tag_register_a_file_that_another_program_has_made() {
    let host = Host::new(Kind::Physical);
    host.vfs().write("/notes/a.py", "x").unwrap();
    host.files().sync().unwrap();
    for name in ["info.py", "tag.py"] {
        std::fs::write(host.on_disk(&format!("code/{DAY}/{name}")), "22").unwrap();
    }
    assert_eq!(host.files().info(format!("/notes/code/{DAY}/info.py")).unwrap().file.size, 2);
    let tags = Tags::parse(["new"]).unwrap();
    host.files().tag(format!("/notes/code/{DAY}/tag.py"), TagMode::Add, &tags).unwrap();
    assert_eq!(host.rows().len(), 3);
}

#[test]
fn w28_and_w76_a_tree_leaves_out_the_files_of_a_managed_directory_inside() {
    Host::each(|host| {
        let inner = Mount::at(Arc::clone(&host.store), &VfsPath::parse("/code/inner").unwrap());
        let prefix = VfsPath::parse("/inner").unwrap();
        let inner = Workspace::new(prefix, AccessScope::ReadWrite, inner).with_managed(Ttl::default());
        host.vfs_with(inner).write("/inner/x.csv", "x").unwrap();
        for name in ["b.md", "a.py"] {
            host.vfs().write(format!("/notes/{name}"), "x").unwrap();
        }
        let tree = host.files().tree().unwrap();
        let counts: Vec<_> = tree.iter().map(|tree| (tree.category.as_str(), tree.files)).collect();
        assert_eq!(counts, [("code", 1), ("documents", 1)]);
        assert_eq!(listed(&host.files()).len(), 2);
        let refused = host.files().info(format!("/notes/code/inner/data/{DAY}/x.csv")).unwrap_err();
        assert!(refused.to_string().contains("has no entry for it"), "{refused}");
    });
}

#[test]
fn w76_a_tree_is_sorted_by_category() {
    Host::each(|host| {
        for name in ["x.zip", "x.csv", "x.md", "x.py", "x.png", "x"] {
            host.vfs().write(format!("/notes/{name}"), "x").unwrap();
        }
        let names: Vec<_> = host.files().tree().unwrap().iter().map(|tree| tree.category.as_str()).collect();
        assert_eq!(names, ["code", "data", "documents", "downloads", "images", "temp"]);
    });
}
