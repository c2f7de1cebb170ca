package rowlockcli

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/internal/dsn"
	"github.com/rowlock/rowlock/internal/input"
)

// address is where a database is, in fields: of a URL, or of a DSN of the Go driver for MySQL.
type address struct {
	kind   string        // mysql or mongodb
	scheme string        // empty: a DSN
	config *mysql.Config // of MySQL

	user, password string // as they are meant
	hasPassword    bool
	hosts          string // host:port; of MongoDB there may be several
	name           string // of the database
	path           string // of MongoDB: what stands behind the hosts
	query          string // the parameters
}

// parseAddress reads one. Its errors do not have the text in them: there may be a password in it.
func parseAddress(text string) (address, error) {
	a := address{}
	scheme, after := dsn.Scheme(text)
	switch scheme {
	case "":
		return a.parseDSN(text)
	case "mysql", "mariadb":
		a.kind = "mysql"
	case "mongodb", "mongodb+srv":
		a.kind = "mongodb"
	default:
		if a, err := a.parseDSN(text); err == nil { // :// in a password
			return a, nil
		}
		return a, invalid("the database's URL begins with another word than these: use mysql://, mariadb://, mongodb:// or mongodb+srv://")
	}
	a.scheme = scheme
	ends, beyond := "/?", "@" // the driver of MongoDB takes a # as it is
	if a.kind == "mysql" {
		ends, beyond = "/?#", "@#"
	}
	authority := after
	if end := strings.IndexAny(after, ends); end >= 0 {
		authority, a.path = after[:end], after[end:]
		if strings.ContainsAny(a.path, beyond) { // in a password, half of which would be taken for the host
			return a, invalid("the URL has an @ or # after its host: %s, or give the password apart (ROWLOCK_PASSWORD, --password-file)", dsn.Escapes)
		}
	}
	userinfo := ""
	a.hosts = authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		userinfo, a.hosts = authority[:at], authority[at+1:]
		if userinfo == "" {
			return a, invalid("the URL has an @, but no user before it: leave it out")
		}
	}
	path, query, _ := strings.Cut(a.path, "?")
	a.query = query
	err := a.decode(userinfo, strings.TrimPrefix(path, "/"))
	if err == nil && a.kind == "mysql" {
		if a.config, err = dsn.Parse(text); err != nil {
			err = invalid("the URL: %w", err)
		}
	}
	switch {
	case err != nil:
		return a, err
	case a.name == "":
		return a, invalid("the URL names no database: it has the form %s://user@host/DATABASE", scheme)
	}
	return a, nil
}

// oneHost is a name or an address, and a port.
var oneHost = regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+(%25[^\]]*)?\]|[^][:()\s]+)(:[0-9]+)?$`)

// decode reads what a URL has encoded, and refuses what nobody can mean.
func (a *address) decode(userinfo, name string) error {
	user, password, has := strings.Cut(userinfo, ":")
	a.hasPassword = has
	for _, part := range []struct {
		name, text string
		to         *string
	}{{"user", user, &a.user}, {"password", password, &a.password}, {"database", name, &a.name}} {
		value, err := url.PathUnescape(part.text)
		if err != nil {
			return invalid("the %s in the URL has a %% that begins no %%XX: %s", part.name, dsn.Escapes)
		}
		if c := input.Control(value); c != "" {
			return invalid("the %s in the URL has %s in it: leave it out", part.name, c)
		}
		*part.to = value
	}
	if fault := input.Fault(a.name); fault != "" {
		return invalid("the database %q of the URL %s: leave it out", a.name, fault)
	}
	for _, host := range strings.Split(a.hosts, ",") {
		if !oneHost.MatchString(host) { // as where the @ behind a password is missing
			return invalid("the URL's host cannot be read: it has the form %s://user@host:PORT/database, with an @ before the host", a.scheme)
		}
	}
	for _, p := range strings.Split(a.query, "&") {
		name, value, _ := strings.Cut(p, "=")
		switch value, err := url.QueryUnescape(value); {
		case err != nil:
			return invalid("a parameter of the URL has a %% that begins no %%XX: write %% as %%25")
		case input.Control(value) != "":
			return invalid("the parameter %q of the URL has %s in it: leave it out", name, input.Control(value))
		}
	}
	return nil
}

// parseDSN reads the form of the Go driver.
func (a address) parseDSN(text string) (address, error) {
	config, err := dsn.Parse(text)
	switch {
	case errors.Is(err, dsn.ErrForm):
		return a, invalid("the database is neither a URL (mysql://user@host:3306/database, mongodb://user@host:27017/database) nor of the form user@tcp(host:3306)/database")
	case err != nil:
		return a, invalid("the address: %w", err)
	case config.DBName == "":
		return a, invalid("the address names no database: it has the form user@tcp(host:3306)/database")
	}
	a.kind, a.config = "mysql", config
	a.user, a.password, a.hasPassword, a.name = config.User, config.Passwd, config.Passwd != "", config.DBName
	a.hosts = config.Net + "(" + config.Addr + ")"
	_, a.query, _ = strings.Cut(text[strings.LastIndexByte(text, '/'):], "?")
	return a, nil
}

// authSource is the database of MongoDB that knows the user.
func (a address) authSource() string { return cmp.Or(a.parameter("authSource"), a.name) }

// server names the server, in the same way for each form of an address.
func (a address) server() string {
	switch {
	case a.kind != "mysql":
		return strings.ToLower(a.hosts)
	case a.config.Net == "tcp":
		return strings.ToLower(a.config.Addr)
	}
	return a.config.Net + "(" + a.config.Addr + ")"
}

// login names the user and the server, so that two addresses can be compared.
func (a address) login() string { return a.kind + " " + a.user + "@" + a.server() }

// space names the lock space for [stack], without the password.
func (a address) space() string { return a.server() + "/" + a.name }

// withPassword is the address with that password, which is not encoded.
func (a address) withPassword(password string) (address, error) {
	if a.scheme != "" && a.user == "" {
		return a, invalid("a password was given, but the database's URL has no user: %s://user@host/database", a.scheme)
	}
	a.password, a.hasPassword = password, true
	if a.config != nil {
		a.config = a.config.Clone()
		a.config.Passwd = password
	}
	return a, nil
}

// uri is the address of MongoDB for its driver, with other words in the places of user and password: its errors show what they
// are about. The true ones are fields of the driver's options.
func (a address) uri() string {
	userinfo := ""
	switch {
	case a.user != "" && a.password != "":
		userinfo = "user:password@"
	case a.user != "" && a.hasPassword:
		userinfo = "user:@"
	case a.user != "":
		userinfo = "user@"
	}
	return a.scheme + "://" + userinfo + a.hosts + a.path
}

// String is the address without the password, and without the values of parameters that may be secret.
func (a address) String() string {
	user := a.user
	if a.scheme != "" {
		user = url.User(user).String()
	}
	if a.hasPassword {
		user += ":***"
	}
	if user != "" {
		user += "@"
	}
	text := user + a.hosts + "/" + url.PathEscape(a.name)
	if a.scheme != "" {
		text = a.scheme + "://" + text
	}
	if a.query != "" {
		text += "?" + maskParameters(a.query)
	}
	return text
}

func invalid(format string, args ...any) error {
	return &ExitError{Code: exitUsage, Err: fmt.Errorf(format, args...)}
}
