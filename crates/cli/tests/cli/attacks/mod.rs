//! What an attacker tries where no cell is in between, or where something of the user's lies next to one: tables of
//! attempts, and one judge for all of a table. A check makes some of those that take long, a soak makes all of them.

mod cores;
mod forms;
mod forwarded_agent;
mod secrets;
mod tls;
mod tls_client;
mod tls_hellos;
mod tls_requests;
