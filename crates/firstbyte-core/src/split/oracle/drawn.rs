//! Generates random connections: a path, a server with its habits, and their conversation.

use std::time::Duration;

use fastrand::Rng;

use crate::simulation::Path;
use crate::simulation::dialogue::{Dialogue, Lines};
use crate::simulation::tcp::Habits;

/// Role of a server's write on the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It begins an answer: the time before it is the server's.
    Answer,
    /// It continues an answer: the time before it is a pause.
    More,
}

/// Kind of the hosts' conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Tls12,
    Tls13,
    /// Early data, answered at once or after the client's Finished.
    Early {
        late: bool,
    },
}

/// A connection to simulate.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub seed: u64,
    pub path: Path,
    pub habits: Habits,
    pub dialogue: Dialogue,
    /// Roles of the server's writes.
    pub roles: Vec<Role>,
    pub kind: Kind,
    /// Whether segments that arrive together are merged.
    pub merges: bool,
    /// Whether the times of the client's reads are known.
    pub reads_known: bool,
    /// Whether the path's times vary; `loss` is whether packets are lost.
    pub jitter: bool,
    pub loss: bool,
    pub slow: bool,
    pub about: String,
}

impl Case {
    pub(super) fn quiet(&self) -> bool {
        !self.jitter && !self.loss && !self.slow
    }
}

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

struct Draw(Rng);

impl Draw {
    fn chance(&mut self, percent: u32) -> bool {
        self.0.u32(0..100) < percent
    }

    /// Log-uniform: as often between 1 and 10 as between 10 and 100.
    fn log(&mut self, from: f64, to: f64) -> f64 {
        from * (to / from).powf(self.0.f64())
    }

    /// Duration of work: almost none, or 2 to 400 ms.
    fn think(&mut self, long: u32) -> Duration {
        if self.chance(long) {
            us((self.log(2.0, 400.0) * 1e3) as u64)
        } else {
            us(self.0.u64(20..700))
        }
    }
}

/// Everything the server sends.
#[derive(Default)]
struct Server {
    lines: Lines,
    roles: Vec<Role>,
}

impl Server {
    fn write(&mut self, role: Role, needs: u64, after: Duration, bytes: u64) {
        if bytes > 0 {
            self.lines.write(needs, after, bytes);
            self.roles.push(role);
        }
    }
}

/// Another connection to the same server over the same path: hosts are never equally quick twice.
pub(super) fn visit(case: &Case, number: u64) -> Case {
    let d = &mut Draw(Rng::with_seed(case.seed ^ (number << 32)));
    let mut visit = case.clone();
    visit.path.seed = d.0.u64(..);
    let Dialogue { client, server, .. } = &mut visit.dialogue;
    for step in client.steps.iter_mut().chain(&mut server.steps) {
        step.after = step.after.mul_f64(0.97 + 0.06 * d.0.f64()) + us(d.0.u64(0..100));
    }
    visit
}

