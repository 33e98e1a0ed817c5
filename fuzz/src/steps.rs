//! Bytes as a list of steps: an operation, a detail, a length, that many bytes.
//!
//! A mutation inside one step leaves the other steps unchanged, and steps from different inputs can be combined.

/// One step of an input.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    pub operation: u8,
    pub detail: u8,
    pub bytes: &'a [u8],
}

impl Step<'_> {
    pub fn side(&self) -> usize {
        usize::from(self.operation & 1)
    }

    /// The next three bits: the kind of step.
    pub fn kind(&self) -> u8 {
        self.operation >> 1 & 7
    }

    /// The upper four bits, as a time between zero and half a second.
    pub fn pause_ns(&self) -> i64 {
        match self.operation >> 4 {
            0 => 0,
            n => 15_000 << n,
        }
    }
}

/// All steps of an input; the last one may be truncated.
pub fn steps(mut data: &[u8]) -> impl Iterator<Item = Step<'_>> {
    std::iter::from_fn(move || {
        let [operation, detail, low, high] = *data.first_chunk::<4>()?;
        let length = usize::from(u16::from_le_bytes([low, high])).min(data.len() - 4);
        let (bytes, rest) = data[4..].split_at(length);
        data = rest;
        Some(Step { operation, detail, bytes })
    })
}

/// Writes a step.
pub fn write(operation: u8, detail: u8, bytes: &[u8], out: &mut Vec<u8>) {
    let bytes = &bytes[..bytes.len().min(0xffff)];
    out.extend([operation, detail]);
    out.extend((bytes.len() as u16).to_le_bytes());
    out.extend(bytes);
}
