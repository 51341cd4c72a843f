//! Two Workspaces of one agent that show the same files: what one withholds, the other must not reveal.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use stead::config::ScopedDirectory;
use stead::{AccessScope, Config, Stead};

/// A host directory with a file in `code/secret`.
struct Host {
    root: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("code/secret/deep")).unwrap();
        fs::write(root.path().join("code/secret/s.txt"), "CANARY").unwrap();
        Host { root }
    }

    fn path(&self, relative: &str) -> std::path::PathBuf {
        self.root.path().join(relative)
    }

    /// Loads a configuration with these Workspaces: a prefix, a directory, and further settings.
    fn load(&self, workspaces: &[(&str, &str, &str)]) -> Result<Config, String> {
        let mut text = String::new();
        for (index, (prefix, directory, settings)) in workspaces.iter().enumerate() {
            text += &format!("[stores.s{index}]\nkind = \"physical\"\npath = \"{directory}\"\n");
            text += &format!(
                "[[agents.a.workspaces]]\nprefix = \"{prefix}\"\nstore = \"s{index}\"\n{settings}\n"
            );
        }
        self.load_text(&text)
    }

    fn load_text(&self, text: &str) -> Result<Config, String> {
        let file = self.path("stead.toml");
        fs::write(&file, text).unwrap();
        let loaded = Config::load(&file).map_err(|error| error.to_string());
        loaded.map_err(|loaded| loaded.replace(self.root.path().to_str().unwrap(), "HOST"))
    }
}

const RO: &str = "scope = \"ro\"";
const RW: &str = "scope = \"rw\"";
const WO: &str = "scope = \"wo\"";

