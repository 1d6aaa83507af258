//! The flexible encoding of records: compact lengths, tagged fields. Every length is bounded by the bytes that are left.

use bytes::Bytes;
use protocol_compat::ids::Uuid;

/// Why bytes are no record of this release.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecordError {
    /// The bytes end too early.
    #[error("the record is cut off")]
    Short,
    /// A length or number that cannot be.
    #[error("{0}")]
    Malformed(&'static str),
    /// A record type of another release.
    #[error("unknown record type {0}")]
    UnknownType(i16),
    /// A record version of another release.
    #[error("unknown version {version} of record type {api_key}")]
    UnknownVersion {
        /// The type.
        api_key: i16,
        /// The version.
        version: i16,
    },
    /// A tagged field of another release: leaving it out would lose metadata.
    #[error("unknown tagged field {0}")]
    UnknownTag(u32),
}

type Result<T, E = RecordError> = std::result::Result<T, E>;

/// Reads from a slice.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(RecordError::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(RecordError::Short)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn int8(&mut self) -> Result<i8> {
        Ok(i8::from_be_bytes(self.fixed()?))
    }

    pub(crate) fn int16(&mut self) -> Result<i16> {
        Ok(i16::from_be_bytes(self.fixed()?))
    }

    pub(crate) fn uint16(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.fixed()?))
    }

    pub(crate) fn int32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.fixed()?))
    }

    pub(crate) fn int64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.fixed()?))
    }

    pub(crate) fn float64(&mut self) -> Result<f64> {
        Ok(f64::from_be_bytes(self.fixed()?))
    }

    pub(crate) fn bool(&mut self) -> Result<bool> {
        Ok(self.int8()? != 0)
    }

    pub(crate) fn uuid(&mut self) -> Result<Uuid> {
        Ok(Uuid::from_bytes(self.fixed()?))
    }

    /// At most 32 bits in at most five bytes.
    pub(crate) fn uvarint(&mut self) -> Result<u32> {
        let mut value = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.fixed::<1>()?[0];
            let bits = u32::from(byte & 0x7f);
            if shift == 28 && bits > 0xf {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(RecordError::Malformed("a varint is too long"))
    }

    /// A compact length; `None` is null.
    fn length(&mut self) -> Result<Option<usize>> {
        let Some(length) = self.uvarint()?.checked_sub(1) else { return Ok(None) };
        let length = usize::try_from(length).map_err(|_| RecordError::Short)?;
        // An element has at least one byte, so more elements than bytes are a lie.
        if length > self.rest.len() {
            return Err(RecordError::Short);
        }
        Ok(Some(length))
    }

    pub(crate) fn nullable_string(&mut self) -> Result<Option<String>> {
        let Some(length) = self.length()? else { return Ok(None) };
        let bytes = self.take(length)?.to_vec();
        String::from_utf8(bytes)
            .map(Some)
            .map_err(|_| RecordError::Malformed("a text is not UTF-8"))
    }

    pub(crate) fn string(&mut self) -> Result<String> {
        self.nullable_string()?.ok_or(RecordError::Malformed("a text is null"))
    }

    pub(crate) fn bytes(&mut self) -> Result<Bytes> {
        let length = self.length()?.ok_or(RecordError::Malformed("bytes are null"))?;
        Ok(Bytes::copy_from_slice(self.take(length)?))
    }

    pub(crate) fn nullable_array<T>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Option<Vec<T>>> {
        let Some(length) = self.length()? else { return Ok(None) };
        let mut elements = Vec::new();
        for _ in 0..length {
            elements.push(element(self)?);
        }
        Ok(Some(elements))
    }

    pub(crate) fn array<T>(
        &mut self,
        element: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.nullable_array(element)?.ok_or(RecordError::Malformed("an array is null"))
    }

    /// Tagged fields; `field` says whether it knows the tag.
    pub(crate) fn tags(
        &mut self,
        mut field: impl FnMut(u32, &mut Reader<'_>) -> Result<bool>,
    ) -> Result<()> {
        for _ in 0..self.uvarint()? {
            let tag = self.uvarint()?;
            let length = usize::try_from(self.uvarint()?).map_err(|_| RecordError::Short)?;
            let mut body = Reader::new(self.take(length)?);
            if !field(tag, &mut body)? {
                return Err(RecordError::UnknownTag(tag));
            }
            if !body.is_empty() {
                return Err(RecordError::Malformed("a tagged field is longer than its content"));
            }
        }
        Ok(())
    }
}

/// Writes into a vector.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

/// Tagged fields on their way into a [`Writer`], in order of their tags.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tags {
    count: u32,
    body: Writer,
}

impl Tags {
    pub(crate) fn put(&mut self, tag: u32, content: impl FnOnce(&mut Writer)) {
        let mut field = Writer::default();
        content(&mut field);
        self.count += 1;
        self.body.uvarint(tag);
        self.body.uvarint(size(field.bytes.len()));
        self.body.bytes.append(&mut field.bytes);
    }
}

fn size(length: usize) -> u32 {
    u32::try_from(length).expect("a record is far smaller than 4 GiB")
}

impl Writer {
    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn int8(&mut self, value: i8) {
        self.bytes.extend(value.to_be_bytes());
    }

    pub(crate) fn int16(&mut self, value: i16) {
        self.bytes.extend(value.to_be_bytes());
    }

    pub(crate) fn uint16(&mut self, value: u16) {
        self.bytes.extend(value.to_be_bytes());
    }

    pub(crate) fn int32(&mut self, value: i32) {
        self.bytes.extend(value.to_be_bytes());
    }

    pub(crate) fn int64(&mut self, value: i64) {
        self.bytes.extend(value.to_be_bytes());
    }

    pub(crate) fn float64(&mut self, value: f64) {
        self.bytes.extend(value.to_be_bytes());
    }

    pub(crate) fn bool(&mut self, value: bool) {
        self.bytes.push(u8::from(value));
    }

    pub(crate) fn uuid(&mut self, value: Uuid) {
        self.bytes.extend(value.as_bytes());
    }

    pub(crate) fn uvarint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push((value & 0x7f) as u8);
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn length(&mut self, length: Option<usize>) {
        self.uvarint(length.map_or(0, |length| size(length) + 1));
    }

    pub(crate) fn nullable_string(&mut self, value: Option<&str>) {
        self.length(value.map(str::len));
        self.raw(value.unwrap_or_default().as_bytes());
    }

    pub(crate) fn string(&mut self, value: &str) {
        self.nullable_string(Some(value));
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) {
        self.length(Some(value.len()));
        self.raw(value);
    }

    pub(crate) fn nullable_array<T>(
        &mut self,
        elements: Option<&[T]>,
        mut write: impl FnMut(&mut Self, &T),
    ) {
        self.length(elements.map(<[T]>::len));
        for element in elements.unwrap_or_default() {
            write(self, element);
        }
    }

    pub(crate) fn array<T>(&mut self, elements: &[T], write: impl FnMut(&mut Self, &T)) {
        self.nullable_array(Some(elements), write);
    }

    pub(crate) fn tags(&mut self, mut tags: Tags) {
        self.uvarint(tags.count);
        self.bytes.append(&mut tags.body.bytes);
    }
}
