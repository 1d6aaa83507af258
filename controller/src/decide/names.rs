//! Names of topics.

/// Longest name: `name-2147483647.<uuid>-delete` must fit into a file name.
const NAME_LENGTH_MAX: usize = 249;

/// Checks a topic name.
///
/// # Errors
/// Kafka's text for the answer.
pub fn validate(name: &str) -> Result<(), String> {
    let problem = match name {
        "" => "the empty string is not allowed".to_owned(),
        "." | ".." => format!("'{name}' is not allowed"),
        _ if name.len() > NAME_LENGTH_MAX => {
            format!(
                "the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
            )
        }
        _ if !name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')) =>
        {
            format!(
                "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
            )
        }
        _ => return Ok(()),
    };
    Err(format!("Topic name is invalid: {problem}"))
}

/// The name as metrics show it: `.` and `_` are one there, so two topics must not differ in them only.
/// `None` when the name has neither.
#[must_use]
pub fn collision_key(name: &str) -> Option<String> {
    name.contains(['.', '_']).then(|| name.replace('.', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of Apache Kafka 4.4.0.
    #[test]
    fn names_are_refused_in_kafkas_words() {
        let long = "x".repeat(250);
        for (name, text) in [
            ("", "Topic name is invalid: the empty string is not allowed".to_owned()),
            (".", "Topic name is invalid: '.' is not allowed".to_owned()),
            ("..", "Topic name is invalid: '..' is not allowed".to_owned()),
            (
                "sp ace",
                "Topic name is invalid: 'sp ace' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'".to_owned(),
            ),
            (
                long.as_str(),
                format!("Topic name is invalid: the length of '{long}' is longer than the max allowed length 249"),
            ),
        ] {
            assert_eq!(validate(name), Err(text));
        }
        assert_eq!(validate("a.b_c-D9"), Ok(()));
        assert_eq!(collision_key("a.b_c"), Some("a_b_c".to_owned()));
        assert_eq!(collision_key("a-b"), None);
    }
}
