//! HTTP/2 as raw bytes, including frames that no library would send.

/// An empty SETTINGS frame.
pub(crate) const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";

/// The default SETTINGS_MAX_FRAME_SIZE (RFC 9113 §6.5.2).
const LARGEST_FRAME: usize = 16_384;

/// SETTINGS, and a response of status 200 without a body on stream 1. Its head has `fields` fields, each with a value
/// of `value_bytes` bytes.
pub(crate) fn h2_head(fields: usize, value_bytes: usize) -> Vec<u8> {
    // ":status: 200" from the static table (RFC 7541 appendix A).
    let mut block = vec![0x88];
    for field in 0..fields {
        // A literal without indexing, with a new name (RFC 7541 §6.2.2).
        block.push(0);
        literal(&mut block, format!("x-{field:05}").as_bytes());
        literal(&mut block, &vec![b'y'; value_bytes]);
    }
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;
    let mut bytes = SETTINGS.to_vec();
    let pieces: Vec<&[u8]> = block.chunks(LARGEST_FRAME).collect();
    for (index, piece) in pieces.iter().enumerate() {
        let (kind, mut flags) = if index == 0 { (1, END_STREAM) } else { (9, 0) };
        if index + 1 == pieces.len() {
            flags |= END_HEADERS;
        }
        let length = u32::try_from(piece.len()).unwrap().to_be_bytes();
        bytes.extend_from_slice(&length[1..]);
        bytes.extend_from_slice(&[kind, flags, 0, 0, 0, 1]);
        bytes.extend_from_slice(piece);
    }
    bytes
}

/// A string without Huffman coding; its length has a prefix of seven bits (RFC 7541 §5.1, §5.2).
fn literal(into: &mut Vec<u8>, text: &[u8]) {
    const PREFIX: usize = 127;
    match u8::try_from(text.len()) {
        Ok(length) if usize::from(length) < PREFIX => into.push(length),
        _ => {
            into.push(127);
            let mut rest = text.len() - PREFIX;
            while rest >= 128 {
                into.push(u8::try_from(rest % 128).unwrap() | 128);
                rest /= 128;
            }
            into.push(u8::try_from(rest).unwrap());
        }
    }
    into.extend_from_slice(text);
}
