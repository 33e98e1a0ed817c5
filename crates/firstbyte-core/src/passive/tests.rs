//! Laws of the passive half, and a dump of captures for people.

use super::pcap::{Read, Reader};
use super::*;

#[test]
#[ignore = "shows what a capture named by FIRSTBYTE_DUMP holds"]
fn dump() {
    let bytes = std::fs::read(std::env::var("FIRSTBYTE_DUMP").unwrap()).unwrap();
    let (mut reader, mut analyzer) = (Reader::default(), Analyzer::new(Limits::default()));
    let mut rest = &bytes[..];
    let mut emit = |o: Observed| println!("{o:#?}");
    loop {
        match reader.read(rest) {
            Ok(Read::NeedMore { .. }) => break,
            Ok(Read::Skipped { bytes }) => rest = &rest[bytes..],
            Ok(Read::Frame { frame, bytes }) => {
                analyzer.frame(&frame, &mut emit);
                rest = &rest[bytes..];
            }
            Err(e) => {
                println!("{e}");
                break;
            }
        }
    }
    analyzer.finish(&mut emit);
    println!("{:#?}", analyzer.hygiene());
}
