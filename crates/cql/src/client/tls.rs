//! Configures TLS from the files that the address names.
//!
//! Must not connect to anything. Invariant: the certificate of every server is signed by a named authority,
//! whatever the other options say; otherwise the client does not talk to it.

use crate::settings::Tls;
use idmatch_store::{Error, ErrorKind, Result};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::path::Path;
use std::sync::Arc;

/// Reads the TLS files into a client configuration; `None` where TLS is off.
///
/// # Errors
/// `InvalidArgument`, which names the file and its fault.
pub(super) fn config(tls: &Tls) -> Result<Option<Arc<ClientConfig>>> {
    let Some(ca) = &tls.ca else { return Ok(None) };
    let mut roots = RootCertStore::empty();
    for certificate in certificates("tls_ca", ca)? {
        roots.add(certificate).map_err(|e| bad("tls_ca", ca, "has a bad certificate", e))?;
    }
    let roots = Arc::new(roots);
    let unusable = |e| bad("tls_ca", ca, "cannot be used", e);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let builder = if tls.verify_hostname {
        builder.with_root_certificates(roots)
    } else {
        let inner =
            WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|e| bad("tls_ca", ca, "cannot be used", e))?;
        let verifier = AnyName { roots, provider, inner };
        builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
    };
    let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) else {
        return Ok(Some(Arc::new(builder.with_no_client_auth())));
    };
    let (chain, private) = (certificates("tls_certificate", certificate)?, private_key(key)?);
    let config = builder.with_client_auth_cert(chain, private).map_err(|e| {
        let what = format!("does not go with tls_key={}", key.display());
        bad("tls_certificate", certificate, &what, e)
    })?;
    Ok(Some(Arc::new(config)))
}

fn certificates(option: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let bytes = read(option, file)?;
    let parsed: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let certificates = parsed.map_err(|e| bad(option, file, "is no PEM file", e))?;
    if certificates.is_empty() {
        let what = "has no certificate; it has to be a PEM file, with -----BEGIN CERTIFICATE-----";
        return Err(bad(option, file, what, pem::Error::NoItemsFound));
    }
    Ok(certificates)
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>> {
    const ENCRYPTED: &[u8] = b"ENCRYPTED";
    let bytes = read("tls_key", file)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|e| {
        let what = if bytes.windows(ENCRYPTED.len()).any(|some| some == ENCRYPTED) {
            "has a key with a passphrase; it has to be without one, and readable by its user alone"
        } else {
            "has no private key; it has to be a PEM file, with -----BEGIN PRIVATE KEY-----"
        };
        bad("tls_key", file, what, e)
    })
}

#[expect(clippy::disallowed_methods, reason = "the door to the files that an address names")]
fn read(option: &str, file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(|e| bad(option, file, "cannot be read", e))
}

fn bad(
    option: &str,
    file: &Path,
    what: &str,
    cause: impl std::error::Error + Send + Sync + 'static,
) -> Error {
    let text = format!("the file of {option}={} {what}", file.display());
    Error::with_source(ErrorKind::InvalidArgument, text, cause)
}

/// Accepts every certificate that an authority signs, whichever server it names.
#[derive(Debug)]
struct AnyName {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
    inner: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let certificate = ParsedCertificate::try_from(certificate)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        rustls::client::verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &self.roots,
            intermediates,
            now,
            algorithms,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "makes files to read")]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// The error of a file with this text; with `None` the file does not exist.
    fn error(ca: Option<&str>) -> (ErrorKind, String, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca");
        if let Some(text) = ca {
            std::fs::write(&path, text).unwrap();
        }
        let tls = Tls { ca: Some(path), ..Tls::default() };
        let error = config(&tls).unwrap_err();
        (error.kind(), error.chain(), folder.path().to_owned())
    }

    #[test]
    fn a_file_that_is_wrong_is_named() {
        for (ca, said) in [
            (None, "No such file"),
            (Some(""), "no certificate"),
            (
                Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"),
                "bad certificate",
            ),
            (Some("-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----"), "no PEM file"),
            (Some("-----BEGIN CERTIFICATE-----\nAAAA\n"), "no PEM file"),
        ] {
            let (kind, text, folder) = error(ca);
            assert_eq!(kind, ErrorKind::InvalidArgument);
            let named = format!("tls_ca={}", folder.join("ca").display());
            assert!(text.contains(said) && text.contains(&named), "{text}");
        }
    }
}
