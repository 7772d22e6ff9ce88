//! What is taken from answers.

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};

use super::{Told, request_id, told_by};

#[track_caller]
fn check(body: &str, code: Option<&str>, message: Option<&str>, id: Option<&str>) {
    let told = told_by(&Bytes::from(body.to_owned()), &HeaderMap::new());
    let expected = Told {
        code: code.map(str::to_owned),
        message: message.map(str::to_owned),
        request_id: id.map(str::to_owned),
    };
    assert_eq!(told, expected);
}

#[test]
fn code_message_and_id_are_taken_from_an_error_and_nothing_else() {
    check(
        "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>Please reduce.</Message>\
         <AWSAccessKeyId>AKIA</AWSAccessKeyId><RequestId>44F</RequestId></Error>",
        Some("SlowDown"),
        Some("Please reduce."),
        Some("44F"),
    );
    check("", None, None, None);
    check("<html>502</html>", None, None, None);
    check("<Code>not a\nword</Code>", None, None, None);
    check("<Code>unclosed", None, None, None);
    let long = "x".repeat(1000);
    let shown = "x".repeat(200);
    check(
        &format!("<Message>{long}\nsecond line</Message>"),
        None,
        Some(&shown),
        None,
    );
}

#[test]
fn azure_puts_the_code_into_a_header_too() {
    let mut headers = HeaderMap::new();
    headers.insert("x-ms-error-code", HeaderValue::from_static("BlobNotFound"));
    headers.insert("x-ms-request-id", HeaderValue::from_static("5f-1"));
    let told = told_by(&Bytes::new(), &headers);
    assert_eq!(told.code.as_deref(), Some("BlobNotFound"));
    assert_eq!(request_id(&headers).as_deref(), Some("5f-1"));
}