#[test]
fn a_workspace_that_another_one_exposes_is_refused_with_its_line_and_a_suggestion() {
    let host = Host::new();
    let error = host.load(&[("/code", "code", RW), ("/secret", "code/secret", WO)]).unwrap_err();
    insta::assert_snapshot!(error, @r#"HOST/stead.toml:12:10: `/secret` is WRITE_ONLY, but its files can also be reached as `/code/secret` through `/code`, which is READ_WRITE; make it a nested Workspace (in stead.toml: prefix = "/code/secret", store = "s0", path = "/secret")"#);
}

#[test]
fn the_same_directory_twice_with_different_scopes_is_refused() {
    let host = Host::new();
    let error = host.load(&[("/a", "code", RO), ("/b", "code", WO)]).unwrap_err();
    insta::assert_snapshot!(error, @"HOST/stead.toml:5:10: `/a` is READ_ONLY, but `/b` shows the same files and is WRITE_ONLY; keep one of the two");
}

#[test]
fn an_inner_workspace_that_allows_less_is_refused_in_every_way() {
    let host = Host::new();
    let ask = |policy: &str, scope: &str| format!("{scope}\nask = \"{policy}\"");
    let protect = |globs: &str, scope: &str| format!("{scope}\nprotect = {globs}");
    for (outer, inner) in [
        (RW.to_owned(), RO.to_owned()),
        (RW.to_owned(), WO.to_owned()),
        (RO.to_owned(), WO.to_owned()),
        (WO.to_owned(), RO.to_owned()),
        (RW.to_owned(), ask("changes", RW)),
        (RO.to_owned(), ask("everything", RO)),
        (ask("changes", RW), ask("everything", RW)),
        (protect("[]", RW), RW.to_owned()),
        (RW.to_owned(), protect("[\"*.lock\"]", RW)),
        (protect("[\"/a\"]", RW), protect("[\"/a\"]", RW)),
    ] {
        let loaded = host.load(&[("/code", "code", &outer), ("/in", "code/secret", &inner)]);
        assert!(loaded.is_err(), "{outer} around {inner}");
        let loaded = host.load(&[("/in", "code/secret", &inner), ("/code", "code", &outer)]);
        assert!(loaded.is_err(), "{inner} before {outer}");
    }
}

#[test]
fn an_inner_workspace_that_allows_as_much_or_more_is_fine() {
    let host = Host::new();
    let ask = |policy: &str, scope: &str| format!("{scope}\nask = \"{policy}\"");
    let protect = |globs: &str, scope: &str| format!("{scope}\nprotect = {globs}");
    for (outer, inner) in [
        (RO.to_owned(), RW.to_owned()),
        (RO.to_owned(), RO.to_owned()),
        (RW.to_owned(), RW.to_owned()),
        (WO.to_owned(), WO.to_owned()),
        (WO.to_owned(), RW.to_owned()),
        (RO.to_owned(), ask("changes", RW)),
        (ask("everything", RW), RW.to_owned()),
        (ask("changes", RW), ask("changes", RW)),
        (RW.to_owned(), protect("[]", RW)),
        (protect("[\"/secret/a\", \"*.lock\"]", RW), protect("[\"/a\"]", RW)),
        (protect("[]", RO), RW.to_owned()),
    ] {
        let loaded = host.load(&[("/code", "code", &outer), ("/in", "code/secret", &inner)]);
        assert!(loaded.is_ok(), "{outer} around {inner}: {}", loaded.unwrap_err());
    }
}

#[test]
fn a_writable_inner_workspace_is_read_only_through_the_outer_one() {
    let host = Host::new();
    let config = host.load(&[("/code", "code", RO), ("/out", "code/secret", RW)]).unwrap();
    let stead = Stead::open(&config, "a").unwrap();
    stead.vfs().write("/out/new", "1").unwrap();
    assert_eq!(stead.vfs().read("/code/secret/new").unwrap().bytes, b"1");
    assert!(stead.vfs().write("/code/secret/new", "2").is_err());
}

#[test]
fn a_nested_workspace_withholds_its_files_on_one_store_or_two() {
    let host = Host::new();
    let one_store = format!(
        "[stores.code]\nkind = \"physical\"\npath = \"code\"\n\
         [[agents.a.workspaces]]\nprefix = \"/code\"\nstore = \"code\"\n{RW}\n\
         [[agents.a.workspaces]]\nprefix = \"/code/secret\"\nstore = \"code\"\npath = \"/secret\"\n{WO}\n"
    );
    for config in [
        host.load_text(&one_store).unwrap(),
        host.load(&[("/code", "code", RW), ("/code/secret", "code/secret", WO)]).unwrap(),
    ] {
        let stead = Stead::open(&config, "a").unwrap();
        assert!(stead.vfs().read("/code/secret/s.txt").is_err());
        assert!(stead.vfs().list("/code/secret", &stead::vfs::ListPage::all()).is_err());
    }
}

#[test]
fn a_third_workspace_around_a_nested_one_exposes_it_too() {
    let host = Host::new();
    let workspaces = [("/all", ".", RW), ("/code", "code", RW), ("/code/secret", "code/secret", WO)];
    let error = host.load(&workspaces).unwrap_err();
    assert!(error.contains("can also be reached as `/all/code/secret` through `/all`"), "{error}");
    // What a nested Workspace hides in the outer one is not revealed.
    let hidden = [("/all", ".", RW), ("/all/code", "other", RW), ("/in", "code/secret", WO)];
    fs::create_dir(host.path("other")).unwrap();
    assert!(host.load(&hidden).is_ok());
}

#[test]
fn symlinks_and_other_spellings_of_a_path_hide_no_overlap() {
    let host = Host::new();
    symlink("code/secret", host.path("alias")).unwrap();
    symlink("code", host.path("other")).unwrap();
    for (outer, inner) in [
        ("code", "alias"),
        ("other", "code/secret"),
        ("other", "alias/deep"),
        ("./code/../code", "code/secret/"),
        ("code", "alias/later/on"),
    ] {
        let loaded = host.load(&[("/code", outer, RW), ("/in", inner, WO)]);
        assert!(loaded.is_err(), "{inner} inside {outer}");
    }
    assert!(host.load(&[("/code", "code/secret", RW), ("/in", "code/secret2", WO)]).is_ok());
}

#[test]
fn another_mount_of_the_same_virtual_or_memory_store_exposes_it_too() {
    let host = Host::new();
    for kind in ["virtual", "memory"] {
        let text = |outer: &str, inner: &str| {
            format!(
                "[stores.notes]\nkind = \"{kind}\"\n\
                 [[agents.a.workspaces]]\nprefix = \"/all\"\nstore = \"notes\"\n{outer}\n\
                 [[agents.a.workspaces]]\nprefix = \"/box\"\nstore = \"notes\"\npath = \"/box\"\n{inner}\n"
            )
        };
        assert!(host.load_text(&text(RO, WO)).is_err(), "{kind}");
        assert!(host.load_text(&text(RO, RW)).is_ok(), "{kind}");
    }
}

#[test]
fn another_agent_may_have_other_scopes() {
    let host = Host::new();
    let text = format!(
        "[stores.code]\nkind = \"physical\"\npath = \"code\"\n\
         [[agents.a.workspaces]]\nprefix = \"/code\"\nstore = \"code\"\n{RW}\n\
         [[agents.b.workspaces]]\nprefix = \"/box\"\nstore = \"code\"\npath = \"/secret\"\n{WO}\n"
    );
    assert!(host.load_text(&text).is_ok());
}

#[test]
fn a_configuration_that_was_only_parsed_is_refused_when_the_stead_is_opened() {
    let host = Host::new();
    let text = format!(
        "[stores.s]\nkind = \"physical\"\npath = \"code\"\n\
         [[agents.a.workspaces]]\nprefix = \"/code\"\nstore = \"s\"\n{RW}\n\
         [[agents.a.workspaces]]\nprefix = \"/box\"\nstore = \"s\"\npath = \"/secret\"\n{WO}\n"
    );
    let config = Config::parse(&text, &host.path("stead.toml")).unwrap();
    let error = Stead::open(&config, "a").unwrap_err().to_string();
    assert!(
        error.starts_with("`/box` is WRITE_ONLY, but its files can also be reached as `/code/secret`"),
        "{error}"
    );
}

#[test]
fn bare_directories_are_refused_by_the_names_that_the_operator_wrote() {
    let host = Host::new();
    let scoped = |path: &Path, scope| ScopedDirectory { path: path.into(), scope };
    let (code, secret) = (host.path("code"), host.path("code/secret"));
    let error_for = |first: ScopedDirectory, second: ScopedDirectory| {
        Config::for_directories("a", &[first, second]).unwrap_err().to_string()
    };
    let error = error_for(scoped(&code, AccessScope::ReadWrite), scoped(&secret, AccessScope::WriteOnly));
    insta::assert_snapshot!(error.replace(host.root.path().to_str().unwrap(), "HOST"), @r#"`HOST/code/secret` is WRITE_ONLY, but its files can also be reached as `/code/secret` through `HOST/code`, which is READ_WRITE; make it a nested Workspace (in stead.toml: prefix = "/code/secret", store = "code", path = "/secret")"#);
    let error = error_for(scoped(&code, AccessScope::ReadWrite), scoped(&code, AccessScope::ReadOnly));
    insta::assert_snapshot!(error.replace(host.root.path().to_str().unwrap(), "HOST"), @"`HOST/code` is READ_ONLY, but `HOST/code` shows the same files and is READ_WRITE; keep one of the two");
}

/// A mount. Dropping it unmounts it.
struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH).unwrap();
    }
}

