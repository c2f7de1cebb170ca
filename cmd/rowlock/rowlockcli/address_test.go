package rowlockcli

import (
	"strings"
	"testing"
)

// TestAddressIsPrintedWithoutSecrets: neither the password nor a parameter that may be secret is in what is printed, and a
// message that quotes one loses it.
func TestAddressIsPrintedWithoutSecrets(t *testing.T) {
	for _, c := range []struct{ text, printed string }{
		{"mysql://u@h:3306/db", "mysql://u@h:3306/db"},
		{"mysql://u:S3cretA@h:3306/db?timeout=3s&tls=skip-verify", "mysql://u:***@h:3306/db?timeout=3s&tls=skip-verify"},
		{"mysql://u:S3cretA@h/db?Password=S3cretB&wait_timeout=9", "mysql://u:***@h/db?Password=***&wait_timeout=***"},
		{"mysql://u:p%40S3cretA%2F@h/db", "mysql://u:***@h/db"},
		{"u:S3cretA@ss/S3cretB@tcp(h:3306)/db?timeout=3s", "u:***@tcp(h:3306)/db?timeout=3s"},
		{"u?x:S3cretA?S3cretB@tcp(h:3306)/db", "u?x:***@tcp(h:3306)/db"},
		{"mongodb://u:S3cretA@h1,h2:27018/db?replicaSet=rs0&tlsCAFile=/etc/ca.pem", "mongodb://u:***@h1,h2:27018/db?replicaSet=rs0&tlsCAFile=/etc/ca.pem"},
		{"mongodb://u:S3cretA@h/db?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN:S3cretB%2F", "mongodb://u:***@h/db?authMechanism=MONGODB-AWS&authMechanismProperties=***"},
		{"mongodb://u:S3cretA#x@h/db", "mongodb://u:***@h/db"},
		{"mongodb://h/db?tlsCertificateKeyFilePassword=S3cretB&proxyPassword=S3cretC", "mongodb://h/db?tlsCertificateKeyFilePassword=***&proxyPassword=***"},
	} {
		a, err := parseAddress(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := a.String(); got != c.printed {
			t.Errorf("%s is printed as %s, want %s", c.text, got, c.printed)
		}
		cleaner := &app{secrets: a.secrets()}
		for _, p := range append(strings.Split(decoded(a.query), "&"), a.password) {
			if got := cleaner.clean(p + "."); strings.Contains(got, "S3cret") {
				t.Errorf("%s: a message has %s", c.text, got)
			}
		}
	}
}

// TestAddressWithAnUnreadablePassword: half of a password is not taken for the host.
func TestAddressWithAnUnreadablePassword(t *testing.T) {
	for _, text := range []string{
		"mysql://u:p@ss/word1@h/db", "mysql://u:pa/ss@h/db", "mysql://u:pa?ss@h/db", "mysql://u:pa#ss@h/db", "mariadb://u:p@ss?word1@h/db",
		"mongodb://u:p@ss/word1@h/db", "mongodb://u:pa?ss@h/db", "mongodb+srv://u:pa/ss@h/db",
	} {
		a, err := parseAddress(text)
		if err == nil {
			t.Errorf("%s was read as %+v", text, a)
			continue
		}
		if ExitCode(err) != exitUsage || !strings.Contains(err.Error(), "/ as %2F") || strings.Contains(err.Error(), "ss") && strings.Contains(err.Error(), "word1") {
			t.Errorf("%s: %d, %v", text, ExitCode(err), err)
		}
	}
}

// TestSpaceHasNoPassword: two passwords are not two lock spaces.
func TestSpaceHasNoPassword(t *testing.T) {
	spaces := map[string]bool{}
	for _, text := range []string{"u:a@b@tcp(h:3306)/db", "u:c@d@tcp(h:3306)/db", "u@tcp(h:3306)/db"} {
		a, err := parseAddress(text)
		if err != nil {
			t.Fatal(err)
		}
		spaces[a.space()] = true
	}
	if len(spaces) != 1 {
		t.Errorf("one database has the spaces %v", spaces)
	}
}