pub(super) fn case(seed: u64) -> Case {
    let d = &mut Draw(Rng::with_seed(seed));
    let rtt = d.log(0.5, 250.0);
    let share = if d.chance(30) { 0.2 + 0.6 * d.0.f64() } else { 0.5 };
    let mut path = Path { seed, ..Path::with_rtt(Duration::ZERO) };
    path.up.delay = us((rtt * share * 1e3) as u64);
    path.down.delay = us((rtt * (1.0 - share) * 1e3) as u64);
    let jitter = d.chance(20);
    if jitter {
        let most = us((d.log(0.2, 20.0) * 1e3) as u64);
        let which = d.0.u32(0..3);
        if which != 1 {
            path.up.jitter = most;
        }
        if which != 0 {
            path.down.jitter = most;
        }
    }
    let loss = d.chance(12);
    if loss {
        path.up.loss = 0.03 * d.0.f64();
        path.down.loss = 0.05 * d.0.f64();
    }
    let slow = d.chance(20);
    if slow {
        path.down.rate = Some((d.log(1.0, 100.0) * 1e6) as u64);
        if d.chance(30) {
            path.up.rate = Some((d.log(1.0, 50.0) * 1e6) as u64);
        }
    }
    path.mss = if d.chance(80) { 1_448 } else { d.0.u32(1_200..1_400) };
    let window = if d.chance(55) { 10 } else { d.0.u32(1..=20) };
    let habits = Habits {
        initial_window: window,
        nagle: d.chance(15),
        server_wake: us(d.0.u64(20..300)),
        client_wake: us(d.0.u64(20..150)),
        client_reads_late: d.chance(20),
        ..Habits::default()
    };
    let kind = match d.0.u32(0..100) {
        0..=14 => Kind::Plain,
        15..=34 => Kind::Tls12,
        35..=84 => Kind::Tls13,
        n => Kind::Early { late: n % 2 == 0 },
    };
    let resumed = matches!(kind, Kind::Early { .. }) || d.chance(20);
    let (dialogue, roles, said) = talk(d, kind, resumed);
    let (p, s) = (&path, &habits);
    let about = format!(
        "{kind:?} rtt {rtt:.1} ({share:.1}) jitter {:?}/{:?} loss {:.3}/{:.3} rate {:?}/{:?} mss {} window \
         {window} nagle {} {said}",
        p.up.jitter, p.down.jitter, p.up.loss, p.down.loss, p.up.rate, p.down.rate, p.mss, s.nagle
    );
    let merges = d.chance(50);
    let reads_known = !habits.client_reads_late && d.chance(75);
    let about = format!("{about} late {} known {reads_known}", habits.client_reads_late);
    Case {
        seed,
        path,
        habits,
        dialogue,
        roles,
        kind,
        merges,
        reads_known,
        jitter,
        loss,
        slow,
        about,
    }
}

fn talk(d: &mut Draw, kind: Kind, resumed: bool) -> (Dialogue, Vec<Role>, String) {
    let (mut client, mut server) = (Lines::default(), Server::default());
    let mut dialogue = Dialogue::default();
    let h2 = d.chance(50);
    let request = d.0.u64(80..700);
    let mut said = String::new();
    let places = &mut dialogue.places;
    match kind {
        Kind::Plain => {
            client.write(0, us(d.0.u64(50..500)), request);
            (places.request_start, places.request_end) = (1, request);
        }
        Kind::Tls12 => {
            client.write(0, us(d.0.u64(50..500)), d.0.u64(200..1_400));
            flight(d, &mut client, &mut server, resumed, &mut said);
            client.write(server.lines.bytes, us(d.0.u64(100..1_500)), d.0.u64(51..180));
            let finished = d.think(5);
            server.write(Role::Answer, client.bytes, finished, d.0.u64(51..300));
            places.server_finished = Some(server.lines.bytes);
            places.request_start = client.bytes + 1;
            client.write(server.lines.bytes, us(d.0.u64(50..500)), request);
            places.request_end = client.bytes;
        }
        Kind::Tls13 => {
            client.write(0, us(d.0.u64(50..500)), d.0.u64(400..1_800));
            flight(d, &mut client, &mut server, resumed, &mut said);
            let finished = d.0.u64(58..90);
            client.write(server.lines.bytes, us(d.0.u64(300..2_000)), finished + request);
            places.client_finished = Some(client.bytes - request);
            places.request_start = client.bytes - request + 1;
            places.request_end = client.bytes;
        }
        Kind::Early { .. } => {
            let hello = d.0.u64(400..1_000);
            client.write(0, us(d.0.u64(50..500)), hello + request);
            (places.request_start, places.request_end) = (hello + 1, hello + request);
            flight(d, &mut client, &mut server, true, &mut said);
            client.write(server.lines.bytes, us(d.0.u64(100..1_000)), d.0.u64(60..100));
            places.client_finished = Some(client.bytes);
        }
    }
    // What the answer waits for, and what precedes it.
    let needs = match kind {
        Kind::Early { late: false } => places.request_end,
        _ => client.bytes,
    };
    let mut settings = 0;
    if matches!(kind, Kind::Tls13 | Kind::Early { late: true }) && d.chance(70) {
        let tickets = d.0.u64(1..=4) * d.0.u64(180..260);
        said += &format!(" tickets {tickets}");
        server.write(Role::Answer, needs, us(d.0.u64(50..500)), tickets);
    }
    if h2 {
        settings = d.0.u64(30..90);
        server.write(Role::Answer, needs, us(d.0.u64(10..200)), settings);
        said += &format!(" settings {settings}");
    }
    if settings > 0 && kind != (Kind::Early { late: false }) {
        client.write(server.lines.bytes, us(d.0.u64(50..500)), 31);
    }
    let think = d.think(50);
    said += &format!(" think {think:?}");
    places.response_start = server.lines.bytes + 1;
    response(d, &mut server, needs, think, &mut said);
    places.response_end = server.lines.bytes;
    (dialogue.client, dialogue.server) = (client, server.lines);
    (dialogue, server.roles, said)
}

