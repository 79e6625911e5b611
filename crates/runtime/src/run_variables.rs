//! The environment variables that the commands of a run get.

use std::borrow::Cow;
use std::ops::ControlFlow;

use windlass_connect::Target;
use windlass_journal::{Check, JournalError, Reader};
use windlass_kernel::TraceId;
use windlass_kernel::artifact::ActionRequest;
use windlass_kernel::run::{Event, Run};
use windlass_store::StoreError;

use crate::error::GatewayError;
use crate::gateway::Gateway;

impl Gateway {
    /// The target of a call; a command of a run also gets the variables of that run, as its first entry says.
    pub(crate) fn with_run_variables<'a>(
        &self,
        request: &ActionRequest,
        target: &'a Target,
    ) -> Result<Cow<'a, Target>, GatewayError> {
        // Only calls of a run have a phase.
        if request.phase.is_none() || !matches!(target, Target::Command { .. }) {
            return Ok(Cow::Borrowed(target));
        }
        let mut variables = None;
        let mut reader = Reader::<Run>::new(TraceId(request.plan_id.0), Check::Prefix);
        let read = reader.for_each(self.store.as_ref(), &mut |step| {
            if let Event::Started(started) = &step.artifact.event {
                variables = Some(started.variables());
            }
            ControlFlow::Break(())
        });
        match read {
            Ok(()) | Err(JournalError::Store(StoreError::NotFound { .. })) => {}
            Err(error) => return Err(error.into()),
        }
        let mut target = target.clone();
        if let Target::Command { env, .. } = &mut target {
            // What the tool registry names comes first.
            for (name, value) in variables.unwrap_or_default() {
                env.entry(name).or_insert(value);
            }
        }
        Ok(Cow::Owned(target))
    }
}
