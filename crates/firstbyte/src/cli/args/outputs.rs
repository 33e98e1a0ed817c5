//! Output arguments shared by several commands, and enums of plans as arguments.

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use crate::plans::{ColorChoice, Destination, WireSession};

#[derive(Args, Clone, Debug, Default)]
pub(in crate::cli) struct RowArgs {
    /// All samples as NDJSON, to stdout or FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = Destination::STREAM, help_heading = "Output")]
    pub json: Option<Destination>,
    /// All samples as CSV, to stdout or FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = Destination::STREAM, help_heading = "Output")]
    pub csv: Option<Destination>,
    /// As in hyperfine: --json=FILE
    #[arg(long, value_name = "FILE", conflicts_with = "json", hide = true)]
    export_json: Option<Destination>,
}

impl RowArgs {
    /// Where JSON goes, by either flag.
    pub(in crate::cli) fn json(&self) -> Option<Destination> {
        self.json.clone().or_else(|| self.export_json.clone())
    }
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
    Full "full" "Full handshake";
    Declined "declined" "Full handshake although the client offered a session";
    Hrr "hrr" "The server sent a HelloRetryRequest";
    Resumed "resumed" "Resumed, with or without early data";
    EarlyData "early-data" "The client sent early data";
    Failed "failed"
        "Refused, unanswered, or ended during the handshake by an alert, a reset or a close";
    Unknown "unknown" "Not failed, but the capture does not show whether full or resumed";
}
