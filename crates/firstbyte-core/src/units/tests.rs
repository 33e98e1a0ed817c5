use super::*;

fn time(text: &str) -> Result<Duration, UnitError> {
    parse_time(text, BareTime::Refused)
}

fn size(text: &str) -> Result<u64, UnitError> {
    parse_size(text, BareSize::Bytes)
}

#[test]
fn times_take_every_unit_and_decimals() {
    let ns = |text: &str| time(text).unwrap().as_nanos();
    assert_eq!(ns("5s"), 5_000_000_000);
    assert_eq!(ns("250ms"), 250_000_000);
    assert_eq!(ns("1.5min"), 90_000_000_000);
    assert_eq!(
        (ns("2m"), ns("2h"), ns("1d")),
        (120_000_000_000, 7_200_000_000_000, 86_400_000_000_000)
    );
    assert_eq!((ns("500us"), ns("500µs"), ns("500\u{3bc}s")), (500_000, 500_000, 500_000));
    assert_eq!((ns("7ns"), ns("0.4ns"), ns("0.5ns")), (7, 0, 1));
    assert_eq!(
        (ns(" 0.2 s "), ns(".5s"), ns("5.s"), ns("0000000000000000000000.1s")),
        (200_000_000, 500_000_000, 5_000_000_000, 100_000_000)
    );
}

#[test]
fn a_bare_number_means_what_its_place_says() {
    assert_eq!(parse_time("5", BareTime::Seconds), Ok(Duration::from_secs(5)));
    assert_eq!(parse_time("12.5", BareTime::Milliseconds), Ok(Duration::from_micros(12_500)));
    assert_eq!(parse_time("5ms", BareTime::Seconds), Ok(Duration::from_millis(5)));
    assert_eq!(parse_size("32", BareSize::Mebibytes), Ok(32 << 20));
    assert_eq!(parse_size("64kB", BareSize::Mebibytes), Ok(64_000));
    assert_eq!(parse_share("0.001", BareShare::OfOne), Ok(0.001));
    assert!(time("5").unwrap_err().to_string().contains("no unit"));
    assert!(parse_rate("20").unwrap_err().to_string().contains("no unit"));
    assert!(parse_share("1", BareShare::Refused).is_err());
}

#[test]
fn sizes_are_whole_bytes() {
    let all =
        ["4000", "20kB", "20 KB", "1.5MB", "64KiB", "2g", "1TiB"].map(|text| size(text).unwrap());
    assert_eq!(all, [4_000, 20_000, 20_000, 1_500_000, 65_536, 2_000_000_000, 1 << 40]);
    assert_eq!(size("1.5").unwrap_err().to_string(), "not a whole number of bytes");
    assert_eq!(size("1.5KiB"), Ok(1_536));
}

#[test]
fn rates_are_in_bits_a_second() {
    let all = ["512kbit", "100Mbit/s", "1.5gbit", "8bit", "20 mbps"]
        .map(|text| parse_rate(text).unwrap());
    assert_eq!(all, [512_000, 100_000_000, 1_500_000_000, 8, 20_000_000]);
    for bad in ["0mbit", "100MB", "100MB/s", "100/s", "1.5bit"] {
        assert!(parse_rate(bad).is_err(), "{bad}");
    }
}

#[test]
fn shares_are_percentages() {
    assert_eq!(parse_share("0.5%", BareShare::Refused), Ok(0.005));
    assert_eq!(parse_share("95 %", BareShare::Refused), Ok(0.95));
    assert!(parse_share("5ms", BareShare::OfOne).is_err());
}

#[test]
fn what_is_no_quantity_is_refused_with_what_to_write() {
    let texts =
        ["", "s", "-5s", "+5s", "1e3ms", "1.2.3ms", ".s", ".", "infs", "NaN", "5,5ms", "0x5s"];
    for bad in texts {
        assert!(time(bad).is_err() && size(bad).is_err() && parse_rate(bad).is_err(), "{bad}");
    }
    let error = time("80 miles").unwrap_err();
    assert_eq!(error.to_string(), "not a time: unknown unit \"miles\"");
    assert!(error.advice().contains("250ms"));
    let second = Duration::from_secs(1);
    let error = parse_time_within("2s", BareTime::Refused, Duration::ZERO..=second).unwrap_err();
    assert_eq!(error.to_string(), "not a time from 0s to 1s");
    let error = parse_size_within("1", BareSize::Bytes, 64..=262_144).unwrap_err();
    assert_eq!(error.to_string(), "not a number of bytes from 64B to 256KiB");
}

#[test]
fn nothing_overflows() {
    let most = u64::MAX;
    assert_eq!(time(&format!("{most}ns")), Ok(Duration::from_nanos(most)));
    for bad in ["18446744073709551616ns", "18446744073.709551616s", "99999999999999999999d"] {
        assert!(time(bad).is_err(), "{bad}");
    }
    assert_eq!(size(&format!("{most}")), Ok(most));
    assert!(size("18446744073709551616").is_err() && size("99999999999999999999TiB").is_err());
    assert!(parse_rate("99999999999999999999tbit").is_err());
    // Any number of digits is refused or read, and never panics.
    for digits in 1..200 {
        let text = format!("{}.{}", "9".repeat(digits), "9".repeat(digits));
        for unit in ["ns", "d", "TiB", "Gbit/s", "%"] {
            let text = format!("{text}{unit}");
            let _ =
                (time(&text), size(&text), parse_rate(&text), parse_share(&text, BareShare::OfOne));
        }
    }
}

#[test]
fn what_is_printed_is_read_back() {
    let mut random = fastrand::Rng::with_seed(17);
    for _ in 0..50_000 {
        // Numbers of every length, and whole multiples of every unit.
        let number = random.u64(..) >> random.u32(0..64);
        let tens = 10_u64.pow(random.u32(0..19));
        for number in [number, number / tens * tens, number & !0xF_FFFF] {
            let duration = Duration::from_nanos(number);
            assert_eq!(time(&print_time(duration)), Ok(duration));
            assert_eq!(size(&print_size(number)), Ok(number));
            if number > 0 {
                assert_eq!(parse_rate(&print_rate(number)), Ok(number));
            }
        }
    }
}

#[test]
fn any_text_is_read_or_refused() {
    let alphabet: Vec<char> = "0123456789..  nuµmskdhinKMGTBbit/%-+e\u{3bc}€".chars().collect();
    let mut random = fastrand::Rng::with_seed(18);
    for _ in 0..50_000 {
        let length = random.usize(0..12);
        let text: String = (0..length).map(|_| alphabet[random.usize(..alphabet.len())]).collect();
        if let Ok(read) = time(&text) {
            assert_eq!(time(&print_time(read)), Ok(read), "{text}");
        }
        if let Ok(read) = size(&text) {
            assert_eq!(size(&print_size(read)), Ok(read), "{text}");
        }
        if let Ok(read) = parse_rate(&text) {
            assert_eq!(parse_rate(&print_rate(read)), Ok(read), "{text}");
        }
        if let Ok(read) = parse_share(&text, BareShare::OfOne) {
            assert!(read.is_finite() && read >= 0.0, "{text}");
        }
    }
}
