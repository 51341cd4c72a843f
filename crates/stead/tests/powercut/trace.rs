//! Parses the output of strace, call by call.
//!
//! Strings and the paths of file descriptors are in hexadecimal (`-xx`), so nothing in them can be mistaken for syntax.

use std::collections::HashMap;

/// The system calls that strace records: every call that changes a file, a name, or what is on the disk.
pub(crate) const CALLS: &str = "open,openat,openat2,creat,write,writev,pwrite64,pwritev,pwritev2,ftruncate,truncate,\
fallocate,copy_file_range,sendfile,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,rmdir,mkdir,\
mkdirat,mknod,mknodat,utimensat,fsync,fdatasync,syncfs,sync,msync";

/// A call that succeeded.
#[derive(Debug)]
pub(crate) struct Call<'t> {
    pub(crate) name: &'t str,
    arguments: Vec<&'t str>,
    returned: &'t str,
    /// When it was made, in seconds since 1970.
    pub(crate) second: f64,
    /// The line of the trace on which it began.
    pub(crate) began: usize,
    /// The line on which it returned.
    pub(crate) ended: usize,
}

impl Call<'_> {
    fn argument(&self, index: usize) -> &str {
        self.arguments.get(index).unwrap_or_else(|| panic!("{} has no argument {index}", self.name)).trim()
    }

    /// An argument that is a number.
    pub(crate) fn number(&self, index: usize) -> u64 {
        let text = self.argument(index).trim_matches(['[', ']']);
        text.parse().unwrap_or_else(|_| panic!("argument {} of {} isn't a number: {text}", index, self.name))
    }

    /// An argument that is an explicit offset; `None` if the call uses the position of the file.
    pub(crate) fn offset(&self, index: usize) -> Option<u64> {
        (self.argument(index) != "NULL").then(|| self.number(index))
    }

    /// Whether an argument names a flag.
    pub(crate) fn has(&self, index: usize, flag: &str) -> bool {
        let argument = self.argument(index);
        argument.split(['|', '=', ',', '{', '}', ' ']).any(|word| word == flag)
    }

    /// The path of an argument that is a descriptor; `None` if its file has no name any more, or it isn't a file.
    pub(crate) fn descriptor(&self, index: usize) -> Option<String> {
        path_of(self.argument(index))
    }

    /// The path of the descriptor that was returned.
    pub(crate) fn opened(&self) -> Option<String> {
        path_of(self.returned)
    }

    /// The number that was returned, such as a number of bytes.
    pub(crate) fn count(&self) -> usize {
        self.returned
            .split(['<', ' '])
            .next()
            .and_then(|text| text.parse().ok())
            .expect("a number was returned")
    }

    /// All bytes of an argument, one piece after the other.
    pub(crate) fn bytes(&self, index: usize) -> Vec<u8> {
        let mut pieces = self.argument(index).split('"');
        let mut bytes = Vec::new();
        while let (Some(_), Some(piece)) = (pieces.next(), pieces.next()) {
            bytes.extend(decode_hex(piece));
        }
        bytes
    }

    /// The absolute path that an argument names.
    pub(crate) fn path(&self, index: usize) -> String {
        let path = text(self.bytes(index));
        assert!(path.starts_with('/'), "{} was called with the relative path {path}", self.name);
        path
    }

    /// The path that two arguments name: a directory, and a path relative to it.
    pub(crate) fn path_at(&self, directory: usize) -> String {
        let path = text(self.bytes(directory + 1));
        if path.starts_with('/') {
            return path;
        }
        let parent = self
            .descriptor(directory)
            .unwrap_or_else(|| panic!("{} is relative to an unknown descriptor", self.name));
        if path.is_empty() { parent } else { format!("{parent}/{path}") }
    }

    /// The modification time that `utimensat` was given; `None` if the call doesn't change it.
    pub(crate) fn modified(&self) -> Option<(u64, u32)> {
        let times = self.argument(2);
        let times: Vec<&str> = split(times.strip_prefix('[')?.strip_suffix(']')?);
        let field = |name: &str| {
            let text = times[1].split_once(name)?.1;
            text[..text.find(|c: char| !c.is_ascii_digit())?].parse::<u64>().ok()
        };
        Some((field("tv_sec=")?, u32::try_from(field("tv_nsec=")?).ok()?))
    }
}

