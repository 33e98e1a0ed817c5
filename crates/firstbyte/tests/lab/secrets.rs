//! `lab study` shows no secrets of its plan. `tests/program/secrets.rs` tests all other commands, on loopback.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{LINKS, Permits, Scene, firstbyte, run, text};

const PLAN: &str = r#"
url = "https://server.test/"
vary = ["tls=1.2,1.3"]
samples = 2
interval = 0.0
flags = ["-4", "-H", "Authorization: s3cret-1", "-HCookie: s3cret-2", "--data=s3cret-3"]
"#;

#[test]
fn a_study_shows_no_secret_of_its_plan() {
    let _permits = Permits::one();
    let scene = Scene::new(LINKS);
    fs::write(scene.path("plan.toml"), PLAN).unwrap();
    let mut command = firstbyte(&["lab", "study"]);
    command.arg(scene.file()).current_dir(scene.path(""));
    command.args(["--server", "builtin", "--plan", "plan.toml", "--silent", "--run", "a.run"]);
    command.args(["--html", "a.html", "--json=a.json", "--har", "a.har", "--csv=a.csv"]);
    command.args(["--svg", "svg", "--logs", "logs"]);
    let output = run(&mut command);
    let (shown, notes) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{notes}{shown}");
    let mut texts = vec![("standard output".into(), shown), ("standard error".into(), notes)];
    for directory in [scene.path(""), scene.path("svg"), scene.path("logs")] {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let holds_them = ["a.run", "plan.toml"].iter().any(|name| path.ends_with(name));
            if path.is_file() && !holds_them {
                texts.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(texts.len() > 8, "{texts:?}");
    for (name, text) in &texts {
        assert!(!text.contains("s3cret"), "{name}: {text}");
    }
    let kept = fs::read_to_string(scene.path("a.run")).unwrap();
    assert!((1..=3).all(|n| kept.contains(&format!("s3cret-{n}"))));
    for name in ["a.run", "a.json", "a.har"] {
        let mode = fs::metadata(scene.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}
