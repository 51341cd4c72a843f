//! Lists, searches, and the changes of single files.

use stead_core::managed::{DateRange, FileFilter, SearchPattern, TagMode, Tags};
use stead_core::vfs::managed::{DeletedFile, FilePage, MoveTarget};
use stead_core::{AccessScope, ErrorKind};

use crate::host::{DAY, Host, Kind, listed, listed_with};

fn tags(texts: &[&str]) -> Tags {
    Tags::parse(texts).unwrap()
}

fn search(text: &str) -> FileFilter {
    FileFilter { search: Some(SearchPattern::new(text)), ..FileFilter::default() }
}

#[test]
fn w49_a_list_has_all_tracked_files_the_newest_first() {
    Host::each(|host| {
        for name in ["a.py", "b.md", "c.csv"] {
            host.vfs().write(format!("/notes/{name}"), "x").unwrap();
            host.advance_days(1);
        }
        let expected = ["data/2026-03-01/c.csv", "documents/2026-02-28/b.md", "code/2026-02-27/a.py"];
        assert_eq!(listed(&host.files()), expected);
    });
}

#[test]
fn w50_a_list_can_be_of_one_category() {
    Host::each(|host| {
        for name in ["a.py", "b.md", "c.py"] {
            host.vfs().write(format!("/notes/{name}"), "x").unwrap();
        }
        let filter = FileFilter { category: Some("code".parse().unwrap()), ..FileFilter::default() };
        assert_eq!(listed_with(&host.files(), &filter).len(), 2);
    });
}

#[test]
fn w51_a_list_can_be_of_a_day_or_of_a_range_with_both_ends() {
    Host::each(|host| {
        for _ in 0..4 {
            host.vfs().write("/notes/a.py", "x").unwrap();
            host.advance_days(1);
        }
        let written = |range: DateRange| FileFilter { written: range, ..FileFilter::default() };
        let day = written(DateRange::parse("2026-02-28").unwrap());
        assert_eq!(listed_with(&host.files(), &day), ["code/2026-02-28/a.py"]);
        let range = written(DateRange::between(Some("2026-02-28"), Some("2026-03-01")).unwrap());
        assert_eq!(listed_with(&host.files(), &range), ["code/2026-03-01/a.py", "code/2026-02-28/a.py"]);
        let month = written(DateRange::parse("2026-02").unwrap());
        assert_eq!(listed_with(&host.files(), &month).len(), 2);
    });
}

#[test]
fn w52_and_w53_a_tag_matches_whole_tags_and_several_have_to_match_all() {
    Host::each(|host| {
        let files = host.files();
        let one = host.vfs().write("/notes/one.py", "x").unwrap().path;
        let two = host.vfs().write("/notes/two.py", "x").unwrap().path;
        files.tag(&one, TagMode::Add, &tags(&["important", "draft"])).unwrap();
        files.tag(&two, TagMode::Add, &tags(&["port"])).unwrap();
        let with =
            |texts: &[&str]| listed_with(&files, &FileFilter { tags: tags(texts), ..FileFilter::default() });
        assert_eq!(with(&["port"]), [format!("code/{DAY}/two.py")]);
        assert_eq!(with(&[" draft ", "important"]), [format!("code/{DAY}/one.py")]);
        assert!(with(&["port", "draft"]).is_empty());
    });
}

#[test]
fn w53_several_tags_mean_all_of_them_in_any_order() {
    let host = Host::new(Kind::Virtual);
    let path = host.vfs().write("/notes/one.py", "x").unwrap().path;
    host.files().tag(&path, TagMode::Add, &tags(&["a", "b", "c"])).unwrap();
    for order in ["c, a", "a,c", " b ,a ,c "] {
        let filter = FileFilter { tags: tags(&[order]), ..FileFilter::default() };
        assert_eq!(listed_with(&host.files(), &filter).len(), 1, "{order}");
    }
}

#[test]
fn w54_and_w55_a_page_says_which_of_how_many_and_one_past_the_end_is_empty() {
    Host::each(|host| {
        for number in 0..7 {
            host.vfs().write(format!("/notes/{number}.py"), "x").unwrap();
        }
        let page =
            |offset, limit| host.files().list(&FileFilter::default(), FilePage { offset, limit }).unwrap();
        let middle = page(2, 3);
        assert_eq!(
            (middle.files.len(), middle.offset, middle.total.count, middle.total.is_more),
            (3, 2, 7, false)
        );
        assert_eq!(page(6, 3).files.len(), 1);
        let past = page(20, 3);
        assert_eq!((past.files.len(), past.total.count), (0, 7));
        assert_eq!(FilePage::default(), FilePage { offset: 0, limit: 50 });
    });
}

