//! Several requests on parallel connections, which share a path and two hosts.
//!
//! Input: the dialogue of one connection with the most exchanges that a connection can have, and the numbers of
//! requests and connections. Each connection is opened for one of the first requests, and takes the next remaining
//! request once its response is complete. The hosts' processes serve one connection after the other.

use super::super::GaveUp;
use super::super::Path;
use super::super::dialogue::{Dialogue, Side};
use super::{
    Cause, Flow, Habits, Host, Kernels, LIMIT, LINEAR_SYNS, Nanos, Network, Observer, SYN_BYTES,
    SYN_RETRIES, SYN_TIMEOUT,
};

/// The requests, and the division of a connection into exchanges.
#[derive(Clone, Debug)]
pub struct SeveralRequests {
    /// Number of requests.
    pub requests: u32,
    /// Number of connections.
    pub connections: u16,
    /// Time between the first packets of two connections.
    pub spacing: Nanos,
    /// The exchanges of a connection, in order.
    pub openings: Vec<Opening>,
}

/// Start and end of an exchange within a connection.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// The client's steps up to and including the request.
    pub client_steps: usize,
    /// The server's bytes up to the end of the exchange.
    pub until: u64,
}

/// Result of the simulation.
#[derive(Clone, Debug, Default)]
pub struct SeveralPlayed {
    /// The connection of each request, in the order of assignment.
    pub connections: Vec<u16>,
    /// The connection that losses kept from completing, which ends the simulation.
    pub gave_up: Option<(u16, GaveUp)>,
}

/// One of the connections.
struct Lane<'a> {
    state: State<'a>,
    /// Packets that it has sent.
    packets: usize,
    /// Number of exchanges assigned; `over` counts those completed.
    given: usize,
    over: usize,
}

enum State<'a> {
    Connecting(Syn),
    Open(Box<(Host<'a>, Host<'a>)>),
}

/// A SYN exchange in progress.
struct Syn {
    attempt: u32,
    timeout: Nanos,
    sent_at: Nanos,
    next: (Nanos, SynEvent),
}

#[derive(Clone, Copy)]
enum SynEvent {
    /// The SYN leaves, perhaps as a retransmission.
    Leaves,
    /// The SYN arrives, and is answered.
    Arrives,
    /// The answer arrives.
    Answered,
}

impl Syn {
    fn first(at: Nanos) -> Self {
        let next = (at, SynEvent::Leaves);
        Self { attempt: 0, timeout: SYN_TIMEOUT, sent_at: at, next }
    }

    /// Handles the loss of the SYN or of its answer: retransmits it or gives up.
    fn lost(&mut self, kernels: Kernels) -> Result<(), GaveUp> {
        let at = kernels.client.due(self.sent_at, self.timeout);
        if self.attempt >= LINEAR_SYNS {
            self.timeout *= 2;
        }
        if self.attempt == LINEAR_SYNS + SYN_RETRIES {
            let message = "every SYN or its answer was lost".into();
            return Err(GaveUp { at, name: "connect-timed-out", message });
        }
        self.attempt += 1;
        self.next = (at, SynEvent::Leaves);
        Ok(())
    }
}

impl Lane<'_> {
    fn next(&self) -> Nanos {
        match &self.state {
            State::Connecting(syn) => syn.next.0,
            State::Open(hosts) => hosts.0.next().min(hosts.1.next()),
        }
    }
}

/// Plays several requests until every response is complete; each connection has its own observer.
pub fn play_several<O: Observer>(
    several: &SeveralRequests,
    dialogue: &Dialogue,
    habits: &Habits,
    path: &Path,
    observers: &mut [O],
) -> SeveralPlayed {
    let mut network = Network::new(path);
    if several.connections > 1 {
        network.busy_until = Some([0; 2]);
    }
    let lanes = (0..several.connections).map(|number| Lane {
        state: State::Connecting(Syn::first(Nanos::from(number) * several.spacing)),
        packets: 0,
        given: 1,
        over: 0,
    });
    let mut bench = Bench {
        several,
        dialogue,
        habits,
        kernels: Kernels::new(path.seed),
        mss: u64::from(path.mss.max(1)),
        network,
        lanes: lanes.collect(),
        played: SeveralPlayed { connections: (0..several.connections).collect(), gave_up: None },
        answered: 0,
        now: 0,
    };
    if let Err(gave_up) = bench.run(observers) {
        bench.played.gave_up = Some(gave_up);
    }
    bench.played
}

