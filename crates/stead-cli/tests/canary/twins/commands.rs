//! The twins through the command line. Each command is a process of its own.

use super::world::{Occupant, STORES, TWINS, Twin};
use super::{At, Needs};
use crate::is_long;

/// A command, and what has to be at the path. `{}` stands for the path, `{rw}` for the Workspace around it.
const COMMANDS: [(&[&str], Needs); 10] = [
    (&["mkdir", "{}"], Needs::Nothing),
    (&["mkdir", "-p", "{}"], Needs::Nothing),
    (&["rm", "{}"], Needs::Nothing),
    (&["rm", "-f", "{}"], Needs::Nothing),
    (&["rm", "-r", "{}"], Needs::Nothing),
    (&["append", "{}", "x"], Needs::Room),
    (&["write", "{}", "x"], Needs::Room),
    (&["cp", "--overwrite", "{rw}/first", "{}"], Needs::Room),
    (&["mv", "--overwrite", "{rw}/first", "{}"], Needs::Room),
    (&["import", "imported", "{}"], Needs::Nothing),
];

fn run_twin(occupant: Occupant, twins: (Occupant, Occupant)) -> Twin {
    let commands = COMMANDS.iter().filter(|(args, needs)| {
        // An import needs a directory, or nothing, at its destination.
        needs.hides_occupant(twins.1, At::Name) && (args[0] != "import" || twins.1.is_directory())
    });
    let names: Vec<String> = (0..COMMANDS.len()).map(|number| format!("n{number}")).collect();
    let mut twin = Twin::new(occupant, &names);
    std::fs::create_dir(twin.path("imported")).unwrap();
    std::fs::write(twin.path("imported/a.txt"), "a\n").unwrap();
    for ((args, _), name) in commands.zip(&names) {
        for store in STORES {
            let path = format!("{store}/wo/{name}");
            let args: Vec<String> =
                args.iter().map(|arg| arg.replace("{}", &path).replace("{rw}", store)).collect();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            twin.run(&args);
            let first = format!("{store}/first");
            twin.run(&["write", "--json", &first, "2\n"]);
            twin.run(&["undo", "--dry-run", "--last", "3"]);
        }
    }
    for args in [&["undo", "--last", "5", "--skip-conflicts"][..], &["ls", "-lR", "/"], &["doctor"]] {
        twin.run(args);
    }
    twin.look_at_records(twins);
    twin
}

#[test]
fn no_command_reveals_whether_a_name_is_taken_in_a_write_only_workspace() {
    let count = if is_long() { TWINS.len() } else { 2 };
    for twins in TWINS.into_iter().take(count) {
        run_twin(twins.0, twins).transcript.check_same(&run_twin(twins.1, twins).transcript, twins);
    }
}