#[test]
fn w55_an_offset_past_the_end_counts_what_there_is() {
    let host = Host::new(Kind::Virtual);
    host.vfs().write("/notes/a.py", "x").unwrap();
    let past = host.files().list(&FileFilter::default(), FilePage { offset: 5, limit: 5 }).unwrap();
    assert!(past.files.is_empty());
    assert_eq!(past.total.count, 1);
}

#[test]
fn w56_a_search_finds_parts_of_names_and_tags_and_patterns() {
    Host::each(|host| {
        let path = host.vfs().write("/notes/Quarterly-report.md", "x").unwrap().path;
        host.vfs().write("/notes/other.py", "x").unwrap();
        host.files().tag(&path, TagMode::Add, &tags(&["finance"])).unwrap();
        let found = |text: &str| listed_with(&host.files(), &search(text)).len();
        assert_eq!([found("report"), found("QUARTERLY"), found("nanc"), found("documents/")], [1, 1, 1, 1]);
        assert_eq!([found("*.py"), found("quarterly*"), found("fin?nce"), found("?ther.py")], [1, 1, 1, 1]);
        assert_eq!([found("no such"), found("*.p")], [0, 0]);
    });
}

#[test]
fn w57_percent_underscore_and_backslash_are_literal_in_a_search() {
    Host::each(|host| {
        for name in ["100%_done.py", "100xydone.py"] {
            host.vfs().write(format!("/notes/{name}"), "x").unwrap();
        }
        assert_eq!(listed_with(&host.files(), &search("100%")), [format!("code/{DAY}/100%_done.py")]);
        assert_eq!(listed_with(&host.files(), &search("_done")).len(), 1);
        assert!(listed_with(&host.files(), &search("\\")).is_empty());
        let tagged = FileFilter { tags: tags(&["%"]), ..FileFilter::default() };
        assert!(listed_with(&host.files(), &tagged).is_empty());
    });
}

#[test]
fn w58_a_search_is_paged_like_a_list() {
    Host::each(|host| {
        for number in 0..5 {
            host.vfs().write(format!("/notes/n{number}.py"), "x").unwrap();
        }
        let page = host.files().list(&search("n"), FilePage { offset: 1, limit: 2 }).unwrap();
        assert_eq!((page.files.len(), page.total.count), (2, 5));
    });
}

#[test]
fn w66_info_of_an_unknown_path_is_not_found_and_shows_no_other_file() {
    Host::each(|host| {
        host.vfs().write("/notes/a.py", "x").unwrap();
        for path in ["/notes/a.py", "/notes/code/a.py", "/notes/code", "/notes/memory/x"] {
            assert_eq!(host.files().info(path).unwrap_err().kind(), ErrorKind::NotFound, "{path}");
        }
    });
}

#[test]
fn w68_move_keeps_day_name_and_tags_and_changes_path_and_category() {
    Host::each(|host| {
        let path = host.vfs().write("/notes/a.txt", "x").unwrap().path;
        host.files().tag(&path, TagMode::Add, &tags(&["t"])).unwrap();
        host.advance_days(5);
        let target = MoveTarget { category: Some("data".parse().unwrap()), name: None };
        let moved = host.files().move_file(&path, target).unwrap();
        assert_eq!(moved.to.as_str(), format!("/notes/data/{DAY}/a.txt"));
        let sql = "SELECT path || ' ' || category || ' ' || tags FROM workspace_files";
        assert_eq!(host.query(sql), [format!("data/{DAY}/a.txt data t")]);
    });
}

#[test]
fn w69_move_onto_an_existing_file_changes_nothing() {
    Host::each(|host| {
        let path = host.vfs().write("/notes/a.txt", "one").unwrap().path;
        host.vfs().write(format!("/notes/data/{DAY}/a.txt"), "two").unwrap();
        let before = host.query("SELECT id || path || size_bytes FROM workspace_files ORDER BY id");
        let target = MoveTarget { category: Some("data".parse().unwrap()), name: None };
        let refused = host.files().move_file(&path, target).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert!(refused.to_string().contains(&format!("/notes/data/{DAY}/a.txt")), "{refused}");
        assert_eq!(host.vfs().read(&path).unwrap().bytes, b"one");
        assert_eq!(host.vfs().read(format!("/notes/data/{DAY}/a.txt")).unwrap().bytes, b"two");
        assert_eq!(host.query("SELECT id || path || size_bytes FROM workspace_files ORDER BY id"), before);
    });
}

