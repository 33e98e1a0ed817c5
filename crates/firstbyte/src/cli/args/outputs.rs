//! Outputs that several commands have, and values of plans as they are typed.

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use crate::plans::{ColorChoice, Destination, WireSession};

/// Rows. The command says of what they are.
#[derive(Args, Clone, Debug, Default)]
pub(in crate::cli) struct RowArgs {
    /// All samples as NDJSON, on stdout or in FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = Destination::STREAM, help_heading = "Output")]
    pub json: Option<Destination>,
    /// All samples as CSV, on stdout or in FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = Destination::STREAM, help_heading = "Output")]
    pub csv: Option<Destination>,
}

/// How a plan's values are typed, and what help says of them.
macro_rules! typed_values {
    ($type:ty: $($variant:ident $name:literal $($help:literal)?;)+) => {
        impl ValueEnum for $type {
            fn value_variants<'a>() -> &'a [Self] {
                &[$(Self::$variant),+]
            }

            fn to_possible_value(&self) -> Option<PossibleValue> {
                Some(match self {
                    $(Self::$variant => PossibleValue::new($name)$(.help($help))?,)+
                })
            }
        }
    };
}

typed_values! { ColorChoice:
    Auto "auto" "When standard output is a terminal and NO_COLOR is not set";
    Always "always";
    Never "never";
}

typed_values! { WireSession:
    Full "full" "A full handshake, for whatever reason";
    Declined "declined" "A full handshake although a session was offered";
    Hrr "hrr" "The server sent a HelloRetryRequest";
    Resumed "resumed" "A session was taken up, with early data or without";
    EarlyData "early-data" "Early data was sent";
    Failed "failed"
        "Refused, unanswered, or ended in the handshake by an alert, a reset or a close";
    Unknown "unknown" "Neither full nor resumed as far as could be seen, and not failed";
}
