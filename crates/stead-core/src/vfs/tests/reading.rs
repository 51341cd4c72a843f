//! Reading files, and searching.

use super::*;

#[test]
fn lines_say_when_there_is_more_and_how_to_get_it() {
    let (vfs, _) = read_write_vfs();
    vfs.write("/a", "1\n2\n3\n").unwrap();
    let read = |offset, limit| vfs.read_lines("/a", LineRange { offset, limit, ..LineRange::default() });
    let first = read(1, 2).unwrap();
    assert_eq!(
        (&*first.text, first.more().as_deref()),
        ("1\n2\n", Some("There is more; continue with offset 3."))
    );
    assert_eq!(read(3, 2).unwrap().more(), None);
    assert_eq!(read(9, 1).unwrap_err().to_string(), "`/a` has 3 lines; line 9 is past its end");
    vfs.write("/b", "\u{0}").unwrap();
    vfs.write("/c", vec![0xff]).unwrap();
    vfs.write("/empty", "").unwrap();
    assert!(matches!(vfs.read_lines("/b", LineRange::default()), Err(Error::Binary { .. })));
    assert!(matches!(vfs.read_lines("/c", LineRange::default()), Err(Error::Binary { .. })));
    assert_eq!(vfs.read_lines("/empty", LineRange::default()).unwrap().text, "");
}

#[test]
fn stat_reports_kind_size_and_media_type() {
    let (vfs, _) = read_write_vfs();
    let written = vfs.write("/a.html", "<p>").unwrap();
    let stat = vfs.stat("/a.html").unwrap();
    assert_eq!((stat.kind, stat.size, stat.mime), (NodeKind::File, 3, Some("text/html")));
    assert_eq!((stat.tag, stat.scope), (written.tag, Some(ReadWrite)));
    assert!(vfs.is_file("/a.html").unwrap() && !vfs.is_directory("/a.html").unwrap());
    assert!(
        vfs.is_directory("/").unwrap() && !vfs.exists("/none").unwrap() && !vfs.exists("/a.html/x").unwrap()
    );
}

#[test]
fn search_results_come_in_the_same_order_up_to_the_limit() {
    let files: Vec<_> = (0..30).map(|n| (format!("/f{n:02}"), "hit\nmiss\nhit\n")).collect();
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let vfs = vfs_with([workspace("/", ReadOnly, &store_with(&files))]);
    let grep = |output, max_results| {
        let result = vfs.grep(&GrepQuery { output, max_results, ..GrepQuery::new("hit") }, "/").unwrap();
        let files: Vec<_> = result.files.iter().map(|file| format!("{}:{}", file.path, file.count)).collect();
        (files.join(" "), result.truncated)
    };
    assert_eq!(grep(GrepOutput::Lines, 5), ("/f00:2 /f01:2 /f02:1".into(), true));
    assert_eq!(grep(GrepOutput::Files, 2), ("/f00:1 /f01:1".into(), true));
    assert_eq!(grep(GrepOutput::Counts, 1), ("/f00:2".into(), true));
    assert!(!grep(GrepOutput::Lines, 60).1);
}

#[test]
fn a_reader_goes_through_a_file_piece_by_piece() {
    use std::io::{Read, Seek, SeekFrom};
    let (vfs, _) = read_write_vfs();
    vfs.write("/a", "0123456789").unwrap();
    let mut reader = vfs.reader("/a").unwrap();
    vfs.remove_file("/a", RemoveOptions::default()).unwrap();
    let mut rest = String::new();
    reader.seek(SeekFrom::End(-3)).unwrap();
    reader.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "789");
    assert!(reader.seek(SeekFrom::Current(-99)).is_err());
}
