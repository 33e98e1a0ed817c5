use firstbyte_core::sequence::Sequence;
use firstbyte_core::timeline::Sample;

use super::*;
use crate::{Style, fixtures as samples};

fn drawn(sample: &Sample) -> String {
    sequence(sample, &Style::default())
}

#[test]
fn tls12_to_sydney() {
    let text = drawn(&samples::tls12_sydney());
    assert_eq!(text.matches('▶').count(), 4);
    // A pause splits the response.
    assert_eq!(text.matches('◀').count(), 5);
    assert_eq!(text.matches("round trip 81.1 ms").count(), 4);
    assert!(text.contains("server 8.3 ms █"));
    insta::assert_snapshot!(text);
}

#[test]
fn early_data_leaves_before_the_server_hello() {
    let text = drawn(&fixtures::zero_rtt());
    assert!(text.contains("910 bytes, 281 of them early data (accepted)"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn full_windows_are_waits_for_acknowledgements() {
    let text = drawn(&fixtures::big_chain());
    assert!(text.contains("11,240 bytes in 3 flights"), "{text}");
    assert_eq!(text.matches("waits for acknowledgements 30.0 ms ┊").count(), 2, "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn many_flights_are_folded() {
    let text = drawn(&fixtures::thirty_pauses());
    assert!(text.contains("64,000 bytes in 32 flights"), "{text}");
    assert!(text.contains("⋮ 29 more flights, 58,000 bytes"), "{text}");
    assert!(text.lines().count() < 75, "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn a_retry_over_quic() {
    insta::assert_snapshot!(drawn(&fixtures::http3()));
}

#[test]
fn a_lost_syn_does_not_arrive() {
    let text = drawn(&samples::syn_loss());
    assert_eq!(text.matches('✗').count(), 1, "{text}");
    assert!(text.contains("SYN sent again"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn the_other_address_and_what_it_cost() {
    let text = drawn(&samples::fallback());
    assert!(text.contains("another address first 250.0 ms"), "{text}");
    assert!(text.contains("SYN to [2001:db8::51]:443"), "{text}");
}

#[test]
fn nothing_answers() {
    insta::assert_snapshot!(drawn(&samples::connect_timeout()));
}

#[test]
fn loopback_in_ascii_at_sixty_columns() {
    let style = Style { unicode: false, width: 60, color: false };
    insta::assert_snapshot!(sequence(&samples::loopback(), &style));
}

#[test]
fn fits_its_width_and_colours_only_dress() {
    for sample in fixtures::all() {
        for width in [60, 80, 132] {
            let plain = Style { width, ..Style::default() };
            let text = diagram(&Sequence::lay_out(&sample.connection), &plain);
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
            let colored = Style { color: true, ..plain };
            let colored = diagram(&Sequence::lay_out(&sample.connection), &colored);
            assert_eq!(samples::undressed(&colored), text);
            let ascii = Style { unicode: false, ..plain };
            assert!(diagram(&Sequence::lay_out(&sample.connection), &ascii).is_ascii());
        }
    }
}

/// External text cannot move the cursor.
#[test]
fn hostile_messages_stay_text() {
    let mut sample = samples::plain_http();
    sample.connection.flights[0].messages = vec!["\u{1b}[2J\u{202e}GET".into()];
    let text = drawn(&sample);
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
}
