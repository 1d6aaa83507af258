//! Reading and writing the fields of the hot messages.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::protocol::StrBytes;

use crate::hot::{EncodeError, WireError};
use crate::ids::Uuid;

/// A position in a body. Everything that it gives is a slice of the body or a number.
#[derive(Debug)]
pub(super) struct Reader {
    body: Bytes,
    at: usize,
    flexible: bool,
}

impl Reader {
    pub(super) fn new(body: Bytes, flexible: bool) -> Self {
        Self { body, at: 0, flexible }
    }

    fn left(&self) -> usize {
        self.body.len() - self.at
    }

    fn take(&mut self, field: &'static str, size: usize) -> Result<&[u8], WireError> {
        let left = self.left();
        if size > left {
            return Err(WireError::Short { field, needed: size, left });
        }
        let start = self.at;
        self.at += size;
        Ok(&self.body[start..self.at])
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], WireError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(field, N)?);
        Ok(out)
    }

    pub(super) fn i8(&mut self, field: &'static str) -> Result<i8, WireError> {
        self.array(field).map(i8::from_be_bytes)
    }

    pub(super) fn i16(&mut self, field: &'static str) -> Result<i16, WireError> {
        self.array(field).map(i16::from_be_bytes)
    }

    pub(super) fn i32(&mut self, field: &'static str) -> Result<i32, WireError> {
        self.array(field).map(i32::from_be_bytes)
    }

    pub(super) fn i64(&mut self, field: &'static str) -> Result<i64, WireError> {
        self.array(field).map(i64::from_be_bytes)
    }

    pub(super) fn uuid(&mut self, field: &'static str) -> Result<Uuid, WireError> {
        self.array(field).map(Uuid::from_bytes)
    }

    fn uvarint(&mut self, field: &'static str) -> Result<u32, WireError> {
        let mut value = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array(field)?;
            if shift == 28 && byte > 0x0f {
                break;
            }
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(WireError::Invalid { field, what: "a varint of over 32 bits" })
    }

    /// A length or count: `None` is null.
    fn size(&mut self, field: &'static str, wide: bool) -> Result<Option<usize>, WireError> {
        let size = if self.flexible {
            i64::from(self.uvarint(field)?) - 1
        } else if wide {
            i64::from(self.i32(field)?)
        } else {
            i64::from(self.i16(field)?)
        };
        if size == -1 {
            return Ok(None);
        }
        usize::try_from(size)
            .map(Some)
            .map_err(|_| WireError::Invalid { field, what: "a negative length" })
    }

    pub(super) fn nullable_string(
        &mut self,
        field: &'static str,
    ) -> Result<Option<StrBytes>, WireError> {
        let Some(size) = self.size(field, false)? else { return Ok(None) };
        if size > 0x7fff {
            return Err(WireError::Invalid { field, what: "a text of over 32767 bytes" });
        }
        let start = self.at;
        self.take(field, size)?;
        StrBytes::from_utf8(self.body.slice(start..self.at))
            .map(Some)
            .map_err(|_| WireError::Invalid { field, what: "a text that is not UTF-8" })
    }

    pub(super) fn string(&mut self, field: &'static str) -> Result<StrBytes, WireError> {
        self.nullable_string(field)?
            .ok_or(WireError::Invalid { field, what: "null where it must not be" })
    }

    pub(super) fn records(&mut self, field: &'static str) -> Result<Option<Bytes>, WireError> {
        let Some(size) = self.size(field, true)? else { return Ok(None) };
        let start = self.at;
        self.take(field, size)?;
        Ok(Some(self.body.slice(start..self.at)))
    }

    /// The count of an array whose elements take at least `element_bytes` each.
    pub(super) fn count(
        &mut self,
        field: &'static str,
        element_bytes: usize,
    ) -> Result<usize, WireError> {
        let count = self
            .size(field, true)?
            .ok_or(WireError::Invalid { field, what: "null where it must not be" })?;
        let needed = count.saturating_mul(element_bytes);
        if needed > self.left() {
            return Err(WireError::Short { field, needed, left: self.left() });
        }
        Ok(count)
    }

    /// The tagged fields of a flexible version: `known` reads the value of a tag and says whether it did.
    pub(super) fn tags(
        &mut self,
        field: &'static str,
        mut known: impl FnMut(&mut Self, u32) -> Result<bool, WireError>,
    ) -> Result<(), WireError> {
        if !self.flexible {
            return Ok(());
        }
        let count = self.uvarint(field)?;
        let mut last = None;
        for _ in 0..count {
            let tag = self.uvarint(field)?;
            if last.is_some_and(|last| tag <= last) {
                return Err(WireError::Invalid { field, what: "tags that do not rise" });
            }
            last = Some(tag);
            let size = usize::try_from(self.uvarint(field)?).unwrap_or(usize::MAX);
            if size > self.left() {
                return Err(WireError::Short { field, needed: size, left: self.left() });
            }
            let end = self.at + size;
            if !known(self, tag)? {
                self.at = end;
            }
            if self.at != end {
                return Err(WireError::Invalid { field, what: "a tag of another size" });
            }
        }
        Ok(())
    }

    pub(super) fn no_tags(&mut self, field: &'static str) -> Result<(), WireError> {
        self.tags(field, |_, _| Ok(false))
    }

    pub(super) fn end(&self) -> Result<(), WireError> {
        match self.left() {
            0 => Ok(()),
            left => Err(WireError::Trailing(left)),
        }
    }
}

/// Writes fields in the way of one version.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    pub(super) out: &'a mut BytesMut,
    pub(super) flexible: bool,
}

impl Writer<'_> {
    pub(super) fn uvarint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.put_u8((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.out.put_u8(value as u8);
    }

    /// The count of an array; `None` is null.
    pub(super) fn count(&mut self, count: Option<usize>) -> Result<(), EncodeError> {
        let Some(count) = count else {
            if self.flexible {
                self.out.put_u8(0);
            } else {
                self.out.put_i32(-1);
            }
            return Ok(());
        };
        let count = i32::try_from(count).map_err(|_| EncodeError::TooLarge(count))?;
        if self.flexible {
            self.uvarint(count.cast_unsigned() + 1);
        } else {
            self.out.put_i32(count);
        }
        Ok(())
    }

    pub(super) fn string(&mut self, text: Option<&str>) -> Result<(), EncodeError> {
        let Some(text) = text else {
            if self.flexible {
                self.out.put_u8(0);
            } else {
                self.out.put_i16(-1);
            }
            return Ok(());
        };
        let size = i16::try_from(text.len()).map_err(|_| EncodeError::TextTooLong(text.len()))?;
        if self.flexible {
            self.uvarint(u32::from(size.cast_unsigned()) + 1);
        } else {
            self.out.put_i16(size);
        }
        self.out.put_slice(text.as_bytes());
        Ok(())
    }

    /// The number of tagged fields that follow.
    pub(super) fn tag_count(&mut self, count: u32) {
        if self.flexible {
            self.uvarint(count);
        }
    }

    /// A tagged field whose value is a struct of fixed size, its own empty tags included.
    pub(super) fn tag(&mut self, tag: u32, size: u32) {
        self.uvarint(tag);
        self.uvarint(size);
    }
}
