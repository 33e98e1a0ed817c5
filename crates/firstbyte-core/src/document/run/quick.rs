//! The fast path for a whole sample as firstbyte writes it, without the detour through the stored form.
//!
//! firstbyte writes members in fixed order and without spaces. Anything else, and rare content (failures, texts with
//! escapes), yields [`Otherwise`] and takes the slow path, with the same result.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use crate::document::DatagramRecord;
use crate::document::interned::{Fact, FactTable, Shared};
use crate::document::stored::{StoredQuicLog, tls_of};
use crate::run::Row;
use crate::timeline::{
    Attempt, AttemptOutcome, Chunk, ClientFacts, Clock, Connection, Direction, DnsTransport, Facts,
    Flight, Header, HttpFacts, Lookup, LookupTry, Mark, Marks, Offset, PanelTime, ProcessorTime,
    ProxyFacts, QuicDatagram, QuicFacts, QuicLog, RecordType, Sample, Stamp, TcpFacts,
};

/// Amount of detail to read from a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleDetail {
    /// Everything.
    Whole,
    /// Everything that its columns need. Header fields and the contents of certificates may be missing; certificate
    /// lengths are present.
    Columns,
}

/// The sample has an unusual form, or refers to something that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Otherwise;

type Quick<T> = Result<T, Otherwise>;

/// Parses the sample of `row` from the rest of its line; `url` is its cell's URL.
pub(super) fn sample(
    rest: &str,
    row: &Row,
    url: &str,
    facts: &FactTable,
    detail: SampleDetail,
) -> Quick<Sample> {
    // Absent, or in 1970.
    if row.started_unix_ns == 0 {
        return Err(Otherwise);
    }
    let mut cursor = Cursor { rest, inner: true, detail };
    if !cursor.member("sample") {
        return Err(Otherwise);
    }
    cursor.open()?;
    let requested_url = match cursor.optional("requested_url", Cursor::text)? {
        Some(requested) => requested,
        None => url.to_owned(),
    };
    cursor.required("connection")?;
    let mut connection = cursor.connection(&requested_url, facts)?;
    connection.started_unix_ns = Some(row.started_unix_ns);
    let redirects = cursor.optional("redirects", |cursor| {
        cursor.list(|cursor| cursor.connection(&requested_url, facts))
    })?;
    cursor.close()?;
    // The caller that found the line has already verified the checksum.
    cursor.optional("crc32", Cursor::word)?;
    cursor.close()?;
    if !cursor.rest.is_empty() {
        return Err(Otherwise);
    }
    Ok(Sample {
        sequence: row.round,
        warmup: row.warmup,
        requested_url,
        redirects: redirects.unwrap_or_default(),
        connection,
        // Samples with several requests take the slow path as a whole.
        requests: None,
    })
}

#[derive(Clone, Copy)]
struct Cursor<'a> {
    rest: &'a str,
    /// A member of the object has been read, so a comma precedes the next one.
    inner: bool,
    detail: SampleDetail,
}

impl<'a> Cursor<'a> {
    #[inline]
    fn skip(&mut self, text: &str) -> Quick<()> {
        self.rest = self.rest.strip_prefix(text).ok_or(Otherwise)?;
        Ok(())
    }

    fn open(&mut self) -> Quick<()> {
        self.skip("{")?;
        self.inner = false;
        Ok(())
    }

    fn close(&mut self) -> Quick<()> {
        self.skip("}")?;
        self.inner = true;
        Ok(())
    }

    /// Whether the next member of the object is `name`; if so, the cursor moves to its value.
    #[inline]
    fn member(&mut self, name: &str) -> bool {
        let rest = if self.inner { self.rest.strip_prefix(',') } else { Some(self.rest) };
        let rest = rest.and_then(|rest| rest.strip_prefix('"')?.strip_prefix(name));
        let Some(rest) = rest.and_then(|rest| rest.strip_prefix("\":")) else { return false };
        (self.rest, self.inner) = (rest, true);
        true
    }

    #[inline]
    fn required(&mut self, name: &str) -> Quick<()> {
        if self.member(name) { Ok(()) } else { Err(Otherwise) }
    }