fn flight(d: &mut Draw, client: &mut Lines, server: &mut Server, resumed: bool, said: &mut String) {
    let needs = client.bytes;
    let hello = d.think(20);
    *said += &format!(" hello {hello:?}");
    let chain = if resumed { 0 } else { d.log(500.0, 30_000.0) as u64 };
    let pieces = match (resumed, d.0.u32(0..4)) {
        (true, 0 | 1) => vec![d.0.u64(150..400)],
        (true, _) => vec![d.0.u64(90..160), d.0.u64(80..200)],
        (false, 0 | 1) => vec![chain + 600],
        (false, 2) => vec![d.0.u64(90..1_300), chain + 300],
        _ => vec![d.0.u64(90..130), d.0.u64(6..60), chain, d.0.u64(80..300), d.0.u64(40..80)],
    };
    *said += &format!(" flight {pieces:?}");
    let paused = d.chance(15).then(|| d.0.usize(1..pieces.len().max(2)));
    for (i, bytes) in pieces.into_iter().enumerate() {
        match i {
            0 => server.write(Role::Answer, needs, hello, bytes),
            _ if paused == Some(i) => {
                let pause = d.think(100);
                *said += &format!(" (pause {pause:?} before {i})");
                server.write(Role::More, needs, pause, bytes);
            }
            _ => server.write(Role::More, needs, us(d.0.u64(0..60)), bytes),
        }
    }
}

/// Head and body, in one write or in many, with pauses or without.
fn response(d: &mut Draw, server: &mut Server, needs: u64, think: Duration, said: &mut String) {
    let head = d.0.u64(100..600);
    let body = if d.chance(8) { 0 } else { d.log(50.0, 200_000.0) as u64 };
    *said += &format!(" head {head} body {body}");
    match d.0.u32(0..100) {
        0..=39 => server.write(Role::Answer, needs, think, head + body),
        40..=54 => {
            server.write(Role::Answer, needs, think, head);
            server.write(Role::More, needs, us(d.0.u64(0..80)), body);
            *said += " in two";
        }
        55..=69 => {
            let pause = d.think(100);
            *said += &format!(" flushed, then {pause:?}");
            server.write(Role::Answer, needs, think, head);
            server.write(Role::More, needs, pause, body);
        }
        _ => {
            let n = d.0.u64(2..=7);
            let pauses = d.chance(70);
            server.write(Role::Answer, needs, think, head + body / n);
            for _ in 1..n {
                let pause = if pauses { d.think(60) } else { us(d.0.u64(0..80)) };
                server.write(Role::More, needs, pause, body / n);
                *said += &format!(" +{} after {pause:?}", body / n);
            }
        }
    }
}
