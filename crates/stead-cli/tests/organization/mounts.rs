//! The stead of an organization's agent, mounted by the real binary.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::mounted::Mounted;
use crate::office::{Office, wait_until};

/// Mounts an agent's stead at `mnt`.
pub(crate) fn mount(office: &Office, agent: &str) -> Mounted {
    Mounted::start(office.command(["mount", "mnt", "--agent", agent]))
}

#[test]
fn f69_a_mount_refuses_what_the_records_take_away_and_the_forks_of_it() {
    let office = Office::example();
    let config = fs::read_to_string(office.path("stead.toml")).unwrap();
    let physical = "kind = \"physical\"\npath = \"files\"";
    assert!(config.contains(physical));
    office.replace("stead.toml", &config.replace(physical, "kind = \"virtual\""));
    let as_marcus = ["--agent", "agent-marcus"];
    for args in [
        &["write", "/workspaces/team-hr/private/plan.md", "plan"][..],
        &["fork", "/workspaces/team-hr/private", "draft"],
        &["write", "/workspaces/agent-marcus/private/own.md", "own"],
    ] {
        office.stead(args.iter().copied().chain(as_marcus));
    }
    let root = office.path("mnt");
    fs::create_dir(&root).unwrap();
    let mounted = mount(&office, "agent-marcus");
    let read = |path: &str| fs::read_to_string(root.join(path));
    let withdrawn = ["workspaces/team-hr/private/plan.md", "forks/draft/plan.md"];
    for path in withdrawn {
        assert_eq!(read(path).unwrap(), "plan");
    }
    office.change_records("agents.json", r#""Marcus", "teamId": "team-hr""#, r#""Marcus""#);
    for path in withdrawn {
        wait_until(path, || read(path).is_err());
        assert!(fs::write(root.join(path), "late").is_err(), "{path}");
        assert!(fs::read_dir(root.join(path).parent().unwrap()).is_err(), "{path}");
    }
    assert_eq!(read("workspaces/agent-marcus/private/own.md").unwrap(), "own");
    drop(mounted);
}

#[test]
fn f79_size_and_times_of_a_file_are_withheld_with_its_folder_open_or_not() {
    let office = Office::example();
    let config = fs::read_to_string(office.path("stead.toml")).unwrap();
    office.replace(
        "stead.toml",
        &config.replace("kind = \"physical\"\npath = \"files\"", "kind = \"virtual\""),
    );
    let names = ["open.md", "polled.md"].map(|name| format!("workspaces/team-hr/private/{name}"));
    for name in &names {
        office.stead(["write", &format!("/{name}"), "12345", "--agent", "agent-catalyst"]);
    }
    let root = office.path("mnt");
    fs::create_dir(&root).unwrap();
    let _mounted = mount(&office, "agent-marcus");
    let size = |name: &str| fs::metadata(root.join(name)).map(|metadata| metadata.len());
    let open = fs::File::open(root.join(&names[0])).unwrap();
    for name in &names {
        assert_eq!(size(name).unwrap(), 5);
    }
    office.change_records("agents.json", r#""Marcus", "teamId": "team-hr""#, r#""Marcus""#);
    // Twice as long as records count as current, and as the kernel may answer from its cache.
    std::thread::sleep(std::time::Duration::from_millis(80));
    let denied = Some(rustix::io::Errno::ACCESS.raw_os_error());
    for name in &names {
        assert_eq!(size(name).unwrap_err().raw_os_error(), denied, "{name}");
    }
    assert_eq!(open.metadata().unwrap_err().raw_os_error(), denied);
    for name in &names {
        office.stead(["append", &format!("/{name}"), "6789", "--agent", "agent-catalyst"]);
        assert_eq!(size(name).unwrap_err().raw_os_error(), denied, "{name}");
    }
    assert_eq!(open.metadata().unwrap_err().raw_os_error(), denied);
    office.change_records("agents.json", r#""Marcus""#, r#""Marcus", "teamId": "team-hr""#);
    wait_until("the right is back", || size(&names[0]).is_ok_and(|size| size == 9));
    assert_eq!(open.metadata().unwrap().len(), 9);
}

#[test]
fn a_member_cannot_change_the_permission_bits_of_its_teams_folders() {
    let office = Office::example();
    let root = office.path("mnt");
    fs::create_dir(&root).unwrap();
    let _mounted = mount(&office, "agent-marcus");
    let set_mode = |path: &str, mode| {
        fs::set_permissions(root.join("workspaces").join(path), fs::Permissions::from_mode(mode))
    };
    for half in ["team-hr/private", "team-hr/shared"] {
        let refusal = set_mode(half, 0o000).unwrap_err();
        assert_eq!(refusal.raw_os_error(), Some(rustix::io::Errno::PERM.raw_os_error()), "{half}");
        let path = root.join("workspaces").join(half);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        set_mode(half, mode).expect("the bits that it has already change nothing");
        fs::create_dir(path.join("sub")).unwrap();
        set_mode(&format!("{half}/sub"), 0o700).unwrap();
        // A program such as `rsync` sets the time.
        let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        fs::File::open(&path).unwrap().set_modified(time).unwrap();
    }
    set_mode("agent-marcus/private", 0o700).expect("its own folder");
}

#[test]
fn f167_the_limit_on_depth_is_one_of_folder_tools_and_not_of_a_mount_or_of_path_tools() {
    let office = Office::example();
    let (server, root) = (office.serve(), office.path("mnt"));
    fs::create_dir(&root).unwrap();
    let _mounted = mount(&office, "agent-marcus");
    let private = root.join("workspaces/agent-marcus/private");
    let deep = "a/b/c/d/e/f/g/h";
    fs::create_dir_all(private.join(deep)).unwrap();
    fs::write(private.join(deep).join("mounted.md"), "mounted").unwrap();
    fs::rename(private.join("a/b"), private.join("a/moved")).unwrap();
    fs::rename(private.join("a/moved"), private.join("a/b")).unwrap();
    let on_host =
        |name: &str| fs::read_to_string(office.host_path("agent-marcus/private", deep).join(name)).unwrap();
    assert_eq!(on_host("mounted.md"), "mounted");
    let mut marcus = server.connect("acme/agent-marcus");
    let by_path = format!("/workspaces/agent-marcus/private/{deep}/path.md");
    marcus.call("write_file", json!({ "path": by_path, "content": "by path" })).unwrap();
    assert_eq!(on_host("path.md"), "by path");
    // A folder tool creates nothing there. What exists it reads and writes.
    let id = marcus.id("my_private", "agent-marcus/private");
    let refused = marcus.write(&id, &format!("{deep}/new.md"), "x").unwrap_err();
    assert!(refused.contains("more than the 3"), "{refused}");
    assert!(!private.join(deep).join("new.md").exists());
    assert_eq!(marcus.read(&id, &format!("{deep}/mounted.md")).unwrap(), "mounted");
    marcus.write(&id, &format!("{deep}/mounted.md"), "over").unwrap();
    assert_eq!(on_host("mounted.md"), "over");
}

#[test]
fn f69_a_mount_follows_records_in_the_configuration_file() {
    let office = Office::empty();
    let config = |team: &str| {
        format!(
            "[stores.shared]\nkind = \"virtual\"\n\n[[organization]]\nid = \"acme\"\nstore = \"shared\"\n\
             toolWhitelist = [\"read_file\"]\nteams = [{{ id = \"team-hr\" }}]\n\
             agents = [{{ id = \"marcus\"{team} }}]\n"
        )
    };
    office.replace("stead.toml", &config(", teamId = \"team-hr\""));
    let (plan, own) = ("workspaces/team-hr/private/plan.md", "workspaces/marcus/private/own.md");
    for path in [plan, own] {
        office.stead(["write", &format!("/{path}"), "plan", "--agent", "marcus"]);
    }
    let root = office.path("mnt");
    fs::create_dir(&root).unwrap();
    let _mounted = mount(&office, "marcus");
    assert_eq!(fs::read_to_string(root.join(plan)).unwrap(), "plan");
    // While the file is empty, somebody is writing it.
    office.replace("stead.toml", "");
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(fs::read_to_string(root.join(plan)).unwrap(), "plan");
    office.replace("stead.toml", &config(""));
    wait_until(plan, || fs::read_to_string(root.join(plan)).is_err());
    assert!(fs::write(root.join(plan), "late").is_err());
    assert_eq!(fs::read_to_string(root.join(own)).unwrap(), "plan");
}

#[test]
fn an_organization_is_not_migrated_under_a_server_or_a_mount() {
    let office = Office::example();
    let old = office.path("files/organizations/acme/agents/agent-marcus/private");
    fs::create_dir_all(&old).unwrap();
    fs::write(old.join("old.md"), "old").unwrap();
    let _ = fs::remove_dir_all(office.path("files/organizations/acme/workspaces/agent-marcus"));
    fs::create_dir(office.path("mnt")).unwrap();
    let refused = || {
        let output = office.run(["org", "migrate"]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("a server or a mount is using these files; stop it"), "{text}");
        assert!(old.join("old.md").exists());
    };
    let server = office.serve();
    refused();
    let dry_run = office.stead(["org", "migrate", "--dry-run"]);
    assert!(dry_run.contains("Would move"), "{dry_run}");
    server.stop();
    let mounted = mount(&office, "agent-marcus");
    refused();
    drop(mounted);
    let _server = office.serve();
    refused();
    office.stead(["org", "migrate", "--force"]);
    assert!(!old.exists());
    assert_eq!(fs::read_to_string(office.host_path("agent-marcus/private", "old.md")).unwrap(), "old");
}

#[test]
fn a_right_to_write_that_is_gone_leaves_the_right_to_read() {
    let office = Office::example();
    let server = office.serve();
    let mut marcus = server.connect("acme/agent-marcus");
    let id = marcus.id("team_shared", "team-hr/shared");
    office.change_records("agents.json", r#""Marcus", "teamId": "team-hr""#, r#""Marcus""#);
    let refusal = "you can read, but not change `/workspaces/team-hr/shared/late.md` any more: your rights have changed";
    std::thread::sleep(std::time::Duration::from_millis(30));
    // Until the server has opened the stead again, and then with the words for an agent that never had the right.
    let expected =
        [refusal, "You don't have permission to write to folder 'HR Team - Shared'. Your team: none"];
    let path = json!({ "path": "/workspaces/team-hr/shared/late.md", "content": "late" });
    for error in [marcus.error("write_file", path), marcus.write(&id, "late.md", "late").unwrap_err()] {
        assert!(expected.iter().any(|text| error.starts_with(text)), "{error}");
    }
    marcus.read(&id, "holidays.md").unwrap();
}
