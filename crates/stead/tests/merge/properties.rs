//! Properties of merges of random changes through the whole system.

use stead_core::store::Parents;
use stead_core::vfs::{Overwrite, UndoOptions, UndoTarget};

use super::*;

/// Makes some random changes below a prefix. Changes that aren't possible there are skipped.
fn random_changes(stead: &Stead, prefix: &str, random: &mut fastrand::Rng, count: usize) {
    let vfs = stead.vfs();
    for _ in 0..count {
        let paths: Vec<String> =
            files(stead, prefix).into_keys().map(|path| path.trim_end_matches('/').to_owned()).collect();
        let any = |random: &mut fastrand::Rng| {
            paths.get(random.usize(..paths.len().max(1))).cloned().unwrap_or_else(|| "/x".to_owned())
        };
        let new = |random: &mut fastrand::Rng| {
            let directory = ["", "/a", "/b", "/a/c"][random.usize(..4)];
            format!("{directory}/{}", ["one", "two", "three", "four"][random.usize(..4)])
        };
        let (path, other) = (format!("{prefix}{}", any(random)), format!("{prefix}{}", new(random)));
        match random.usize(..7) {
            0 | 1 => {
                let old =
                    vfs.read(&*path).map(|read| String::from_utf8(read.bytes).unwrap()).unwrap_or_default();
                let mut lines: Vec<String> = old.lines().map(str::to_owned).collect();
                let line = format!("{}", random.u32(..50));
                match lines.len() {
                    0 => lines.push(line),
                    length => lines[random.usize(..length)] = line,
                }
                let _ = vfs.write(&*path, lines.join("\n") + "\n");
            }
            2 => drop(vfs.write(&*other, format!("{}\n", random.u32(..5)))),
            3 => drop(vfs.mkdir(&*other, Parents::Create)),
            4 | 5 => drop(vfs.rename(&*path, &*other, Overwrite::Refuse)),
            _ => remove(stead, &path),
        }
    }
}

fn prepared(store: TargetStore, random: &mut fastrand::Rng) -> (Project, Stead) {
    let project = Project::with_config(store, &format!("{CONFIG}\n[audit]\nenabled = false\n"));
    let stead = project.open("coder");
    for path in ["one", "a/one", "a/two", "b/three", "a/c/four"] {
        write(&stead, &format!("/code/{path}"), "1\n2\n3\n4\n5\n6\n7\n8\n");
    }
    let _ = random;
    let stead = stead.fork("/code", "first").unwrap().fork("/code", "second").unwrap();
    (project, stead)
}

for_each_store! {
    fn g6_g28_a_merge_onto_an_unchanged_base_equals_the_fork(store) {
        for seed in 0..25 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (_project, stead) = prepared(store, &mut random);
            random_changes(&stead, "/forks/first", &mut random, 8);
            let fork = files(&stead, "/forks/first");
            merge_clean(&stead, "first");
            assert_eq!(files(&stead, "/code"), fork, "seed {seed}");
            assert_eq!(files(&stead, "/forks/first"), fork, "seed {seed}");
        }
    }
}

