//! How long managed files of each category live.

use crate::clock::Timestamp;
use crate::managed::{Category, UnknownCategory};

/// The longest time to live, in days: 100 years.
pub const MAX_TTL_DAYS: u32 = 36_500;
const NANOSECONDS_PER_DAY: i64 = 86_400_000_000_000;

/// A time to live can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTtl {
    /// The category doesn't exist.
    #[error(transparent)]
    Category(#[from] UnknownCategory),
    /// The number of days is out of range.
    #[error("files of the category `{0}` live for 1 to {MAX_TTL_DAYS} days, or \"never\" expire")]
    Days(Category),
}

/// How long files of each category live after they were last written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ttl([Option<u32>; Category::ALL.len()]);

impl Default for Ttl {
    /// `temp` 7 days, `downloads` 30, `images` 90; the others never expire.
    fn default() -> Self {
        let mut days = [None; Category::ALL.len()];
        days[Category::Temp as usize] = Some(7);
        days[Category::Downloads as usize] = Some(30);
        days[Category::Images as usize] = Some(90);
        Ttl(days)
    }
}

impl Ttl {
    /// These times to live with another one for a category; `None` means that its files never expire. Other categories keep
    /// theirs.
    pub fn with(mut self, category: Category, days: Option<i64>) -> Result<Ttl, InvalidTtl> {
        self.0[category as usize] = match days.map(u32::try_from) {
            None => None,
            Some(Ok(days @ 1..=MAX_TTL_DAYS)) => Some(days),
            Some(_) => return Err(InvalidTtl::Days(category)),
        };
        Ok(self)
    }

    /// How many days files of a category live; `None` if they never expire.
    pub fn days(&self, category: Category) -> Option<u32> {
        self.0[category as usize]
    }

    /// The time at which a file of a category must have been written last to expire now; `None` if it never expires.
    ///
    /// A file that was written at this time or earlier has expired.
    pub fn cutoff(&self, category: Category, now: Timestamp) -> Option<Timestamp> {
        let lifetime = i64::from(self.days(category)?).checked_mul(NANOSECONDS_PER_DAY)?;
        Some(Timestamp(now.0.saturating_sub(lifetime)))
    }

    /// Whether a file of a category that was last written at `modified` has expired.
    pub fn has_expired(&self, category: Category, modified: Timestamp, now: Timestamp) -> bool {
        self.cutoff(category, now).is_some_and(|cutoff| modified <= cutoff)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn w80_temp_downloads_and_images_expire_by_default_and_nothing_else_does() {
        let days = Category::ALL.map(|category| Ttl::default().days(category));
        assert_eq!(days, [None, None, None, Some(90), Some(30), Some(7)]);
    }

    #[test]
    fn w81_a_temp_file_of_eight_days_has_expired_and_one_of_six_has_not() {
        let now = at("2026-03-10T12:00:00Z");
        let expired = |text| Ttl::default().has_expired(Category::Temp, at(text), now);
        assert!(expired("2026-03-02T12:00:00Z") && expired("2026-03-03T12:00:00Z"));
        assert!(!expired("2026-03-04T12:00:00Z") && !expired("2026-03-03T12:00:00.001Z"));
        assert!(!expired("2027-01-01"), "a file from the future is not old");
    }

    #[test]
    fn w82_a_category_that_never_expires_keeps_a_file_from_2020() {
        assert!(!Ttl::default().has_expired(Category::Code, at("2020-01-01"), at("2026-01-01")));
    }

    #[test]
    fn w83_a_partial_map_keeps_the_other_defaults_and_never_overrides_one() {
        let ttl = Ttl::default().with(Category::Temp, Some(1)).unwrap().with(Category::Images, None).unwrap();
        let days = Category::ALL.map(|category| ttl.days(category));
        assert_eq!(days, [None, None, None, None, Some(30), Some(1)]);
    }

    #[test]
    fn w89_zero_negative_and_absurd_numbers_of_days_are_refused_and_nothing_wraps() {
        for days in [0, -1, i64::MIN, 36_501, i64::from(u32::MAX) + 1, i64::MAX] {
            let refused = Ttl::default().with(Category::Temp, Some(days));
            assert_eq!(refused, Err(InvalidTtl::Days(Category::Temp)), "{days}");
        }
        let longest = Ttl::default().with(Category::Temp, Some(36_500)).unwrap();
        for now in [i64::MIN, 0, i64::MAX] {
            assert!(longest.cutoff(Category::Temp, Timestamp(now)).unwrap() <= Timestamp(now));
        }
    }

    proptest! {
        #[test]
        fn w81_a_file_expires_exactly_when_its_age_reaches_the_time_to_live(
            days in 1..=36_500_i64, age in 0..40_000_i64, now in 0..8_000_000_000_i64,
        ) {
            let ttl = Ttl::default().with(Category::Data, Some(days)).unwrap();
            let now = Timestamp::from_secs(now);
            let modified = Timestamp(now.0.saturating_sub(age * NANOSECONDS_PER_DAY));
            prop_assert_eq!(ttl.has_expired(Category::Data, modified, now), age >= days);
        }
    }
}