    /// Parses the value of the next member if it is called `name`.
    #[inline]
    fn optional<T>(
        &mut self,
        name: &str,
        value: impl FnOnce(&mut Self) -> Quick<T>,
    ) -> Quick<Option<T>> {
        if self.member(name) { value(self).map(Some) } else { Ok(None) }
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Quick<T>) -> Quick<Vec<T>> {
        self.skip("[")?;
        let mut items = Vec::new();
        if self.skip("]").is_ok() {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.skip(",").is_err() {
                self.skip("]")?;
                return Ok(items);
            }
        }
    }

    fn unsigned(&mut self) -> Quick<u64> {
        let bytes = self.rest.as_bytes();
        let (mut number, mut digits) = (0u64, 0);
        while let Some(digit) = bytes.get(digits).filter(|byte| byte.is_ascii_digit()) {
            // Nineteen digits cannot overflow.
            if digits == 19 {
                return Err(Otherwise);
            }
            number = number * 10 + u64::from(digit - b'0');
            digits += 1;
        }
        // JSON does not allow leading zeros.
        if digits == 0 || (digits > 1 && bytes[0] == b'0') {
            return Err(Otherwise);
        }
        self.rest = &self.rest[digits..];
        Ok(number)
    }

    fn signed(&mut self) -> Quick<i64> {
        let negative = self.skip("-").is_ok();
        let number = i64::try_from(self.unsigned()?).map_err(|_| Otherwise)?;
        // "-0" is a number of another type.
        match negative {
            true if number == 0 => Err(Otherwise),
            true => Ok(-number),
            false => Ok(number),
        }
    }

    fn small<T: TryFrom<u64>>(&mut self) -> Quick<T> {
        T::try_from(self.unsigned()?).map_err(|_| Otherwise)
    }

    fn offset(&mut self) -> Quick<Offset> {
        self.signed().map(Offset::from_nanos)
    }

    fn duration(&mut self) -> Quick<Duration> {
        self.unsigned().map(Duration::from_nanos)
    }

    fn boolean(&mut self) -> Quick<bool> {
        if self.skip("true").is_ok() { Ok(true) } else { self.skip("false").map(|()| false) }
    }

    /// Parses a member that is omitted if false.
    fn flag(&mut self, name: &str) -> Quick<bool> {
        self.optional(name, Self::boolean).map(Option::unwrap_or_default)
    }