for_each_store! {
    fn g23_g24_random_merges_change_nothing_or_are_undone_byte_for_byte(store) {
        let (mut clean, mut conflicted) = (0, 0);
        for seed in 100..160 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (_project, stead) = prepared(store, &mut random);
            random_changes(&stead, "/forks/first", &mut random, 5);
            random_changes(&stead, "/code", &mut random, 4);
            let before = (files(&stead, "/code"), files(&stead, "/forks/first"));
            let result = merge(&stead, "first");
            if !result.done {
                conflicted += 1;
                assert_eq!((files(&stead, "/code"), files(&stead, "/forks/first")), before, "seed {seed}");
                continue;
            }
            assert_eq!(files(&stead, "/code"), files(&stead, "/forks/first"), "seed {seed}");
            let Some(operation) = result.operation else { continue };
            clean += 1;
            let after = files(&stead, "/code");
            let undo = stead.vfs().undo(UndoTarget::Operation(operation), UndoOptions::default()).unwrap();
            assert!(undo.done, "seed {seed}: {:?}", undo.conflicts);
            let (target, fork) = (files(&stead, "/code"), files(&stead, "/forks/first"));
            assert_eq!(target, before.0, "seed {seed}");
            match store {
                TargetStore::Virtual => assert_eq!(fork, before.1, "seed {seed}"),
                TargetStore::Physical => {
                    // What was moved in the directory was shown at both places. Since the merge the fork decides about the new name, so it
                    // has the file only once.
                    let is_kept = |(path, state): (&String, &_)| before.1.get(path) == Some(state);
                    assert!(fork.iter().all(is_kept), "seed {seed}: {fork:?} {:?}", before.1);
                    let mut missing = before.1.iter().filter(|(path, _)| !fork.contains_key(*path));
                    let is_twice = |state: &_| fork.values().any(|other| other == state);
                    assert!(missing.all(|(_, state)| is_twice(state)), "seed {seed}: {fork:?}");
                }
            }
            let redo = UndoTarget::Operation(undo.operation.unwrap());
            stead.vfs().undo(redo, UndoOptions::default()).unwrap();
            assert_eq!(files(&stead, "/code"), after, "seed {seed}");
        }
        assert!(clean > 10 && conflicted > 5, "{clean} clean, {conflicted} in conflict");
    }
}

for_each_store! {
    fn g26_two_forks_merged_in_either_order_give_the_same_files(store) {
        let mut compared = 0;
        for seed in 200..240 {
            let results = [["first", "second"], ["second", "first"]].map(|order| {
                let mut random = fastrand::Rng::with_seed(seed);
                let (_project, stead) = prepared(store, &mut random);
                random_changes(&stead, "/forks/first", &mut random, 3);
                random_changes(&stead, "/forks/second", &mut random, 3);
                let done = order.map(|fork| merge(&stead, fork).done);
                (done == [true, true]).then(|| files(&stead, "/code"))
            });
            // In a directory, a file that was renamed and written has only its new name in common with the former one. So in one
            // order there may be a conflict where there is none in the other one.
            if store == TargetStore::Virtual || results.iter().all(Option::is_some) {
                assert_eq!(results[0], results[1], "seed {seed}");
                compared += usize::from(results[0].is_some());
            }
        }
        assert!(compared > 10, "{compared}");
    }
}

for_each_store! {
    fn g25_update_then_merge_equals_merge_of_random_changes(store) {
        let mut compared = 0;
        for seed in 300..340 {
            let results = [true, false].map(|updates| {
                let mut random = fastrand::Rng::with_seed(seed);
                let (_project, stead) = prepared(store, &mut random);
                random_changes(&stead, "/forks/first", &mut random, 4);
                random_changes(&stead, "/code", &mut random, 4);
                let is_clean = !updates || update(&stead, "first").conflicts.is_empty();
                (is_clean && merge(&stead, "first").done).then(|| files(&stead, "/code"))
            });
            assert_eq!(results[0], results[1], "seed {seed}");
            compared += usize::from(results[0].is_some());
        }
        assert!(compared > 10, "{compared}");
    }
}

for_each_store! {
    fn g25_random_updates_never_change_the_target_and_lose_nothing_of_it(store) {
        for seed in 400..440 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (_project, stead) = prepared(store, &mut random);
            for _ in 0..3 {
                random_changes(&stead, "/forks/first", &mut random, 3);
                random_changes(&stead, "/code", &mut random, 3);
                let target = files(&stead, "/code");
                update(&stead, "first");
                assert_eq!(files(&stead, "/code"), target, "seed {seed}");
            }
            // Taking the target's side in every conflict leaves the target with everything that it had.
            let conflicts = merge(&stead, "first").conflicts;
            if conflicts.iter().any(|conflict| conflict.kind.as_str() == "unresolved") {
                continue;
            }
            let result = stead.merge_fork("first", &options(vec![rule("", MergeChoice::TakeTarget)])).unwrap();
            assert!(result.done, "seed {seed}: {:?} {:?}", kinds(&result), result.refused);
            assert_eq!(files(&stead, "/code"), files(&stead, "/forks/first"), "seed {seed}");
        }
    }
}
