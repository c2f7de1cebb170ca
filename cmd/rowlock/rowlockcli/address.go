package rowlockcli

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// address is where a database is: a URL, or a DSN of the Go driver for MySQL.
type address struct {
	text string
	kind string // mysql or mongodb

	// Of a URL: scheme://user:password@rest.
	scheme, user, password, rest string
	hasPassword                  bool
}

// parseAddress reads one. Its errors do not have the text in them: there may be a password in it.
func parseAddress(text string) (address, error) {
	a := address{text: text}
	scheme, after, isURL := strings.Cut(text, "://")
	if !isURL {
		config, err := mysql.ParseDSN(text)
		if err != nil {
			return a, invalid("the database is neither a URL (mysql://user@host:3306/database, mongodb://user@host:27017/database) nor of the form user@tcp(host:3306)/database")
		}
		a.kind, a.user, a.password, a.hasPassword = "mysql", config.User, config.Passwd, config.Passwd != ""
		if a.database() == "" {
			return a, invalid("the address names no database: it has the form user@tcp(host:3306)/database")
		}
		return a, nil
	}
	a.scheme, a.rest = scheme, after
	switch scheme {
	case "mysql", "mariadb":
		a.kind = "mysql"
	case "mongodb", "mongodb+srv":
		a.kind = "mongodb"
	default:
		return a, invalid("the database's URL begins with %q: use mysql://, mariadb://, mongodb:// or mongodb+srv://", scheme+"://")
	}
	// The host part of a mongodb URL is no URL's: it may name several hosts.
	authority := after
	if end := strings.IndexAny(after, "/?"); end >= 0 {
		authority = after[:end]
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		a.user, a.password, a.hasPassword = strings.Cut(authority[:at], ":")
		a.rest = after[at+1:]
	}
	if a.database() == "" {
		return a, invalid("the URL names no database: it has the form %s://user@host/DATABASE", scheme)
	}
	return a, nil
}

// database is the one that the address names.
func (a address) database() string {
	if a.scheme == "" {
		config, err := mysql.ParseDSN(a.text)
		if err != nil {
			return ""
		}
		return config.DBName
	}
	_, path, _ := strings.Cut(a.rest, "/")
	name, _, _ := strings.Cut(path, "?")
	if decoded, err := url.PathUnescape(name); err == nil {
		return decoded
	}
	return name
}

// authSource is the database of MongoDB that knows the user.
func (a address) authSource() string {
	_, query, _ := strings.Cut(a.rest, "?")
	for _, parameter := range strings.Split(query, "&") {
		if name, value, _ := strings.Cut(parameter, "="); strings.EqualFold(name, "authSource") {
			if decoded, err := url.QueryUnescape(value); err == nil {
				return decoded
			}
			return value
		}
	}
	return a.database()
}

// secrets are the forms in which the password may turn up in a message.
func (a address) secrets() []string {
	var secrets []string
	for _, s := range append([]string{a.password}, passwordParameters(a.rest)...) {
		if s == "" {
			continue
		}
		secrets = append(secrets, s)
		if decoded, err := url.PathUnescape(s); err == nil && decoded != s {
			secrets = append(secrets, decoded)
		}
	}
	return secrets
}

// passwordParameters are the values of a URL's parameters that are passwords, as
// tlsCertificateKeyFilePassword of MongoDB.
func passwordParameters(rest string) (values []string) {
	_, query, _ := strings.Cut(rest, "?")
	for _, parameter := range strings.Split(query, "&") {
		name, value, _ := strings.Cut(parameter, "=")
		if strings.Contains(strings.ToLower(name), "password") {
			values = append(values, value)
		}
	}
	return values
}

// withPassword is the address with that password, which is not encoded.
func (a address) withPassword(password string) (address, error) {
	if a.scheme != "" {
		if a.user == "" {
			return a, invalid("a password was given, but the database's URL has no user: %s://user@host/database", a.scheme)
		}
		return parseAddress(a.scheme + "://" + a.user + ":" + strings.ReplaceAll(url.QueryEscape(password), "+", "%20") + "@" + a.rest)
	}
	config, err := mysql.ParseDSN(a.text)
	if err != nil {
		return a, err
	}
	config.Passwd = password
	return parseAddress(config.FormatDSN())
}

// String is the address without the password.
func (a address) String() string {
	if a.scheme != "" {
		user := ""
		if a.user != "" {
			user = a.user + "@"
		}
		if a.hasPassword {
			user = a.user + ":***@"
		}
		rest := a.rest
		for _, value := range passwordParameters(rest) {
			rest = strings.ReplaceAll(rest, "="+value, "=***")
		}
		return a.scheme + "://" + user + rest
	}
	config, err := mysql.ParseDSN(a.text)
	if err != nil {
		return "(an address that cannot be read)"
	}
	if config.Passwd != "" {
		config.Passwd = "***"
	}
	return config.FormatDSN()
}

// space names the lock space for [stack], without the password.
func (a address) space() string {
	if a.scheme != "" {
		return a.rest
	}
	_, rest, _ := strings.Cut(a.text, "@")
	return rest
}

func invalid(format string, args ...any) error {
	return &ExitError{Code: exitUsage, Err: fmt.Errorf(format, args...)}
}
