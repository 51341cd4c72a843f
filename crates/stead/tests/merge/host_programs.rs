//! What only a host directory has: programs that change it beside Stead.

use super::*;

#[test]
fn g8_lines_of_a_host_program_and_of_the_fork_are_combined() {
    let project = Project::new(TargetStore::Physical);
    let stead = forked(&project);
    write(&stead, "/forks/draft/src/main.rs", "one\n2\n3\n4\n5\n6\n7\n");
    std::fs::write(project.host("src/main.rs"), "1\n2\n3\n4\n5\n6\nseven\n").unwrap();
    merge_clean(&stead, "draft");
    assert_eq!(std::fs::read(project.host("src/main.rs")).unwrap(), b"one\n2\n3\n4\n5\n6\nseven\n");
    assert_eq!(files(&stead, "/forks/draft"), files(&stead, "/code"));
}
