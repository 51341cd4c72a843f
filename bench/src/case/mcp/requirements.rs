//! The requirements on the measured numbers, and whether they are met. Less is better for all numbers.

/// The highest value that a number of Stead's server may have.
#[derive(Debug, Clone, Copy)]
pub enum Bound {
    /// This value.
    AtMost(f64),
    /// This share of the better peer's number.
    OfBetterPeer(f64),
}

/// The requirement in one row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Requirement {
    pub text: &'static str,
    pub in_database: Bound,
    pub on_disk: Bound,
}

impl Requirement {
    /// The same for both Stores.
    pub const fn both(text: &'static str, bound: Bound) -> Self {
        Requirement { text, in_database: bound, on_disk: bound }
    }

    /// Whether the numbers of both Stores meet the requirement, as text for the table.
    pub fn verdict(
        &self,
        in_database: Option<f64>,
        on_disk: Option<f64>,
        better_peer: Option<f64>,
    ) -> String {
        let is_met = |bound: Bound, ours: Option<f64>| {
            let max = match bound {
                Bound::AtMost(max) => Some(max),
                Bound::OfBetterPeer(share) => better_peer.map(|peer| share * peer),
            };
            ours.zip(max).map(|(ours, max)| ours <= max)
        };
        match (is_met(self.in_database, in_database), is_met(self.on_disk, on_disk)) {
            (None, None) => "–".to_owned(),
            (Some(true), Some(true) | None) | (None, Some(true)) => "met".to_owned(),
            (Some(false), Some(false) | None) | (None, Some(false)) => "missed".to_owned(),
            (Some(true), Some(false)) => "Physical missed".to_owned(),
            (Some(false), Some(true)) => "Virtual missed".to_owned(),
        }
    }
}

/// The lowest number of the peers.
pub fn better_peer(peers: &[Option<f64>]) -> Option<f64> {
    peers.iter().flatten().copied().min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_met_up_to_its_value_and_missed_beyond_it() {
        let requirement = Requirement::both("", Bound::AtMost(5.0));
        assert_eq!(requirement.verdict(Some(5.0), Some(1.0), None), "met");
        assert_eq!(requirement.verdict(Some(5.1), Some(5.1), None), "missed");
        assert_eq!(requirement.verdict(None, Some(5.1), None), "missed");
        assert_eq!(requirement.verdict(None, Some(0.0), None), "met");
    }

    #[test]
    fn each_store_has_its_own_share_of_the_better_peer() {
        let requirement = Requirement {
            text: "",
            in_database: Bound::OfBetterPeer(1.0),
            on_disk: Bound::OfBetterPeer(2.0),
        };
        let peer = better_peer(&[Some(4.0), None, Some(3.0)]);
        assert_eq!(requirement.verdict(Some(3.0), Some(6.0), peer), "met");
        assert_eq!(requirement.verdict(Some(3.1), Some(6.0), peer), "Virtual missed");
        assert_eq!(requirement.verdict(Some(3.0), Some(6.1), peer), "Physical missed");
        assert_eq!(requirement.verdict(Some(3.0), Some(6.0), better_peer(&[None])), "–");
    }
}