    /// Parses a string without escapes.
    fn word(&mut self) -> Quick<&'a str> {
        let inner = self.rest.strip_prefix('"').ok_or(Otherwise)?;
        let ends = |byte: u8| byte == b'"' || byte == b'\\' || byte < b' ';
        let end = inner.bytes().position(ends).ok_or(Otherwise)?;
        let (word, rest) = inner.split_at(end);
        self.rest = rest.strip_prefix('"').ok_or(Otherwise)?;
        Ok(word)
    }

    fn text(&mut self) -> Quick<String> {
        self.word().map(str::to_owned)
    }

    fn parsed<T: FromStr>(&mut self) -> Quick<T> {
        self.word()?.parse().map_err(|_| Otherwise)
    }

    /// Parses a fact's number; `None` if the fact itself follows.
    fn number_of_fact(&mut self) -> Quick<Option<u32>> {
        if self.rest.starts_with(['[', '{']) { Ok(None) } else { self.small().map(Some) }
    }

    fn connection(&mut self, requested_url: &str, facts: &FactTable) -> Quick<Connection> {
        self.open()?;
        let url = self.optional("url", Self::text)?;
        let connection = Connection {
            url: url.unwrap_or_else(|| requested_url.to_owned()),
            started_unix_ns: self.optional("started_unix_ns", Self::unsigned)?,
            marks: self.optional("marks", Self::marks)?.unwrap_or_default(),
            lookups: self.optional("lookups", |c| c.list(Self::lookup))?.unwrap_or_default(),
            attempts: self.optional("attempts", |c| c.list(Self::attempt))?.unwrap_or_default(),
            flights: self.optional("flights", |c| c.list(|c| c.flight(facts)))?.unwrap_or_default(),
            facts: self.facts(facts)?,
            failure: None,
            open_end: None,
        };
        self.close()?;
        Ok(connection)
    }

    fn facts(&mut self, facts: &FactTable) -> Quick<Facts> {
        Ok(Facts {
            client: self.optional("client", |c| c.client(facts))?,
            remote: self.optional("remote", Self::parsed::<SocketAddr>)?,
            local: self.optional("local", Self::parsed::<SocketAddr>)?,
            reused: self.flag("reused")?,
            proxy: self.optional("proxy", |c| c.proxy(facts))?.flatten(),
            tcp: self.optional("tcp", Self::tcp)?,
            quic: self.optional("quic", Self::quic)?,
            tls: self.optional("tls", |c| {
                let number = c.number_of_fact()?.ok_or(Otherwise)?;
                let tls = match (c.detail, facts.get(number)) {
                    (SampleDetail::Columns, Some(Fact::Tls(tls))) => tls.facts_of_columns(facts),
                    _ => tls_of(Shared::Number(number), facts),
                };
                tls.map_err(|_| Otherwise)
            })?,
            http: self.optional("http", |c| c.http(facts))?,
            panel: self.optional("panel", |c| c.list(Self::panel_time))?.unwrap_or_default(),
            processor: self.optional("processor", Self::processor)?,
        })
    }

    fn processor(&mut self) -> Quick<ProcessorTime> {
        self.open()?;
        self.required("user_ns")?;
        let user = self.duration()?;
        self.required("system_ns")?;
        let time = ProcessorTime { user, system: self.duration()? };
        self.close()?;
        Ok(time)
    }

    fn panel_time(&mut self) -> Quick<PanelTime> {
        self.open()?;
        self.required("label")?;
        let label = self.text()?;
        self.required("took_ns")?;
        let time = PanelTime { label, took: self.duration()? };
        self.close()?;
        Ok(time)
    }

    fn client(&mut self, facts: &FactTable) -> Quick<ClientFacts> {
        let number = self.number_of_fact()?.ok_or(Otherwise)?;
        match facts.get(number) {
            Some(Fact::Client(client)) => Ok(client.clone().facts()),
            _ => Err(Otherwise),
        }
    }

    fn proxy(&mut self, facts: &FactTable) -> Quick<Option<ProxyFacts>> {
        let number = self.number_of_fact()?.ok_or(Otherwise)?;
        match facts.get(number) {
            Some(Fact::Proxy(proxy)) => Ok(proxy.clone().facts()),
            _ => Err(Otherwise),
        }
    }

    /// Parses a time and its clock.
    fn stamp(&mut self) -> Quick<Stamp> {
        self.skip("[")?;
        let at = self.offset()?;
        self.skip(",")?;
        Ok(Stamp { at, clock: self.clock()? })
    }

    fn clock(&mut self) -> Quick<Clock> {
        Ok(match self.word()? {
            "k" => Clock::Kernel,
            "d" => Clock::KernelDerived,
            "u" => Clock::User,
            "s" => Clock::Simulated,
            other => {
                let resolution = other.strip_prefix('r').and_then(|steps| steps.parse().ok());
                Clock::Reported { resolution_ns: resolution.ok_or(Otherwise)? }
            }
        })
    }

    fn marks(&mut self) -> Quick<Marks> {
        self.open()?;
        let mut marks = Marks::default();
        for mark in Mark::ALL {
            if self.member(mark.name()) {
                marks.set(mark, self.stamp()?);
                self.skip("]")?;
            }
        }
        self.close()?;
        Ok(marks)
    }

    fn lookup(&mut self) -> Quick<Lookup> {
        self.open()?;
        self.required("record_type")?;
        let record_type = RecordType::named(self.word()?).unwrap_or(RecordType::Any);
        self.required("start_ns")?;
        let lookup = Lookup {
            record_type,
            start: self.offset()?,
            end: self.optional("end_ns", Self::offset)?,
            addresses: self
                .optional("addresses", |c| c.list(Self::parsed::<IpAddr>))?
                .unwrap_or_default(),
            error: self.optional("error", Self::text)?,
            tries: self.optional("tries", |c| c.list(Self::lookup_try))?.unwrap_or_default(),
        };
        self.close()?;
        Ok(lookup)
    }

    fn lookup_try(&mut self) -> Quick<LookupTry> {
        self.open()?;
        self.required("server")?;
        let server = self.parsed()?;
        self.required("transport")?;
        let transport = DnsTransport::named(self.word()?).unwrap_or(DnsTransport::Udp);
        self.required("start_ns")?;
        let start = self.offset()?;
        let end = self.optional("end_ns", Self::offset)?;
        let error = self.optional("error", Self::text)?;
        self.close()?;
        Ok(LookupTry { server, transport, start, end, error })
    }

    fn attempt(&mut self) -> Quick<Attempt> {
        self.open()?;
        self.required("remote")?;
        let remote = self.parsed()?;
        self.required("start_ns")?;
        let start = self.offset()?;
        let end = self.optional("end_ns", Self::offset)?;
        self.required("outcome")?;
        let outcome = match self.word()? {
            "won" => AttemptOutcome::Won,
            "failed" => AttemptOutcome::Failed {
                error: self.optional("error", Self::text)?.unwrap_or_default(),
            },
            _ => AttemptOutcome::Lost,
        };
        self.close()?;
        Ok(Attempt { remote, start, end, outcome })
    }

    fn flight(&mut self, facts: &FactTable) -> Quick<Flight> {
        self.open()?;
        self.required("direction")?;
        let direction = match self.word()? {
            "sent" => Direction::Sent,
            "received" => Direction::Received,
            _ => return Err(Otherwise),
        };
        self.required("chunks")?;
        let mut chunks = self.list(|c| c.chunk(direction))?;
        if self.member("segments") {
            let mut counted = chunks.iter_mut();
            let or_null = |c: &mut Self| {
                if c.skip("null").is_ok() { Ok(None) } else { c.small().map(Some) }
            };
            self.list(|c| {
                let segments = or_null(c)?;
                counted.next().map(|chunk| chunk.segments = segments).ok_or(Otherwise)
            })?;
        }
        let messages = self.optional("messages", |c| c.messages(facts))?.unwrap_or_default();
        self.close()?;
        Ok(Flight { direction, chunks, messages })
    }

    fn chunk(&mut self, direction: Direction) -> Quick<Chunk> {
        let stamp = self.stamp()?;
        self.skip(",")?;
        let bytes = self.unsigned()?;
        self.skip(",")?;
        let then = if self.skip("null").is_ok() { None } else { Some(self.offset()?) };
        self.skip("]")?;
        Ok(Chunk::new(stamp, bytes).acknowledged_or_read_at(direction, then))
    }

    fn messages(&mut self, facts: &FactTable) -> Quick<Vec<String>> {
        let Some(number) = self.number_of_fact()? else { return self.list(Self::text) };
        match facts.get(number) {
            Some(Fact::Messages(messages)) => Ok(messages.clone()),
            _ => Err(Otherwise),
        }
    }

    fn tcp(&mut self) -> Quick<TcpFacts> {
        self.open()?;
        let tcp = TcpFacts {
            syn_rtt: self.optional("syn_rtt_ns", Self::duration)?,
            min_rtt: self.optional("min_rtt_ns", Self::duration)?,
            retransmits: self.optional("retransmits", Self::small)?,
            send_mss: self.optional("send_mss_bytes", Self::small)?,
            receive_mss: self.optional("receive_mss_bytes", Self::small)?,
            out_of_order: self.optional("out_of_order", Self::small)?,
            receive_window_limited: self.optional("receive_window_limited_ns", Self::duration)?,
            congestion_control: self.optional("congestion_control", Self::text)?,
            syn_departure_uncertainty: self
                .optional("syn_departure_uncertainty_ns", Self::duration)?,
        };
        self.close()?;
        Ok(tcp)
    }

    fn quic(&mut self) -> Quick<QuicFacts> {
        self.open()?;
        let version = self.optional("version", Self::text)?;
        let min_rtt = self.optional("min_rtt_ns", Self::duration)?;
        let quic = QuicFacts {
            version,
            min_rtt,
            datagrams_sent: self.optional("datagrams_sent", Self::small)?,
            datagrams_received: self.optional("datagrams_received", Self::small)?,
            lost_packets: self.optional("lost_packets", Self::unsigned)?,
            retry: self.flag("retry")?,
            bytes_before_validation: self.optional("bytes_before_validation", Self::unsigned)?,
            amplification_stall: self.optional("amplification_stall_ns", Self::duration)?,
            congestion_control: self.optional("congestion_control", Self::text)?,
            datagrams: self.optional("datagrams", |c| c.list(Self::datagram))?.unwrap_or_default(),
            log: self.optional("log", Self::quic_log)?.flatten(),
        };
        self.close()?;
        Ok(quic)
    }

    fn datagram(&mut self) -> Quick<QuicDatagram> {
        self.open()?;
        self.required("sent")?;
        let sent = self.boolean()?;
        self.required("at_ns")?;
        let record = DatagramRecord {
            sent,
            at_ns: self.signed()?,
            new: self.flag("new")?,
            elicits: self.flag("elicits")?,
            missing_since_ns: self.optional("missing_since_ns", Self::signed)?,
            skipped: self.optional("skipped", Self::small)?,
            acknowledged_ns: self.optional("acknowledged_ns", Self::signed)?,
            acknowledgement_delay_ns: self.optional("acknowledgement_delay_ns", Self::unsigned)?,
        };
        self.close()?;
        Ok(record.datagram())
    }

    /// Parses packets, which columns do not need.
    fn quic_log(&mut self) -> Quick<Option<Box<QuicLog>>> {
        let object = self.object()?;
        match self.detail {
            SampleDetail::Columns => Ok(None),
            SampleDetail::Whole => {
                let log: StoredQuicLog = serde_json::from_str(object).map_err(|_| Otherwise)?;
                Ok(Some(Box::new(log.log())))
            }
        }
    }

    /// Takes an object up to its end. Braces or escapes in its strings yield [`Otherwise`].
    fn object(&mut self) -> Quick<&'a str> {
        let (mut depth, mut in_string) = (0_usize, false);
        for (at, byte) in self.rest.bytes().enumerate() {
            match byte {
                b'"' => in_string = !in_string,
                b'\\' => return Err(Otherwise),
                b'{' | b'}' if in_string => return Err(Otherwise),
                b'{' => depth += 1,
                b'}' => {
                    depth = depth.checked_sub(1).ok_or(Otherwise)?;
                    if depth == 0 {
                        let (object, rest) = self.rest.split_at(at + 1);
                        self.rest = rest;
                        return Ok(object);
                    }
                }
                _ if depth == 0 => return Err(Otherwise),
                _ => {}
            }
        }
        Err(Otherwise)
    }

    fn http(&mut self, facts: &FactTable) -> Quick<HttpFacts> {
        self.open()?;
        self.required("method")?;
        let http = HttpFacts {
            method: self.text()?,
            version: self.optional("version", Self::text)?,
            status: self.optional("status", Self::small)?,
            headers: self.optional("headers", |c| c.headers(facts))?.unwrap_or_default(),
            request_bytes: self.optional("request_bytes", Self::unsigned)?,
            upload_bytes: self.optional("upload_bytes", Self::unsigned)?,
            upload_sent_bytes: self.optional("upload_sent_bytes", Self::unsigned)?,
            header_bytes: self.optional("header_bytes", Self::unsigned)?,
            body_bytes: self.optional("body_bytes", Self::unsigned)?,
            decoded_bytes: self.optional("decoded_bytes", Self::unsigned)?,
            undecoded_bytes: self.optional("undecoded_bytes", Self::unsigned)?,
            head_took: self.optional("head_took_ns", Self::duration)?,
            may_be_cut_short: self.flag("may_be_cut_short")?,
        };
        self.close()?;
        Ok(http)
    }

    fn headers(&mut self, facts: &FactTable) -> Quick<Vec<Header>> {
        match self.detail {
            SampleDetail::Whole => self.list(|c| {
                let (name, value) = c.header(facts)?;
                Ok(Header { name: name.to_owned(), value: value.to_owned() })
            }),
            SampleDetail::Columns => self.list(|c| c.header(facts).map(drop)).map(|_| Vec::new()),
        }
    }

    /// Parses a name and a value.
    fn header<'f>(&mut self, facts: &'f FactTable) -> Quick<(&'f str, &'f str)>
    where
        'a: 'f,
    {
        let Some(number) = self.number_of_fact()? else {
            self.skip("[")?;
            let name = self.word()?;
            self.skip(",")?;
            let value = self.word()?;
            self.skip("]")?;
            return Ok((name, value));
        };
        match facts.get(number) {
            Some(Fact::Header(name, value)) => Ok((name, value)),
            _ => Err(Otherwise),
        }
    }
}
