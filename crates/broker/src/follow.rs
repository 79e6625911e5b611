//! One request of a route: inspected, sent with the route's credential, cut when the route is closed.

use windlass_kernel::Authority;

use crate::event::{End, Refusal};
use crate::forward::{self, Exchange, Job};
use crate::http::{Framing, Request};
use crate::inspect::{Inspection, inspect, read_body};
use crate::route::{Route, Scheme};
use crate::serve::{Asked, Client, Form, Next, Open, Shared, conclude, passage};
use crate::upstream::{Addresses, Stop, connect, secure};

/// The route of a path, and what is below its prefix.
fn find<'a, 'b>(routes: &'a [Route], path: &'b str) -> Option<(&'a Route, &'b str)> {
    let found = routes.iter().filter_map(|route| Some((route, route.below(path)?)));
    // The shortest rest belongs to the longest prefix; the first of equal ones counts.
    found.min_by_key(|(_, below)| below.len())
}

/// Does the work, unless the route is or gets closed.
async fn unless_closed<T>(
    route: &Route,
    work: impl Future<Output = Result<T, Stop>>,
) -> Result<T, Stop> {
    let switch = route.own_switch();
    tokio::select! {
        biased;
        () = switch.closed() => {
            Err(Stop::Refused { refusal: Refusal::RouteClosed, detail: switch.reason() })
        }
        done = work => done,
    }
}

pub(crate) async fn follow_route(
    shared: &Shared,
    client: &mut Client,
    mut request: Request,
    path: &str,
    what: &mut Asked,
) -> Result<Next, Stop> {
    let found = find(&shared.rules.routes, path);
    let (route, below) = found.ok_or(Stop::refused(Refusal::RouteUnknown))?;
    what.form = Form::Json;
    let id = shared.next_id();
    let Some(inspector) = &route.inspector else {
        let sending = Sending { shared, route, id, request: &request, below, held: None };
        return sending.send(client, None, &what.line).await;
    };
    let reading = read_body(client, &request, &shared.held, &shared.rules.limits);
    let Some(body) = unless_closed(route, reading).await? else { return Ok(Next::Close) };
    let inspection = inspect(route, inspector, id, &request, below, &body.bytes)?;
    // What is sent is what was inspected, in the plainest framing.
    if request.framing != Framing::None {
        request.framing = Framing::Length(u64::try_from(body.bytes.len()).unwrap_or(u64::MAX));
    }
    let held = Some(body.bytes.as_slice());
    let sending = Sending { shared, route, id, request: &request, below, held };
    sending.send(client, Some(inspection), &what.line).await
}

/// A request on its way to the host of a route.
struct Sending<'a> {
    shared: &'a Shared,
    route: &'a Route,
    id: u64,
    request: &'a Request,
    below: &'a str,
    held: Option<&'a [u8]>,
}

impl Sending<'_> {
    async fn send(
        self,
        client: &mut Client,
        inspection: Option<Inspection>,
        what: &str,
    ) -> Result<Next, Stop> {
        let (result, end) = match self.exchange(client, inspection.as_ref()).await {
            Ok((open, exchange)) => {
                let detail = match exchange.end {
                    End::Refused(Refusal::RouteClosed) => self.route.own_switch().reason(),
                    End::Refused(_)
                    | End::Done
                    | End::Broken
                    | End::Idle
                    | End::Failed(_)
                    | End::Stopped => None,
                };
                let end = exchange.end;
                (conclude(self.shared, open, &exchange, what, detail), end)
            }
            Err(stop) => {
                let end = stop.end();
                (Err(stop), end)
            }
        };
        if let Some(inspection) = inspection {
            inspection.end(end);
        }
        result
    }

    async fn exchange(
        &self,
        client: &mut Client,
        inspection: Option<&Inspection>,
    ) -> Result<(Open<'_>, Exchange), Stop> {
        let Self { shared, route, id, request, below, held } = *self;
        let authority: &Authority = &route.upstream;
        let limits = &shared.rules.limits;
        let connecting = connect(&shared.rules, &shared.resolver, authority, Addresses::OfRoute);
        let (stream, address) = unless_closed(route, connecting).await?;
        let passage = passage(request, Some(route), authority, address);
        let head =
            forward::request_head(request, authority, &route.upstream_path(below), Some(route));
        let job = Job { head: &head, request, held, route: Some(route), inspection, limits };
        match route.scheme {
            Scheme::Http => {
                let open = Open::numbered(shared, client, passage, id);
                let exchange = forward::run(client, stream, job).await;
                Ok((open, exchange))
            }
            Scheme::Https => {
                let tls = shared.tls.as_ref().ok_or(Stop::refused(Refusal::RouteUnknown))?;
                let stream = unless_closed(route, secure(tls, stream, authority, limits)).await?;
                let open = Open::numbered(shared, client, passage, id);
                let exchange = forward::run(client, stream, job).await;
                Ok((open, exchange))
            }
        }
    }
}