#[test]
fn w70_moving_an_untracked_file_registers_it() {
    let host = Host::new(Kind::Physical);
    host.vfs().write("/notes/a.py", "x").unwrap();
    listed(&host.files());
    std::fs::write(host.on_disk("code/outside.py"), "12345").unwrap();
    let target = MoveTarget { category: Some("data".parse().unwrap()), name: None };
    host.files().move_file("/notes/code/outside.py", target).unwrap();
    assert_eq!(host.query("SELECT size_bytes FROM workspace_files WHERE path = 'data/outside.py'"), ["5"]);
}

#[test]
fn w71_delete_removes_file_and_row() {
    Host::each(|host| {
        let path = host.vfs().write("/notes/a.py", "x").unwrap().path;
        assert!(matches!(host.files().delete(&path).unwrap(), DeletedFile::Deleted(_)));
        assert!(!host.vfs().exists(&path).unwrap());
        assert!(host.rows().is_empty());
    });
}

#[test]
fn w72_delete_and_move_refuse_what_is_outside_the_categories() {
    Host::each(|host| {
        for path in ["/notes/memory/x", "/notes/AGENTS.md", "/notes/drafts/x.py"] {
            host.vfs().write(path, "x").unwrap();
        }
        let target = MoveTarget { category: Some("data".parse().unwrap()), name: None };
        for (path, reason) in [
            ("/notes/memory/x", "isn't a managed file"),
            ("/notes/AGENTS.md", "isn't a managed file"),
            ("/notes/drafts/x.py", "isn't a managed file"),
            ("/etc/x", "isn't in the managed Workspace"),
            ("/notes/code/../memory/x", "`/notes/memory/x` isn't a managed file"),
            ("/notes/code", "isn't a managed file"),
            ("/notes", "isn't a managed file"),
        ] {
            let refused =
                [host.files().delete(path).unwrap_err(), host.files().move_file(path, target).unwrap_err()];
            for error in refused {
                assert_eq!(error.kind(), ErrorKind::Invalid, "{path}: {error}");
                assert!(error.to_string().contains(reason), "{path}: {error}");
            }
        }
        for path in ["/notes/memory/x", "/notes/AGENTS.md", "/notes/drafts/x.py"] {
            assert_eq!(host.vfs().read(path).unwrap().bytes, b"x", "{path}");
        }
        assert!(host.rows().is_empty());
        let path = host.vfs().write("/notes/a.py", "x").unwrap().path;
        for name in ["../x", "a/b", "..", ""] {
            let target = MoveTarget { category: None, name: Some(name) };
            assert_eq!(
                host.files().move_file(&path, target).unwrap_err().kind(),
                ErrorKind::Invalid,
                "{name}"
            );
        }
    });
}

