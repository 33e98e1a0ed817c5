//! One sample's true critical path next to the steps that firstbyte reports.

use firstbyte_core::split::{Split, hypotheses};
use firstbyte_core::timeline::{Connection, Direction, Offset};
use firstbyte_truth::Truth;

/// Prints the critical path, the steps that firstbyte reports, and the arrival times.
pub(crate) fn print(number: u32, connection: &Connection, truth: &Truth) {
    let ms = |ns: i64| ns as f64 / 1e6;
    println!("\nsample {number}, true, in ms:");
    let mut steps = truth.path.iter().peekable();
    while let Some(step) = steps.next() {
        let mut to = step.to;
        // Merges consecutive steps of one kind into one line.
        while let Some(next) =
            steps.next_if(|next| next.part == step.part && next.rule == step.rule)
        {
            to = next.to;
        }
        let length = ms(to - step.from);
        if length >= 0.05 {
            println!(
                "  {:10.3} {length:10.3} {:<10} {:?}",
                ms(step.from),
                step.part.name(),
                step.rule
            );
        }
    }
    println!("sample {number}, said:");
    let (_, course) = Split::in_order(connection);
    for stretch in course.stretches.iter().filter(|s| s.duration().as_micros() >= 50) {
        println!(
            "  {:10.3} {:10.3} {:<10} {:?}",
            ms(stretch.start.as_nanos()),
            stretch.duration().as_secs_f64() * 1e3,
            stretch.part.name(),
            stretch.phase
        );
    }
    println!("sample {number}, hypotheses, the cheapest first:\n{}", hypotheses(connection));
    println!(
        "marks {:?}",
        connection.marks.iter().map(|(m, s)| (m, ms(s.at.as_nanos()))).collect::<Vec<_>>()
    );
    println!("tcp {:?}", connection.facts.tcp);
    for phase in &Split::attribute(connection).phases {
        println!("{phase:?}");
    }
    println!("sample {number}, chunks:");
    for flight in &connection.flights {
        for chunk in &flight.chunks {
            let acknowledged = chunk.acknowledged.map(|at| ms(at.as_nanos()));
            let at = ms(chunk.stamp.at.as_nanos());
            println!(
                "  {at:10.3} {:?} {:?} {} segments {:?} acknowledged {acknowledged:?}{}",
                chunk.stamp.clock,
                flight.direction,
                chunk.bytes,
                chunk.segments,
                carried(connection, flight.direction, chunk.stamp.at)
            );
        }
    }
}

/// The known contents of a datagram.
fn carried(connection: &Connection, direction: Direction, at: Offset) -> String {
    let quic = connection.facts.quic.as_ref();
    let mut datagrams = quic.into_iter().flat_map(|quic| &quic.datagrams);
    let Some(datagram) = datagrams.find(|d| d.direction == direction && d.at == at) else {
        return String::new();
    };
    let ms = |at: Option<Offset>| at.map(|at| at.as_nanos() as f64 / 1e6);
    format!(
        " new {} elicits {} missing since {:?} skipped {} acknowledged {:?} held {:?}",
        datagram.new,
        datagram.elicits,
        ms(datagram.missing_since),
        datagram.skipped,
        ms(datagram.acknowledged),
        datagram.acknowledgement_delay
    )
}
