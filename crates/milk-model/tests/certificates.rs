//! Which certificates are accepted, against a TLS server with a certificate that no machine knows.

#![expect(clippy::unwrap_used, reason = "tests: the helpers too may fail loudly")]

use std::sync::Arc;
use std::time::Duration;

use milk_model::HttpClients;
use milk_model::discover::{Found, Target, probe};
use milk_model::http::{CertificateTrust, HttpOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

const LIMIT: Duration = Duration::from_secs(20);
const MODELS: &str = r#"{"data":[{"id":"safe"}]}"#;

/// A server with a certificate of its own making. Returns its address and its certificate as PEM.
async fn server() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("https://127.0.0.1:{}", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{MODELS}",
                MODELS.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    (url, made.cert.pem())
}

async fn asked(url: &str, certificates: CertificateTrust) -> Found {
    let http = HttpClients::new(HttpOptions { certificates, ..HttpOptions::default() });
    probe(&http, &Target::open("own", url), LIMIT).await.found
}

#[tokio::test]
async fn an_unknown_certificate_is_refused_unless_the_user_says_otherwise() {
    let (url, pem) = server().await;
    let known = Found::Models(vec!["safe".to_owned()]);
    let refused = asked(&url, CertificateTrust::Machine).await;
    assert!(matches!(&refused, Found::Unreachable(why) if why.contains("certificate")), "{refused:?}");
    assert_eq!(asked(&url, CertificateTrust::Anyone).await, known);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.pem");
    std::fs::write(&file, pem).unwrap();
    assert_eq!(asked(&url, CertificateTrust::MachineAnd(file)).await, known);
}

#[tokio::test]
async fn a_file_without_a_certificate_is_told_with_its_name() {
    let (url, _) = server().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("empty.pem");
    for content in [None, Some("no certificate")] {
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        let found = asked(&url, CertificateTrust::MachineAnd(file.clone())).await;
        assert!(matches!(&found, Found::Misconfigured(why) if why.contains("empty.pem")), "{found:?}");
    }
}
