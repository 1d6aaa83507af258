//! Java's properties files, as `java.util.Properties` reads them, with the line of each entry.
//!
//! Bytes are ISO-8859-1, `\uXXXX` gives other characters; `#` and `!` begin comments; `=`, `:` or blanks end a name; a
//! backslash at the end of a line continues it, without the blanks that the next line begins with; the last of a repeated
//! name wins.

/// One entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Property {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The line where it begins, from 1.
    pub line: usize,
}

/// A `\u` that four hexadecimal digits do not follow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadEscape {
    /// The line where the entry begins, from 1.
    pub line: usize,
}

/// Reads a file's bytes; entries in their order, repeated ones too.
///
/// # Errors
/// A malformed `\u` escape, which Java refuses as well.
pub fn parse(bytes: &[u8]) -> Result<Vec<Property>, BadEscape> {
    logical_lines(bytes)
        .into_iter()
        .map(|(line, text)| {
            let (name, value) = split(&text);
            Ok(Property {
                name: unescape(name).ok_or(BadEscape { line })?,
                value: unescape(value).ok_or(BadEscape { line })?,
                line,
            })
        })
        .collect()
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

/// Lines with continuations joined, comments and empty ones left out, escapes still in.
fn logical_lines(bytes: &[u8]) -> Vec<(usize, String)> {
    let text: String = bytes.iter().map(|&byte| char::from(byte)).collect();
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (at, natural) in text.split('\n').enumerate() {
        let part = natural.trim_start_matches(is_blank);
        let (line, mut whole) = match open.take() {
            Some(open) => open,
            None if part.is_empty() || part.starts_with(['#', '!']) => continue,
            None => (at + 1, String::new()),
        };
        let backslashes = part.chars().rev().take_while(|&c| c == '\\').count();
        if backslashes % 2 == 1 {
            whole.push_str(&part[..part.len() - 1]);
            open = Some((line, whole));
        } else {
            whole.push_str(part);
            found.push((line, whole));
        }
    }
    found.extend(open);
    found.retain(|(_, text)| !text.is_empty());
    found
}

/// The name and the value of a line: separated by `=` or `:` with blanks around, or by blanks alone.
fn split(line: &str) -> (&str, &str) {
    let mut is_escaped = false;
    let end = line
        .char_indices()
        .find(|&(_, c)| {
            let ends = !is_escaped && (c == '=' || c == ':' || is_blank(c));
            is_escaped = c == '\\' && !is_escaped;
            ends
        })
        .map_or(line.len(), |(at, _)| at);
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start_matches(is_blank);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (name, rest.trim_start_matches(is_blank))
}

fn unescape(text: &str) -> Option<String> {
    let mut plain: Vec<u16> = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let c = match c {
            '\\' => match chars.next() {
                None => break,
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some('u') => {
                    let digits = chars.as_str().get(..4)?;
                    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                        return None;
                    }
                    plain.push(u16::from_str_radix(digits, 16).ok()?);
                    chars = chars.as_str()[4..].chars();
                    continue;
                }
                Some(other) => other,
            },
            other => other,
        };
        plain.extend_from_slice(c.encode_utf16(&mut [0; 2]));
    }
    Some(String::from_utf16_lossy(&plain))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(text: &str) -> Vec<(String, String, usize)> {
        parse(text.as_bytes())
            .expect("no bad escape")
            .into_iter()
            .map(|property| (property.name, property.value, property.line))
            .collect()
    }

    // Each case was read by java.util.Properties first.
    #[test]
    #[allow(clippy::type_complexity, reason = "a table of cases")]
    fn lines_are_read_as_java_reads_them() {
        let cases: &[(&str, &[(&str, &str, usize)])] = &[
            ("a=b", &[("a", "b", 1)]),
            ("# c\n! d\n\n  a = b ", &[("a", "b ", 4)]),
            ("a:b\nc d\ne\tf", &[("a", "b", 1), ("c", "d", 2), ("e", "f", 3)]),
            ("a= b\\\n   c\nd=e", &[("a", "bc", 1), ("d", "e", 3)]),
            ("a=b\\\\\nc=d", &[("a", "b\\", 1), ("c", "d", 2)]),
            ("a\\=b=c", &[("a=b", "c", 1)]),
            ("a\\ b c", &[("a b", "c", 1)]),
            ("a==b", &[("a", "=b", 1)]),
            ("a = : b", &[("a", ": b", 1)]),
            ("a", &[("a", "", 1)]),
            ("a=\\u00e4\\t\\q", &[("a", "ä\tq", 1)]),
            ("a=b\r\nc=d\re=f", &[("a", "b", 1), ("c", "d", 2), ("e", "f", 3)]),
            ("a=1\\\n#2\nb=3", &[("a", "1#2", 1), ("b", "3", 3)]),
            ("a=\\\n\\\nb", &[("a", "b", 1)]),
            ("a=1\\", &[("a", "1", 1)]),
            ("a=x\\\n\nb=2", &[("a", "x", 1), ("b", "2", 3)]),
        ];
        for (text, expected) in cases {
            let expected: Vec<_> = expected
                .iter()
                .map(|(name, value, line)| ((*name).to_owned(), (*value).to_owned(), *line))
                .collect();
            assert_eq!(pairs(text), expected, "{text:?}");
        }
    }

    #[test]
    fn bytes_are_latin_1() {
        let found = parse(b"a=\xe4").expect("fine");
        assert_eq!(found[0].value, "ä");
    }

    #[test]
    fn a_broken_escape_is_refused() {
        assert_eq!(parse(b"x=1\na=\\u12g4"), Err(BadEscape { line: 2 }));
        assert_eq!(parse(b"a=\\u12"), Err(BadEscape { line: 1 }));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn what_is_escaped_comes_back(name in "[a-z=: ]{1,9}", value in "[ -~]{0,20}") {
            let escape = |text: &str| {
                let mut escaped = String::new();
                for c in text.chars() {
                    if matches!(c, '\\' | '=' | ':' | ' ' | '#' | '!') {
                        escaped.push('\\');
                    }
                    escaped.push(c);
                }
                escaped
            };
            let line = format!("{}={}", escape(&name), escape(&value));
            prop_assert_eq!(pairs(&line), vec![(name, value, 1)]);
        }
    }
}
