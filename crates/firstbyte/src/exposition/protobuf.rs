//! Writes and reads Protocol Buffers messages field by field.
//!
//! Three formats need it, each with about a dozen messages that are written only once. So labels and buckets go
//! directly into the bytes to send.

use firstbyte_core::leb128::{put_leb128, take_leb128};

const VARINT: u32 = 0;
const EIGHT_BYTES: u32 = 1;
const LENGTH_DELIMITED: u32 = 2;

/// A message being written. Readers take fields that are not written as zero or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message(Vec<u8>);

impl Message {
    fn key(&mut self, field: u32, wire_type: u32) {
        put_leb128(&mut self.0, u128::from(field << 3 | wire_type));
    }

    /// Types `uint32`, `uint64`, `bool` and enumerations.
    pub(super) fn uint(&mut self, field: u32, value: u64) {
        self.key(field, VARINT);
        put_leb128(&mut self.0, u128::from(value));
    }

    /// Type `int64`.
    pub(super) fn int(&mut self, field: u32, value: i64) {
        self.uint(field, value.cast_unsigned());
    }

    /// Types `sint32` and `sint64`.
    pub(super) fn sint(&mut self, field: u32, value: i64) {
        self.uint(field, zigzag(value));
    }

    /// Types `fixed64` and `sfixed64`.
    pub(super) fn fixed64(&mut self, field: u32, value: u64) {
        self.key(field, EIGHT_BYTES);
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn double(&mut self, field: u32, value: f64) {
        self.fixed64(field, value.to_bits());
    }

    pub(super) fn bytes(&mut self, field: u32, value: &[u8]) {
        self.key(field, LENGTH_DELIMITED);
        put_leb128(&mut self.0, value.len() as u128);
        self.0.extend(value);
    }

    pub(super) fn text(&mut self, field: u32, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    /// A nested message.
    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.key(field, LENGTH_DELIMITED);
        self.delimited(write);
    }

    /// Writes a nested message with its length before it.
    pub(super) fn delimited(&mut self, write: impl FnOnce(&mut Self)) {
        let begin = self.0.len();
        write(self);
        self.put_length_at(begin);
    }

    /// Inserts the length of everything from `begin` on before it.
    pub(super) fn put_length_at(&mut self, begin: usize) {
        let mut length = Vec::with_capacity(5);
        put_leb128(&mut length, (self.0.len() - begin) as u128);
        self.0.splice(begin..begin, length);
    }

    /// A packed repeated `uint64`.
    pub(super) fn packed_uints(&mut self, field: u32, values: impl IntoIterator<Item = u64>) {
        self.message(field, |packed| {
            values.into_iter().for_each(|value| put_leb128(&mut packed.0, u128::from(value)));
        });
    }

    /// A packed repeated `sint64`.
    pub(super) fn packed_sints(&mut self, field: u32, values: impl IntoIterator<Item = i64>) {
        self.packed_uints(field, values.into_iter().map(zigzag));
    }

    /// Appends fields encoded elsewhere.
    pub(super) fn append(&mut self, fields: &[u8]) {
        self.0.extend(fields);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

const fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

/// Value of a field; only the reader knows its exact type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    Number(u64),
    EightBytes(u64),
    FourBytes(u32),
    Bytes(&'a [u8]),
}

/// The fields of a message with their numbers; `None` if the bytes are not a message.
pub(super) fn read_fields(mut rest: &[u8]) -> Option<Vec<(u64, Field<'_>)>> {
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let key: u64 = take_leb128(&mut rest).ok()?;
        let field = match key & 7 {
            0 => Field::Number(take_leb128(&mut rest).ok()?),
            1 => {
                let (bytes, after) = rest.split_first_chunk()?;
                rest = after;
                Field::EightBytes(u64::from_le_bytes(*bytes))
            }
            2 => {
                let length: usize = take_leb128(&mut rest).ok()?;
                let (bytes, after) = rest.split_at_checked(length)?;
                rest = after;
                Field::Bytes(bytes)
            }
            5 => {
                let (bytes, after) = rest.split_first_chunk()?;
                rest = after;
                Field::FourBytes(u32::from_le_bytes(*bytes))
            }
            _ => return None,
        };
        fields.push((key >> 3, field));
    }
    Some(fields)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(uint: u64, sint: i64, double: f64, text: String, packed: Vec<u64>) {
            let mut message = Message::default();
            message.uint(1, uint);
            message.sint(2, sint);
            message.double(300, double);
            message.message(4, |inner| inner.text(1, &text));
            message.packed_uints(5, packed.iter().copied());
            let fields = read_fields(message.as_bytes()).unwrap();
            let [one, two, three, (4, Field::Bytes(inner)), (5, Field::Bytes(packed_bytes))] =
                fields[..]
            else {
                panic!("{fields:?}");
            };
            let mut rest = packed_bytes;
            prop_assert_eq!(one, (1, Field::Number(uint)));
            prop_assert_eq!(two, (2, Field::Number(zigzag(sint))));
            prop_assert_eq!(three, (300, Field::EightBytes(double.to_bits())));
            prop_assert_eq!(read_fields(inner).unwrap(), [(1, Field::Bytes(text.as_bytes()))]);
            let mut unpacked = Vec::new();
            while !rest.is_empty() {
                unpacked.push(take_leb128::<u64>(&mut rest).unwrap());
            }
            prop_assert_eq!(unpacked, packed);
        }

        #[test]
        fn whatever_is_read_ends(bytes: Vec<u8>) {
            if let Some(fields) = read_fields(&bytes) {
                prop_assert!(fields.len() <= bytes.len());
            }
        }
    }
}
