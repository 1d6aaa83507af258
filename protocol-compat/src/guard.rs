//! Looks through the body of a request before the kafka-protocol crate sees it.
//!
//! The crate believes every count: four bytes make it ask for gigabytes, and the process aborts. The guard walks the body by
//! its schema (`schema/requests.tsv`) without allocating, and passes only a body in which every length and count fits into
//! the bytes that are left and nothing is left over. An element of an array may take a byte or two of the body and a hundred
//! in memory (up to 40 bytes for each byte of the frame were measured), so the elements of one request are bounded, too.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::api_table;

/// Elements and unknown tags that one request may have: some tens of megabytes when decoded, and more than any cluster has
/// partitions, which is what the largest requests name.
const ELEMENTS_MAX: usize = 500_000;

/// Size of an id; no other field has it.
const UUID_BYTES: usize = 16;

/// A body does not follow its schema.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: {what}")]
pub struct GuardError {
    /// The field, by its path.
    pub field: &'static str,
    /// What is wrong.
    pub what: &'static str,
}

/// An inclusive range of versions, or none.
#[derive(Clone, Copy, Debug)]
struct Versions {
    min: i16,
    max: i16,
}

impl Versions {
    fn parse(text: &str) -> Self {
        let number = |text: &str| text.parse().expect("the schema has numbers");
        if text.is_empty() {
            return Self { min: 1, max: 0 };
        }
        match text.split_once('-') {
            Some((min, max)) => Self { min: number(min), max: number(max) },
            None => match text.strip_suffix('+') {
                Some(min) => Self { min: number(min), max: i16::MAX },
                None => Self { min: number(text), max: number(text) },
            },
        }
    }

    fn contain(self, version: i16) -> bool {
        (self.min..=self.max).contains(&version)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Fixed(usize),
    Text,
    Bytes,
    Struct,
}

#[derive(Debug)]
struct Field {
    path: &'static str,
    kind: Kind,
    array: bool,
    versions: Versions,
    nullable: Versions,
    fields: Vec<Field>,
}

fn schema() -> &'static BTreeMap<i16, Vec<Field>> {
    static SCHEMA: OnceLock<BTreeMap<i16, Vec<Field>>> = OnceLock::new();
    SCHEMA.get_or_init(|| parse(include_str!("../schema/requests.tsv")))
}

fn parse(table: &'static str) -> BTreeMap<i16, Vec<Field>> {
    let mut schema: BTreeMap<i16, Vec<Field>> = BTreeMap::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let mut columns = line.split('\t');
        let mut next = || columns.next().unwrap_or_default();
        let key = next().parse().expect("the schema has keys");
        let path = next();
        let (name, array) = match next() {
            name if name.starts_with("[]") => (&name[2..], true),
            name => (name, false),
        };
        let kind = match name {
            "bool" | "int8" => Kind::Fixed(1),
            "int16" => Kind::Fixed(2),
            "int32" => Kind::Fixed(4),
            "int64" => Kind::Fixed(8),
            "uuid" => Kind::Fixed(UUID_BYTES),
            "string" => Kind::Text,
            "bytes" => Kind::Bytes,
            _ => Kind::Struct,
        };
        let versions = Versions::parse(next());
        let nullable = Versions::parse(next());
        let field = Field { path, kind, array, versions, nullable, fields: Vec::new() };
        let mut fields = schema.entry(key).or_default();
        for _ in 0..path.matches('.').count() {
            fields = &mut fields.last_mut().expect("a parent stands before its fields").fields;
        }
        fields.push(field);
    }
    schema
}

/// Looks through a body.
///
/// # Errors
/// The first field that does not follow the schema.
pub fn check(api_key: i16, version: i16, body: &[u8]) -> Result<(), GuardError> {
    walk(api_key, version, body, None).map(drop)
}

/// Where the topic ids of a body stand.
///
/// # Errors
/// As [`check`].
pub(crate) fn uuids(api_key: i16, version: i16, body: &[u8]) -> Result<Vec<usize>, GuardError> {
    walk(api_key, version, body, Some(Vec::new())).map(Option::unwrap_or_default)
}

fn walk(
    api_key: i16,
    version: i16,
    body: &[u8],
    uuids: Option<Vec<usize>>,
) -> Result<Option<Vec<usize>>, GuardError> {
    let flexible = api_table::lookup(api_key).is_some_and(|row| row.is_flexible(version));
    let Some(fields) = schema().get(&api_key) else {
        return Err(GuardError { field: "request", what: "of an API without a schema" });
    };
    let mut walk = Walk { body, at: 0, version, flexible, elements: 0, uuids };
    // Bytes after the message are let pass, as Kafka does: librdkafka 2.16 ends Metadata v13 with a field of older versions.
    walk.fields(fields, "request")?;
    Ok(walk.uuids)
}

struct Walk<'a> {
    body: &'a [u8],
    at: usize,
    version: i16,
    flexible: bool,
    elements: usize,
    /// Where ids were seen, if that is asked.
    uuids: Option<Vec<usize>>,
}