/// The calls of a trace that succeeded, in the order in which they returned.
pub(crate) fn calls(trace: &str) -> Vec<Call<'_>> {
    let mut unfinished: HashMap<&str, (usize, &str)> = HashMap::new();
    let mut calls = Vec::new();
    for (line, text) in trace.lines().enumerate() {
        let text = text.trim_start();
        let Some((thread, rest)) = text.split_once(' ') else { continue };
        let Some((time, rest)) = rest.trim_start().split_once(' ') else { continue };
        if rest.starts_with("+++") || rest.starts_with("---") {
            continue;
        }
        let second = time.parse().unwrap_or_else(|_| panic!("line {line} of the trace has no time: {time}"));
        if let Some(first_part) = rest.strip_suffix(" <unfinished ...>") {
            unfinished.insert(thread, (line, first_part));
            continue;
        }
        let (began, first_part, second_part) = match rest.strip_prefix("<... ") {
            Some(resumed) => {
                let (_, second_part) = resumed.split_once(" resumed>").expect("the line resumes a call");
                let Some((began, first_part)) = unfinished.remove(thread) else { continue };
                (began, first_part, second_part)
            }
            None => (line, rest, ""),
        };
        calls.extend(call(first_part, second_part, second, began, line));
    }
    calls
}

/// Parses a call. If strace recorded it in two parts, `second_part` is that part.
fn call<'t>(
    first_part: &'t str,
    second_part: &'t str,
    second: f64,
    began: usize,
    ended: usize,
) -> Option<Call<'t>> {
    let (name, arguments) = first_part.split_once('(')?;
    // In a call that was recorded in one part, the end is found from behind. A second part begins with the rest of the
    // arguments.
    let (arguments, further_arguments, returned) = if second_part.is_empty() {
        let (arguments, returned) = arguments.rsplit_once(" = ")?;
        (arguments.trim_end().strip_suffix(')')?, "", returned)
    } else {
        let (further_arguments, returned) = second_part.rsplit_once(" = ")?;
        (arguments, further_arguments.trim_end().strip_suffix(')')?, returned)
    };
    if returned.starts_with('-') || returned.starts_with('?') {
        return None;
    }
    let mut all_arguments = split(arguments);
    all_arguments.extend(
        split(further_arguments.trim_start_matches([',', ' ']))
            .into_iter()
            .filter(|argument| !argument.is_empty()),
    );
    Some(Call { name, arguments: all_arguments, returned, second, began, ended })
}

/// The arguments of a call, or the parts of a list.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(text[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

fn path_of(descriptor: &str) -> Option<String> {
    let (_, rest) = descriptor.split_once('<')?;
    let (path, after) = rest.split_once('>')?;
    let path = text(decode_hex(path));
    (path.starts_with('/') && !after.contains("deleted") && !path.ends_with(" (deleted)")).then_some(path)
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("paths are text here")
}

fn decode_hex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        other => panic!("{} isn't a hexadecimal digit", other as char),
    };
    let text = text.as_bytes();
    let mut bytes = Vec::with_capacity(text.len() / 4);
    let mut index = 0;
    while index < text.len() {
        if text[index..].starts_with(b"\\x") {
            bytes.push(digit(text[index + 2]) << 4 | digit(text[index + 3]));
            index += 4;
        } else {
            bytes.push(text[index]);
            index += 1;
        }
    }
    bytes
}

#[test]
fn an_interrupted_call_is_parsed_as_one_call() {
    let trace = "\
7 1.5 pwrite64(5<\\x2f\\x61>, \"\\x68\\x69\", 2, 4096 <unfinished ...>
8 1.6 fsync(6<\\x2f\\x62>) = 0
7 1.7 <... pwrite64 resumed>) = 2
8 1.8 unlink(\"\\x2f\\x63\") = -1 ENOENT (No such file or directory)
8 1.9 openat(AT_FDCWD<\\x2f>, \"\\x64\", O_RDWR|O_CREAT, 0600 <unfinished ...>
8 2.0 <... openat resumed>) = 9<\\x2f\\x64>
";
    let calls = calls(trace);
    let call_lines: Vec<_> = calls.iter().map(|call| (call.name, call.began, call.ended)).collect();
    assert_eq!(call_lines, [("fsync", 1, 1), ("pwrite64", 0, 2), ("openat", 4, 5)]);
    assert_eq!((calls[1].bytes(1), calls[1].number(3)), (b"hi".to_vec(), 4096));
    assert_eq!((calls[1].descriptor(0), calls[2].opened()), (Some("/a".into()), Some("/d".into())));
    assert!(calls[2].has(2, "O_CREAT") && !calls[2].has(2, "O_TRUNC"));
}
