//! The text that every signature of an update covers, as a wallet shows it to its owner.
//!
//! It must stay byte for byte what existing clients build, or no signature verifies (ARC-013).

use super::convert::{Action, Update, convert_with};
use super::ident::MemberIdentifier;
use crate::error::IdentityError;
use crate::wire::xmtp::identity::associations::IdentityUpdate;

const NANOSECONDS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// The text to be signed for an update. Its signature fields may be unset; they are not read.
///
/// # Errors
///
/// [`IdentityError::MissingField`] or [`IdentityError::BadPasskeyHex`] when an action does not say
/// what it does.
pub fn signed_text(update: &IdentityUpdate) -> Result<String, IdentityError> {
    convert_with(update.clone(), |_| Ok(())).map(|update| of(&update))
}

/// The text to be signed for a converted update.
pub(super) fn of<S>(update: &Update<S>) -> String {
    let blocks: Vec<String> = update.actions.iter().map(block).collect();
    format!(
        "XMTP : Authenticate to inbox\n\nInbox ID: {}\nCurrent time: {}\n\n{}\n\nFor more info: https://xmtp.org/signatures",
        update.inbox_id,
        time(update.client_timestamp_ns),
        blocks.join("\n"),
    )
}

fn block<S>(action: &Action<S>) -> String {
    let (line, label, text) = match action {
        Action::CreateInbox { initial, .. } => ("Create inbox", "Owner", initial.text()),
        Action::AddAssociation { member, .. } => {
            let (line, label) = match member {
                MemberIdentifier::Ethereum(_) => ("Link address to inbox", "Address"),
                MemberIdentifier::Installation(_) => ("Grant messaging access to app", "ID"),
                MemberIdentifier::Passkey(_) => ("Link passkey to inbox", "Passkey"),
            };
            (line, label, member.text())
        }
        Action::RevokeAssociation { member, .. } => {
            let (line, label) = match member {
                MemberIdentifier::Ethereum(_) => ("Unlink address from inbox", "Address"),
                MemberIdentifier::Installation(_) => ("Revoke messaging access from app", "ID"),
                MemberIdentifier::Passkey(_) => ("Unlink passkey from inbox", "Passkey"),
            };
            (line, label, member.text())
        }
        Action::ChangeRecovery { recovery, .. } => {
            ("Change inbox recovery address", "Address", recovery.text())
        }
    };
    format!("- {line}\n  ({label}: {text})")
}

/// Whole seconds of a time in nanoseconds since the Unix epoch, as `YYYY-MM-DDTHH:MM:SSZ`.
///
/// Clients read the number as signed, so its upper half lies before 1970. All of it falls into the
/// years 1677 to 2262.
fn time(timestamp_ns: u64) -> String {
    let seconds = timestamp_ns
        .cast_signed()
        .div_euclid(NANOSECONDS_PER_SECOND);
    let (year, month, day) = date(seconds.div_euclid(SECONDS_PER_DAY));
    let second_of_day = seconds.rem_euclid(SECONDS_PER_DAY);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        second_of_day / 3600,
        second_of_day / 60 % 60,
        second_of_day % 60,
    )
}

/// The Gregorian date that many days after 1970-01-01.
///
/// Years are counted from March, so that a leap day is the last of its year, and in eras of 400
/// years, which all have the same number of days.
fn date(days_since_1970: i64) -> (i64, i64, i64) {
    const DAYS_PER_ERA: i64 = 146_097;
    const DAYS_PER_CENTURY: i64 = 36_524;
    const DAYS_PER_FOUR_YEARS: i64 = 1_461;
    /// From 0000-03-01 to 1970-01-01.
    const DAYS_TO_1970: i64 = 719_468;

    let days = days_since_1970 + DAYS_TO_1970;
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    // Take out the leap days that came before, so that every year has 365 days.
    let leap_days = day_of_era / (DAYS_PER_FOUR_YEARS - 1) - day_of_era / DAYS_PER_CENTURY
        + day_of_era / (DAYS_PER_ERA - 1);
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March on, every five months have 153 days.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = 400 * era + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ends of the range, the turn of a second, and both sides of the sign (case 54).
    #[test]
    fn times_print_as_clients_print_them() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (12, "1970-01-01T00:00:00Z"),
            (999_999_999, "1970-01-01T00:00:00Z"),
            (1_999_999_999, "1970-01-01T00:00:01Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00Z"),
            (951_868_800_000_000_000, "2000-03-01T00:00:00Z"),
            (1_712_750_400_000_000_000, "2024-04-10T12:00:00Z"),
            (1_712_750_400_999_999_999, "2024-04-10T12:00:00Z"),
            (1_735_689_599_999_999_999, "2024-12-31T23:59:59Z"),
            (4_107_542_399_000_000_000, "2100-02-28T23:59:59Z"),
            (4_107_542_400_000_000_000, "2100-03-01T00:00:00Z"),
            (9_223_372_036_854_775_807, "2262-04-11T23:47:16Z"),
            (9_223_372_036_854_775_808, "1677-09-21T00:12:43Z"),
            (18_446_744_073_709_551_615, "1969-12-31T23:59:59Z"),
            (18_446_744_072_709_551_616, "1969-12-31T23:59:59Z"),
        ];
        for (timestamp_ns, printed) in cases {
            assert_eq!(time(timestamp_ns), printed, "{timestamp_ns}");
        }
    }

    /// Walks every day of the range and compares with counting.
    #[test]
    fn every_date_follows_the_one_before() {
        let mut expected = (1677, 1, 1);
        for day in -107_015..=107_000 {
            assert_eq!(date(day), expected, "{day}");
            let (year, month, of_month) = expected;
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let last = match month {
                2 => 28 + i64::from(is_leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected = match (month, of_month == last) {
                (12, true) => (year + 1, 1, 1),
                (_, true) => (year, month + 1, 1),
                (_, false) => (year, month, of_month + 1),
            };
        }
    }
}
