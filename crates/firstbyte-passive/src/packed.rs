//! Stores settled facts in as few bytes as possible.
//!
//! In: values. Out: their bytes, and the same values again. There are many open connections, and the handshake settles
//! most facts about each, so these are kept [`Packed`] until they are needed. Nothing is rounded. Numbers take only as
//! many bytes as they need (LEB128), and times are stored as differences to the previous time. This is not a storage
//! format: the bytes never leave the process.

mod observed;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use super::Time;

/// Nearly all values fit into this many bytes: a handshake's facts take about 100.
const ROOM: usize = 192;

pub(crate) struct Packed<T>(Box<[u8]>, PhantomData<T>);

impl<T: Pack> Packed<T> {
    /// Packs `value`.
    pub(crate) fn from_value(value: &T) -> Self {
        let mut packer = Packer::new(Time::default());
        value.pack(&mut packer);
        let mut bytes = Vec::with_capacity(packer.length());
        packer.append_to(&mut bytes);
        Self(bytes.into(), PhantomData)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Unpacks the value; the empty value if nothing was packed.
    pub(crate) fn value(&self) -> T {
        T::unpack(&mut Unpacker::new(&self.0))
    }

    /// Unpacks, changes and repacks the value.
    pub(crate) fn change<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        let mut value = self.value();
        let result = change(&mut value);
        *self = Self::from_value(&value);
        result
    }
}

impl<T> Default for Packed<T> {
    fn default() -> Self {
        Self(Box::default(), PhantomData)
    }
}

impl<T> std::fmt::Debug for Packed<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packed({} bytes)", self.0.len())
    }
}

/// Values of one type, packed one after the other. Times are relative to the first time in the list.
pub(crate) struct PackedList<T>(Box<[u8]>, PhantomData<T>);

impl<T: Pack> PackedList<T> {
    /// Appends a value.
    pub(crate) fn push(&mut self, value: &T) {
        let mut packer = Packer::new(self.first());
        value.pack(&mut packer);
        // Allocated anew instead of grown in place: allocators have memory of the new size at hand, and growing is
        // slower.
        let mut bytes = Vec::with_capacity(self.0.len() + packer.length());
        bytes.extend_from_slice(&self.0);
        packer.append_to(&mut bytes);
        self.0 = bytes.into();
    }

    /// The values, in order.
    pub(crate) fn values(&self) -> impl Iterator<Item = T> {
        let (mut from, mut next) = (Unpacker::new(&self.0), Time::default());
        let first = self.first();
        std::iter::from_fn(move || {
            if from.bytes.is_empty() {
                return None;
            }
            from.before = std::mem::replace(&mut next, first);
            Some(T::unpack(&mut from))
        })
    }

    /// The time at the start of the first value, if there is one.
    fn first(&self) -> Time {
        Time::unpack(&mut Unpacker::new(&self.0))
    }
}

impl<T> Default for PackedList<T> {
    fn default() -> Self {
        Self(Box::default(), PhantomData)
    }
}

impl<T> std::fmt::Debug for PackedList<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PackedList({} bytes)", self.0.len())
    }
}

/// A value that can be packed and unpacked without loss.
pub(crate) trait Pack {
    fn pack(&self, to: &mut Packer);
    fn unpack(from: &mut Unpacker<'_>) -> Self;
}

/// Packs values.
pub(crate) struct Packer {
    /// The latest bytes, the first `filled` of them valid: a buffer on the stack, so that memory is allocated only once
    /// and with the exact size.
    room: [u8; ROOM],
    filled: usize,
    /// Bytes that no longer fitted into `room`.
    before_room: Vec<u8>,
    /// The previous time.
    before: Time,
}

impl Packer {
    const fn new(before: Time) -> Self {
        Self { room: [0; ROOM], filled: 0, before_room: Vec::new(), before }
    }

    /// Packs raw bytes, preceded by their number.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        match self.room.get_mut(self.filled..self.filled + bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.filled += bytes.len();
            }
            None => {
                self.make_room();
                self.before_room.extend_from_slice(bytes);
            }
        }
    }

    #[inline]
    fn number(&mut self, mut number: u64) {
        while number > 0x7f {
            self.byte(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8);
    }

    #[inline]
    fn byte(&mut self, byte: u8) {
        if self.filled == ROOM {
            self.make_room();
        }
        if let Some(place) = self.room.get_mut(self.filled) {
            *place = byte;
            self.filled += 1;
        }
    }

    #[cold]
    fn make_room(&mut self) {
        self.before_room.extend_from_slice(&self.room[..self.filled]);
        self.filled = 0;
    }

    /// Number of bytes packed.
    const fn length(&self) -> usize {
        self.before_room.len() + self.filled
    }

    /// Appends them to `bytes`.
    fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.before_room);
        bytes.extend_from_slice(&self.room[..self.filled]);
    }
}

/// Unpacks values in the order in which they were packed; after the last one, empty values.
pub(crate) struct Unpacker<'a> {
    bytes: &'a [u8],
    before: Time,
}

