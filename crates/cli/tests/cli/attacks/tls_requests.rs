//! Requests that are sent within TLS.

/// Requests of strangers within TLS: none is answered but by an error.
pub const STRANGE: &[(&str, &str)] = &[
    (
        "absolute form, other host",
        "GET http://evil.example/api/v1/runs HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n",
    ),
    (
        "absolute form",
        "GET https://{host}/api/v1/runs HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n",
    ),
    ("authority form", "CONNECT {host} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"),
    ("asterisk", "OPTIONS * HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"),
    ("trace", "TRACE / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"),
    ("no host", "GET / HTTP/1.1\r\nconnection: close\r\n\r\n"),
    ("no host, 1.0", "GET / HTTP/1.0\r\n\r\n"),
    (
        "two hosts",
        "GET / HTTP/1.1\r\nhost: {host}\r\nhost: evil.example\r\nconnection: close\r\n\r\n",
    ),
    ("host of another", "GET / HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n"),
    ("host with a user", "GET / HTTP/1.1\r\nhost: a@{host}\r\nconnection: close\r\n\r\n"),
    ("host with a dot", "GET / HTTP/1.1\r\nhost: localhost.:443\r\nconnection: close\r\n\r\n"),
    (
        "forwarded for",
        "GET /api/v1/runs HTTP/1.1\r\nhost: {host}\r\nx-forwarded-for: 127.0.0.1\r\nx-real-ip: 127.0.0.1\r\nforwarded: for=127.0.0.1;by=ada\r\nconnection: close\r\n\r\n",
    ),
    (
        "forwarded user",
        "GET /api/v1/runs HTTP/1.1\r\nhost: {host}\r\nx-forwarded-user: ada\r\nx-remote-user: ada\r\nremote-user: ada\r\nconnection: close\r\n\r\n",
    ),
    (
        "another url",
        "GET /?x HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nx-rewrite-url: /api/v1/runs\r\nx-original-url: /api/v1/runs\r\n\r\n",
    ),
    (
        "another method",
        "POST /api/v1/runs HTTP/1.1\r\nhost: {host}\r\nx-http-method-override: GET\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    ),
    (
        "token in the query",
        "GET /api/v1/runs?token={token}&access_token={token} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n",
    ),
    (
        "token as a user",
        "GET https://ada:{token}@{host}/api/v1/runs HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n",
    ),
    (
        "token in the path",
        "GET /enter/{token} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n",
    ),
    (
        "token as a link",
        "POST /enter/{token} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    ),
    (
        "token as a cookie",
        "GET /api/v1/runs HTTP/1.1\r\nhost: {host}\r\ncookie: token={token}; windlass-login={token}\r\nconnection: close\r\n\r\n",
    ),
    (
        "token as a password",
        "GET /api/v1/runs HTTP/1.1\r\nhost: {host}\r\nauthorization: Basic {token}\r\nconnection: close\r\n\r\n",
    ),
    (
        "token in another header",
        "GET /api/v1/runs HTTP/1.1\r\nhost: {host}\r\nx-api-key: {token}\r\nproxy-authorization: Bearer {token}\r\nconnection: close\r\n\r\n",
    ),
    (
        "token twice",
        "GET /api/v1/runs HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n",
    ),
    (
        "token in a trailer",
        "GET /api/v1/runs HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: chunked\r\ntrailer: authorization\r\nconnection: close\r\n\r\n0\r\nauthorization: Bearer {token}\r\n\r\n",
    ),
    (
        "from a page without encryption",
        "GET /api/v1/runs HTTP/1.1\r\n{auth}\r\norigin: http://{host}\r\nconnection: close\r\n\r\n",
    ),
    (
        "from no page",
        "GET /api/v1/runs HTTP/1.1\r\n{auth}\r\norigin: null\r\nconnection: close\r\n\r\n",
    ),
    (
        "from another page",
        "GET /api/v1/runs HTTP/1.1\r\n{auth}\r\norigin: https://evil.example\r\nconnection: close\r\n\r\n",
    ),
    (
        "from another port",
        "GET /api/v1/runs HTTP/1.1\r\n{auth}\r\norigin: https://127.0.0.1:1\r\nconnection: close\r\n\r\n",
    ),
    (
        "from two pages",
        "GET /api/v1/runs HTTP/1.1\r\n{auth}\r\norigin: https://{host}\r\norigin: https://{host}\r\nconnection: close\r\n\r\n",
    ),
    ("HTTP/0.9", "GET /api/v1/runs\r\n\r\n"),
    ("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("HTTP/3.7", "GET / HTTP/3.7\r\n{auth}\r\n\r\n"),
    (
        "an upgrade to HTTP/2",
        "GET /api/v1/runs HTTP/1.1\r\nhost: {host}\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\nconnection: close, upgrade, http2-settings\r\n\r\n",
    ),
    (
        "an upgrade to a socket",
        "GET /api/v1/events HTTP/1.1\r\nhost: {host}\r\nupgrade: websocket\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\nconnection: close, upgrade\r\n\r\n",
    ),
    (
        "a long header",
        "GET /api/v1/runs HTTP/1.1\r\n{auth}\r\nx: {long}\r\nconnection: close\r\n\r\n",
    ),
    ("a long path", "GET /{long} HTTP/1.1\r\n{auth}\r\nconnection: close\r\n\r\n"),
    ("a long name", "GET / HTTP/1.1\r\n{long}: x\r\n{auth}\r\nconnection: close\r\n\r\n"),
    ("a long method", "{long} / HTTP/1.1\r\n{auth}\r\nconnection: close\r\n\r\n"),
    ("many headers", "GET /api/v1/runs HTTP/1.1\r\n{auth}\r\n{some}connection: close\r\n\r\n"),
    ("very many headers", "GET /api/v1/runs HTTP/1.1\r\n{auth}\r\n{many}connection: close\r\n\r\n"),
    (
        "steps up",
        "GET /assets/../api/v1/runs HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n",
    ),
    (
        "encoded steps up",
        "GET /assets/%2e%2e/api/v1/runs HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n",
    ),
    (
        "encoded slashes",
        "GET /assets%2f..%2fapi%2fv1%2fruns HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n",
    ),
    ("two slashes", "GET //api/v1/runs HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"),
    (
        "backslashes",
        "GET /assets\\..\\..\\token HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n",
    ),
    (
        "a zero in the path",
        "GET /assets/live.js\0 HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n",
    ),
    (
        "a file of the machine",
        "GET /assets/../../../../etc/passwd HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n",
    ),
    (
        "a blank before the path",
        "GET  /api/v1/runs HTTP/1.1\r\n{auth}\r\nconnection: close\r\n\r\n",
    ),
];

/// Requests with our own token whose end can be read in two ways: what may be a second request must not be answered.
pub const SMUGGLED: &[(&str, &str)] = &[
    (
        "both lengths",
        "POST /api/v1/none HTTP/1.1\r\n{auth}\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{second}",
    ),
    (
        "both lengths, the other way",
        "POST /api/v1/none HTTP/1.1\r\n{auth}\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n{second}",
    ),
    (
        "two lengths",
        "POST /api/v1/none HTTP/1.1\r\n{auth}\r\ncontent-length: 0\r\ncontent-length: 44\r\n\r\n{second}",
    ),
    (
        "a list of lengths",
        "POST /api/v1/none HTTP/1.1\r\n{auth}\r\ncontent-length: 0, 44\r\n\r\n{second}",
    ),
    (
        "a signed length",
        "POST /api/v1/none HTTP/1.1\r\n{auth}\r\ncontent-length: +0\r\n\r\n{second}",
    ),
    (
        "a negative length",
        "POST /api/v1/none HTTP/1.1\r\n{auth}\r\ncontent-length: -1\r\n\r\n{second}",
    ),
    (
        "a length in another base",
        "POST /api/v1/none HTTP/1.1\r\n{auth}\r\ncontent-length: 0x0\r\n\r\n{second}",
    ),
    (
        "a length without end",
        "POST /api/v1/none HTTP/1.1\r\n{auth}\r\ncontent-length: 99999999999999999999999\r\n\r\n{second}",
    ),
    (
        "a length in words",
        "POST /api/v1/none HTTP/1.1\r\n{auth}\r\ncontent-length: none\r\n\r\n{second}",
    ),
    ("an empty length", "POST /api/v1/none HTTP/1.1\r\n{auth}\r\ncontent-length:\r\n\r\n{second}"),
    (
        "another coding",
        "POST /api/v1/none HTTP/1.1\r\n{auth}\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n{second}",
    ),
    (
        "a coding after chunks",
        "POST /api/v1/none HTTP/1.1\r\n{auth}\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n{second}",
    ),
    (
        "chunks in 1.0",
        "POST /api/v1/none HTTP/1.0\r\n{auth}\r\nconnection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{second}",
    ),
    (
        "a blank before the colon",
        "POST /api/v1/none HTTP/1.1\r\n{auth}\r\ntransfer-encoding : chunked\r\n\r\n0\r\n\r\n{second}",
    ),
    (
        "a folded header",
        "POST /api/v1/none HTTP/1.1\r\n{auth}\r\nx: y\r\n transfer-encoding: chunked\r\ncontent-length: 9\r\n\r\n0\r\n\r\n{second}",
    ),
    (
        "a header that begins with a blank",
        "POST /api/v1/none HTTP/1.1\r\n transfer-encoding: chunked\r\n{auth}\r\n\r\n0\r\n\r\n{second}",
    ),
    (
        "a bare carriage return",
        "POST /api/v1/none HTTP/1.1\r\n{auth}\r\nx: y\rtransfer-encoding: chunked\r\n\r\n0\r\n\r\n{second}",
    ),
    ("a zero in a header", "POST /api/v1/none HTTP/1.1\r\n{auth}\r\nx: y\0z\r\n\r\n{second}"),
    ("a zero in a name", "POST /api/v1/none HTTP/1.1\r\n{auth}\r\nx\0y: z\r\n\r\n{second}"),
    ("a name that is none", "POST /api/v1/none HTTP/1.1\r\n{auth}\r\n(x): y\r\n\r\n{second}"),
    ("no colon", "POST /api/v1/none HTTP/1.1\r\n{auth}\r\nxyz\r\n\r\n{second}"),
    (
        "a chunk that overflows",
        "POST {runs} HTTP/1.1\r\n{json}\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff1\r\nx\r\n0\r\n\r\n{second}",
    ),
    (
        "a negative chunk",
        "POST {runs} HTTP/1.1\r\n{json}\r\ntransfer-encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n{second}",
    ),
    (
        "a signed chunk",
        "POST {runs} HTTP/1.1\r\n{json}\r\ntransfer-encoding: chunked\r\n\r\n+1\r\nx\r\n0\r\n\r\n{second}",
    ),
    (
        "a chunk in another base",
        "POST {runs} HTTP/1.1\r\n{json}\r\ntransfer-encoding: chunked\r\n\r\n0x1\r\nx\r\n0\r\n\r\n{second}",
    ),
    (
        "a chunk without its end",
        "POST {runs} HTTP/1.1\r\n{json}\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}0\r\n\r\n{second}",
    ),
    (
        "a chunk with a bare line feed",
        "POST {runs} HTTP/1.1\r\n{json}\r\ntransfer-encoding: chunked\r\n\r\n2;\n{}\r\n0\r\n\r\n{second}",
    ),
    (
        "a long extension of a chunk",
        "POST {runs} HTTP/1.1\r\n{json}\r\ntransfer-encoding: chunked\r\n\r\n2;{long}\r\n{}\r\n0\r\n\r\n{second}",
    ),
    (
        "many trailers",
        "POST {runs} HTTP/1.1\r\n{json}\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n{many}\r\n{second}",
    ),
];
