package rowlockcli

import (
	"net/url"
	"slices"
	"strings"
)

// harmless are the parameters of addresses whose values are printed. Every other one may be a secret: drivers get new ones,
// and people mistype names.
var harmless = []string{
	// both
	"tls", "timeout", "compressors",
	// MySQL
	"allowallfiles", "allowcleartextpasswords", "allownativepasswords", "allowoldpasswords", "charset", "checkconnliveness",
	"clientfoundrows", "collation", "columnswithalias", "interpolateparams", "loc", "maxallowedpacket", "multistatements",
	"parsetime", "readtimeout", "rejectreadonly", "writetimeout",
	// MongoDB
	"appname", "authmechanism", "authsource", "connecttimeoutms", "directconnection", "heartbeatfrequencyms", "journal",
	"loadbalanced", "localthresholdms", "maxpoolsize", "maxidletimems", "minpoolsize", "readconcernlevel", "readpreference",
	"readpreferencetags", "replicaset", "retryreads", "retrywrites", "serverselectiontimeoutms", "sockettimeoutms", "ssl",
	"srvservicename", "timeoutms", "tlsallowinvalidcertificates", "tlsallowinvalidhostnames", "tlscafile",
	"tlscertificatekeyfile", "tlsinsecure", "w", "wtimeoutms",
}

// maskParameters is a query without the values that may be secret.
func maskParameters(query string) string {
	parameters := strings.Split(query, "&")
	for i, p := range parameters {
		if name, _, ok := strings.Cut(p, "="); ok && !slices.Contains(harmless, strings.ToLower(name)) {
			parameters[i] = name + "=***"
		}
	}
	return strings.Join(parameters, "&")
}

// parameter is the value of one of the address's, decoded; empty if it is not there.
func (a address) parameter(name string) string {
	for _, p := range strings.Split(a.query, "&") {
		if n, value, _ := strings.Cut(p, "="); strings.EqualFold(n, name) {
			return decoded(value)
		}
	}
	return ""
}

// secrets are the forms in which the password, and the secrets among the parameters, may turn up in a message.
func (a address) secrets() (found []string) {
	add := func(s string) {
		if s != "" {
			found = append(found, s)
		}
		if d := decoded(s); d != s {
			found = append(found, d)
		}
	}
	if a.password != "" {
		found = append(found, a.password)
	}
	for _, p := range strings.Split(a.query, "&") {
		name, value, _ := strings.Cut(p, "=")
		switch name = strings.ToLower(name); {
		case name == "authmechanismproperties":
			add(value)
			for _, property := range strings.Split(decoded(value), ",") {
				if name, value, _ := strings.Cut(property, ":"); isSecret(strings.ToLower(name)) {
					add(value)
				}
			}
		case isSecret(name):
			add(value)
		}
	}
	return found
}

// isSecret reports whether a parameter's name is that of a secret, as tlsCertificateKeyFilePassword of MongoDB.
func isSecret(name string) bool {
	return !slices.Contains(harmless, name) && slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
}

var secretWords = []string{"password", "passwd", "passphrase", "pwd", "secret", "token", "credential", "apikey"}

// decoded is a part of a URL as it is meant; as it stands there if that cannot be read.
func decoded(s string) string {
	if d, err := url.PathUnescape(s); err == nil {
		return d
	}
	return s
}