/// State of the simulation.
struct Bench<'a> {
    several: &'a SeveralRequests,
    dialogue: &'a Dialogue,
    habits: &'a Habits,
    kernels: Kernels,
    mss: u64,
    network: Network,
    lanes: Vec<Lane<'a>>,
    played: SeveralPlayed,
    answered: u32,
    now: Nanos,
}

impl Bench<'_> {
    fn run<O: Observer>(&mut self, observers: &mut [O]) -> Result<(), (u16, GaveUp)> {
        while self.answered < self.several.requests {
            let [up, down] = [self.network.up.next(), self.network.down.next()];
            let lanes = (0u16..).zip(&self.lanes).map(|(number, lane)| (lane.next(), number));
            let (at, number) = lanes.min().unwrap_or((LIMIT, 0));
            let next = up.min(down).min(at);
            if next >= LIMIT {
                let unanswered = |lane: &Lane<'_>| lane.over < lane.given;
                let first = self.lanes.iter().position(unanswered).unwrap_or(0);
                let message = "losses kept the exchange from ending within ten minutes".into();
                let gave_up = GaveUp { at: LIMIT, name: "timed-out", message };
                return Err((u16::try_from(first).unwrap_or(0), gave_up));
            }
            self.now = self.now.max(next);
            let event = if up == next {
                Event::ToServer
            } else if down == next {
                Event::ToClient
            } else {
                Event::Timer
            };
            let number = match event {
                Event::ToServer => self.network.up.next_flow(),
                Event::ToClient => self.network.down.next_flow(),
                Event::Timer => number,
            };
            let place = usize::from(number);
            let (Some(lane), Some(observer)) =
                (self.lanes.get_mut(place), observers.get_mut(place))
            else {
                continue;
            };
            let mut flow = Flow {
                network: &mut self.network,
                number,
                mss: self.mss,
                now: self.now,
                cause: Cause::Connected,
                packets: lane.packets,
                observer,
            };
            match &mut lane.state {
                State::Connecting(syn) => {
                    let answered = flow.greet(syn, self.kernels).map_err(|why| (number, why))?;
                    if let Some(rtt) = answered {
                        let (mut client, server) =
                            self.kernels.hosts(self.dialogue, self.habits, self.mss, rtt);
                        client.allowed = self.several.openings[0].client_steps;
                        flow.prepare(self.now, Side::Client, &mut client);
                        lane.packets = flow.packets;
                        lane.state = State::Open(Box::new((client, server)));
                    }
                }
                State::Open(hosts) => {
                    let (client, server) = &mut **hosts;
                    flow.happens(event, client, server);
                    while lane.over < lane.given
                        && client.receiver.next >= self.several.openings[lane.over].until
                    {
                        lane.over += 1;
                        self.answered += 1;
                        let handed_out = self.played.connections.len();
                        if u32::try_from(handed_out).is_ok_and(|n| n < self.several.requests) {
                            self.played.connections.push(number);
                            client.allowed = self.several.openings[lane.given].client_steps;
                            lane.given += 1;
                            flow.prepare(self.now, Side::Client, client);
                        }
                    }
                    lane.packets = flow.packets;
                }
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Event {
    ToServer,
    ToClient,
    Timer,
}

impl<O: Observer> Flow<'_, '_, O> {
    /// Advances the SYN exchange; returns its duration once it is answered.
    fn greet(&mut self, syn: &mut Syn, kernels: Kernels) -> Result<Option<Nanos>, GaveUp> {
        let now = self.now;
        let carried = match syn.next.1 {
            SynEvent::Leaves => {
                syn.sent_at = now;
                let there = self.network.up.carry(now, SYN_BYTES);
                there.map(|at| (at, SynEvent::Arrives))
            }
            SynEvent::Arrives => {
                let back = self.network.down.carry(now, SYN_BYTES);
                back.map(|at| (at, SynEvent::Answered))
            }
            SynEvent::Answered => {
                self.observer.connected(syn.sent_at, now, syn.attempt);
                return Ok(Some(now - syn.sent_at));
            }
        };
        match carried {
            Some(next) => syn.next = next,
            None => syn.lost(kernels)?,
        }
        Ok(None)
    }

    fn happens(&mut self, event: Event, client: &mut Host<'_>, server: &mut Host<'_>) {
        match event {
            Event::ToServer => {
                if let Some(packet) = self.network.up.take() {
                    self.arrive(Side::Server, server, packet);
                }
            }
            Event::ToClient => {
                if let Some(packet) = self.network.down.take() {
                    self.arrive(Side::Client, client, packet);
                }
            }
            Event::Timer if client.next() <= self.now => self.wake(Side::Client, client),
            Event::Timer => self.wake(Side::Server, server),
        }
    }
}
