//! Compared steads through the command line. Each command is a process of its own.

use super::compared_stead::{COMPARED_PAIRS, ComparedStead, Occupant, STORES};
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

fn run_commands(occupant: Occupant, pair: (Occupant, Occupant)) -> ComparedStead {
    let commands = COMMANDS.iter().filter(|(args, needs)| {
        // An import needs a directory, or nothing, at its destination.
        needs.hides_occupant(pair.1, At::Name) && (args[0] != "import" || pair.1.is_directory())
    });
    let names: Vec<String> = (0..COMMANDS.len()).map(|number| format!("n{number}")).collect();
    let mut compared = ComparedStead::new(occupant, &names);
    std::fs::create_dir(compared.path("imported")).unwrap();
    std::fs::write(compared.path("imported/a.txt"), "a\n").unwrap();
    for ((args, _), name) in commands.zip(&names) {
        for store in STORES {
            let path = format!("{store}/wo/{name}");
            let args: Vec<String> =
                args.iter().map(|arg| arg.replace("{}", &path).replace("{rw}", store)).collect();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            compared.run(&args);
            let first = format!("{store}/first");
            compared.run(&["write", "--json", &first, "2\n"]);
            compared.run(&["undo", "--dry-run", "--last", "3"]);
        }
    }
    for args in [&["undo", "--last", "5", "--skip-conflicts"][..], &["ls", "-lR", "/"], &["doctor"]] {
        compared.run(args);
    }
    compared.look_at_records(pair);
    compared
}

#[test]
fn no_command_reveals_whether_a_name_is_taken_in_a_write_only_workspace() {
    let count = if is_long() { COMPARED_PAIRS.len() } else { 2 };
    for pair in COMPARED_PAIRS.into_iter().take(count) {
        run_commands(pair.0, pair).transcript.check_same(&run_commands(pair.1, pair).transcript, pair);
    }
}
