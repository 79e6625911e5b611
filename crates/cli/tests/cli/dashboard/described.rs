//! The API against its own description: Schemathesis asks what the description allows, and more. It belongs to
//! `cargo xtask soak`, which installs it.

use std::process::Command;

use windlass_testkit::{skipped, soak};

use crate::served::{Served, own_token, project_of};
use crate::world::{Repo, escalating, id_of};

/// How often each operation is asked, for a scale of 1.
const EXAMPLES: u32 = 20;
/// What is left out: strangers are slowed down after some requests (429), and most that is possible here needs a state
/// that random requests do not find.
const LEFT_OUT: &str = "ignored_auth,missing_required_header,positive_data_acceptance";

#[test]
fn the_api_answers_as_its_description_says() {
    let Some(program) = std::env::var_os("WINDLASS_TEST_SCHEMATHESIS") else {
        skipped("no Schemathesis: `cargo xtask soak api` installs it");
        return;
    };
    let repo = Repo::new();
    let run = id_of(&repo.run(&escalating()).exit(4));
    let served = Served::start(&repo.place, &[]);
    let token = own_token(&repo.place);
    let folder = repo.place.base().join("schemathesis");
    std::fs::create_dir_all(&folder).unwrap();
    let project = project_of(&repo.place);
    let named =
        format!("[parameters]\n\"path.project\" = \"{project}\"\n\"path.run\" = \"{run}\"\n");
    std::fs::write(folder.join("schemathesis.toml"), named).unwrap();
    let (examples, seed) = (soak::rounds(EXAMPLES), soak::seed(7));
    // Once with names that exist, once with whatever comes.
    for inside in [folder.as_path(), repo.place.base()] {
        let done = Command::new(&program)
            .args(["run", &format!("http://{}/api/v1/openapi.json", served.address)])
            .args(["-H", &format!("Authorization: Bearer {token}")])
            .args(["--phases", "examples,coverage,fuzzing", "--rate-limit", "80/s"])
            .args(["--max-examples", &examples.to_string(), "--seed", &seed.to_string()])
            .args(["--continue-on-failure", "--no-color", "--exclude-checks", LEFT_OUT])
            // It does not end.
            .args(["--exclude-path", "/api/v1/events"])
            .current_dir(inside)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{told}{}", String::from_utf8_lossy(&done.stderr));
    }
    repo.is_whole();
}
