//! The MCP server that the tests of this crate talk to.

fn main() {
    windlass_testkit::mcp_server::main_from_args();
}
