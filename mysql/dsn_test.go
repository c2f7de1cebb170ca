package mysqllock

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock"
)

// TestPasswordsInURLs: user and password of a URL are those that it has encoded, beside parameters or not.
func TestPasswordsInURLs(t *testing.T) {
	t.Parallel()
	encoded := func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
	for _, user := range []string{"u", "a:b", "a@b", "a/b?c"} {
		for _, password := range []string{"plain", "a?b", "p@ss:w/rd", "Top/Secret?x", "a#b%c&d=e+f g", "ü✓?", "(?)", "a?b/c", "/?", "@tcp(x)/y?z=1", "spaced "} {
			for _, query := range []string{"", "?tls=false", "?parseTime=true&readTimeout=30s"} {
				c, err := poolConfig("mysql://" + encoded(user) + ":" + encoded(password) + "@h:3307/d%2Fb" + query)
				if err != nil {
					t.Errorf("%q, %q, %q: %v", user, password, query, err)
				} else if c.User != user || c.Passwd != password || c.Addr != "h:3307" || c.DBName != "d/b" || c.ParseTime != strings.Contains(query, "parse") {
					t.Errorf("%q, %q, %q: it is %q, %q, %q, %q, %v", user, password, query, c.User, c.Passwd, c.Addr, c.DBName, c.ParseTime)
				}
			}
		}
	}
}

// TestParametersOfAURL: a slash, as of a time zone, may stand in them as it is.
func TestParametersOfAURL(t *testing.T) {
	t.Parallel()
	c, err := poolConfig("mysql://u:p@h/app?loc=Europe/Berlin&time_zone='Europe/Berlin'&parseTime=true")
	must(t, err)
	if c.Loc.String() != "Europe/Berlin" || c.Params["time_zone"] != "'Europe/Berlin'" || !c.ParseTime || c.DBName != "app" {
		t.Errorf("%+v", c)
	}
}

// TestTLSOfAURL: the name that the certificate must have is that of the host.
func TestTLSOfAURL(t *testing.T) {
	t.Parallel()
	s, err := Open("mysql://u:a%3Fb@db.example/app?tls=true", Options{})
	must(t, err)
	defer s.Close()
	for _, dsn := range []string{"mysql://u:a%3Fb@db.example/app?tls=true", "u:a?b@tcp(db.example:3306)/app?tls=true"} {
		c, err := poolConfig(dsn)
		must(t, err)
		if c.Addr != "db.example:3306" || c.TLS != nil && c.TLS.ServerName != "db.example" || c.TLSConfig != "true" {
			t.Errorf("%s: %+v", dsn, c)
		}
	}
}

// malformed are addresses with a password that is not encoded, or that have it where none belongs.
var malformed = []string{
	"mysql://u:%s@h/d", "mysql://u:%s@h", "mysql://u:%s/d", "mysql://u:%s", "mysql://u:%s@h:x/d", "mysql://u:%s@h:3306/d?timeout=soon", "mysql://%s@h:/d@",
	"mariadb://u:%s@h/d?tls=none-of-that-name", "MySQL://u:%s@h/d/e", "mysql:/u:%s@h/d", "mysql//u:%s@h/d", "jdbc:mysql://u:%s@h/d", "\"mysql://u:%s@h/d\"",
	"postgres://u:%s@h/d", "mongodb://u:%s@h/d", "u:%s@tcp(h:3306)", "u:%s@tcp(h:3306/d", "u:%s@h:3306/d", "u:%s@h", "u:%s/d", "%s", "u:%s@tcp(h)/d?parseTime=perhaps",
	"u:%s@tcp(h)/d?timeout=soon", "u:%s@tcp(h)/d?sslpassword=%[1]s", "u:%s@tcp(h)/d?strict=%[1]s", "u:p@tcp(h)/d?x=%%zz%s",
	"mysql://u:p@h/d?sslpassword=%s", "mysql://u:%s@h/d?maxAllowedPacket=much", "mysql://u:p@h/d%%zz%s", "mysql://u:%s@h/d\n", "u:%s@tcp(h)/d\n",
	"u:%s\n@tcp(h:3306)/d", "mysql://u:%s%%0A@h/d", "mysql://u:%s@h/%%0Ad", "mysql://u:%s@h/d#x", " mysql://u:%s@h/d", "\ufeffu:%s@tcp(h:3306)/d",
}

