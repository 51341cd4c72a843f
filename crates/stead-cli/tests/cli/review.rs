//! `stead review`: what agents have changed in Workspaces with `fork` is taken over or refused.

use std::process::Stdio;

use insta::{allow_duplicates, assert_snapshot};

use stead::{Config, Stead};

use crate::common::{TestDir, open_terminal, output_text, read_terminal};

/// An agent whose changes of a code base are reviewed.
fn reviewed(store: &str) -> TestDir {
    let dir = TestDir::empty();
    dir.file(
        "stead.toml",
        &format!(
            "[stores.code]\n{store}\n[[agents.coder.workspaces]]\nprefix = \"/code\"\nscope = \"rw\"\nstore = \"code\"\n\
             fork = \"agent\"\n[[agents.lead.workspaces]]\nprefix = \"/code\"\nscope = \"rw\"\nstore = \"code\"\n"
        ),
    );
    std::fs::create_dir(dir.path("code")).unwrap();
    dir.run(["--agent", "lead", "write", "/code/list", &list("1", "10")]);
    dir.run(["--agent", "lead", "write", "/code/old", "old\n"]);
    dir.run(["--agent", "coder", "write", "/code/list", &list("one", "ten")]);
    dir.run(["--agent", "coder", "write", "/code/new/file", "new\n"]);
    dir.run(["--agent", "coder", "rm", "/code/old"]);
    dir
}

const STORES: [&str; 2] = ["kind = \"virtual\"", "kind = \"physical\"\npath = \"code\""];

fn list(first: &str, last: &str) -> String {
    format!("{first}\n2\n3\n4\n5\n6\n7\n8\n9\n{last}\n")
}

