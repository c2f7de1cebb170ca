// Package handshake knows which errors of a TLS handshake come again at the next try: a certificate that cannot be verified, a server
// that refuses the client's, two sides without a common version. A connection that breaks in the handshake, or is too slow for it, is
// another matter.
package handshake

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"
)

// Advice says what to do about an error that Lasts.
const Advice = "the TLS handshake fails: look at the certificates, their names and dates, and at the authority that is trusted"

// alerts are what one side tells the other for good (RFC 8446, 6.2). The others may pass: a server that is busy or going down, a
// record that was garbled.
var alerts = []tls.AlertError{
	40,  // handshake failure
	41,  // no certificate
	42,  // bad certificate
	43,  // unsupported certificate
	44,  // certificate revoked
	45,  // certificate expired
	46,  // certificate unknown
	48,  // unknown certificate authority
	49,  // access denied
	70,  // protocol version
	71,  // insufficient security
	86,  // inappropriate fallback
	109, // missing extension
	110, // unsupported extension
	112, // unrecognised name
	113, // bad certificate status response
	115, // unknown PSK identity
	116, // certificate required
	120, // no application protocol
}

// texts begin the errors of crypto/tls that have no type and last.
var texts = []string{
	"tls: server selected unsupported protocol version",
	"tls: no supported versions satisfy MinVersion and MaxVersion",
	"tls: either ServerName or InsecureSkipVerify must be specified",
}

// Lasts reports whether err is, or wraps, that of a TLS handshake which fails in the same way at the next try.
func Lasts(err error) bool {
	return err != nil && (certificate(err) || alert(err) || notTLS(err) || untyped(err))
}

// certificate reports whether a certificate could not be verified.
func certificate(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		name         x509.HostnameError
		invalid      x509.CertificateInvalidError
		roots        x509.SystemRootsError
		algorithm    x509.InsecureAlgorithmError
		constraint   x509.ConstraintViolationError
		extension    x509.UnhandledCriticalExtension
	)
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &name) || errors.As(err, &invalid) ||
		errors.As(err, &roots) || errors.As(err, &algorithm) || errors.As(err, &constraint) || errors.As(err, &extension)
}

// alert reports whether err is an alert that lasts. Over a network it has a type of crypto/tls that is not exported, in a
// *net.OpError, with the text of a tls.AlertError.
func alert(err error) bool {
	var exported tls.AlertError
	if errors.As(err, &exported) {
		return slices.Contains(alerts, exported)
	}
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" && op.Op != "local error" {
		return false
	}
	text := op.Err.Error()
	return slices.ContainsFunc(alerts, func(a tls.AlertError) bool { return a.Error() == text })
}

// notTLS reports whether the server does not speak TLS. A server of MySQL that is full or going down says so without TLS, in
// the middle of a handshake: its error packet has 0xff after a length and a number, and may pass.
func notTLS(err error) bool {
	var record tls.RecordHeaderError
	return errors.As(err, &record) && record.RecordHeader[4] != 0xff
}

// untyped reports whether err is one of texts, wrapped or not.
func untyped(err error) bool {
	text := err.Error()
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(text, t) })
}