impl Walk<'_> {
    /// Charges elements or tags.
    fn charge(&mut self, field: &'static str, count: usize) -> Result<(), GuardError> {
        self.elements = self.elements.saturating_add(count);
        if self.elements > ELEMENTS_MAX {
            return Err(GuardError { field, what: "more elements than one request may have" });
        }
        Ok(())
    }

    fn left(&self) -> usize {
        self.body.len() - self.at
    }

    fn skip(&mut self, field: &'static str, size: usize) -> Result<&[u8], GuardError> {
        if size > self.left() {
            return Err(GuardError { field, what: "the body ends before it does" });
        }
        self.at += size;
        Ok(&self.body[self.at - size..self.at])
    }

    fn uvarint(&mut self, field: &'static str) -> Result<u32, GuardError> {
        let mut value = 0;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.skip(field, 1)?[0];
            if shift == 28 && byte > 0x0f {
                break;
            }
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(GuardError { field, what: "a varint of over 32 bits" })
    }

    /// A length or count; `None` is null.
    fn size(&mut self, field: &'static str, narrow: bool) -> Result<Option<usize>, GuardError> {
        let size = if self.flexible {
            i64::from(self.uvarint(field)?) - 1
        } else if narrow {
            let bytes = self.skip(field, 2)?;
            i64::from(i16::from_be_bytes([bytes[0], bytes[1]]))
        } else {
            let bytes = self.skip(field, 4)?;
            i64::from(i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        };
        match size {
            -1 => Ok(None),
            size => usize::try_from(size)
                .map(Some)
                .map_err(|_| GuardError { field, what: "a negative length" }),
        }
    }

    fn sized(&mut self, field: &Field, narrow: bool) -> Result<Option<usize>, GuardError> {
        let size = self.size(field.path, narrow)?;
        if size.is_none() && !field.nullable.contain(self.version) {
            return Err(GuardError { field: field.path, what: "null where it must not be" });
        }
        Ok(size)
    }

    fn fields(&mut self, fields: &[Field], of: &'static str) -> Result<(), GuardError> {
        let version = self.version;
        for field in fields.iter().filter(|field| field.versions.contain(version)) {
            self.field(field)?;
        }
        self.tags(of)
    }

    fn field(&mut self, field: &Field) -> Result<(), GuardError> {
        if !field.array {
            return self.value(field);
        }
        let Some(count) = self.sized(field, false)? else { return Ok(()) };
        if count > self.left() {
            return Err(GuardError {
                field: field.path,
                what: "more elements than bytes are left",
            });
        }
        self.charge(field.path, count)?;
        for _ in 0..count {
            let before = self.at;
            self.element(field)?;
            if self.at == before {
                return Err(GuardError { field: field.path, what: "elements without bytes" });
            }
        }
        Ok(())
    }

    fn element(&mut self, field: &Field) -> Result<(), GuardError> {
        match field.kind {
            Kind::Text => {
                let size = self.size(field.path, true)?;
                let size = size.ok_or(GuardError { field: field.path, what: "a null element" })?;
                self.text(field.path, size)
            }
            Kind::Struct => self.fields(&field.fields, field.path),
            Kind::Fixed(size) => self.skip(field.path, size).map(drop),
            Kind::Bytes => {
                let size = self.size(field.path, false)?.unwrap_or(0);
                self.skip(field.path, size).map(drop)
            }
        }
    }

    fn value(&mut self, field: &Field) -> Result<(), GuardError> {
        match field.kind {
            Kind::Fixed(size) => {
                if size == UUID_BYTES
                    && let Some(uuids) = &mut self.uuids
                {
                    uuids.push(self.at);
                }
                self.skip(field.path, size).map(drop)
            }
            Kind::Text => match self.sized(field, true)? {
                Some(size) => self.text(field.path, size),
                None => Ok(()),
            },
            Kind::Bytes => {
                let size = self.sized(field, false)?.unwrap_or(0);
                self.skip(field.path, size).map(drop)
            }
            // A struct that may be null has a byte in front that says so.
            Kind::Struct if field.nullable.contain(self.version) => {
                match self.skip(field.path, 1)?[0].cast_signed() {
                    -1 => Ok(()),
                    _ => self.fields(&field.fields, field.path),
                }
            }
            Kind::Struct => self.fields(&field.fields, field.path),
        }
    }

    fn text(&mut self, field: &'static str, size: usize) -> Result<(), GuardError> {
        if size > 0x7fff {
            return Err(GuardError { field, what: "a text of over 32767 bytes" });
        }
        match std::str::from_utf8(self.skip(field, size)?) {
            Ok(_) => Ok(()),
            Err(_) => Err(GuardError { field, what: "a text that is not UTF-8" }),
        }
    }

    /// Tagged fields: none is known in these requests, so they are only stepped over. Their tags must rise.
    fn tags(&mut self, of: &'static str) -> Result<(), GuardError> {
        if !self.flexible {
            return Ok(());
        }
        let mut last = None;
        for _ in 0..self.uvarint(of)? {
            self.charge(of, 1)?;
            let tag = self.uvarint(of)?;
            if last.is_some_and(|last| tag <= last) {
                return Err(GuardError { field: of, what: "tags that do not rise" });
            }
            last = Some(tag);
            let size = usize::try_from(self.uvarint(of)?).unwrap_or(usize::MAX);
            self.skip(of, size)?;
        }
        Ok(())
    }
}
