//! Long listings, page by page, and filters.

use super::*;

/// All pages of a listing, with every file that they list.
fn all_pages(tools: &Toolbox, arguments: Value) -> (Vec<Value>, Vec<String>) {
    let (mut pages, mut files, mut cursor) = (Vec::new(), Vec::new(), None::<Value>);
    loop {
        let mut arguments = object(arguments.clone());
        arguments.extend(cursor.map(|cursor| ("cursor".to_owned(), cursor)));
        let page = call_json(tools, "list_folders", arguments.into());
        for folder in page["folders"].as_array().unwrap() {
            let path = folder["path"].as_str().unwrap();
            let names = folder["files"].as_array().unwrap().iter();
            files.extend(names.map(|file| format!("{path}{}", file["filename"].as_str().unwrap())));
        }
        cursor = page.get("nextCursor").cloned();
        pages.push(page);
        if cursor.is_none() {
            return (pages, files);
        }
        assert!(pages.len() < 1_000, "the cursor doesn't advance");
    }
}

#[test]
fn f52_and_f53_five_thousand_files_are_listed_on_pages_of_at_most_20_000_characters() {
    let office = Office::new();
    let expected: Vec<_> = (0..5_000).map(|n| format!("d{:02}/file-{n:04}.md", n / 100)).collect();
    let vfs = office.store_vfs();
    let mut batch = vfs.batch();
    for name in &expected {
        batch.write(&*store_path("team-lib/shared", name), "x", &crate::vfs::WriteOptions::new()).unwrap();
    }
    batch.apply().unwrap();
    let marcus = office.tools("marcus");
    let (pages, files) = all_pages(&marcus, json!({ "scope": "org_shared" }));
    let expected: Vec<_> =
        expected.iter().map(|name| format!("/workspaces/team-lib/shared/{name}")).collect();
    assert_eq!(files, expected);
    for page in &pages {
        assert!(page.to_string().len() <= 20_000);
        assert_eq!(page["totalFolders"], 5);
        let folders = page["folders"].as_array().unwrap();
        let library = folders.iter().find(|folder| folder["folderName"] == "Library Team - Shared").unwrap();
        assert_eq!(library["fileCount"], 5_000);
    }
    let first_folders = pages[0]["folders"].as_array().unwrap().len();
    assert_eq!(first_folders, 4, "the empty folders before it are on the first page");
    assert_eq!(
        pages.last().unwrap()["folders"].as_array().unwrap().len(),
        2,
        "and the one after it on the last"
    );

    let (pages, files) = all_pages(&marcus, json!({ "scope": "org_shared", "limit": 1_000 }));
    assert_eq!((pages.len(), files.len()), (5, 5_000), "a larger limit makes longer pages");
    let ids: std::collections::HashSet<_> =
        pages.iter().map(|page| page["folders"][0]["folderId"].clone()).collect();
    assert_eq!(ids.len(), pages.len());
}

#[test]
fn f53_a_limit_ends_a_page_anywhere_and_nothing_is_lost_or_repeated() {
    let office = Office::new();
    for folder in ["team-fin", "team-hr", "team-lead"] {
        for n in 0..3 {
            office.put(&format!("{folder}/shared"), &format!("{n}.md"), "x");
        }
    }
    let marcus = office.tools("marcus");
    let (_, all) = all_pages(&marcus, json!({ "scope": "org_shared" }));
    assert_eq!(all.len(), 9);
    for limit in 1..11 {
        let (pages, files) = all_pages(&marcus, json!({ "scope": "org_shared", "limit": limit }));
        assert_eq!(files, all, "{limit}");
        let per_page = |page: &Value| -> usize {
            page["folders"]
                .as_array()
                .unwrap()
                .iter()
                .map(|folder| folder["files"].as_array().unwrap().len())
                .sum()
        };
        assert!(pages.iter().all(|page| per_page(page) <= limit), "{limit}");
        // Every folder is on some page, the empty ones too.
        let folders: std::collections::BTreeSet<_> = pages
            .iter()
            .flat_map(|page| page["folders"].as_array().unwrap())
            .map(|f| f["path"].to_string())
            .collect();
        assert_eq!(folders.len(), 5, "{limit}");
    }
}

#[test]
fn f53_a_cursor_of_another_scope_is_refused() {
    let marcus = Office::new().tools("marcus");
    for cursor in ["/workspaces/fiona/private/", "x", "/workspaces/marcus/privat"] {
        let failure = failure(&marcus, "list_folders", json!({ "scope": "my_private", "cursor": cursor }));
        assert!(failure.message.starts_with("`cursor` isn't the nextCursor"), "{failure}");
    }
}

#[test]
fn f159_a_filter_selects_files_and_the_count_follows_it() {
    let office = Office::new();
    for (name, content) in [("a.md", "1"), ("b.txt", "12345"), ("sub/c.md", "123"), ("sub/d.txt", "1")] {
        office.put("marcus/private", name, content);
    }
    let marcus = office.tools("marcus");
    let filtered = |filter: Value| -> Vec<String> {
        let page = call_json(&marcus, "list_folders", json!({ "scope": "my_private", "filter": filter }));
        let folder = &page["folders"][0];
        let files = folder["files"].as_array().unwrap();
        assert_eq!(folder["fileCount"], files.len());
        files.iter().map(|file| file["filename"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(filtered(json!({ "filePattern": "*.md" })), ["a.md", "sub/c.md"]);
    assert_eq!(filtered(json!({ "filePattern": "sub/*" })), ["sub/c.md", "sub/d.txt"]);
    assert_eq!(filtered(json!({ "minSize": 2 })), ["b.txt", "sub/c.md"]);
    assert_eq!(filtered(json!({ "minSize": 2, "maxSize": 3 })), ["sub/c.md"]);
    assert_eq!(filtered(json!({ "filePattern": "*.md", "maxSize": 1 })), ["a.md"]);
    assert_eq!(filtered(json!({ "modifiedAfter": "2200-01-01" })), [""; 0]);
    assert_eq!(filtered(json!({ "modifiedAfter": "1971-01-01T00:00:00Z" })).len(), 4);
    assert_eq!(filtered(json!("{\"minSize\": 5}")), ["b.txt"], "an object is also taken as text");
    for (filter, problem) in [
        (json!({ "modifiedAfter": "yesterday" }), "yesterday"),
        (json!({ "filePattern": "[" }), "["),
        (json!({ "size": 1 }), "`list_folders` has no parameter `filter.size`"),
        (json!({ "minSize": "big" }), "as its parameter `filter.minSize`, not \"big\""),
        (json!(7), "takes an object with `filePattern`"),
    ] {
        let failure = failure(&marcus, "list_folders", json!({ "scope": "my_private", "filter": filter }));
        assert!(failure.kind == ErrorKind::Invalid && failure.message.contains(problem), "{failure}");
    }
}
