//! What `glob` and `grep` leave out, and how they say so.

use super::*;

fn toolbox_with_project() -> Toolbox {
    let tools = toolbox_with_all_scopes();
    for (path, content) in [
        ("/rw/.gitignore", "target/\n"),
        ("/rw/src/main.rs", "fn main() {\n    run();\n}\n"),
        ("/rw/src/run.py", "def run(): pass\n"),
        ("/rw/target/out.rs", "fn main() {}\n"),
    ] {
        tools.vfs().write(path, content).unwrap();
    }
    tools
}

const NOTE: &str = "[left out: ignored files; no_ignore shows all]\n";

#[test]
fn a_search_says_what_it_left_out_and_how_to_see_it() {
    let tools = toolbox_with_project();
    let (text, facts) = call_ok(&tools, "glob", json!({ "pattern": "**/*.rs", "path": "/rw" }));
    assert_eq!(text, format!("/rw/src/main.rs\n{NOTE}"));
    assert_eq!((&facts["count"], &facts["left_out"]), (&1.into(), &"ignored files".into()));
    let (text, facts) = call_ok(&tools, "grep", json!({ "pattern": "fn main", "path": "/rw" }));
    assert_eq!(text, format!("/rw/src/main.rs:1:fn main() {{\n{NOTE}"));
    assert_eq!(facts["left_out"], "ignored files");
    let (text, _) = call_ok(&tools, "grep", json!({ "pattern": "nothing like it", "path": "/rw" }));
    assert_eq!(text, format!("Nothing matches.\n{NOTE}"));
    let more = json!({ "pattern": "**", "path": "/rw", "limit": 1 });
    let (text, _) = call_ok(&tools, "glob", more);
    assert_eq!(
        text,
        format!("/rw/.gitignore\n{NOTE}[more: narrow the pattern or the path, or raise limit]\n")
    );
}

#[test]
fn a_search_that_left_out_nothing_says_nothing() {
    let tools = toolbox_with_project();
    let (text, facts) = call_ok(&tools, "grep", json!({ "pattern": "fn main", "path": "/rw/src" }));
    assert!(!text.contains("left out") && !facts.contains_key("left_out"), "{text}");
    let all = json!({ "pattern": "**/*.rs", "path": "/rw", "no_ignore": true });
    assert_eq!(call_ok(&tools, "glob", all).0, "/rw/src/main.rs\n/rw/target/out.rs\n");
    let all = json!({ "pattern": "fn main", "path": "/rw", "no_ignore": true, "output": "files" });
    assert_eq!(call_ok(&tools, "grep", all).0, "/rw/src/main.rs\n/rw/target/out.rs\n");
    let named = json!({ "pattern": "fn main", "path": "/rw/target", "output": "files" });
    assert_eq!(call_ok(&tools, "grep", named).0, "/rw/target/out.rs\n");
}

#[test]
fn a_search_takes_a_type_of_files_and_patterns_that_span_lines() {
    let tools = toolbox_with_project();
    let search = |arguments| call_ok(&tools, "grep", arguments).0;
    assert_eq!(
        search(json!({ "pattern": "run", "path": "/rw/src", "type": "py" })),
        "/rw/src/run.py:1:def run(): pass\n"
    );
    assert_eq!(
        search(json!({ "pattern": r"main.*run", "path": "/rw/src", "multiline": true })),
        "/rw/src/main.rs:1:fn main() {\n/rw/src/main.rs:2:    run();\n"
    );
    assert_eq!(search(json!({ "pattern": r"main.*run", "path": "/rw/src" })), "Nothing matches.\n");
    let error = failure(&tools, "grep", json!({ "pattern": "run", "path": "/rw", "type": "pyy" }));
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("`pyy` isn't a file type"), "{}", error.message);
}