/// The text without times, which differ from run to run.
fn without_times(text: &str) -> String {
    let mask = |word: &str| if word.contains('T') && word.contains(':') { "TIME" } else { word }.to_owned();
    let line = |line: &str| line.split(' ').map(mask).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// What the files of the Workspace have.
fn contents(dir: &TestDir, agent: &str) -> String {
    ["/code/list", "/code/new/file", "/code/old"]
        .map(|path| {
            let output = dir.stead(["--agent", agent, "cat", path]);
            let text = String::from_utf8(output.stdout).unwrap();
            let shown = text.replace('\n', " ").replace("2 3 4 5 6 7 8 9", "-");
            format!("{path}: {}", if output.status.success() { shown.trim() } else { "absent" })
        })
        .join("\n")
}

#[test]
fn g31_without_a_terminal_forks_and_changes_are_listed_and_taken_by_glob() {
    allow_duplicates! {
    for store in STORES {
        let dir = reviewed(store);
        let lead = |args: &[&str]| dir.run(["--agent", "lead"].into_iter().chain(args.iter().copied()));
        assert_snapshot!(without_times(&lead(&["review"])), @r#"
        coder/code  of /code, 4 changes, made TIME
        ! Review one with `stead review FORK`.
        "#);
        assert_snapshot!(lead(&["review", "coder/code", "--list"]), @r#"
        changed    /code/list
        added      /code/new
        added      /code/new/file
        removed    /code/old
        ! This would be 4 changes.
        "#);
        assert_snapshot!(lead(&["review", "coder/code"]), @r#"
        ! stead: a review asks questions, and this isn't a terminal; use --list, --take, --refuse or --interactive
        exit 2
        "#);
        assert_snapshot!(lead(&["review", "coder/code", "--take", "new", "list", "--refuse", "list"]), @r#"
        added      /code/new
        added      /code/new/file
        left out   /code/list
        left out   /code/old
        ! Merged the fork review:coder/code: 2 changes; `stead undo --review` undoes it.
        "#);
        assert_snapshot!(contents(&dir, "lead"), @r#"
        /code/list: 1 - 10
        /code/new/file: new
        /code/old: old
        "#);
        assert_snapshot!(contents(&dir, "coder"), @r#"
        /code/list: one - ten
        /code/new/file: new
        /code/old: absent
        "#);
        // The agent itself is the agent's own reviewer if a person runs the command.
        assert_snapshot!(dir.run(["--agent", "coder", "review", "--refuse", "list", "--drop"]), @r#"
        dropped    /code/list
        removed    /code/old
        ! Merged the fork review:coder/code: 1 change; `stead undo --review` undoes it.
        "#);
        assert_snapshot!(contents(&dir, "lead"), @r#"
        /code/list: 1 - 10
        /code/new/file: new
        /code/old: absent
        "#);
        assert_snapshot!(contents(&dir, "coder"), @r#"
        /code/list: 1 - 10
        /code/new/file: new
        /code/old: absent
        "#);
        assert_snapshot!(lead(&["review"]), @r#"! Nothing waits for a review."#);
        assert_snapshot!(lead(&["review", "nobody/code"]), @r#"
        ! stead: you have no fork `nobody/code`; you have `review:coder/code`
        exit 1
        "#);
    }
    }
}

#[test]
fn g31_hunks_are_asked_about_one_by_one() {
    let dir = reviewed(STORES[0]);
    let answers = dir.run_with_input(["--agent", "lead", "review", "-i"], b"x\ny\nn\ny\nn\n");
    assert_snapshot!(output_text(&answers, &dir.path("")), @r#"
    changed /code/list
    @@ -1,4 +1,4 @@
    -1
    +one
     2
     3
     4
    (1/2) Take this hunk [y,n,a,d,e,q,?]? y - take this
    n - refuse this
    a - take this and the rest of the file
    d - refuse this and the rest of the file
    e - edit this hunk
    q - quit; what was not decided stays in the fork
    ? - show this help
    (1/2) Take this hunk [y,n,a,d,e,q,?]? @@ -7,4 +7,4 @@
     7
     8
     9
    -10
    +ten
    (2/2) Take this hunk [y,n,a,d,e,q,?]? added /code/new/file
    @@ -0,0 +1 @@
    +new
    Take this addition [y,n,a,d,q,?]? removed /code/old
    @@ -1 +0,0 @@
    -old
    Take this deletion [y,n,a,d,q,?]? merged     /code/list
    added      /code/new
    added      /code/new/file
    left out   /code/old
    ! Merged the fork review:coder/code: 3 changes; `stead undo --review` undoes it.
    "#);
    assert_snapshot!(contents(&dir, "lead"), @r#"
    /code/list: one - 10
    /code/new/file: new
    /code/old: old
    "#);
    assert_snapshot!(contents(&dir, "coder"), @r#"
    /code/list: one - ten
    /code/new/file: new
    /code/old: absent
    "#);
    // What was refused comes again. At the end of the input the rest stays open.
    let answers = dir.run_with_input(["--agent", "lead", "review", "-i"], b"");
    assert_snapshot!(output_text(&answers, &dir.path("")), @r#"
    changed /code/list
    @@ -7,4 +7,4 @@
     7
     8
     9
    -10
    +ten
    (1/1) Take this hunk [y,n,a,d,e,q,?]? 
    ! Nothing was taken.
    "#);
    let answers = dir.run_with_input(["--agent", "lead", "review", "-i", "--drop"], b"n\nq\n");
    assert!(answers.status.success());
    assert_snapshot!(contents(&dir, "coder"), @r#"
    /code/list: one - 10
    /code/new/file: new
    /code/old: absent
    "#);
}

#[test]
fn g31_changes_of_tags_are_listed_and_taken_or_refused_with_their_file() {
    for store in STORES {
        let dir = TestDir::empty();
        let workspace = "prefix = \"/w\"\nscope = \"rw\"\nstore = \"code\"\nmanaged = true\n";
        dir.file(
            "stead.toml",
            &format!(
                "[stores.code]\n{store}\n[[agents.coder.workspaces]]\n{workspace}fork = \"agent\"\n\
                 [[agents.lead.workspaces]]\n{workspace}"
            ),
        );
        std::fs::create_dir(dir.path("code")).unwrap();
        let run = |args: &[&str]| dir.run(args.iter().copied());
        for name in ["a", "b", "c", "d"] {
            let path = format!("/w/data/{name}");
            run(&["--agent", "lead", "write", &path, "1\n"]);
            run(&["--agent", "lead", "files", "tag", &path, "pin"]);
        }
        run(&["--agent", "coder", "files", "tag", "--remove", "/w/data/a", "pin"]);
        run(&["--agent", "coder", "files", "tag", "/w/data/b", "mine"]);
        for name in ["c", "d"] {
            let path = format!("/w/data/{name}");
            run(&["--agent", "coder", "write", &path, "2\n"]);
            run(&["--agent", "coder", "files", "tag", &path, "mine"]);
        }
        let tags = |agent: &str| {
            let listed = dir.stead(["--agent", agent, "files", "list", "--json"]);
            let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
            let line =
                |file: &serde_json::Value| format!("{} {}", file["path"].as_str().unwrap(), file["tags"]);
            let mut lines: Vec<_> = listed["files"].as_array().unwrap().iter().map(line).collect();
            lines.sort();
            lines.join("\n")
        };
        allow_duplicates! {
        assert_snapshot!(without_times(&run(&["--agent", "lead", "review"])), @r#"
        coder/w  of /w, 4 changes, made TIME
        ! Review one with `stead review FORK`.
        "#);
        assert_snapshot!(run(&["--agent", "lead", "review", "coder/w", "--list"]), @r#"
        changed    /w/data/c
        changed    /w/data/d
        tags       /w/data/a: -pin
        tags       /w/data/b: +mine
        tags       /w/data/c: +mine
        tags       /w/data/d: +mine
        ! This would be 2 changes and the tags of 4 files.
        "#);
        let answers = dir.run_with_input(["--agent", "lead", "review", "-i"], b"n\ny\ny\nn\n");
        assert_snapshot!(output_text(&answers, &dir.path("")), @r#"
        tags /w/data/a
        tags -pin
        Take this change of the tags [y,n,a,d,q,?]? tags /w/data/b
        tags +mine
        Take this change of the tags [y,n,a,d,q,?]? changed /w/data/c
        tags +mine
        @@ -1 +1 @@
        -1
        +2
        (1/1) Take this hunk [y,n,a,d,e,q,?]? changed /w/data/d
        tags +mine
        @@ -1 +1 @@
        -1
        +2
        (1/1) Take this hunk [y,n,a,d,e,q,?]? changed    /w/data/c
        tags       /w/data/b: +mine
        tags       /w/data/c: +mine
        left out   /w/data/a
        left out   /w/data/d
        ! Merged the fork review:coder/w: 1 change and the tags of 2 files; `stead undo --review` undoes it.
        "#);
        assert_snapshot!(tags("lead"), @r#"
        /w/data/a ["pin"]
        /w/data/b ["pin","mine"]
        /w/data/c ["pin","mine"]
        /w/data/d ["pin"]
        "#);
        assert_snapshot!(tags("coder"), @r#"
        /w/data/a []
        /w/data/b ["pin","mine"]
        /w/data/c ["pin","mine"]
        /w/data/d ["pin","mine"]
        "#);
        // The next review shows what was refused, and the fork can give it up.
        assert_snapshot!(without_times(&run(&["--agent", "lead", "review"])), @r#"
        coder/w  of /w, 2 changes, made TIME
        ! Review one with `stead review FORK`.
        "#);
        assert_snapshot!(run(&["--agent", "lead", "review", "coder/w", "--take", "data/d", "--drop"]), @r#"
        dropped    /w/data/a
        changed    /w/data/d
        tags       /w/data/d: +mine
        ! Merged the fork review:coder/w: 1 change and the tags of 1 file; `stead undo --review` undoes it.
        "#);
        assert_snapshot!(tags("lead"), @r#"
        /w/data/a ["pin"]
        /w/data/b ["pin","mine"]
        /w/data/c ["pin","mine"]
        /w/data/d ["pin","mine"]
        "#);
        assert_snapshot!(tags("coder"), @r#"
        /w/data/a ["pin"]
        /w/data/b ["pin","mine"]
        /w/data/c ["pin","mine"]
        /w/data/d ["pin","mine"]
        "#);
        assert_snapshot!(run(&["--agent", "lead", "review"]), @r#"! Nothing waits for a review."#);
        }
    }
}

#[test]
fn g31_a_review_is_refused_if_the_agent_has_changed_tags_since() {
    let (virtual_store, workspace) =
        (STORES[0], "prefix = \"/w\"\nscope = \"rw\"\nstore = \"code\"\nmanaged = true\n");
    let dir = TestDir::empty();
    let config = format!(
        "[stores.code]\n{virtual_store}\n[[agents.coder.workspaces]]\n{workspace}fork = \"agent\"\n\
         [[agents.lead.workspaces]]\n{workspace}"
    );
    dir.file("stead.toml", &config);
    dir.run(["--agent", "lead", "write", "/w/data/a", "1\n"]);
    dir.run(["--agent", "coder", "files", "tag", "/w/data/a", "one"]);
    let config = Config::load(&dir.path("stead.toml")).unwrap();
    let lead = Stead::open(&config, "lead").unwrap();
    let mut options = stead::vfs::MergeOptions::default();
    (options.dry_run, options.with_contents) = (true, true);
    let shown = lead.merge_fork("review:coder/w", &options).unwrap();
    let mut options = stead::vfs::MergeOptions::default();
    options.fork_state = shown.fork_state;
    // What happens in the Workspace itself changes nothing of what was shown.
    dir.run(["--agent", "lead", "files", "tag", "/w/data/a", "other"]);
    dir.run(["--agent", "coder", "files", "tag", "/w/data/a", "two"]);
    let refused = lead.merge_fork("review:coder/w", &options).unwrap_err().to_string();
    assert!(refused.contains("changed"), "{refused}");
    dir.run(["--agent", "coder", "files", "tag", "--remove", "/w/data/a", "two"]);
    assert!(lead.merge_fork("review:coder/w", &options).unwrap().done);
}

#[test]
fn g31_the_rest_of_a_file_is_refused_or_taken_with_one_answer() {
    let old = |is_taken| if is_taken { "absent" } else { "old" };
    for (answers, list, takes_rest) in
        [("d\ny\ny\n", "1 - 10", true), ("y\nd\ny\ny\n", "one - 10", true), ("a\nd\nd\n", "one - ten", false)]
    {
        let dir = reviewed(STORES[0]);
        let output = dir.run_with_input(["--agent", "lead", "review", "-i"], answers.as_bytes());
        assert!(output.status.success(), "{answers:?}: {output:?}");
        let new = if takes_rest { "new" } else { "absent" };
        let expected = format!("/code/list: {list}\n/code/new/file: {new}\n/code/old: {}", old(takes_rest));
        assert_eq!(contents(&dir, "lead"), expected, "{answers:?}");
        // What was refused is still in the fork.
        let in_fork = "/code/list: one - ten\n/code/new/file: new\n/code/old: absent";
        assert_eq!(contents(&dir, "coder"), in_fork, "{answers:?}");
    }
}

#[test]
fn g31_a_hunk_is_split_and_edited() {
    let dir = reviewed(STORES[0]);
    dir.run(["--agent", "coder", "write", "/code/list", "one\n2\nthree\n4\n5\n6\n7\n8\n9\n10\n"]);
    dir.run(["--agent", "coder", "undo", "--last", "3"]);
    dir.run(["--agent", "coder", "write", "/code/list", "one\n2\nthree\n4\n5\n6\n7\n8\n9\n10\n"]);
    let review = |answers: &[u8], editor: &str| {
        let mut command = dir.command(["--agent", "lead", "review", "-i"]);
        command.env("EDITOR", editor).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), answers).unwrap();
        child.wait_with_output().unwrap()
    };
    // An edited hunk that doesn't fit is asked about again.
    let output = review(b"s\ne\nn\nq\n", "printf 'junk\\n' >");
    assert_snapshot!(output_text(&output, &dir.path("")), @r#"
    changed /code/list
    @@ -1,6 +1,6 @@
    -1
    +one
     2
    -3
    +three
     4
     5
     6
    (1/1) Take this hunk [y,n,a,d,e,s,q,?]? @@ -1,2 +1,2 @@
    -1
    +one
     2
    (1/2) Take this hunk [y,n,a,d,e,q,?]? @@ -1,2 +1,2 @@
    -1
    +one
     2
    (1/2) Take this hunk [y,n,a,d,e,q,?]? @@ -2,5 +2,5 @@
     2
    -3
    +three
     4
     5
     6
    (2/2) Take this hunk [y,n,a,d,e,q,?]? ! The edited hunk can't be used: each line has to begin with ` `, `-`, `+` or `#`.
    ! Nothing was taken.
    "#);
    let output = review(b"s\nn\ne\nq\n", "sed -i 's/^+three/+THREE/'");
    assert_snapshot!(output_text(&output, &dir.path("")), @r#"
    changed /code/list
    @@ -1,6 +1,6 @@
    -1
    +one
     2
    -3
    +three
     4
     5
     6
    (1/1) Take this hunk [y,n,a,d,e,s,q,?]? @@ -1,2 +1,2 @@
    -1
    +one
     2
    (1/2) Take this hunk [y,n,a,d,e,q,?]? @@ -2,5 +2,5 @@
     2
    -3
    +three
     4
     5
     6
    (2/2) Take this hunk [y,n,a,d,e,q,?]? merged     /code/list
    ! Merged the fork review:coder/code: 1 change; `stead undo --review` undoes it.
    "#);
    let kept = dir.run(["--agent", "lead", "cat", "/code/list"]);
    assert_eq!(kept.replace('\n', " "), "1 2 THREE 4 5 6 7 8 9 10");
}

#[test]
fn g31_a_review_on_a_terminal_asks() {
    let dir = reviewed(STORES[0]);
    let (terminal, end) = open_terminal(50);
    let mut command = dir.command(["--agent", "lead", "review"]);
    command.stdin(end.try_clone().unwrap()).stdout(end.try_clone().unwrap()).stderr(end);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut answers = terminal.try_clone().unwrap();
    let shown = read_terminal(terminal);
    std::io::Write::write_all(&mut answers, b"a\ny\ny\n").unwrap();
    assert!(child.wait().unwrap().success());
    drop(answers);
    let shown = shown.join().unwrap();
    assert!(shown.contains("Take this hunk") && shown.contains("Take this deletion"), "{shown}");
    assert_eq!(contents(&dir, "lead"), contents(&dir, "coder"));
}

#[test]
fn g31_conflicts_are_shown_and_left_out() {
    let dir = reviewed(STORES[0]);
    dir.run(["--agent", "lead", "write", "/code/list", &list("eins", "10")]);
    let output = dir.run(["--agent", "lead", "review", "coder/code", "--take", "**"]);
    assert_snapshot!(output, @r#"
    conflict   /code/list: content: the fork and the target changed the same lines, or content that isn't text (target line 1, fork line 1)
    added      /code/new
    added      /code/new/file
    removed    /code/old
    left out   /code/list
    ! Merged the fork review:coder/code: 3 changes; `stead undo --review` undoes it.
    ! What is in conflict or may not be changed stays in the fork; `stead merge review:coder/code --take SIDE` resolves conflicts.
    exit 1
    "#);
    assert_snapshot!(contents(&dir, "lead"), @r#"
    /code/list: eins - 10
    /code/new/file: new
    /code/old: absent
    "#);
    // Only the conflict is left.
    let output = dir.run(["--agent", "lead", "review", "coder/code", "--take", "**"]);
    assert!(output.contains("! There is nothing to take.\n! What is in conflict"), "{output}");
    assert!(output.ends_with("\nexit 1"), "{output}");
    let json = dir.stead(["--agent", "lead", "--json", "review", "coder/code"]);
    let shown: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (shown["dry_run"].as_bool(), shown["conflicts"][0]["kind"].as_str()),
        (Some(true), Some("content"))
    );
}

/// A reviewed directory with nothing in it, and the stead of the agent whose changes are reviewed.
fn empty_review() -> (TestDir, Stead) {
    let dir = reviewed(STORES[0]);
    dir.run(["--agent", "lead", "review", "coder/code", "--take", "**"]);
    let config = Config::load(&dir.path("stead.toml")).unwrap();
    let coder = Stead::open(&config, "coder").unwrap();
    (dir, coder)
}

fn review(dir: &TestDir, options: &[&str], answers: &[u8]) -> String {
    let args = ["--agent", "lead", "review", "coder/code", "-i"].into_iter().chain(options.iter().copied());
    output_text(&dir.run_with_input(args, answers), &dir.path(""))
}

fn numbers(changed: &[(usize, &str)]) -> String {
    let line = |number: usize| {
        let found = changed.iter().find(|(changed, _)| *changed == number);
        found.map_or_else(|| format!("{number}\n"), |(_, text)| format!("{text}\n"))
    };
    (1..=40).map(line).collect()
}

#[test]
fn g31_what_was_not_decided_is_not_dropped() {
    let (dir, coder) = empty_review();
    dir.run(["--agent", "lead", "write", "/code/f", &numbers(&[])]);
    dir.run(["--agent", "lead", "discard", "review:coder/code"]);
    let all = [(3, "three"), (15, "fifteen"), (30, "thirty")];
    coder.vfs().write("/code/f", numbers(&all)).unwrap();
    let shown = review(&dir, &["--drop"], b"y\nn\nq\n");
    assert!(shown.contains("Merged the fork"), "{shown}");
    let read = |agent: &str| dir.run(["--agent", agent, "cat", "/code/f"]) + "\n";
    assert_eq!(read("lead"), numbers(&all[..1]));
    assert_eq!(read("coder"), numbers(&all));
    // With everything decided, what is refused is dropped and listed.
    let shown = review(&dir, &["--drop"], b"n\ny\n");
    assert!(shown.contains("dropped    /code/f"), "{shown}");
    assert_eq!(read("lead"), numbers(&[all[0], all[2]]));
    assert_eq!(read("coder"), read("lead"));
    let typo = dir.run(["--agent", "lead", "review", "coder/code", "--take", "typo", "--drop"]);
    assert!(typo.contains("--take typo matches none of the changes"), "{typo}");
    coder.vfs().write("/code/secret.md", "s").unwrap();
    let typo = dir.run(["--agent", "lead", "review", "coder/code", "--refuse", "scret.md"]);
    assert!(typo.contains("--refuse scret.md matches none of the changes"), "{typo}");
    let missing = dir.run(["--agent", "lead", "cat", "/code/secret.md"]);
    assert!(missing.contains("does not exist"), "{missing}");
}

#[test]
fn g31_a_renamed_file_is_asked_about_once_and_its_hunks_after_the_rename() {
    let both = [(3, "three"), (30, "thirty")];
    for (answers, path, text) in [
        (b"y\ny\nn\n".as_slice(), "/code/f2", numbers(&both[..1])),
        (b"y\nn\nn\n", "/code/f2", numbers(&[])),
        (b"n\n", "/code/f", numbers(&[])),
        (b"a\n", "/code/f2", numbers(&both)),
    ] {
        let (dir, coder) = empty_review();
        dir.run(["--agent", "lead", "write", "/code/f", &numbers(&[])]);
        dir.run(["--agent", "lead", "discard", "review:coder/code"]);
        coder.vfs().rename("/code/f", "/code/f2", stead::vfs::Overwrite::Refuse).unwrap();
        coder.vfs().write("/code/f2", numbers(&both)).unwrap();
        let shown = review(&dir, &[], answers);
        assert_eq!(
            shown.matches("/code/f -> /code/f2").count(),
            1 + usize::from(path == "/code/f2"),
            "{shown}"
        );
        assert_eq!(dir.run(["--agent", "lead", "cat", path]) + "\n", text, "{shown}");
        // The fork keeps what was refused.
        assert_eq!(coder.vfs().read("/code/f2").unwrap().bytes, numbers(&both).into_bytes());
        review(&dir, &[], b"a\na\n");
        assert_eq!(dir.run(["--agent", "lead", "cat", "/code/f2"]) + "\n", numbers(&both));
    }
}

#[test]
fn g31_what_can_t_be_seen_in_a_text_is_shown_escaped_and_not_edited() {
    let (dir, coder) = empty_review();
    coder.vfs().write("/code/text", b"caf\xe9 \xe2\x80\x8b\r\n".as_slice()).unwrap();
    let shown = review(&dir, &[], b"y\n");
    assert!(shown.contains(r"+caf\xe9 \u{200b}\u{d}"), "{shown}");
    coder.vfs().write("/code/text", b"caf\xe8\n".as_slice()).unwrap();
    let shown = review(&dir, &[], b"y\n");
    assert!(shown.contains("Take this hunk [y,n,a,d,q,?]?"), "{shown}");
    let config = Config::load(&dir.path("stead.toml")).unwrap();
    let lead = Stead::open(&config, "lead").unwrap();
    assert_eq!(lead.vfs().read("/code/text").unwrap().bytes, b"caf\xe8\n");
}

#[test]
fn g31_symlinks_modes_and_kinds_are_shown() {
    let (dir, coder) = empty_review();
    let vfs = coder.vfs();
    vfs.write("/code/script", "#!/bin/sh\n").unwrap();
    vfs.set_attributes("/code/script", Some(0o755), None).unwrap();
    vfs.symlink("/code/link", "/etc/passwd").unwrap();
    vfs.remove_file("/code/list", stead::vfs::RemoveOptions::default()).unwrap();
    vfs.write("/code/list/in", "in\n").unwrap();
    let shown = review(&dir, &[], b"y\ny\ny\n");
    assert_snapshot!(shown, @r#"
    added /code/link@
    +-> /etc/passwd
    Take this addition [y,n,a,d,q,?]? replaced /code/list/
    added /code/list/in
    @@ -0,0 +1 @@
    +in
    @@ -1,10 +0,0 @@
    -one
    -2
    -3
    -4
    -5
    -6
    -7
    -8
    -9
    -ten
    Take this replacement [y,n,a,d,q,?]? added /code/script
    mode 755
    @@ -0,0 +1 @@
    +#!/bin/sh
    Take this addition [y,n,a,d,q,?]? added      /code/link
    removed    /code/list
    added      /code/list
    added      /code/list/in
    added      /code/script
    ! Merged the fork review:coder/code: 5 changes; `stead undo --review` undoes it.
    "#);
}

#[test]
fn g31_an_edited_hunk_leaves_a_rest_that_can_be_reviewed() {
    let (dir, coder) = empty_review();
    dir.run(["--agent", "lead", "write", "/code/f", "one\ntwo\n"]);
    dir.run(["--agent", "lead", "discard", "review:coder/code"]);
    coder.vfs().write("/code/f", "ONE\nTWO\n").unwrap();
    let mut command = dir.command(["--agent", "lead", "review", "-i"]);
    command.env("EDITOR", r"sed -i -e '/^-two/d' -e '/^+TWO/d' -e 's/^+ONE/+ONE\n two/'");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"e\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(dir.run(["--agent", "lead", "cat", "/code/f"]), "ONE\ntwo", "{output:?}");
    let rest = review(&dir, &[], b"y\n");
    assert!(rest.contains("-two\n+TWO") && !rest.contains("conflict"), "{rest}");
    assert_eq!(dir.run(["--agent", "lead", "cat", "/code/f"]), "ONE\nTWO");
}

#[test]
fn g31_a_review_by_the_agent_itself_is_undone_with_its_own_option() {
    let dir = TestDir::empty();
    dir.file(
        "stead.toml",
        "[stores.code]\nkind = \"virtual\"\n[[agents.coder.workspaces]]\nprefix = \"/code\"\nscope = \"rw\"\n\
         store = \"code\"\nfork = \"agent\"\n",
    );
    dir.run(["write", "/code/a", "one\n"]);
    let taken = dir.run(["review", "coder/code", "--take", "**"]);
    assert!(taken.contains("`stead undo --review` undoes it"), "{taken}");
    let undone = dir.run(["undo", "--review"]);
    assert!(undone.contains("removed    /code/a"), "{undone}");
    // The agent still has it, and it waits again.
    assert_eq!(dir.run(["cat", "/code/a"]), "one");
    assert!(dir.run(["review"]).contains("coder/code"));
    assert!(dir.run(["undo", "--review"]).contains("no review that could be undone"));
}

#[test]
fn g31_what_the_reviewer_may_not_see_is_left_out_without_a_word() {
    let (dir, coder) = empty_review();
    let text = std::fs::read_to_string(dir.path("stead.toml")).unwrap();
    let hider =
        "[[agents.hider.workspaces]]\nprefix = \"/h\"\nscope = \"rw\"\nstore = \"code\"\nhide = [\"vis*\"]\n";
    dir.file("stead.toml", &format!("{text}{hider}"));
    coder.vfs().write("/code/vis", "canary\n").unwrap();
    coder.vfs().write("/code/seen", "seen\n").unwrap();
    let listed = dir.run(["--agent", "hider", "review"]);
    assert!(listed.contains("coder/code  of /h, 1 change"), "{listed}");
    let taken = dir.run(["--agent", "hider", "review", "coder/code", "--take", "**"]);
    assert!(taken.contains("added      /h/seen") && !taken.contains("vis"), "{taken}");
    assert!(dir.run(["--agent", "lead", "cat", "/code/vis"]).contains("exit 1"));
    assert_eq!(dir.run(["--agent", "coder", "cat", "/code/vis"]), "canary");
}

#[test]
fn g31_the_review_of_a_thread_by_another_agent_is_in_its_log_and_undone_as_it_says() {
    for store in STORES {
        let dir = TestDir::empty();
        let workspace = "prefix = \"/code\"\nscope = \"rw\"\nstore = \"code\"\n";
        dir.file(
            "stead.toml",
            &format!(
                "[stores.code]\n{store}\n[agents.coder]\nscope = \"thread\"\n[[agents.coder.workspaces]]\n{workspace}\
                 per = \"agent\"\nfork = \"thread\"\n[[agents.lead.workspaces]]\n{workspace}[[agents.other.workspaces]]\n{workspace}"
            ),
        );
        std::fs::create_dir(dir.path("code")).unwrap();
        dir.run(["--agent", "coder", "--thread", "t1", "write", "/code/file", "x"]);
        let merged = dir.run(["--agent", "lead", "review", "--take", "file"]);
        assert!(merged.contains("`stead undo --review` undoes it"), "{merged}");
        let log = |agent: &str| dir.run(["--agent", agent, "log", "/code"]);
        assert!(log("lead").contains("review:coder/t1/code"), "{}", log("lead"));
        assert!(!log("other").contains("t1"), "the threads of others have no names: {}", log("other"));
        let undone = dir.run(["--agent", "lead", "undo", "--review"]);
        assert!(undone.contains("removed    /code/file"), "{undone}");
    }
}
