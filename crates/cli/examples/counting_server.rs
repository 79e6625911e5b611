//! The real MCP server that the tests of the command run against: it counts what it executes.

fn main() {
    windlass_testkit::mcp_server::main_from_args();
}
