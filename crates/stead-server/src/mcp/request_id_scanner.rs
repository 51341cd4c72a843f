//! Finds the id of a request that is too long to be stored, while its bytes are read, so that it can be answered.

use rmcp::model::RequestId;

/// The longest id that is answered, in bytes of its JSON.
const MAX_ID_BYTES: usize = 128;

/// Looks for the `id` of the outermost object.
#[derive(Debug, Default)]
pub(super) struct RequestIdScanner {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The last string in the outermost object: a key, if a colon follows.
    last_string: Vec<u8>,
    /// Whether the value that follows is the id.
    at_id_value: bool,
    id: Vec<u8>,
}

impl RequestIdScanner {
    /// Scans more bytes of the line.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.step(byte);
        }
    }

    fn step(&mut self, byte: u8) {
        let (is_outermost, was_in_string) = (self.depth == 1, self.in_string);
        if self.in_string {
            (self.in_string, self.escaped) = match byte {
                _ if self.escaped => (true, false),
                b'\\' => (true, true),
                b'"' => (false, false),
                _ => (true, false),
            };
        } else {
            match byte {
                b'"' => {
                    self.in_string = true;
                    self.last_string.clear();
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        if !is_outermost {
            return;
        }
        match byte {
            b':' if !was_in_string => self.at_id_value = self.id.is_empty() && self.last_string == b"\"id\"",
            b',' | b'}' if !was_in_string => self.at_id_value = false,
            _ if self.at_id_value && self.id.len() <= MAX_ID_BYTES => self.id.push(byte),
            _ => {}
        }
        if (was_in_string || self.in_string) && self.last_string.len() <= MAX_ID_BYTES {
            self.last_string.push(byte);
        }
    }

    /// The id, if a valid one was found.
    pub(super) fn finish(self) -> Option<RequestId> {
        let id = (!self.id.is_empty() && self.id.len() <= MAX_ID_BYTES).then_some(self.id)?;
        serde_json::from_slice(&id).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(text: &str) -> Option<RequestId> {
        let mut scanner = RequestIdScanner::default();
        // In pieces that cut through everything.
        for piece in text.as_bytes().chunks(3) {
            scanner.feed(piece);
        }
        scanner.finish()
    }

    #[test]
    fn the_id_is_found_anywhere_in_the_outermost_object() {
        let number = Some(RequestId::Number(7));
        assert_eq!(scan(r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{}}"#), number);
        assert_eq!(scan(r#"{"method":"x","params":{"id":1,"a":["\"id\":2","}"]},"id" : 7 }"#), number);
        assert_eq!(scan(r#"{"params":{"text":"\\\",\"id\":3"},"id":7,"id":8}"#), number);
        assert_eq!(scan(r#"{"id":"a\"b,c","method":"x"}"#), Some(RequestId::String("a\"b,c".into())));
    }

    #[test]
    fn a_line_without_a_valid_id_has_none() {
        for text in [
            "",
            "garbage",
            "[7]",
            r#"{"params":{"id":7}}"#,
            r#"{"id":{}}"#,
            r#"{"id":null}"#,
            r#"{"x":"id"}"#,
        ] {
            assert_eq!(scan(text), None, "{text}");
        }
        assert_eq!(scan(&format!(r#"{{"id":"{}"}}"#, "x".repeat(1_000))), None);
    }
}
