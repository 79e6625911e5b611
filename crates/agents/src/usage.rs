//! Amounts of money and tokens.

/// Dollars as millionths, rounded up; `None` if it is no amount.
#[must_use]
pub fn micros(dollars: f64) -> Option<u64> {
    let micros = (dollars * 1_000_000.0).ceil();
    // Above this a double no longer holds whole numbers.
    let is_amount = micros.is_finite() && (0.0..9_007_199_254_740_992.0).contains(&micros);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is a whole number between 0 and 2^53"
    )]
    is_amount.then_some(micros as u64)
}
