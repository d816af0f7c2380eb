//! Which records are meant, on the command line.

use duan::records::{Filter, parse_since};

/// Which records are meant.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Which records")]
pub(crate) struct FilterArgs {
    /// Of this model: a part of its name, or the first digits of its SHA-256
    #[arg(long, value_name = "TEXT")]
    model: Option<String>,
    /// On this chip: a part of its name
    #[arg(long, value_name = "TEXT")]
    chip: Option<String>,
    /// With this test, such as tg128
    #[arg(long, value_name = "NAME")]
    test: Option<String>,
    /// Taken since 2026-11-30, 2026-11-30T12:00:00Z, or so long ago: 30m, 12h, 7d, 4w
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// With this tag
    #[arg(long)]
    tag: Option<String>,
    /// On this backend: a part of its name
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
    /// The newest N of these
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

impl FilterArgs {
    /// Whether nothing was said.
    pub(super) fn is_empty(&self) -> bool {
        let FilterArgs { model, chip, test, since, tag, backend, limit } = self;
        [model, chip, test, since, tag, backend].iter().all(|text| text.is_none()) && limit.is_none()
    }

    /// What was said.
    ///
    /// # Errors
    /// Where a time is none.
    pub(super) fn filter(&self) -> anyhow::Result<Filter> {
        let since_unix_s = self.since.as_deref().map(parse_since).transpose()?;
        Ok(Filter {
            model: self.model.clone(),
            chip: self.chip.clone(),
            test: self.test.clone(),
            since_unix_s,
            tag: self.tag.clone(),
            backend: self.backend.clone(),
            limit: self.limit,
        })
    }
}