#[test]
fn a_bind_mount_hides_no_overlap_and_another_file_system_inside_is_not_shown() {
    use rustix::mount::{MountFlags, mount, mount_bind};
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can mount");
        return;
    }
    let host = Host::new();
    for directory in ["bound", "code/disk"] {
        fs::create_dir(host.path(directory)).unwrap();
    }
    mount_bind(host.path("code/secret"), host.path("bound")).unwrap();
    let _bound = Mounted(host.path("bound"));
    mount("tmpfs", host.path("code/disk"), "tmpfs", MountFlags::empty(), None).unwrap();
    let _disk = Mounted(host.path("code/disk"));

    assert!(host.load(&[("/code", "code", RW), ("/in", "bound", WO)]).is_err());
    assert!(host.load(&[("/code", "code", RW), ("/in", "bound/deep", WO)]).is_err());
    assert!(host.load(&[("/code", "bound", RW), ("/in", "code/secret/deep", WO)]).is_err());
    // A Physical Store doesn't cross mount points.
    assert!(host.load(&[("/code", "code", RW), ("/in", "code/disk", WO)]).is_ok());
}

#[test]
fn two_stores_of_one_directory_with_different_keep_are_refused_with_both_lines() {
    let host = Host::new();
    symlink(host.path("code"), host.path("link")).unwrap();
    let stores = |directory: &str, keep: &str| {
        format!(
            "[stores.a]\nkind = \"physical\"\npath = \"code\"\n[stores.b]\nkind = \"physical\"\npath = \"{directory}\"\n{keep}\n"
        )
    };
    for directory in ["code", "./code/", "link", "code/secret/.."] {
        let error = host.load_text(&stores(directory, "keep = false")).unwrap_err();
        assert_eq!(
            error,
            "HOST/stead.toml:6:8: the Store `b` has the same directory as the Store `a` in line 3, but another `keep`; \
             give both the same `keep`, or remove one of them"
        );
    }
    for (directory, keep) in [("code", ""), ("code", "keep = true"), ("code/secret", "keep = false")] {
        host.load_text(&stores(directory, keep)).unwrap();
    }
}

#[test]
fn twenty_thousand_workspaces_are_loaded_without_comparing_every_two_of_them() {
    let host = Host::new();
    let mut text =
        "[stores.n]\nkind = \"virtual\"\n[stores.c]\nkind = \"physical\"\npath = \"code\"\n".to_owned();
    for number in 0..10_000 {
        text += &format!(
            "[[agents.a.workspaces]]\nprefix = \"/n/{number}\"\nstore = \"n\"\npath = \"/{number}\"\n{RO}\n"
        );
        text += &format!("[[agents.a.workspaces]]\nprefix = \"/c/{number}\"\nstore = \"c\"\n{RO}\n");
    }
    let start = std::time::Instant::now();
    host.load_text(&text).unwrap();
    // In a debug build on a busy machine. Comparing every two of them takes minutes there.
    assert!(start.elapsed() < std::time::Duration::from_secs(60), "{:?}", start.elapsed());
    text += &format!("[[agents.a.workspaces]]\nprefix = \"/all\"\nstore = \"n\"\n{RW}\n");
    let error = host.load_text(&text).unwrap_err();
    assert_eq!(error.lines().count(), 10_000, "every Workspace that is read-only is reported");
}