// TestErrorsShowNoPassword: whatever is wrong with an address, its error has no three characters of the password.
func TestErrorsShowNoPassword(t *testing.T) {
	t.Parallel()
	for _, form := range malformed {
		for _, between := range []string{"", "/", "?", "@", ":", "#", "%", "%zz", "/?", "?/", "@/", "&", "=", "(", ")", " ", "\t", "://", "@tcp(", "/?timeout="} {
			secret := "Zq9x" + between + "Xv7w"
			for _, dsn := range []string{fmt.Sprintf(form, secret), fmt.Sprintf(form, url.QueryEscape(secret))} {
				s, err := Open(dsn, Options{})
				if err == nil { // what is behind an @ or / may be meant as host or database
					if text := s.String(); strings.Contains(text, "Zq9") {
						t.Errorf("%q: the Store is called %q", dsn, text)
					}
					_ = s.Close()
					continue
				}
				if text := err.Error(); !errors.Is(err, rowlock.ErrInvalid) || strings.Contains(text, "Zq9") || strings.Contains(text, "Xv7") || strings.Contains(text, "x%z") || strings.Contains(text, "%zz") {
					t.Errorf("%q: %v", dsn, err)
				}
			}
		}
	}
}

// TestNamesNobodySees: white space at the ends of an address or of what it names, and control characters, are refused by name.
func TestNamesNobodySees(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ dsn, says string }{
		{"u:p@tcp(h:3306)/app\n", "DSN: it ends with a newline"},
		{"mysql://u:p@h/app\n", "DSN: it ends with a newline"},
		{"\ufeffmysql://u:p@h/app", "DSN: it begins with a byte order mark"},
		{" u:p@tcp(h:3306)/app", "DSN: it begins with a space"},
		{"u:p@tcp(h:3306)/a\tpp", "DSN: it has a tab in it"},
		{"u:p@tcp(h:3306)/app%0A", `the database "app\n" ends with a newline`},
		{"mysql://u:p@h/app%0A", `the database "app\n" ends with a newline`},
		{"mysql://u:p@h/%20app", `the database " app" begins with a space`},
		{"mysql://u:p@h/a%00pp", `has a NUL byte in it`},
		{"mysql://u%0A:p@h/app", "the user has a newline in it"},
		{"mysql://u:p%0A@h/app", "the password has a newline in it"},
		{"mysql://u:p@h/app?charset=utf8mb4%0A", "the parameter"},
	} {
		_, err := Open(c.dsn, Options{})
		if !errors.Is(err, rowlock.ErrInvalid) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "leave it out") {
			t.Errorf("%q: %v, want %s", c.dsn, err, c.says)
		}
		if _, err := OpenPrimary([]string{c.dsn}, Options{}); !errors.Is(err, rowlock.ErrInvalid) {
			t.Errorf("OpenPrimary, %q: %v", c.dsn, err)
		}
	}
	if _, err := Open("u:p@tcp(h:3306)/app", Options{Prefix: "jobs\n"}); !errors.Is(err, rowlock.ErrInvalid) {
		t.Errorf("a prefix with a newline: %v", err)
	}
}

// TestOpenConfig: fields are taken as they are, and are not kept.
func TestOpenConfig(t *testing.T) {
	t.Parallel()
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.DBName = "a:b", "p@ss:w/rd?x", "tcp", "db.example:3306", "app"
	before := c.Clone()
	s, err := OpenConfig(c, Options{})
	must(t, err)
	defer s.Close()
	if text := s.String(); text != "app @ db.example:3306 (strategy version)" || c.Timeout != before.Timeout || c.Logger != before.Logger || c.MaxAllowedPacket != before.MaxAllowedPacket {
		t.Errorf("%q, and the Config is %+v", text, c)
	}
	for says, change := range map[string]func(*mysql.Config){
		`the database "app\n" ends with a newline`: func(c *mysql.Config) { c.DBName += "\n" },
		"the password has a newline in it":         func(c *mysql.Config) { c.Passwd += "\n" },
		"another driver's":                         func(c *mysql.Config) { c.Params = map[string]string{"sslmode": "require"} },
	} {
		bad := c.Clone()
		change(bad)
		if _, err := OpenConfig(bad, Options{}); !errors.Is(err, rowlock.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
	if _, err := OpenConfig(nil, Options{}); !errors.Is(err, rowlock.ErrInvalid) {
		t.Errorf("nil: %v", err)
	}
}
