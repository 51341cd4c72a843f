//! A mount and a tool, and two mounts: each sees what the other does.

use std::fs;
use std::io::Read;

use super::common::{BOTH, Place, eventually};

#[test]
fn a_mount_and_a_tool_see_each_others_changes() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        let at = mount.path(workspace);
        let path = format!("/{workspace}/shared");
        fs::write(at.join("shared"), "by a program").unwrap();
        assert_eq!(place.stead(["cat", &path]), "by a program");
        let mut open = fs::File::open(at.join("shared")).unwrap();
        let mut first = [0; 2];
        open.read_exact(&mut first).unwrap();
        place.fed(["write", &path], "by a tool, and longer");
        // Whoever opens it afterwards sees it at once.
        assert_eq!(fs::read_to_string(at.join("shared")).unwrap(), "by a tool, and longer", "{workspace}");
        assert!(eventually(|| fs::metadata(at.join("shared")).unwrap().len() == 21));
        place.fed(["write", &format!("/{workspace}/made/by")], "by a tool");
        assert!(eventually(|| at.join("made/by").exists()), "{workspace}");
        place.stead(["mv", &format!("/{workspace}/made"), &format!("/{workspace}/moved")]);
        assert!(eventually(|| at.join("moved/by").exists() && !at.join("made").exists()));
        place.stead(["rm", "-r", &format!("/{workspace}/moved")]);
        assert!(eventually(|| !at.join("moved").exists() && fs::read_dir(&at).unwrap().count() <= 2));
    }
}

#[test]
fn two_mounts_see_each_others_changes() {
    let place = Place::new();
    let (one, other) = (place.mount(), place.mount_at("mnt2", &[]));
    for workspace in BOTH {
        let (here, there) = (one.path(workspace), other.path(workspace));
        assert!(!there.join("d").exists());
        fs::create_dir(here.join("d")).unwrap();
        fs::write(here.join("d/f"), "one").unwrap();
        assert!(eventually(|| fs::read_to_string(there.join("d/f")).is_ok_and(|text| text == "one")));
        fs::write(there.join("d/f"), "and another").unwrap();
        assert!(eventually(|| fs::read_to_string(here.join("d/f")).unwrap() == "and another"));
        // A directory that the other has moved away is found again, with what is in it.
        fs::rename(there.join("d"), there.join("e")).unwrap();
        assert!(eventually(|| fs::read_to_string(here.join("e/f")).is_ok_and(|text| text == "and another")));
        assert!(eventually(|| !here.join("d").exists()), "{workspace}");
        fs::write(here.join("e/g"), "g").unwrap();
        assert!(eventually(|| there.join("e/g").exists()));
        fs::remove_dir_all(there.join("e")).unwrap();
        assert!(eventually(|| !here.join("e").exists()));
    }
}

#[test]
fn a_reader_follows_a_file_that_a_tool_appends_to() {
    let place = Place::new();
    let mount = place.mount();
    fs::write(mount.path("v/log"), "one\n").unwrap();
    let mut open = fs::File::open(mount.path("v/log")).unwrap();
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    place.fed(["append", "/v/log"], "two\n");
    assert!(eventually(|| {
        open.read_to_string(&mut text).unwrap();
        text == "one\ntwo\n"
    }));
}
