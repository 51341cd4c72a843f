//! What every Store promises: one named test per promise, written once and run for each Store.

#![allow(missing_docs, reason = "the tests' names are what they promise")]
#![allow(clippy::unwrap_used, reason = "these are tests, also when another crate runs them")]

pub mod atomicity;
pub mod blind;
pub mod companions;
pub mod concurrency;
pub mod contents;
pub mod directories;
pub mod drafts;
pub mod errors;
pub mod feed;
pub mod history;
pub mod links;
pub mod nodes;
pub mod ports;
pub mod preconditions;
pub mod quotas;
pub mod removing;
pub mod renaming;
pub mod searching;
pub(crate) mod subject;

pub use subject::{Fixture, Subject, run};

/// Makes a module with all tests of the suite, for the Stores that a closure creates.
///
/// The closure is called once per test. It returns a [`Fixture`](crate::testkit::Fixture): a Store in an `Arc`, alone
/// or paired with a value that has to live as long as the Store.
///
/// ```
/// use std::sync::Arc;
/// use stead_core::testkit::ModelStore;
///
/// stead_core::store_suite!(model, || Arc::new(ModelStore::new()));
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! store_suite {
    ($name:ident, $make:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $crate::store_suite! { @tests $make;
                contents:
                    writes_are_read_back
                    an_empty_file_is_a_file
                    every_byte_is_kept
                    large_content_is_kept_whole
                    contents_around_powers_of_two_are_kept
                    a_read_over_the_limit_is_refused
                    many_places_are_answered_in_order
                    an_overwrite_keeps_the_mode
                    a_write_can_set_mode_and_time
                    mode_and_time_can_be_set
                    an_append_goes_to_the_end
                    an_append_past_its_limit_changes_nothing
                    a_draft_can_be_appended
                    an_edit_replaces_text
                    an_edit_that_does_not_fit_changes_nothing
                    an_edit_too_large_for_memory_changes_nothing
                    names_are_kept_byte_for_byte
                    what_needs_no_history_is_written_all_the_same
                ;
                errors:
                    missing_parents_are_made
                    a_required_parent_that_is_missing_is_not_found
                    a_file_is_no_directory_on_the_way
                    a_directory_is_no_file
                    nothing_is_not_found
                ;
                directories:
                    the_root_is_a_directory
                    a_directory_is_made_once
                    the_times_of_a_directory_follow_its_names
                    a_directory_can_be_made_with_a_mode
                    a_listing_is_sorted_by_bytes
                    a_listing_comes_in_pages
                    a_walk_is_sorted_component_by_component
                    a_walk_gives_attributes_and_stops_when_told
                    a_walk_goes_as_deep_as_asked
                    a_walk_leaves_out_what_it_is_told_to_skip
                    a_walk_visits_only_what_matches
                    a_walk_that_is_late_gives_up
                    a_deep_tree_is_no_trouble
                    a_wide_directory_is_no_trouble
                ;
                removing:
                    a_file_is_removed
                    a_directory_is_removed_with_all_it_holds
                    an_empty_directory_is_removed_as_such
                    only_the_kind_that_was_meant_is_removed
                    nothing_to_remove_can_be_fine
                    the_root_stays
                    a_directory_with_a_protected_name_is_not_removed
                    a_directory_with_a_protected_name_does_not_leave
                    a_directory_does_not_bring_a_protected_name
                ;
                renaming:
                    a_file_gets_another_name
                    a_directory_moves_with_all_it_holds
                    what_is_there_stays_unless_told
                    a_file_takes_the_place_of_a_file
                    a_directory_takes_the_place_of_an_empty_one
                    kinds_do_not_replace_each_other
                    two_things_change_places
                    a_name_can_be_renamed_to_itself
                    a_directory_does_not_go_into_itself
                    a_copy_is_a_file_of_its_own
                    a_copy_takes_the_place_of_a_file
                    a_whole_directory_is_copied
                    a_directory_is_copied_over_nothing
                    a_copy_onto_itself_is_refused
                    a_rename_checks_the_state_of_its_source
                ;
                links:
                    a_target_is_kept_as_written
                    a_symlink_replaces_a_symlink_only
                    a_symlink_on_the_way_is_reported
                    a_symlink_before_something_missing_is_reported
                    content_is_not_reached_through_a_last_symlink
                    a_symlink_itself_is_seen_moved_copied_and_removed
                    a_hit_names_its_step_and_side
                    depth_counts_from_where_the_place_starts
                ;
                preconditions:
                    a_tag_changes_with_every_write
                    an_outcome_tells_the_state_before
                    a_tag_changes_with_every_write_in_place
                    a_tag_stays_while_nothing_happens
                    two_files_never_share_a_tag
                    a_write_expects_what_it_is_told
                    an_append_expects_what_it_is_told
                    an_edit_expects_what_it_is_told
                    a_removal_expects_what_it_is_told
                    the_kind_is_judged_before_the_state
                ;
                atomicity:
                    steps_happen_in_order_and_see_each_other
                    no_steps_are_a_change_too
                    a_failing_last_step_undoes_the_one_before
                    each_of_these_steps_succeeds_alone
                    many_steps_are_undone_together
                    a_failed_change_can_be_made_again
                    a_draft_in_a_failed_change_leaves_nothing
                ;
                drafts:
                    a_draft_becomes_a_file
                    a_large_draft_is_kept_whole
                    a_draft_can_be_written_in_any_order
                    a_draft_takes_small_writes_anywhere
                    a_gap_reads_as_zeros
                    a_draft_is_cut_and_lengthened
                    a_draft_is_read_while_it_is_written
                    a_dropped_draft_leaves_nothing
                    a_draft_is_put_back_at_its_node
                    a_draft_finds_its_node_under_another_name
                    a_draft_of_a_file_is_put_elsewhere
                    a_draft_is_put_only_where_expected
                    a_draft_whose_change_was_refused_is_put_again
                    a_foreign_draft_is_refused
                    a_draft_needs_a_file
                    open_content_is_read_in_pieces
                    open_content_outlives_its_name
                ;
                nodes:
                    a_node_is_the_same_by_any_way
                    a_change_is_made_where_its_directories_still_are
                    a_change_is_made_only_while_names_are_free
                    different_things_are_different_nodes
                    everything_is_read_from_a_directory_node
                    everything_is_changed_from_a_directory_node
                    a_node_itself_is_read_and_changed
                    a_node_keeps_its_id_through_renames
                    a_node_keeps_its_id_through_drafts_and_attributes
                    a_removed_node_is_not_found
                    a_forgotten_node_is_still_there
                ;
                searching:
                    a_search_finds_lines
                    a_search_shows_the_lines_around
                    a_search_counts_or_names_files
                    a_search_includes_and_excludes
                    a_search_skips_subtrees
                    a_search_looks_into_one_file
                    a_search_stops_when_told
                    a_search_that_is_late_gives_up
                ;
                concurrency:
                    appends_at_once_are_all_there
                    edits_at_once_of_different_lines_all_survive
                    a_reader_sees_the_old_or_the_new_content
                    one_of_many_creators_wins
                    no_update_is_lost_where_a_state_is_expected
                    one_of_many_movers_wins
                    directories_made_at_once_are_shared
                    writers_of_different_files_do_not_disturb_each_other
                ;
                feed:
                    a_store_says_whether_it_has_a_feed
                    a_feed_tells_what_happened
                    a_feed_is_in_order_and_comes_in_pieces
                    a_refused_change_is_not_in_the_feed
                ;
                quotas:
                    usage_counts_files_and_their_bytes
                    a_quota_may_be_reached_and_not_passed
                    an_overwrite_counts_the_difference
                    a_quota_counts_what_was_there_before
                    a_quota_begins_with_its_directory
                    a_quota_counts_what_others_do
                    what_is_moved_or_copied_counts_where_it_arrives
                    steps_count_together
                    one_file_may_be_so_large
                    what_is_there_may_be_renamed_however_large
                    what_was_there_comes_back_however_large
                    places_count_together
                    quotas_may_lie_in_each_other
                    writers_at_once_do_not_pass_a_quota
                ;
                history:
                    a_new_file_is_told
                    the_parents_of_a_new_file_are_told
                    an_overwrite_tells_both_contents
                    an_edit_and_an_append_are_told
                    writing_into_a_file_is_told
                    moves_are_told
                    a_moved_directory_takes_its_past_along
                    what_is_moved_over_is_told
                    a_removed_file_is_told
                    a_removed_tree_is_told_entry_by_entry
                    directories_links_and_attributes_are_told
                    a_copy_is_told_entry_by_entry
                    many_steps_are_one_deed
                    a_refused_change_is_no_deed
                    the_past_is_put_back
                    deeds_are_asked_for_by_time_and_by_whom
                    operations_stand_until_they_are_taken_back
                    deeds_are_asked_for_by_path
                    deeds_are_asked_for_by_place
                    what_needs_no_history_is_told_without_its_content
                    content_that_is_not_kept_is_known_by_its_size
                    a_change_that_changes_nothing_makes_no_deed
                    what_was_gone_comes_back_as_what_it_was
                    what_was_taken_back_is_told
                ;
                blind:
                    a_blind_change_makes_a_version_whatever_it_finds
                    a_blind_change_that_did_nothing_stands_and_is_told_by_its_operation_alone
                    what_a_blind_change_did_is_told_as_ever
                ;
                companions:
                    a_store_that_keeps_no_rows_refuses_a_change_with_one
                    a_row_is_committed_with_its_change_and_filled_from_its_step
                    a_row_is_filled_from_the_step_that_it_names
                    a_row_names_a_step_that_the_change_has
                    a_row_is_filled_with_the_path_from_the_root
                    a_row_is_replaced_and_removed
                    a_failed_change_leaves_the_rows_as_they_were
                    rows_come_without_steps_too
                    rows_are_listed_by_key_and_by_path
                    rows_of_different_kinds_are_apart
                    rows_are_no_files_and_have_no_past
                    rows_written_at_once_are_all_there
                ;
                ports:
                    a_sync_covers_deferred_changes_and_changes_nothing
                    a_past_revision_is_shown_as_it_was
                    a_past_revision_cannot_be_changed
                    a_revision_that_never_was_is_not_shown
                    a_fork_begins_as_its_base_and_changes_alone
                    a_fork_name_is_given_once
                    a_fork_outlives_every_attempt_to_destroy_its_base
                    a_destroyed_store_has_no_past
                ;
            }
        }
    };
    (@tests $make:expr; $($theme:ident: $($test:ident)* ;)*) => {
        $($(
            #[test]
            fn $test() {
                $crate::testkit::suite::run($make, $crate::testkit::suite::$theme::$test);
            }
        )*)*
    };
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::testkit::{Fault, FaultyStore, InterferingStore, ModelStore};

    store_suite!(model, || Arc::new(ModelStore::new()));
    // Wrappers keep every promise of the Store that they wrap.
    store_suite!(faulty, || Arc::new(FaultyStore::new(Arc::new(ModelStore::new()), Fault::Never)));
    store_suite!(interfering, || Arc::new(InterferingStore {
        store: Arc::new(ModelStore::new()),
        interfere: Box::new(|| ()),
    }));

    /// A test that is written but not listed would never run.
    #[test]
    fn every_promise_is_listed() {
        let listed = include_str!("mod.rs");
        let themes = [
            ("contents", include_str!("contents.rs")),
            ("errors", include_str!("errors.rs")),
            ("directories", include_str!("directories.rs")),
            ("removing", include_str!("removing.rs")),
            ("renaming", include_str!("renaming.rs")),
            ("links", include_str!("links.rs")),
            ("preconditions", include_str!("preconditions.rs")),
            ("atomicity", include_str!("atomicity.rs")),
            ("drafts", include_str!("drafts.rs")),
            ("nodes", include_str!("nodes.rs")),
            ("searching", include_str!("searching.rs")),
            ("concurrency", include_str!("concurrency.rs")),
            ("feed", include_str!("feed.rs")),
            ("quotas", include_str!("quotas.rs")),
            ("history", include_str!("history.rs")),
            ("blind", include_str!("blind.rs")),
            ("companions", include_str!("companions.rs")),
            ("ports", include_str!("ports.rs")),
        ];
        for (theme, source) in themes {
            for line in source.lines().filter(|line| line.ends_with("(t: &Subject) {")) {
                let Some(name) = line.strip_prefix("pub fn ").and_then(|rest| rest.split('(').next()) else {
                    continue;
                };
                assert!(listed.lines().any(|line| line.trim() == name), "{theme}::{name} is not listed");
            }
        }
    }
}
