use super::*;

#[test]
fn a_route_is_plain() {
    let route = |prefix, upstream| Route::new(prefix, upstream, None).map(|_| ());
    assert_eq!(route("/model", "https://api.example.com"), Ok(()));
    assert_eq!(route("/a/b", "https://api.example.com:8443/v1/"), Ok(()));
    assert_eq!(route("/a", "HTTP://127.0.0.1:4000"), Ok(()));
    assert_eq!(route("/a", "http://[::1]:4000/openai/deployments/a:b@1"), Ok(()));
    for prefix in ["", "/", "model", "/a//b", "/a/", "/..", "/a/../b", "/a b", "/a%2f", "/a?b"] {
        assert_eq!(route(prefix, "https://a.example"), Err(RouteError::Prefix), "{prefix}");
    }
    for upstream in [
        "",
        "a.example",
        "ftp://a.example",
        "https://a.example/../b",
        "https://a.example/a?b",
        "http://a.example/a%2fb",
        "http://a.example//b",
    ] {
        assert_eq!(route("/m", upstream), Err(RouteError::Upstream), "{upstream}");
    }
    for upstream in ["https://", "http://u@a.example", "https://a.example.", "https://a?b"] {
        let error = route("/m", upstream).unwrap_err();
        assert!(matches!(error, RouteError::UpstreamHost(_)), "{upstream}");
    }
}

#[test]
fn a_prefix_covers_whole_parts_of_a_path() {
    let route = Route::new("/model", "https://a.example/base", None).unwrap();
    for (path, expected) in [
        ("/model", Some("/base/")),
        ("/model/", Some("/base/")),
        ("/model/v1/messages?beta=1", Some("/base/v1/messages?beta=1")),
        ("/model?x", Some("/base/?x")),
        ("/model/m:go?key=a&alt=sse", Some("/base/m:go?key=a&alt=sse")),
        ("/models", None),
        ("/mode", None),
        ("/x/model", None),
    ] {
        let found = route.below(path).map(|below| route.upstream_path(below));
        assert_eq!(found.as_deref(), expected, "{path}");
    }
}

#[test]
fn keys_of_the_client_are_recognised() {
    let credential = Credential::new(&[("X-My_Key", "secret")]).unwrap();
    let route = Route::new("/m", "https://a.example", Some(credential)).unwrap();
    let route = route.with_key_headers(&["X-Other-Key"]).unwrap();
    for name in ["authorization", "x-api-key", "x_api_key", "x-my-key", "x_my_key"] {
        assert!(route.is_key_header(name), "{name}");
    }
    assert!(route.is_key_header("x_other-key") && !route.is_key_header("x-goog-api-client"));
    for (path, expected) in [
        ("/m?key=1", "/m"),
        ("/m?alt=sse&key=1", "/m?alt=sse"),
        ("/m?k%65y=1&KEY&alt=sse&%6Bey=2", "/m?alt=sse"),
        ("/m?keys=1&x=key", "/m?keys=1&x=key"),
        ("/m?%=1&%6=2", "/m?%=1&%6=2"),
        ("/m?", "/m?"),
    ] {
        assert_eq!(route.upstream_path(path), expected);
    }
}

#[test]
fn a_credential_is_headers_and_is_not_printed() {
    let headers = [("Authorization", "Bearer a-long-s3cret"), ("X-Account", "me")];
    let credential = Credential::new(&headers).unwrap();
    assert_eq!(credential.secrets().collect::<Vec<_>>(), ["Bearer a-long-s3cret", "a-long-s3cret"]);
    assert_eq!(format!("{credential:?}"), "{\"authorization\", \"x-account\"}");
    for name in ["", "a b", "a:", "Host", "Content-Length", "Connection", "Transfer-Encoding"] {
        let error = Credential::new(&[(name, "secret")]).unwrap_err();
        assert_eq!(error, RouteError::HeaderName, "{name}");
    }
    for value in ["", " ", "a\r\nb: c", "a\0", " a", "a\n", "\u{fc}"] {
        let error = Credential::new(&[("x-api-key", value)]).unwrap_err();
        assert_eq!(error, RouteError::HeaderValue, "{value}");
    }
}

#[test]
fn the_first_reason_stays() {
    let route = Route::new("/m", "https://a.example", None).unwrap();
    let (switch, clone) = (route.switch(), route.clone());
    assert_eq!(switch.reason(), None);
    switch.close("first");
    clone.switch().close("second");
    assert_eq!(clone.switch().reason().as_deref(), Some("first"));
}
