//! The objects of the stub, and what S3 answers about them.
//!
//! Invariant: one request at a time, so that conditions are honoured; listings are in byte
//! order and come in pages of a few names, so that clients must ask for the next.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

use super::http::{Request, Response};
use crate::context::Context;

/// Names in a page of a listing.
const PAGE: usize = 7;

#[derive(Clone, Debug)]
struct Object {
    bytes: Bytes,
    generation: u64,
    modified_ms: i64,
}

impl Object {
    fn etag(&self) -> String {
        format!("\"{:016x}\"", self.generation)
    }

    fn time(&self) -> chrono::DateTime<chrono::Utc> {
        chrono::DateTime::from_timestamp_millis(self.modified_ms).unwrap_or_default()
    }
}

#[derive(Debug, Default)]
struct Upload {
    key: String,
    parts: BTreeMap<u32, Bytes>,
}

/// The objects by key.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    objects: BTreeMap<String, Object>,
    uploads: BTreeMap<String, Upload>,
    generation: u64,
}

impl Bucket {
    pub(super) fn keys(&self) -> Vec<String> {
        self.objects.keys().cloned().collect()
    }

    pub(super) fn contents(&self) -> Vec<(String, Bytes)> {
        let pair = |(key, object): (&String, &Object)| (key.clone(), object.bytes.clone());
        self.objects.iter().map(pair).collect()
    }

    pub(super) fn answer(&mut self, request: &Request, context: &Context) -> Response {
        let query = |name: &str| request.query.get(name);
        let answer = match (request.method.as_str(), query("uploadId")) {
            ("PUT", Some(upload)) => self.put_part(upload, request),
            ("POST", Some(upload)) => self.complete(upload, context),
            ("DELETE", Some(upload)) => {
                self.uploads.remove(upload);
                Response::new(204)
            }
            ("POST", None) if query("uploads").is_some() => self.initiate(request),
            ("POST", None) if query("delete").is_some() => self.delete_many(request),
            ("PUT", None) => self.put(request, context),
            ("DELETE", None) => self.delete(request),
            ("GET", None) if query("list-type").is_some() => self.list(request),
            ("GET" | "HEAD", None) => self.get(request),
            _ => Response::error(400, "NotUnderstood"),
        };
        answer.with("x-amz-request-id", &format!("stub-{}", self.generation))
    }

    fn store(&mut self, key: &str, bytes: Bytes, context: &Context) -> Response {
        self.generation += 1;
        let object = Object {
            bytes,
            generation: self.generation,
            modified_ms: context.now().0,
        };
        let answer = Response::new(200)
            .with("etag", &object.etag())
            .with("x-goog-generation", &object.generation.to_string());
        self.objects.insert(key.to_owned(), object);
        answer
    }

    fn put(&mut self, request: &Request, context: &Context) -> Response {
        if request.is_create() && self.objects.contains_key(&request.key) {
            return Response::error(412, "PreconditionFailed");
        }
        let source = ["x-amz-copy-source", "x-goog-copy-source"];
        if source
            .iter()
            .any(|name| request.headers.contains_key(*name))
        {
            return Response::error(501, "NotImplemented");
        }
        self.store(&request.key, request.body.clone(), context)
    }

    fn get(&self, request: &Request) -> Response {
        let Some(object) = self.objects.get(&request.key) else {
            return Response::error(404, "NoSuchKey");
        };
        let length = object.bytes.len();
        let range = request
            .headers
            .get("range")
            .map(|text| parse_range(text, length));
        let (answer, body) = match range {
            None => (Response::new(200), object.bytes.clone()),
            Some(None) => return Response::error(416, "InvalidRange"),
            Some(Some(range)) => {
                let named = format!("bytes {}-{}/{length}", range.start, range.end - 1);
                let answer = Response::new(206).with("content-range", &named);
                (answer, object.bytes.slice(range))
            }
        };
        answer
            .with("etag", &object.etag())
            .with("x-goog-generation", &object.generation.to_string())
            .with("last-modified", &object.time().to_rfc2822())
            .with("content-length", &body.len().to_string())
            .with_body(body)
    }

    fn delete(&mut self, request: &Request) -> Response {
        match self.objects.remove(&request.key) {
            Some(_) => Response::new(204),
            None => Response::error(404, "NoSuchKey"),
        }
    }

