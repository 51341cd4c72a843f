//! Finds the paths and macro calls that a Rust source names, outside comments and literals.

/// A path that a source names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NamedPath<'a> {
    /// The line, counted from 1.
    pub line: usize,
    /// The path's segments; `*` for a glob import, and the last one ends in `!` in a macro call.
    pub path: Vec<&'a str>,
}

/// Every path in a source, with `use` trees spelled out: `use std::{fs, io::Read}` names `std::fs` and `std::io::Read`.
pub(super) fn named_paths(source: &str) -> Vec<NamedPath<'_>> {
    let tokens = tokens(source);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        at = read_path(&tokens, at, &[], &mut found);
    }
    found
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SourceToken<'a> {
    /// An identifier, or an identifier and the `!` after it.
    Word(&'a str),
    /// `::`
    Separator,
    Other(u8),
}

/// Reads the path that begins at a token, if one does. Returns the index of the token to go on with.
fn read_path<'a>(
    tokens: &[(usize, SourceToken<'a>)],
    start: usize,
    prefix: &[&'a str],
    found: &mut Vec<NamedPath<'a>>,
) -> usize {
    let token = |at: usize| tokens.get(at).map(|(_, token)| *token);
    let line = tokens[start].0;
    let mut segments = prefix.to_vec();
    let mut at = start;
    match token(at) {
        Some(SourceToken::Word(word)) => segments.push(word),
        Some(SourceToken::Other(b'*')) if !prefix.is_empty() => segments.push("*"),
        _ => return start + 1,
    }
    at += 1;
    while token(at) == Some(SourceToken::Separator) {
        match token(at + 1) {
            Some(SourceToken::Word(word)) => segments.push(word),
            Some(SourceToken::Other(b'*')) => segments.push("*"),
            Some(SourceToken::Other(b'{')) => return read_group(tokens, at + 2, &segments, found),
            _ => break,
        }
        at += 2;
    }
    found.push(NamedPath { line, path: segments });
    at
}

/// Reads the paths of a group up to its closing brace.
fn read_group<'a>(
    tokens: &[(usize, SourceToken<'a>)],
    mut at: usize,
    prefix: &[&'a str],
    found: &mut Vec<NamedPath<'a>>,
) -> usize {
    while let Some((_, token)) = tokens.get(at) {
        if *token == SourceToken::Other(b'}') {
            return at + 1;
        }
        at = read_path(tokens, at, prefix, found);
    }
    at
}

fn tokens(source: &str) -> Vec<(usize, SourceToken<'_>)> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(&byte) = bytes.get(at) {
        let end = match byte {
            b'/' if bytes[at..].starts_with(b"//") => find(bytes, at, b"\n"),
            b'/' if bytes[at..].starts_with(b"/*") => end_of_comment(bytes, at),
            b'"' => end_of_string(bytes, at),
            b'\'' => end_of_character(source, at),
            b':' if bytes[at..].starts_with(b"::") => {
                tokens.push((line, SourceToken::Separator));
                at + 2
            }
            _ if is_word(byte) => {
                let mut end = end_of_word(bytes, at);
                let word = &source[at..end];
                if let Some(end) = end_of_raw_string(bytes, word, end) {
                    end
                } else {
                    if word == "r" && bytes.get(end) == Some(&b'#') {
                        // A raw identifier names the same thing without `r#`.
                        at = end + 1;
                        end = end_of_word(bytes, at);
                    }
                    let calls = bytes.get(end) == Some(&b'!') && bytes.get(end + 1) != Some(&b'=');
                    end += usize::from(calls);
                    tokens.push((line, SourceToken::Word(&source[at..end])));
                    end
                }
            }
            _ => {
                if !byte.is_ascii_whitespace() {
                    tokens.push((line, SourceToken::Other(byte)));
                }
                at + 1
            }
        };
        line += bytes[at..end].iter().filter(|&&byte| byte == b'\n').count();
        at = end;
    }
    tokens
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn end_of_word(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..].iter().take_while(|&&byte| is_word(byte)).count()
}

/// The position of `wanted` at or after `at`, or the end.
fn find(bytes: &[u8], at: usize, wanted: &[u8]) -> usize {
    bytes[at..]
        .windows(wanted.len())
        .position(|window| window == wanted)
        .map_or(bytes.len(), |found| at + found)
}

fn end_of_comment(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            (at, depth) = (at + 2, depth + 1);
        } else if bytes[at..].starts_with(b"*/") {
            (at, depth) = (at + 2, depth - 1);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The end of a raw string whose prefix `word` (`r`, `br` or `cr`) ends at `at`; `None` if no raw string begins there.
fn end_of_raw_string(bytes: &[u8], word: &str, at: usize) -> Option<usize> {
    let hashes = bytes[at..].iter().take_while(|&&byte| byte == b'#').count();
    let is_raw = matches!(word, "r" | "br" | "cr") && bytes.get(at + hashes) == Some(&b'"');
    let close = [&b"\""[..], &b"#".repeat(hashes)].concat();
    is_raw.then(|| (find(bytes, at + hashes + 1, &close) + close.len()).min(bytes.len()))
}

/// The end of a character literal. If this is the quote of a lifetime, the position after the quote.
fn end_of_character(source: &str, start: usize) -> usize {
    let mut characters = source[start + 1..].char_indices();
    match (characters.next(), characters.next()) {
        // `'\''` and `'\\'`: the escaped character can't be the closing quote.
        (Some((_, '\\')), Some(_)) => (find(source.as_bytes(), start + 3, b"'") + 1).min(source.len()),
        (Some(_), Some((offset, '\''))) => start + 1 + offset + 1,
        _ => start + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(source: &str) -> Vec<String> {
        named_paths(source).into_iter().map(|named| named.path.join("::")).collect()
    }

    #[test]
    fn use_trees_are_spelled_out() {
        assert_eq!(
            paths("use std::{fs, io::{self, Read}, net::*};"),
            ["use", "std::fs", "std::io::self", "std::io::Read", "std::net::*"]
        );
    }

    #[test]
    fn comments_and_literals_name_nothing() {
        let source = r####"
            // std::fs
            /* std::fs /* nested */ std::fs */
            "std::fs \" std::fs" b"std::fs" r#"std::fs " std::fs"# r"std::fs" '"' '\'' '\\' b'"'
            std::io
        "####;
        assert_eq!(paths(source), ["b", "b", "std::io"]);
        assert_eq!(named_paths(source).last().map(|named| named.line), Some(5));
    }

    #[test]
    fn lifetimes_are_no_literals() {
        assert_eq!(paths("fn f<'a>(x: &'a str, y: &'static std::fs::File)").last().unwrap(), "std::fs::File");
    }

    #[test]
    fn macro_calls_raw_names_and_split_lines_are_seen() {
        assert_eq!(paths("todo!()"), ["todo!"]);
        assert_eq!(paths("a != b"), ["a", "b"]);
        assert_eq!(paths("r#std::r#fs"), ["std::fs"]);
        assert_eq!(paths("std ::\n  process // why\n ::Command"), ["std::process::Command"]);
    }

    #[test]
    fn a_source_that_ends_in_the_middle_is_read_to_its_end() {
        for source in ["\"", "'", "'\\", "r#\"", "/*", "use a::{", "a::", "\"\\"] {
            named_paths(source);
        }
    }
}