impl<'a> Unpacker<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, before: Time::default() }
    }

    /// Unpacks raw bytes.
    pub(crate) fn bytes(&mut self) -> &'a [u8] {
        let length = usize::try_from(self.number()).unwrap_or(usize::MAX);
        let (bytes, rest) = self.bytes.split_at(length.min(self.bytes.len()));
        self.bytes = rest;
        bytes
    }

    #[inline]
    fn number(&mut self) -> u64 {
        // Most numbers take one byte.
        match self.bytes {
            [byte @ 0..0x80, rest @ ..] => {
                self.bytes = rest;
                u64::from(*byte)
            }
            _ => self.long_number(),
        }
    }

    fn long_number(&mut self) -> u64 {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let Some((byte, rest)) = self.bytes.split_first() else { break };
            self.bytes = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        number
    }
}

macro_rules! numbers {
    ($($number:ty),*) => { $(
        impl Pack for $number {
            #[inline]
            fn pack(&self, to: &mut Packer) {
                to.number(u64::from(*self));
            }
            #[inline]
            fn unpack(from: &mut Unpacker<'_>) -> Self {
                from.number() as $number
            }
        }
    )* };
}

numbers!(u8, u16, u32, u64);

impl Pack for bool {
    #[inline]
    fn pack(&self, to: &mut Packer) {
        to.byte(u8::from(*self));
    }
    #[inline]
    fn unpack(from: &mut Unpacker<'_>) -> Self {
        from.number() != 0
    }
}

impl Pack for Time {
    #[inline]
    fn pack(&self, to: &mut Packer) {
        let since = self.unix_ns().wrapping_sub(to.before.unix_ns());
        // Zigzag encoding: small differences of either sign become small numbers.
        to.number((since << 1 ^ since >> 63) as u64);
        to.before = *self;
    }
    #[inline]
    fn unpack(from: &mut Unpacker<'_>) -> Self {
        let turned = from.number();
        let since = (turned >> 1) as i64 ^ -((turned & 1) as i64);
        from.before = Self::from_unix_ns(from.before.unix_ns().wrapping_add(since));
        from.before
    }
}

impl Pack for std::time::Duration {
    fn pack(&self, to: &mut Packer) {
        self.as_secs().pack(to);
        self.subsec_nanos().pack(to);
    }
    fn unpack(from: &mut Unpacker<'_>) -> Self {
        let seconds = u64::unpack(from);
        Self::new(seconds, u32::unpack(from))
    }
}

impl Pack for Box<str> {
    fn pack(&self, to: &mut Packer) {
        to.bytes(self.as_bytes());
    }
    fn unpack(from: &mut Unpacker<'_>) -> Self {
        let bytes = from.bytes();
        match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => String::from_utf8_lossy(bytes).into(),
        }
    }
}

impl<A: Pack, B: Pack> Pack for (A, B) {
    fn pack(&self, to: &mut Packer) {
        self.0.pack(to);
        self.1.pack(to);
    }
    fn unpack(from: &mut Unpacker<'_>) -> Self {
        let first = A::unpack(from);
        (first, B::unpack(from))
    }
}

impl<T: Pack> Pack for Option<T> {
    #[inline]
    fn pack(&self, to: &mut Packer) {
        self.is_some().pack(to);
        if let Some(value) = self {
            value.pack(to);
        }
    }
    #[inline]
    fn unpack(from: &mut Unpacker<'_>) -> Self {
        bool::unpack(from).then(|| T::unpack(from))
    }
}

impl<T: Pack> Pack for Vec<T> {
    fn pack(&self, to: &mut Packer) {
        to.number(self.len() as u64);
        self.iter().for_each(|value| value.pack(to));
    }
    fn unpack(from: &mut Unpacker<'_>) -> Self {
        // A value takes at least one byte.
        let count = from.number().min(from.bytes.len() as u64);
        (0..count).map(|_| T::unpack(from)).collect()
    }
}

/// Packs a type field by field, or as the number of its variant. All fields or variants must be listed.
macro_rules! packed {
    (struct $name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::packed::Pack for $name {
            fn pack(&self, to: &mut $crate::packed::Packer) {
                let Self { $($field),* } = self;
                $($crate::packed::Pack::pack($field, to);)*
            }
            fn unpack(from: &mut $crate::packed::Unpacker<'_>) -> Self {
                $(let $field = $crate::packed::Pack::unpack(from);)*
                Self { $($field),* }
            }
        }
    };
    (enum $name:ident { $first:ident, $($variant:ident),* $(,)? }) => {
        impl $crate::packed::Pack for $name {
            fn pack(&self, to: &mut $crate::packed::Packer) {
                let number = match self { Self::$first | $(Self::$variant)|* => *self as u8 };
                number.pack(to);
            }
            fn unpack(from: &mut $crate::packed::Unpacker<'_>) -> Self {
                let number = u8::unpack(from);
                $(if number == Self::$variant as u8 { return Self::$variant; })*
                Self::$first
            }
        }
    };
}
pub(crate) use packed;
