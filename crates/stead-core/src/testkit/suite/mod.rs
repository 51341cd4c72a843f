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
                    large_content_is_stored_completely
                    contents_around_powers_of_two_are_kept
                    a_read_over_the_limit_is_refused
                    results_for_many_paths_are_in_order
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
                    content_without_history_is_written_like_any_other
                ;
                errors:
                    missing_parents_are_created
                    a_required_parent_that_is_missing_is_not_found
                    a_file_in_the_middle_of_a_path_is_an_error
                    a_directory_is_not_read_or_written_as_a_file
                    a_missing_path_is_not_found
                ;
                directories:
                    the_root_is_a_directory
                    a_directory_is_created_once
                    the_times_of_a_directory_follow_its_names
                    a_directory_can_be_made_with_a_mode
                    a_listing_is_sorted_by_bytes
                    a_listing_comes_in_pages
                    a_listing_leaves_hidden_names_out
                    a_walk_enters_no_hidden_directory
                    a_walk_is_sorted_component_by_component
                    a_walk_returns_attributes_and_stops_on_break
                    a_walk_stops_at_its_depth
                    a_walk_skips_the_given_subtrees
                    a_walk_visits_only_matching_paths
                    a_walk_leaves_out_what_ignore_files_name
                    a_walk_past_its_deadline_fails
                    a_deep_tree_works
                    a_wide_directory_works
                ;
                removing:
                    a_file_is_removed
                    a_directory_is_removed_with_its_content
                    a_directory_is_removed_as_empty_only_if_it_is
                    only_the_expected_kind_is_removed
                    removing_a_missing_path_can_be_allowed
                    the_root_cannot_be_removed_or_renamed
                    a_directory_with_a_protected_name_is_not_removed
                    a_directory_with_a_protected_name_is_not_moved
                    a_rename_or_copy_does_not_create_a_protected_name
                    an_exchange_moves_no_protected_name
                    a_directory_with_a_hidden_name_is_not_removed_moved_or_copied
                    an_exchange_reveals_no_hidden_name
                ;
                renaming:
                    a_file_is_renamed
                    a_directory_moves_with_its_content
                    an_existing_target_is_not_replaced_by_default
                    a_file_replaces_a_file
                    a_directory_replaces_an_empty_one
                    kinds_do_not_replace_each_other
                    two_entries_are_exchanged
                    a_name_can_be_renamed_to_itself
                    a_directory_is_not_moved_into_itself
                    a_copy_is_independent_of_its_source
                    a_copy_replaces_a_file
                    a_directory_is_copied_with_its_content
                    a_directory_is_not_copied_over_an_existing_entry
                    a_copy_onto_itself_is_refused
                    a_rename_checks_the_precondition_on_its_source
                ;
                links:
                    a_target_is_kept_as_written
                    a_target_is_not_empty_and_has_no_nul
                    mkdir_with_parents_reports_a_last_symlink
                    a_symlink_replaces_a_symlink_only
                    a_symlink_in_the_middle_of_a_path_is_reported
                    a_symlink_before_a_missing_name_is_reported
                    content_is_not_reached_through_a_symlink_at_the_end
                    a_symlink_itself_is_seen_moved_copied_and_removed
                    a_link_hit_names_its_step_and_side
                    the_depth_of_a_link_hit_counts_from_the_base_node
                ;
                preconditions:
                    a_tag_changes_with_every_write
                    an_outcome_reports_the_tag_before
                    a_tag_changes_with_every_write_in_place
                    a_tag_stays_while_its_file_is_unchanged
                    two_files_never_share_a_tag
                    a_write_checks_its_precondition
                    an_append_checks_its_precondition
                    an_edit_checks_its_precondition
                    a_removal_checks_its_precondition
                    the_kind_is_checked_before_the_precondition
                ;
                atomicity:
                    steps_happen_in_order_and_see_each_other
                    a_change_may_have_no_steps
                    a_failing_last_step_undoes_the_one_before
                    each_of_these_steps_succeeds_alone
                    many_steps_are_undone_together
                    a_failed_change_can_be_repeated
                    a_draft_in_a_failed_change_leaves_nothing
                ;
                drafts:
                    a_draft_becomes_a_file
                    a_large_draft_is_stored_completely
                    a_draft_can_be_written_in_any_order
                    a_draft_takes_small_writes_anywhere
                    a_gap_in_a_draft_reads_as_zeros
                    a_draft_is_truncated_and_extended
                    a_draft_is_read_while_it_is_written
                    a_dropped_draft_leaves_nothing
                    a_draft_is_committed_to_its_node
                    a_draft_is_committed_to_its_node_after_a_rename
                    a_draft_of_a_file_can_be_committed_to_another_path
                    committing_a_draft_checks_its_precondition
                    a_draft_whose_change_was_refused_can_be_committed_again
                    a_foreign_draft_is_refused
                    a_draft_needs_a_file
                    open_content_is_read_in_pieces
                    open_content_outlives_its_name
                ;
                nodes:
                    a_node_is_the_same_by_path_and_by_id
                    a_change_is_refused_if_its_directories_have_moved
                    a_change_is_refused_if_a_name_expected_free_is_taken
                    different_entries_are_different_nodes
                    every_read_works_from_a_directory_node
                    every_change_works_from_a_directory_node
                    a_node_itself_is_read_and_changed
                    a_node_keeps_its_id_through_renames
                    a_node_keeps_its_id_through_drafts_and_attributes
                    a_removed_node_is_not_found
                    a_forgotten_node_still_exists
                ;
                searching:
                    a_search_finds_lines
                    a_search_finds_text_in_every_encoding
                    a_search_shows_context_lines
                    a_search_counts_or_names_files
                    a_search_includes_and_excludes
                    a_search_skips_subtrees
                    a_search_leaves_hidden_files_out
                    a_search_leaves_out_what_ignore_files_name
                    a_search_finds_matches_that_span_lines
                    a_search_of_one_file_works
                    a_search_stops_on_break
                    a_search_past_its_time_limit_fails
                ;
                concurrency:
                    concurrent_appends_are_all_kept
                    concurrent_edits_of_different_lines_are_all_kept
                    a_reader_sees_the_old_or_the_new_content
                    one_of_many_concurrent_creators_wins
                    no_update_is_lost_with_a_tag_precondition
                    one_of_many_concurrent_renames_wins
                    directories_created_concurrently_are_shared
                    writers_of_different_files_do_not_disturb_each_other
                ;
                feed:
                    a_store_reports_whether_it_has_a_feed
                    a_feed_reports_every_kind_of_change
                    a_feed_is_ordered_and_paged
                    a_refused_change_is_not_in_the_feed
                    a_subscriber_is_called_after_every_change
                    a_change_between_subscribing_and_waiting_is_not_missed
                    a_dropped_subscription_is_not_called
                ;
                quotas:
                    usage_counts_files_and_their_bytes
                    a_quota_may_be_reached_but_not_exceeded
                    an_overwrite_counts_the_difference
                    a_quota_counts_existing_files
                    a_quota_applies_to_a_directory_that_is_created_later
                    a_quota_counts_changes_made_without_it
                    moved_and_copied_files_count_at_their_destination
                    the_steps_of_a_change_count_together
                    the_size_of_one_file_is_limited
                    an_existing_file_may_be_renamed_whatever_its_size
                    a_removed_file_may_be_restored_whatever_its_size
                    several_roots_count_together
                    quotas_may_be_nested
                    concurrent_writers_do_not_exceed_a_quota
                ;
                history:
                    a_new_file_is_reported
                    the_parents_of_a_new_file_are_reported
                    an_overwrite_reports_both_contents
                    an_edit_and_an_append_are_reported
                    writes_into_a_file_are_reported
                    moves_are_reported
                    a_moved_directory_keeps_its_history
                    a_node_replaced_by_a_move_is_reported
                    a_removed_file_is_reported
                    a_removed_tree_is_reported_entry_by_entry
                    directories_links_and_attributes_are_reported
                    a_copy_is_reported_entry_by_entry
                    many_steps_are_one_revision
                    a_refused_change_makes_no_revision
                    stored_content_is_put_back
                    revisions_are_queried_by_time_and_agent
                    operations_are_undoable_until_they_are_undone
                    revisions_are_queried_by_path
                    what_a_moved_directory_takes_into_a_path_or_out_of_it_is_reported
                    revisions_are_queried_by_node
                    a_change_without_history_is_reported_without_its_content
                    content_that_is_not_retained_is_known_by_its_size
                    a_change_that_changes_nothing_makes_no_revision
                    a_removed_node_is_revived_with_its_history
                    undone_operations_are_reported
                ;
                blind:
                    a_blind_change_always_makes_a_revision
                    a_blind_change_that_did_nothing_is_undoable_and_found_only_by_its_operation
                    the_changes_of_a_blind_change_are_reported_as_usual
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
                    an_id_stays_the_same
                    a_past_view_and_a_fork_are_stores_of_their_own
                    a_sync_covers_deferred_changes_and_changes_nothing
                    a_past_revision_is_shown_as_it_was
                    a_past_revision_cannot_be_changed
                    an_unknown_revision_is_not_shown
                    a_fork_starts_as_its_base_and_changes_independently
                    a_fork_name_is_unique
                    a_fork_outlives_every_attempt_to_destroy_its_base
                    a_destroyed_store_has_no_history
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
                assert!(
                    listed.lines().any(|line| line.trim() == name),
                    "the macro doesn't list the test {theme}::{name}"
                );
            }
        }
    }
}
