//! Whether the network may be used, and how it is allowed again.

/// Who said that the network must not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offline {
    Options,
    Environment,
    Both,
    /// A variable of the site's own programs.
    Site,
}

impl Offline {
    pub(super) fn of(options: Option<bool>, environment: bool) -> Option<Offline> {
        match (options, environment) {
            (Some(false), _) | (None, false) => None,
            (None, true) => Some(Offline::Environment),
            (Some(true), false) => Some(Offline::Options),
            (Some(true), true) => Some(Offline::Both),
        }
    }

    /// How the network is allowed again.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Offline::Options => "leave out --offline",
            Offline::Environment => "unset DUAN_OFFLINE",
            Offline::Both => "leave out --offline and unset DUAN_OFFLINE",
            Offline::Site => "unset HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_forbade_the_network_is_told_how_to_allow_it() {
        let remedy = |options, environment| Offline::of(options, environment).map(Offline::remedy);
        assert_eq!(remedy(None, false), None);
        assert_eq!(remedy(Some(false), true), None, "options count more");
        assert_eq!(remedy(Some(true), false), Some("leave out --offline"));
        assert_eq!(remedy(None, true), Some("unset DUAN_OFFLINE"));
        assert_eq!(remedy(Some(true), true), Some("leave out --offline and unset DUAN_OFFLINE"));
    }
}
