//! Reasons not to run a call now that was allowed before: the policy has changed, a grant has ended, or a file is
//! no longer the one that a person saw.

use windlass_kernel::artifact::{DecidedBy, NamedFile};
use windlass_kernel::{Call, Code, TraceId};
use windlass_policy::Verdict;

use crate::decide::first_difference;
use crate::error::GatewayError;
use crate::gateway::{CallRecorder, Gateway};

/// Why a call that was allowed is not run now.
pub(crate) enum Objection {
    /// The policy denies it.
    Denied { code: Code, reason: String },
    /// A person must be asked about it first.
    Asks(String),
}

impl Gateway {
    /// Why the policy of now denies a call that was allowed, if it does.
    pub(crate) fn denial(
        &self,
        recorder: &CallRecorder,
    ) -> Result<Option<(Code, String)>, GatewayError> {
        Ok(match self.objection_of_policy(recorder)? {
            Some(Objection::Denied { code, reason }) => Some((code, reason)),
            Some(Objection::Asks(_)) | None => None,
        })
    }

    /// Why a call that was allowed is not run now without a person, if there is a reason.
    pub(crate) fn objection(
        &self,
        recorder: &CallRecorder,
    ) -> Result<Option<Objection>, GatewayError> {
        let objection = self.objection_of_policy(recorder)?;
        let decided = recorder.state().decision.as_ref().map(|(one, _)| &one.decided_by);
        match (objection, decided) {
            (Some(Objection::Asks(_)) | None, Some(DecidedBy::Person { files, .. })) => {
                let changed = self.changed_since(recorder.state(), files);
                Ok(changed.map(|path| {
                    Objection::Asks(format!("`{path}` has changed since a person approved it"))
                }))
            }
            (Some(Objection::Asks(_)), Some(DecidedBy::Grant { grant, .. }))
                if self.still_covers(*grant, recorder)? =>
            {
                Ok(None)
            }
            (objection, _) => Ok(objection),
        }
    }

    fn objection_of_policy(
        &self,
        recorder: &CallRecorder,
    ) -> Result<Option<Objection>, GatewayError> {
        let Some(request) = recorder.state().effective_request() else {
            return Err(GatewayError::missing(recorder.state().head.trace_id, "request"));
        };
        let ruling = self.judge(&request);
        Ok(match ruling.verdict {
            Verdict::Allow => None,
            Verdict::Ask => {
                Some(Objection::Asks(format!("the policy asks about it now: {}", ruling.reason)))
            }
            Verdict::Deny => {
                let code = ruling.code.unwrap_or(Code::PolicyDenied);
                Some(Objection::Denied { code, reason: ruling.reason })
            }
        })
    }

    /// The first file that a call names and that is not as the person saw it: at the question, or later.
    fn changed_since(&self, call: &Call, later: &[NamedFile]) -> Option<String> {
        let (request, _) = call.request.as_ref()?;
        let seen = if later.is_empty() { &request.files } else { later };
        first_difference(seen, &self.examine(request).files)
    }

    /// Whether the grant under which a call was started still covers it. That it has been used up does not count:
    /// the use is this call's own.
    fn still_covers(&self, grant: TraceId, recorder: &CallRecorder) -> Result<bool, GatewayError> {
        let (Some(people), Some((_, digest))) = (&self.people, &recorder.state().request) else {
            return Ok(false);
        };
        let grant = match self.show_grant(grant) {
            Ok(grant) => grant,
            Err(GatewayError::Journal(error)) if error.is_damage() => return Ok(false),
            Err(error) => return Err(error),
        };
        let now = self.clock.now();
        let in_time = grant.granted.as_ref().is_some_and(|(terms, _)| now < terms.until);
        Ok(in_time
            && grant.revoked.is_none()
            && grant.use_of(recorder.state().head.trace_id, *digest).is_some()
            && self.matches(&grant, recorder, people.as_ref()))
    }
}
