//! Which servers' certificates are accepted.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_platform_verifier::Verifier;

use super::ClientUnavailable;

/// Which certificates are accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CertificateTrust {
    /// Those that this machine accepts.
    #[default]
    Machine,
    /// Those, and what the authorities in this PEM file have signed.
    MachineAnd(PathBuf),
    /// Any: whoever is on the way can read and change everything. Only at the user's word (`tls_skip_verify`).
    Anyone,
}

/// A TLS setup that never reads a certificate, for plain HTTP.
pub(super) fn none() -> Result<ClientConfig, ClientUnavailable> {
    Ok(builder()?.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth())
}

/// A TLS setup with this trust. Reads files; takes tens of milliseconds.
pub(super) fn config(trust: &CertificateTrust) -> Result<ClientConfig, ClientUnavailable> {
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        CertificateTrust::Machine => Arc::new(Verifier::new(provider()).map_err(|error| unreadable(&error))?),
        CertificateTrust::MachineAnd(file) => {
            let authorities = authorities(file)?;
            Arc::new(
                Verifier::new_with_extra_roots(authorities, provider())
                    .map_err(|error| unreadable(&error))?,
            )
        }
        CertificateTrust::Anyone => Arc::new(AcceptAny(provider())),
    };
    let mut config = builder()?.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn authorities(file: &PathBuf) -> Result<Vec<CertificateDer<'static>>, ClientUnavailable> {
    let wrong = |why: String| ClientUnavailable(format!("tls_ca_cert {}: {why}", file.display()));
    let read = CertificateDer::pem_file_iter(file).map_err(|error| wrong(error.to_string()))?;
    let all: Vec<_> = read.collect::<Result<_, _>>().map_err(|error| wrong(error.to_string()))?;
    if all.is_empty() { Err(wrong("there is no certificate in it".to_owned())) } else { Ok(all) }
}

fn unreadable(error: &rustls::Error) -> ClientUnavailable {
    ClientUnavailable(format!("the certificates of this machine cannot be read: {error}"))
}

fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, ClientUnavailable> {
    // The provider is named here and not installed for the process, so that no order of start-up can fail.
    ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| ClientUnavailable(error.to_string()))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Takes every certificate. Signatures are checked all the same, so that the connection is with one and the same peer.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
