//! Files that are missing or invalid.

use nix::sys::stat::Mode;

use super::refused::{self, Row};
use crate::support::files::Directory;

const ROWS: &[Row] = &[
    (
        &["--cacert", "missing.pem", "a.test"],
        77,
        "error: --cacert missing.pem: no such file or directory\n",
    ),
    (&["--cacert", ".", "a.test"], 77, "error: --cacert .: is a directory\n"),
    (
        &["--cacert", "empty.pem", "a.test"],
        77,
        "error: --cacert empty.pem: the file has no PEM certificate\n",
    ),
    (
        &["--cacert", "client.key", "a.test"],
        77,
        "error: --cacert client.key: the file has no PEM certificate\n",
    ),
    (
        &["--cacert", "damaged.pem", "a.test"],
        77,
        "error: --cacert damaged.pem: damaged PEM: not base64\n",
    ),
    (
        &["--cacert", "cut.pem", "a.test"],
        77,
        "error: --cacert cut.pem: damaged PEM: a line -----END …----- is missing\n",
    ),
    (
        &["--cacert", "hollow.pem", "a.test"],
        77,
        "error: --cacert hollow.pem: the PEM data is not a certificate\n",
    ),
    (
        &["--cert", "missing.pem", "a.test"],
        58,
        "error: --cert missing.pem: no such file or directory\n",
    ),
    (
        &["--cert", "empty.pem", "a.test"],
        58,
        "error: --cert empty.pem: the file has no PEM certificate\n",
    ),
    (
        &["--cert", "client.pem", "a.test"],
        58,
        "error: --cert client.pem: the file has no private key; give one with --key\n",
    ),
    (
        &["--cert", "client.pem", "--key", "missing.key", "a.test"],
        58,
        "error: --key missing.key: no such file or directory\n",
    ),
    (
        &["--cert", "client.pem", "--key", "ca.pem", "a.test"],
        58,
        "error: --key ca.pem: the file has no private key\n",
    ),
    (
        &["--cert", "client.pem", "--key", "stranger.pem", "a.test"],
        58,
        "error: --cert client.pem: the private key does not match the certificate\n",
    ),
    (&["-d", "@missing", "a.test"], 26, "error: -d @missing: no such file or directory\n"),
    (
        &["--data-binary", "@missing", "a.test"],
        26,
        "error: --data-binary @missing: no such file or directory\n",
    ),
    // An endless file is not read to its end.
    (&["--cacert", "/dev/zero", "a.test"], 77, "error: --cacert /dev/zero: more than 16 MB\n"),
    (&["--cert", "/dev/zero", "a.test"], 58, "error: --cert /dev/zero: more than 16 MB\n"),
    (
        &["--cert", "client.pem", "--key", "/dev/zero", "a.test"],
        58,
        "error: --key /dev/zero: more than 16 MB\n",
    ),
    (&["-d", "@/dev/zero", "a.test"], 26, "error: -d @/dev/zero: more than 256 MB\n"),
    (&["-w", "@/dev/zero", "a.test"], 26, "error: --write-out @/dev/zero: more than 16 MB\n"),
    (&["compare", "--plan", "/dev/zero"], 26, "error: --plan /dev/zero: more than 16 MB\n"),
    (&["lab", "show", "/dev/zero"], 100, "error: cannot read scenario /dev/zero: more than 1 MB\n"),
    (
        &["report", "."],
        26,
        "error: cannot read .: a directory without store.sqlite\n\
         hint: give files, or the directory of a monitor (its --store)\n",
    ),
    (
        &["report", "/dev/zero"],
        2,
        "error: /dev/zero is a pipe or a device, not a file\n\
         hint: a run is read again from its beginning: give the name of a file\n",
    ),
    (
        &["compare", "https://a.test/", "--vary", "tls=1.2,1.3", "--run", "pipe"],
        2,
        "error: pipe is a pipe or a device, not a file\n\
         hint: a run is read again from its beginning: give the name of a file\n",
    ),
    (
        &["compare", "--continue", "pipe"],
        2,
        "error: pipe is a pipe or a device, not a file\n\
         hint: a run is read again from its beginning: give the name of a file\n",
    ),
    (&["-w", "@missing", "a.test"], 26, "error: --write-out @missing: no such file or directory\n"),
    (&["-w", "@not-text", "a.test"], 26, "error: --write-out @not-text: the file is not text\n"),
    (&["-w", "@.", "a.test"], 26, "error: --write-out @.: is a directory\n"),
    (&["-o", ".", "a.test"], 23, "error: -o .: it is a directory\n"),
    (
        &["-o", "no/such/file", "a.test"],
        23,
        "error: -o no/such/file: there is no directory no/such\n",
    ),
    (&["-o", "ca.pem/file", "a.test"], 23, "error: -o ca.pem/file: there is no directory ca.pem\n"),
];

#[test]
fn files() {
    let directory = Directory::with_client();
    directory.write("empty.pem", "");
    nix::unistd::mkfifo(&directory.path().join("pipe"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    directory
        .write("damaged.pem", "-----BEGIN CERTIFICATE-----\nAAAA!!!!\n-----END CERTIFICATE-----\n");
    directory.write("cut.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n");
    directory.write("hollow.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    directory.write("not-text", [0xff, 0xfe, 0x00]);
    refused::check(&directory, ROWS);
}
