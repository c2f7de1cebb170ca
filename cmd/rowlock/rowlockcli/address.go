package rowlockcli

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"slices"
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
	// The host part of a mongodb URL is no URL's: it may name several hosts. In one of mysql # ends it.
	ends := "/?"
	if a.kind == "mysql" {
		ends = "/?#"
	}
	authority := after
	if end := strings.IndexAny(after, ends); end >= 0 {
		authority = after[:end]
		if strings.Contains(after[end:], "@") { // in a password, half of which would be taken for the host
			return a, invalid("the URL has an @ after its host: in user, password, database and parameters write @ as %%40, / as %%2F, ? as %%3F, # as %%23 and %% as %%25, or give the password apart (ROWLOCK_PASSWORD, --password-file)")
		}
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
func (a address) authSource() string { return cmp.Or(a.parameter("authSource"), a.database()) }

// login names the user and the server, so that two addresses can be compared.
func (a address) login() string {
	if a.scheme == "" {
		config, err := mysql.ParseDSN(a.text)
		if err != nil {
			return ""
		}
		return a.kind + " " + config.User + "@" + config.Addr
	}
	hosts := a.rest
	if end := strings.IndexAny(hosts, "/?#"); end >= 0 {
		hosts = hosts[:end]
	}
	if _, _, err := net.SplitHostPort(hosts); err != nil && a.kind == "mysql" {
		hosts = net.JoinHostPort(strings.Trim(hosts, "[]"), "3306")
	}
	return a.kind + " " + decoded(a.user) + "@" + strings.ToLower(hosts)
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

// withTLS is the address of a MySQL server with TLS by a configuration that the driver knows under that name.
func (a address) withTLS(name string) (address, error) {
	if a.scheme == "" {
		config, err := mysql.ParseDSN(a.text)
		if err != nil {
			return a, err
		}
		config.TLS, config.TLSConfig = nil, name
		return parseAddress(config.FormatDSN())
	}
	before, query, _ := strings.Cut(a.text, "?")
	others := slices.DeleteFunc(strings.Split(query, "&"), func(p string) bool { return p == "" || strings.HasPrefix(p, "tls=") })
	return parseAddress(before + "?" + strings.Join(append(others, "tls="+name), "&"))
}

// String is the address without the password, and without the values of parameters that may be secret.
func (a address) String() string {
	before, query := a.parts()
	if query == "" {
		return before
	}
	return before + "?" + maskParameters(query)
}

// parts are the address without the password, and its parameters.
func (a address) parts() (before, query string) {
	if a.scheme != "" {
		user := ""
		if a.user != "" {
			user = a.user + "@"
		}
		if a.hasPassword {
			user = a.user + ":***@"
		}
		before, query, _ = strings.Cut(a.rest, "?")
		return a.scheme + "://" + user + before, query
	}
	config, err := mysql.ParseDSN(a.text)
	if err != nil {
		return "(an address that cannot be read)", ""
	}
	if config.Passwd != "" {
		config.Passwd = "***"
	}
	text := config.FormatDSN()
	slash := strings.LastIndexByte(text, '/') // none in the parameters, where it is encoded
	name, query, _ := strings.Cut(text[slash+1:], "?")
	return text[:slash+1] + name, query
}

// space names the lock space for [stack], without the password.
func (a address) space() string {
	if a.scheme != "" {
		return a.rest
	}
	config, err := mysql.ParseDSN(a.text)
	if err != nil {
		return ""
	}
	return config.Addr + "/" + config.DBName
}

func invalid(format string, args ...any) error {
	return &ExitError{Code: exitUsage, Err: fmt.Errorf(format, args...)}
}
