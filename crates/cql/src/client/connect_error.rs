//! Explains connection errors, and what to do about them.
//!
//! Invariants:
//! - an error is `InvalidArgument` if the address or a file that it names must change;
//! - an error that may pass is `Unavailable`;
//! - no text has a password.

use crate::settings::{Settings, Tls};
use idmatch_store::{Error, ErrorKind};
use rustls::CertificateError::{
    self, Expired, ExpiredContext, NotValidForName, NotValidForNameContext, UnknownIssuer,
};
use scylla::errors::{
    BrokenConnectionErrorKind, ConnectionError, ConnectionPoolError,
    ConnectionSetupRequestErrorKind, DbError, FrameHeaderParseError, MetadataError,
    NewSessionError,
};
use std::fmt::Display;
use std::io;
use std::path::Path;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The error if servers do not answer in time.
pub(super) fn unanswered(settings: &Settings, cause: impl Into<Cause>) -> Error {
    let text = format!("cannot connect to {}; check that the servers run", all(settings));
    Error::with_source(ErrorKind::Unavailable, text, cause)
}

/// The error if the driver makes no session.
pub(super) fn unconnected(settings: &Settings, error: NewSessionError) -> Error {
    let NewSessionError::MetadataError(MetadataError::ConnectionPoolError(
        ConnectionPoolError::Broken { last_connection_error },
    )) = error
    else {
        return unanswered(settings, error);
    };
    let reason = match &last_connection_error {
        ConnectionError::IoError(error) => in_handshake(&settings.tls, error),
        ConnectionError::ConnectionSetupRequestError(request) => match &request.error {
            ConnectionSetupRequestErrorKind::MissingAuthentication => Some((
                ErrorKind::InvalidArgument,
                "they want to know who asks; give user and password, in the address or as \
                 IDMATCH_CQL_USER and IDMATCH_CQL_PASSWORD"
                    .to_owned(),
            )),
            ConnectionSetupRequestErrorKind::DbError(DbError::AuthenticationError, _) => Some((
                ErrorKind::InvalidArgument,
                "they do not accept this user with this password; check both".to_owned(),
            )),
            ConnectionSetupRequestErrorKind::BrokenConnection(broken) => {
                after_handshake(&settings.tls, broken.downcast_ref())
            }
            _ => None,
        },
        _ => None,
    };
    match reason {
        Some((kind, text)) => {
            let text = format!("cannot connect to {}: {text}", all(settings));
            Error::with_source(kind, text, last_connection_error)
        }
        None => unanswered(settings, last_connection_error),
    }
}

/// The error to log: the error of the connection, without the text of a server, which may contain the user.
pub(super) fn without_text(error: &NewSessionError) -> &dyn Display {
    let NewSessionError::MetadataError(MetadataError::ConnectionPoolError(
        ConnectionPoolError::Broken { last_connection_error },
    )) = error
    else {
        return error;
    };
    match last_connection_error {
        ConnectionError::ConnectionSetupRequestError(request) => match &request.error {
            ConnectionSetupRequestErrorKind::DbError(error, _) => error,
            error => error,
        },
        error => error,
    }
}

fn all(settings: &Settings) -> String {
    settings.nodes.join(", ")
}

type Reason = Option<(ErrorKind, String)>;

/// Why a connection ends before the first request on it.
fn in_handshake(tls: &Tls, error: &io::Error) -> Reason {
    let ca = tls.ca.as_deref()?;
    let Some(error) = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) else {
        return is_end(error).then(|| (ErrorKind::Unavailable, ended(tls)));
    };
    Some((ErrorKind::InvalidArgument, tls_failure(tls, ca, error)))
}

/// Why a connection ends during the first requests on it. Servers verify a client's certificate when
/// the client already goes on.
fn after_handshake(tls: &Tls, error: Option<&BrokenConnectionErrorKind>) -> Reason {
    let header = match error? {
        BrokenConnectionErrorKind::FrameHeaderParseError(header) => header,
        _ => return tls.is_on().then(|| (ErrorKind::Unavailable, ended(tls))),
    };
    let io = match header {
        FrameHeaderParseError::HeaderIoError(io) => Some(io),
        FrameHeaderParseError::BodyChunkIoError(_, io) => Some(io),
        _ => None,
    };
    let Some(ca) = tls.ca.as_deref() else {
        let text = "they do not answer in the protocol of Cassandra; if they want TLS, name their \
                    authority: tls_ca=FILE";
        return Some((ErrorKind::Unavailable, text.to_owned()));
    };
    let alert = io.and_then(|io| io.get_ref()).and_then(|e| e.downcast_ref::<rustls::Error>());
    Some(match alert {
        Some(alert) => (ErrorKind::InvalidArgument, tls_failure(tls, ca, alert)),
        None => (ErrorKind::Unavailable, ended(tls)),
    })
}

fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// The text for a TLS connection that ends without an alert.
fn ended(tls: &Tls) -> String {
    match &tls.certificate {
        None => "they end the connection; if they ask for a client's certificate, name it: \
                 tls_certificate=FILE&tls_key=FILE"
            .to_owned(),
        Some(certificate) => format!(
            "they end the connection; check that they speak TLS there and trust tls_certificate={}",
            certificate.display()
        ),
    }
}

/// The text for a TLS error of either side.
fn tls_failure(tls: &Tls, ca: &Path, error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(wrong) => match wrong {
            NotValidForName | NotValidForNameContext { .. } => {
                "their certificate does not name the IP address that is connected to; have it name \
                 that, or take any certificate of tls_ca: tls_verify_hostname=off"
                    .to_owned()
            }
            UnknownIssuer | CertificateError::BadSignature => {
                let ca = ca.display();
                format!("their certificate is not signed by an authority of tls_ca={ca}")
            }
            Expired | ExpiredContext { .. } => "their certificate has expired; renew it".to_owned(),
            _ => "their certificate is not valid".to_owned(),
        },
        rustls::Error::InvalidMessage(_) => {
            "they do not speak TLS there; name the port where they do, or leave out tls_ca"
                .to_owned()
        }
        rustls::Error::AlertReceived(_) => match &tls.certificate {
            None => "they want a client's certificate; name it: tls_certificate=FILE&tls_key=FILE"
                .to_owned(),
            Some(certificate) => format!(
                "they do not take the certificate of tls_certificate={}",
                certificate.display()
            ),
        },
        _ => "TLS with them fails".to_owned(),
    }
}
