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
    let mut paths = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        index = read_path(&tokens, index, &[], &mut paths);
    }
    paths
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
    paths: &mut Vec<NamedPath<'a>>,
) -> usize {
    let token = |index: usize| tokens.get(index).map(|(_, token)| *token);
    let line = tokens[start].0;
    let mut segments = prefix.to_vec();
    let mut index = start;
    match token(index) {
        Some(SourceToken::Word(word)) => segments.push(word),
        Some(SourceToken::Other(b'*')) if !prefix.is_empty() => segments.push("*"),
        _ => return start + 1,
    }
    index += 1;
    while token(index) == Some(SourceToken::Separator) {
        match token(index + 1) {
            Some(SourceToken::Word(word)) => segments.push(word),
            Some(SourceToken::Other(b'*')) => segments.push("*"),
            Some(SourceToken::Other(b'{')) => return read_group(tokens, index + 2, &segments, paths),
            _ => break,
        }
        index += 2;
    }
    paths.push(NamedPath { line, path: segments });
    index
}

/// Reads the paths of a group up to its closing brace.
fn read_group<'a>(
    tokens: &[(usize, SourceToken<'a>)],
    mut index: usize,
    prefix: &[&'a str],
    paths: &mut Vec<NamedPath<'a>>,
) -> usize {
    while let Some((_, token)) = tokens.get(index) {
        if *token == SourceToken::Other(b'}') {
            return index + 1;
        }
        index = read_path(tokens, index, prefix, paths);
    }
    index
}

fn tokens(source: &str) -> Vec<(usize, SourceToken<'_>)> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::new();
    let (mut position, mut line) = (0, 1);
    while let Some(&byte) = bytes.get(position) {
        let end = match byte {
            b'/' if bytes[position..].starts_with(b"//") => find(bytes, position, b"\n"),
            b'/' if bytes[position..].starts_with(b"/*") => end_of_comment(bytes, position),
            b'"' => end_of_string(bytes, position),
            b'\'' => end_of_character(source, position),
            b':' if bytes[position..].starts_with(b"::") => {
                tokens.push((line, SourceToken::Separator));
                position + 2
            }
            _ if is_word(byte) => {
                let mut end = end_of_word(bytes, position);
                let word = &source[position..end];
                if let Some(end) = end_of_raw_string(bytes, word, end) {
                    end
                } else {
                    if word == "r" && bytes.get(end) == Some(&b'#') {
                        // A raw identifier names the same thing without `r#`.
                        position = end + 1;
                        end = end_of_word(bytes, position);
                    }
                    let is_macro_call = bytes.get(end) == Some(&b'!') && bytes.get(end + 1) != Some(&b'=');
                    end += usize::from(is_macro_call);
                    tokens.push((line, SourceToken::Word(&source[position..end])));
                    end
                }
            }
            _ => {
                if !byte.is_ascii_whitespace() {
                    tokens.push((line, SourceToken::Other(byte)));
                }
                position + 1
            }
        };
        line += bytes[position..end].iter().filter(|&&byte| byte == b'\n').count();
        position = end;
    }
    tokens
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn end_of_word(bytes: &[u8], start: usize) -> usize {
    start + bytes[start..].iter().take_while(|&&byte| is_word(byte)).count()
}

/// The position of `pattern` at or after `start`, or the end.
fn find(bytes: &[u8], start: usize, pattern: &[u8]) -> usize {
    bytes[start..]
        .windows(pattern.len())
        .position(|window| window == pattern)
        .map_or(bytes.len(), |offset| start + offset)
}

fn end_of_comment(bytes: &[u8], start: usize) -> usize {
    let (mut position, mut depth) = (start, 0);
    while position < bytes.len() {
        if bytes[position..].starts_with(b"/*") {
            (position, depth) = (position + 2, depth + 1);
        } else if bytes[position..].starts_with(b"*/") {
            (position, depth) = (position + 2, depth - 1);
            if depth == 0 {
                return position;
            }
        } else {
            position += 1;
        }
    }
    position
}

fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut position = start + 1;
    while let Some(&byte) = bytes.get(position) {
        match byte {
            b'"' => return position + 1,
            b'\\' => position += 2,
            _ => position += 1,
        }
    }
    bytes.len()
}

/// The end of a raw string whose prefix `word` (`r`, `br` or `cr`) ends at `prefix_end`; `None` if no raw string begins
/// there.
fn end_of_raw_string(bytes: &[u8], word: &str, prefix_end: usize) -> Option<usize> {
    let hashes = bytes[prefix_end..].iter().take_while(|&&byte| byte == b'#').count();
    let is_raw = matches!(word, "r" | "br" | "cr") && bytes.get(prefix_end + hashes) == Some(&b'"');
    let close = [&b"\""[..], &b"#".repeat(hashes)].concat();
    is_raw.then(|| (find(bytes, prefix_end + hashes + 1, &close) + close.len()).min(bytes.len()))
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
    fn lifetimes_are_not_read_as_literals() {
        assert_eq!(paths("fn f<'a>(x: &'a str, y: &'static std::fs::File)").last().unwrap(), "std::fs::File");
    }

    #[test]
    fn macro_calls_raw_identifiers_and_paths_over_several_lines_are_found() {
        assert_eq!(paths("todo!()"), ["todo!"]);
        assert_eq!(paths("a != b"), ["a", "b"]);
        assert_eq!(paths("r#std::r#fs"), ["std::fs"]);
        assert_eq!(paths("std ::\n  process // why\n ::Command"), ["std::process::Command"]);
    }

    #[test]
    fn an_incomplete_source_is_read_to_its_end() {
        for source in ["\"", "'", "'\\", "r#\"", "/*", "use a::{", "a::", "\"\\"] {
            named_paths(source);
        }
    }
}