    fn delete_many(&mut self, request: &Request) -> Response {
        let text = String::from_utf8_lossy(&request.body).into_owned();
        let mut answer = String::from("<DeleteResult>");
        for piece in text.split("<Key>").skip(1) {
            let key = piece.split("</Key>").next().unwrap_or_default();
            self.objects.remove(&unescape(key));
            answer.push_str(&format!("<Deleted><Key>{key}</Key></Deleted>"));
        }
        answer.push_str("</DeleteResult>");
        xml(answer)
    }

    fn initiate(&mut self, request: &Request) -> Response {
        self.generation += 1;
        let id = format!("upload-{}", self.generation);
        let upload = Upload {
            key: request.key.clone(),
            ..Upload::default()
        };
        self.uploads.insert(id.clone(), upload);
        xml(format!(
            "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
        ))
    }

    fn put_part(&mut self, upload: &str, request: &Request) -> Response {
        let number = request.query.get("partNumber").and_then(|n| n.parse().ok());
        let (Some(upload), Some(number)) = (self.uploads.get_mut(upload), number) else {
            return Response::error(404, "NoSuchUpload");
        };
        upload.parts.insert(number, request.body.clone());
        Response::new(200).with("etag", &format!("\"part-{number}\""))
    }

    fn complete(&mut self, upload: &str, context: &Context) -> Response {
        let Some(upload) = self.uploads.remove(upload) else {
            return Response::error(404, "NoSuchUpload");
        };
        let parts: Vec<Bytes> = upload.parts.into_values().collect();
        let stored = self.store(&upload.key, Bytes::from(parts.concat()), context);
        let mut answer = xml("<CompleteMultipartUploadResult><ETag>\"whole\"</ETag>\
             </CompleteMultipartUploadResult>"
            .to_owned());
        answer.headers.extend(stored.headers);
        answer
    }

    fn list(&self, request: &Request) -> Response {
        let query = |name: &str| request.query.get(name).map_or("", String::as_str);
        let (prefix, delimiter) = (query("prefix"), query("delimiter"));
        let after = query("start-after").max(query("continuation-token"));
        let (mut text, mut named, mut last_group) = (String::new(), 0, String::new());
        let mut last = String::new();
        for (key, object) in &self.objects {
            if key.as_str() <= after || !key.starts_with(prefix) {
                continue;
            }
            let group = key
                .get(prefix.len()..)
                .filter(|_| !delimiter.is_empty())
                .and_then(|rest| rest.find(delimiter))
                .and_then(|at| key.get(..prefix.len() + at + delimiter.len()));
            if group.is_some_and(|group| group == last_group || after.starts_with(group)) {
                continue;
            }
            if named == PAGE {
                let token = escape(&last);
                text.push_str(&format!(
                    "<NextContinuationToken>{token}</NextContinuationToken>"
                ));
                break;
            }
            named += 1;
            last.clone_from(key);
            match group {
                Some(group) => {
                    group.clone_into(&mut last_group);
                    let group = escape(group);
                    text.push_str(&format!(
                        "<CommonPrefixes><Prefix>{group}</Prefix></CommonPrefixes>"
                    ));
                }
                None => text.push_str(&format!(
                    "<Contents><Key>{}</Key><LastModified>{}</LastModified><Size>{}</Size>\
                     <ETag>{}</ETag></Contents>",
                    escape(key),
                    object.time().to_rfc3339(),
                    object.bytes.len(),
                    object.etag()
                )),
            }
        }
        xml(format!("<ListBucketResult>{text}</ListBucketResult>"))
    }
}

fn xml(text: String) -> Response {
    Response::new(200)
        .with("content-type", "application/xml")
        .with_body(Bytes::from(text))
}

/// `None`: not satisfiable.
fn parse_range(text: &str, length: usize) -> Option<Range<usize>> {
    let (start, end) = text.strip_prefix("bytes=")?.split_once('-')?;
    let range = match (start, end) {
        ("", last) => length.saturating_sub(last.parse().ok()?)..length,
        (first, "") => first.parse().ok()?..length,
        (first, last) => first.parse().ok()?..last.parse::<usize>().ok()?.checked_add(1)?,
    };
    let range = range.start..range.end.min(length);
    (!range.is_empty()).then_some(range)
}

fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

fn unescape(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    let text = text.replace("&quot;", "\"").replace("&apos;", "'");
    text.replace("&amp;", "&")
}
