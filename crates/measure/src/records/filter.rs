//! Which records are meant.

use jiff::Timestamp;
use rusqlite::types::Value as SqlValue;

use super::Error;

/// Which records are meant; where nothing is said, all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// A part of the model's file name or type, without regard to upper and lower case, or the first digits (six at least) of its
    /// SHA-256.
    pub model: Option<String>,
    /// A part of what identifies the chip.
    pub chip: Option<String>,
    /// The name of a test that the record has.
    pub test: Option<String>,
    /// Taken at this second since 1970 or later.
    pub since_unix_s: Option<i64>,
    /// A tag that the record has.
    pub tag: Option<String>,
    /// A part of the backend.
    pub backend: Option<String>,
    /// The newest so many.
    pub limit: Option<usize>,
}

/// The fewest digits that name a model by its SHA-256.
const SHA256_DIGITS: usize = 6;

impl Filter {
    /// Whether it leaves nothing out.
    pub fn is_all(&self) -> bool {
        *self == Filter::default()
    }

    /// The end of a query over `records` that asks for it, newest first, and its values.
    pub(super) fn sql(&self) -> (String, Vec<SqlValue>) {
        let (mut wheres, mut values) = (Vec::new(), Vec::new());
        let mut add = |condition: &str, value: SqlValue| {
            values.push(value);
            wheres.push(condition.replace('?', &format!("?{}", values.len())));
        };
        let text = |text: &str| SqlValue::Text(text.to_owned());
        if let Some(model) = &self.model {
            let names = "instr(lower(model_filename), lower(?)) OR instr(lower(model_type), lower(?))";
            let is_hash = model.len() >= SHA256_DIGITS && model.chars().all(|c| c.is_ascii_hexdigit());
            let hash = if is_hash { " OR model_sha256 GLOB lower(?) || '*'" } else { "" };
            add(&format!("({names}{hash})"), text(model));
        }
        if let Some(chip) = &self.chip {
            add("instr(lower(coalesce(chip, '')), lower(?))", text(chip));
        }
        if let Some(test) = &self.test {
            add("EXISTS (SELECT 1 FROM results WHERE results.record = records.id AND results.test = ?)", text(test));
        }
        if let Some(since) = self.since_unix_s {
            add("taken_unix_s >= ?", SqlValue::Integer(since));
        }
        if let Some(tag) = &self.tag {
            add("EXISTS (SELECT 1 FROM tags WHERE tags.record = records.id AND tags.tag = ?)", text(tag));
        }
        if let Some(backend) = &self.backend {
            add("instr(lower(backend), lower(?))", text(backend));
        }
        let mut sql = String::new();
        if !wheres.is_empty() {
            sql = format!(" WHERE {}", wheres.join(" AND "));
        }
        sql.push_str(" ORDER BY taken_unix_s DESC, id DESC");
        if let Some(limit) = self.limit {
            values.push(SqlValue::Integer(i64::try_from(limit).unwrap_or(i64::MAX)));
            sql.push_str(&format!(" LIMIT ?{}", values.len()));
        }
        (sql, values)
    }
}

/// The second since 1970 that a person means by `2026-11-30` (its first moment, UTC), `2026-11-30T12:00:00Z`, or an age: `30m`, `12h`,
/// `7d`, `4w`.
///
/// # Errors
/// Where it is none of these.
pub fn parse_since(text: &str) -> Result<i64, Error> {
    let now = Timestamp::now().as_second();
    let day = || {
        let date: jiff::civil::Date = text.parse().ok()?;
        date.to_zoned_datetime(jiff::tz::TimeZone::UTC).ok().map(|time| time.timestamp().as_second())
    };
    let age = || {
        let number = text.get(..text.len().checked_sub(1)?)?;
        let unit_s = match text.chars().next_back()? {
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return None,
        };
        let count: u32 = number.parse().ok()?;
        Some(now - i64::from(count) * unit_s)
    };
    let time = || text.parse::<Timestamp>().ok().map(Timestamp::as_second);
    age().or_else(time).or_else(day).ok_or_else(|| {
        let found = text.escape_debug();
        let what = format!("since: expected 2026-11-30, 2026-11-30T12:00:00Z, 30m, 12h, 7d or 4w, found \"{found}\"");
        Error::Time { what }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_days_moments_and_ages() {
        assert_eq!(parse_since("1970-01-02").unwrap(), 86_400);
        assert_eq!(parse_since("1970-01-02T00:00:01Z").unwrap(), 86_401);
        let (now, week) = (Timestamp::now().as_second(), parse_since("1w").unwrap());
        assert!((now - 604_801..=now - 604_799).contains(&week), "{week}");
        for text in ["", "d", "x7d", "-7d", "7y", "1970-13-02", "四", "7四", "99999999999d"] {
            assert!(parse_since(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_condition_has_its_own_value() {
        let filter = Filter {
            model: Some("abcdef".into()),
            chip: Some("xeon".into()),
            since_unix_s: Some(7),
            limit: Some(3),
            ..Filter::default()
        };
        let (sql, values) = filter.sql();
        assert_eq!(values.len(), 4);
        assert!(sql.contains("GLOB lower(?1)") && sql.contains("lower(?2)") && sql.ends_with(" LIMIT ?4"), "{sql}");
        assert_eq!(Filter::default().sql().0, " ORDER BY taken_unix_s DESC, id DESC");
        assert!(Filter::default().is_all() && !filter.is_all());
        // No hash has a letter beyond f, and five digits are too few.
        for model in ["abcdeg", "abcde"] {
            assert!(!Filter { model: Some(model.into()), ..Filter::default() }.sql().0.contains("GLOB"));
        }
    }
}