#[test]
fn w73_deleting_a_file_that_is_gone_removes_the_stale_row() {
    let host = Host::new(Kind::Physical);
    let path = host.vfs().write("/notes/a.py", "x").unwrap().path;
    std::fs::remove_file(host.on_disk(&format!("code/{DAY}/a.py"))).unwrap();
    assert_eq!(host.files().delete(&path).unwrap(), DeletedFile::WasGone);
    assert!(host.rows().is_empty());
    assert_eq!(host.files().delete(&path).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn w74_tags_are_added_once_and_removed() {
    Host::each(|host| {
        let path = host.vfs().write("/notes/a.py", "x").unwrap().path;
        let files = host.files();
        for _ in 0..2 {
            assert_eq!(files.tag(&path, TagMode::Add, &tags(&["a", "b"])).unwrap(), tags(&["a", "b"]));
        }
        assert_eq!(files.tag(&path, TagMode::Remove, &tags(&["a"])).unwrap(), tags(&["b"]));
        assert_eq!(files.tag(&path, TagMode::Set, &tags(&["c"])).unwrap(), tags(&["c"]));
        assert_eq!(host.query("SELECT tags FROM workspace_files"), ["c"]);
    });
}

#[test]
fn w75_tagging_an_unknown_file_is_an_error() {
    Host::each(|host| {
        host.vfs().write("/notes/a.py", "x").unwrap();
        let missing = host.files().tag("/notes/code/no-such.py", TagMode::Add, &tags(&["a"])).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn w76_and_w77_the_tree_has_categories_days_and_counts_also_of_empty_days() {
    Host::each(|host| {
        let vfs = host.vfs();
        vfs.write("/notes/a.py", "x").unwrap();
        vfs.write("/notes/b.py", "xy").unwrap();
        vfs.write("/notes/c.md", "x").unwrap();
        vfs.mkdir("/notes/code/2020-01-01", stead_core::store::Parents::Create).unwrap();
        let tree = host.files().tree().unwrap();
        let text: Vec<_> = tree
            .iter()
            .flat_map(|tree| {
                tree.directories
                    .iter()
                    .map(move |day| format!("{} {} {}", tree.category, day.name, day.files))
            })
            .collect();
        assert_eq!(
            text,
            ["code 2020-01-01 0".to_owned(), format!("code {DAY} 2"), format!("documents {DAY} 1")]
        );
    });
}

#[test]
fn w77_an_empty_day_is_shown_with_no_files() {
    let host = Host::new(Kind::Virtual);
    host.vfs().mkdir("/notes/temp/2020-01-01", stead_core::store::Parents::Create).unwrap();
    let tree = host.files().tree().unwrap();
    assert_eq!((tree.len(), tree[0].directories[0].files), (1, 0));
}

#[test]
fn w93_lists_and_searches_can_be_of_one_session() {
    Host::each(|host| {
        host.vfs().write("/notes/a.py", "x").unwrap();
        let other = host
            .builder("other")
            .workspace(host.workspace("/notes", AccessScope::ReadWrite))
            .build()
            .unwrap();
        for name in ["b.py", "c.md"] {
            other.write(format!("/notes/{name}"), "x").unwrap();
        }
        // What another session writes into a file doesn't make it a file of that session.
        host.vfs().write(format!("/notes/code/{DAY}/b.py"), "xx").unwrap();
        let of_other = |search: Option<&str>| FileFilter {
            session: Some("other".to_owned()),
            search: search.map(SearchPattern::new),
            ..FileFilter::default()
        };
        assert_eq!(listed_with(&host.files(), &of_other(None)).len(), 2);
        assert_eq!(listed_with(&host.files(), &of_other(Some(".py"))), [format!("code/{DAY}/b.py")]);
        assert!(listed_with(&host.files(), &of_other(Some("a.py"))).is_empty());
    });
}

#[test]
fn w94_move_takes_a_new_name_within_the_category() {
    Host::each(|host| {
        let path = host.vfs().write("/notes/a.py", "x").unwrap().path;
        let named = |name| MoveTarget { category: None, name: Some(name) };
        let moved = host.files().move_file(&path, named("b.py")).unwrap();
        assert_eq!(moved.to.as_str(), format!("/notes/code/{DAY}/b.py"));
        let sql = "SELECT path || ' ' || category || ' ' || original_name FROM workspace_files";
        assert_eq!(host.query(sql), [format!("code/{DAY}/b.py code a.py")]);
        // The extension of the new name is not what decides about the category, and a name that is taken stays taken.
        let moved = host.files().move_file(&moved.to, named("b.md")).unwrap();
        assert_eq!(moved.to.as_str(), format!("/notes/code/{DAY}/b.md"));
        let other = host.vfs().write("/notes/c.py", "other").unwrap().path;
        let refused = host.files().move_file(&other, named("b.md")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert_eq!(host.vfs().read(&moved.to).unwrap().bytes, b"x");
    });
}

#[test]
fn w62_hidden_names_are_in_no_answer() {
    Host::each(|host| {
        let none: [&str; 0] = [];
        let open = host.vfs_with(host.workspace("/notes", AccessScope::ReadWrite).with_hide(none).unwrap());
        let written = open.write("/notes/.env", "secret").unwrap();
        assert_eq!(written.path.as_str(), format!("/notes/temp/{DAY}/.env"));
        assert_eq!(listed(&open.managed(None).unwrap()).len(), 1);
        let files = host.files();
        assert!(listed(&files).is_empty());
        assert!(listed_with(&files, &search("env")).is_empty());
        assert_eq!(files.list(&FileFilter::default(), FilePage::default()).unwrap().total.count, 0);
        assert!(files.info(&written.path).is_err());
        assert!(files.tag(&written.path, TagMode::Add, &tags(&["x"])).is_err());
        assert!(files.delete(&written.path).is_err());
        assert_eq!(files.tree().unwrap()[0].files, 0);
        assert!(host.vfs().read("/notes/.env").is_err());
    });
}
