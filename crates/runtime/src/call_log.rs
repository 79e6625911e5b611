//! Logs calls: ids, names, counts, codes and times, never arguments or results.
//!
//! Whether logging is enabled is checked first, by one atomic read, so a disabled log costs nothing else.

use std::time::Instant;

use tracing::{debug, enabled, info, warn};
use windlass_journal::JournalError;
use windlass_kernel::TraceId;

use crate::error::GatewayError;
use crate::recover::Recovery;
use crate::report::CallReport;

/// Logs one call or recovery with its duration; `None` if logging is disabled.
pub(crate) struct CallLog(Option<Instant>);

impl CallLog {
    /// Starts the measurement, if logging is enabled.
    pub(crate) fn start() -> Self {
        Self(enabled!(tracing::Level::ERROR).then(Instant::now))
    }

    fn ms(&self) -> Option<u64> {
        self.0.map(|start| u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Logs a call.
    pub(crate) fn call(&self, result: &Result<CallReport, GatewayError>) {
        let Some(duration_ms) = self.ms() else { return };
        match result {
            Ok(report) => info!(
                trace_id = %report.trace_id,
                // The trace of the run, if the call belongs to a run.
                plan_id = report.plan_id.map(tracing::field::display),
                tool = report.tool,
                state = report.state.as_str(),
                code = code_of(report),
                replayed = report.replayed,
                on_hold = report.hold.is_some(),
                duration_ms,
                "call"
            ),
            Err(error) => warn!(code = error.code().as_str(), duration_ms, "call failed"),
        }
    }

    /// Logs the recovery of a call.
    pub(crate) fn recovery(&self, trace_id: TraceId, result: &Result<Recovery, GatewayError>) {
        let Some(duration_ms) = self.ms() else { return };
        match result {
            Ok(Recovery { plan, report }) => info!(
                %trace_id,
                tool = report.tool,
                ?plan,
                state = report.state.as_str(),
                code = code_of(report),
                on_hold = report.hold.is_some(),
                duration_ms,
                "call recovered"
            ),
            // Another process works on the call, which is not a problem.
            Err(GatewayError::Journal(error @ JournalError::Held(_))) => {
                debug!(%trace_id, code = error.code().as_str(), duration_ms, "call not recovered");
            }
            Err(error) => {
                warn!(%trace_id, code = error.code().as_str(), duration_ms, "call not recovered");
            }
        }
    }
}

fn code_of(report: &CallReport) -> Option<&'static str> {
    let refused = report.refusal.as_ref().map(|refused| refused.code);
    let failed = report.error.as_ref().map(|error| error.code);
    refused.or(failed).map(|code| code.as_str())
}
