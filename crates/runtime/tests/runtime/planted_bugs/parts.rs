//! Honest parts with one of them replaced.

use std::sync::Arc;

use serde_json::Value;
use windlass_connect::{Connect, Job, Reply, Target};
use windlass_kernel::Digest;
use windlass_kernel::artifact::{ActionRequest, FileChange};
use windlass_kernel::grant::Terms;
use windlass_runtime::{Examination, Preparation, Refusal, Ruling, Supervisor};
use windlass_store::{Store, Tables};
use windlass_testkit::gateway::{Parts, TestSupervisor, World};

/// Another store.
pub struct StoreBug(pub fn(Arc<dyn Store>, &World) -> Arc<dyn Store>);

impl Parts for StoreBug {
    fn store(&self, honest: Arc<dyn Store>, world: &World) -> Arc<dyn Store> {
        (self.0)(honest, world)
    }
}

/// What becomes of the tables when a process dies.
pub struct DeathBug(pub fn(&mut Tables));

impl Parts for DeathBug {
    fn after_death(&self, world: &World) {
        world.shared.tamper(self.0);
    }
}

type Perform = fn(&World, &dyn Connect, &Job<'_>) -> Reply;

/// Another way to hand a call over.
pub struct ConnectBug(pub Perform);

struct Connected {
    honest: Arc<dyn Connect>,
    world: World,
    perform: Perform,
}

impl Connect for Connected {
    fn perform(&self, job: &Job<'_>) -> Reply {
        (self.perform)(&self.world, self.honest.as_ref(), job)
    }

    fn foresee(&self, target: &Target, tool: &str, args: &Value) -> Option<FileChange> {
        self.honest.foresee(target, tool, args)
    }
}

impl Parts for ConnectBug {
    fn connect(&self, honest: Arc<dyn Connect>, world: &World) -> Arc<dyn Connect> {
        Arc::new(Connected { honest, world: world.clone(), perform: self.0 })
    }
}

/// Another ruling or preparation.
#[derive(Clone, Copy)]
pub struct SupervisorBug {
    pub judge: fn(&mut Ruling),
    pub prepare: fn(&mut Preparation),
}

struct Supervised {
    honest: TestSupervisor,
    bug: SupervisorBug,
}

impl Supervisor for Supervised {
    fn policy_hash(&self) -> Digest {
        self.honest.policy_hash()
    }

    fn judge(&self, request: &ActionRequest) -> Ruling {
        let mut ruling = self.honest.judge(request);
        (self.bug.judge)(&mut ruling);
        ruling
    }

    fn examine(&self, request: &ActionRequest) -> Examination {
        self.honest.examine(request)
    }

    fn covers(&self, request: &ActionRequest, terms: &Terms) -> bool {
        self.honest.covers(request, terms)
    }

    fn check_grant(&self, terms: &Terms) -> Result<(), Refusal> {
        self.honest.check_grant(terms)
    }

    fn prepare(&self, request: &ActionRequest) -> Result<Preparation, Refusal> {
        let mut preparation = self.honest.prepare(request)?;
        (self.bug.prepare)(&mut preparation);
        Ok(preparation)
    }

    fn redact(&self, value: &mut Value) {
        self.honest.redact(value);
    }
}

impl Parts for SupervisorBug {
    fn supervisor(&self) -> Arc<dyn Supervisor> {
        Arc::new(Supervised { honest: TestSupervisor::default(), bug: *self })
    }
}
