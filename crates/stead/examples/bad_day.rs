//! A bad day: one agent deletes a directory and rewrites files, while another works elsewhere in the same directory tree.
//! The operator finds out what happened, takes back just that agent's doings, and finds everything else untouched.

use std::fs;
use std::path::Path;

use stead::vfs::{LogQuery, Overwrite, RemoveOptions, UndoOptions, UndoTarget};
use stead::{ArchiveLookup, AuditQuery, Config, Occurrences, Stead, Stores};

const CONFIGURATION: &str = r#"
    [stores.site]
    kind = "physical"
    path = "site"

    [agents.intern]
    [[agents.intern.workspaces]]
    prefix = "/site"
    scope = "READ_WRITE"
    store = "site"

    [agents.writer]
    [[agents.writer.workspaces]]
    prefix = "/site"
    scope = "READ_WRITE"
    store = "site"
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = std::env::temp_dir().join(format!("stead-bad-day-{}", std::process::id()));
    let site = home.join("site");
    for (path, text) in [
        ("index.html", "<h1>Welcome</h1>\n<p>We are open.</p>\n<p>Come in.</p>\n"),
        ("posts/2025.md", "A good year.\n"),
        ("posts/2026.md", "Not over yet.\n"),
        ("style.css", "body { color: black }\n"),
    ] {
        let file = site.join(path);
        fs::create_dir_all(file.parent().unwrap_or(&site))?;
        fs::write(file, text)?;
    }
    let config = Config::parse(CONFIGURATION, &home.join("stead.toml"))?;
    let (intern, writer) = (Stead::open(&config, "intern")?, Stead::open(&config, "writer")?);

    // The bad day. The two work at the same time.
    let (bad, good) = (intern.vfs(), writer.vfs());
    bad.remove_directory("/site/posts", RemoveOptions { recursive: true, ..RemoveOptions::default() })?;
    good.write("/site/about.md", "Who we are.\n")?;
    bad.edit("/site/index.html", "Welcome", "lorem ipsum", Occurrences::One)?;
    good.edit("/site/index.html", "Come in.", "Come in, stay.", Occurrences::One)?;
    bad.rename("/site/style.css", "/site/style.css.bak", Overwrite::Refuse)?;
    bad.write("/site/style.css", "* { display: none }\n")?;
    good.append("/site/about.md", "And why.\n")?;
    assert!(!site.join("posts").exists());

    // What happened? The audit knows every call, the log every change.
    let stores = Stores::of(&config);
    let audit = stores.audit_access()?.ok_or("there is an audit")?;
    let intern_calls = AuditQuery { agent: Some("intern".into()), ..AuditQuery::default() };
    println!("What the intern did:");
    for entry in audit.page(&intern_calls, None, 100)?.entries {
        println!("  {} {} {}", entry.call, entry.outcome, entry.paths.join(" -> "));
    }
    println!("What happened to the posts:");
    let posts = LogQuery { path: Some("/site/posts".try_into()?), ..LogQuery::default() };
    for entry in intern.vfs().log(&posts)? {
        println!("  {} {}: {}", entry.operation.identity.agent, entry.operation.tool, entry.changes.len());
    }

    // Everything of the intern's is undone, and nothing else.
    let plan =
        intern.vfs().undo(UndoTarget::Last(100), UndoOptions { dry_run: true, ..UndoOptions::default() })?;
    println!("To undo: {} operations, {} paths", plan.undone.len(), plan.changes.len());
    let undone = intern.vfs().undo(UndoTarget::Last(100), UndoOptions::default())?;
    assert!(undone.done, "{:?}", undone.conflicts);
    for change in &undone.changes {
        println!("  {:?} {}", change.action, change.path);
    }

    let assert_content = |path: &str, text: &str| -> Result<(), Box<dyn std::error::Error>> {
        assert_eq!(fs::read_to_string(Path::new(&site).join(path))?, text, "{path}");
        Ok(())
    };
    assert_content("posts/2025.md", "A good year.\n")?;
    assert_content("posts/2026.md", "Not over yet.\n")?;
    assert_content("style.css", "body { color: black }\n")?;
    assert!(!site.join("style.css.bak").exists());
    // The line that the writer changed since stays as the writer left it.
    assert_content("index.html", "<h1>Welcome</h1>\n<p>We are open.</p>\n<p>Come in, stay.</p>\n")?;
    assert_content("about.md", "Who we are.\nAnd why.\n")?;
    let verification = audit.verify(&ArchiveLookup::default(), &mut |_| ())?;
    assert!(verification.problems.is_empty(), "{:?}", verification.problems);
    println!("The site is as it was, and the writer's work is where the writer left it.");
    fs::remove_dir_all(home)?;
    Ok(())
}
