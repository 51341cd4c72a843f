//! Undoing a merge over two Stores, and what becomes of the fork.

use stead_core::vfs::{UndoOptions, UndoTarget};

use super::*;

for_each_store! {
    fn g1_a_merge_over_two_stores_is_undone_as_a_whole_byte_for_byte_and_the_undo_too(store) {
        let project = project(store);
        let stead = draft(&project);
        write(&stead, "/forks/draft/a.txt", "one\n2\n3\n4\n5\n");
        rename(&stead, "/forks/draft/lib/sub", "/forks/draft/lib/moved");
        remove(&stead, "/forks/draft/lib/l.txt");
        write(&stead, "/forks/draft/lib/deeper/new", "n\n");
        write(&stead, "/forks/draft/same/s.txt", "one\n2\n3\n4\n5\n");
        write(&project.open("owner"), "/code/same/s.txt", "1\n2\n3\n4\nfive\n");
        let (before, fork_before) = (everything(&project), contents(&stead, "/forks/draft"));
        let operation = merge_clean(&stead, "draft").operation.unwrap();
        let (after, fork_after) = (everything(&project), contents(&stead, "/forks/draft"));
        let undo = stead.vfs().undo(UndoTarget::Operation(operation), UndoOptions::default()).unwrap();
        assert!(undo.conflicts.is_empty(), "{undo:?}");
        assert_eq!(everything(&project), before);
        assert_eq!(contents(&stead, "/forks/draft"), fork_before, "the fork has its changes as before");
        let again = UndoTarget::Operation(undo.operation.unwrap());
        stead.vfs().undo(again, UndoOptions::default()).unwrap();
        assert_eq!(everything(&project), after);
        assert_eq!(contents(&stead, "/forks/draft"), fork_after);
        assert!(merge_clean(&stead, "draft").changes.is_empty());
    }
}

for_each_store! {
    fn g1_an_undone_merge_over_two_stores_can_be_made_again(store) {
        let project = project(store);
        let stead = draft(&project);
        write(&stead, "/forks/draft/a.txt", "changed\n");
        write(&stead, "/forks/draft/lib/l.txt", "changed\n");
        let before = everything(&project);
        merge_clean(&stead, "draft");
        let after = everything(&project);
        stead.vfs().undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
        assert_eq!(everything(&project), before);
        assert_eq!(changed(&merge_clean(&stead, "draft")), ["/code/a.txt", "/code/lib/l.txt"]);
        assert_eq!(everything(&project), after);
    }
}
