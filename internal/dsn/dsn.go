// Package dsn reads where a MySQL server is into the fields of the driver's Config. No error of it has more of the address in it
// than the database and its parameters: there may be a password anywhere in an address that cannot be read.
package dsn

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/internal/input"
)

// Form is that of the driver.
const Form = "user:password@tcp(host:3306)/database"

// Escapes says how a URL has what would end a part of it.
const Escapes = "in user, password, database and parameters write @ as %40, / as %2F, ? as %3F, # as %23 and % as %25"

// ErrForm: it is neither a URL nor of the driver's form.
var ErrForm = errors.New("it cannot be read: it has the form " + Form + " or mysql://user:password@host:3306/database")

var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`)

// Scheme is that of a URL, in lower case, and what follows it. Of what is no URL it is empty.
func Scheme(text string) (name, after string) {
	name, after, ok := strings.Cut(text, "://")
	if !ok || !scheme.MatchString(name) {
		return "", text
	}
	return strings.ToLower(name), after
}

// Parse reads an address in the form of the driver, or a URL such as other programs take:
// mysql://user:password@host:3306/database?parameters.
func Parse(text string) (*mysql.Config, error) {
	if trimmed, _ := input.Trim(text); trimmed == "" {
		return nil, ErrForm
	}
	if fault := input.Fault(text); fault != "" {
		return nil, fmt.Errorf("it %s: leave it out (strings.TrimSpace)", fault)
	}
	var config *mysql.Config
	var err error
	switch name, after := Scheme(text); name {
	case "mysql", "mariadb":
		config, err = parseURL(name + "://" + after)
	default:
		config, err = parseForm(text)
	}
	if err != nil {
		return nil, err
	}
	return config, Check(config)
}

// parseURL puts the parts of a URL into the fields.
func parseURL(text string) (*mysql.Config, error) {
	u, err := url.Parse(text)
	switch after := text[strings.Index(text, "://")+3:]; {
	case afterHost(after): // in a password, half of which would be taken for the host and looked up
		return nil, errors.New("it is a URL with an @ or # after its host: " + Escapes)
	case err != nil, strings.ContainsAny(u.Host, "()"), strings.Contains(u.Hostname(), ":") && u.Host[0] != '[': // a user and a password without an @
		return nil, errors.New("it is a URL that cannot be read: it has the form mysql://user:password@host:3306/database; " + Escapes)
	}
	config, err := parameters(u.RawQuery)
	if err != nil {
		return nil, err
	}
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.Net, config.Addr, config.DBName = "tcp", net.JoinHostPort(u.Hostname(), port), strings.TrimPrefix(u.Path, "/")
	return config, nil
}

// afterHost reports whether a URL has an @ or # after what seems to be its host.
func afterHost(text string) bool {
	end := strings.IndexAny(text, "/?#")
	return end >= 0 && strings.ContainsAny(text[end:], "@#")
}

// parseForm has the driver read its own form, when its parts are seen to be good: the driver's errors show what they are about.
func parseForm(text string) (*mysql.Config, error) {
	slash := strings.LastIndexByte(text, '/')
	if slash < 0 {
		return nil, ErrForm
	}
	name, query, _ := strings.Cut(text[slash+1:], "?")
	if strings.Contains(text[slash:], "@") {
		return nil, fmt.Errorf("%w; after its last slash write @ as %%40", ErrForm)
	}
	if _, err := mysql.ParseDSN(text[:slash+1]); err != nil {
		return nil, ErrForm
	}
	if _, err := url.PathUnescape(name); err != nil {
		return nil, errors.New("its database has a % that begins no %XX: write it as %25")
	}
	if _, err := parameters(query); err != nil {
		return nil, err
	}
	config, err := mysql.ParseDSN(text)
	if err != nil {
		return nil, ErrForm
	}
	config.TLS = nil // the driver makes it again
	return config, nil
}

// parameters has the driver read those of an address, alone.
func parameters(query string) (*mysql.Config, error) {
	query = strings.ReplaceAll(query, "/", "%2F") // as of a time zone: the driver looks for the last one
	for p := range strings.SplitSeq(query, "&") {
		if err := parameter(p); err != nil {
			return nil, err
		}
	}
	config, err := mysql.ParseDSN("/?" + query)
	if err != nil {
		return nil, errors.New("its parameters do not go together: interpolateParams needs another collation")
	}
	config.TLS = nil // its ServerName is not known yet
	return config, nil
}

// parameter refuses one that the driver cannot read. What it knows is no secret. An unknown one may be a part of a password, and is not
// named.
func parameter(text string) error {
	name, value, _ := strings.Cut(text, "=")
	if name == "strict" { // the driver would panic
		return errors.New("the parameter strict is no more: leave it out")
	}
	decoded, err := url.QueryUnescape(value)
	if err != nil {
		return errors.New("one of its parameters has a % that begins no %XX: write it as %25")
	}
	if c := input.Control(decoded); c != "" {
		return fmt.Errorf("the parameter %q has %s in it: leave it out", name, c)
	}
	if _, err = mysql.ParseDSN("/?" + text); err == nil {
		return nil
	}
	takes := "another value"
	switch reason := err.Error(); {
	case strings.HasPrefix(reason, "invalid bool"):
		takes = "true or false"
	case strings.HasPrefix(reason, "time: "), name == "timeTruncate":
		takes = "a time with its unit, as 5s"
	case name == "tls":
		takes = "true, false, skip-verify, preferred or the name of a registered tls.Config"
	case name == "loc":
		takes = "the name of a time zone, as Europe%2FBerlin"
	}
	return fmt.Errorf("the parameter %q cannot be %q: it takes %s", name, decoded, takes)
}
