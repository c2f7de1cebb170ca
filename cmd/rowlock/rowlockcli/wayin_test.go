package rowlockcli

import (
	"bytes"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// settingsFromOutside are the settings, each with a value, one that nobody can mean, and what it becomes.
var settingsFromOutside = []struct {
	name, value, bad string
	get              func(*app, settings) string
}{
	{"db", "mysql://u:Zq9xXv7w@h/app", "mysql://u:Zq9x\tXv7w@h/app", func(_ *app, s settings) string {
		return strings.Replace(s.address.String(), "***", s.address.password, 1)
	}},
	{"password", "Zq9x Xv7w", "Zq9x\nXv7w", func(_ *app, s settings) string { return s.address.password }},
	{"strategy", "unique", "uni\x00que", func(_ *app, s settings) string { return s.strategy.String() }},
	{"prefix", "jobs", "jo\tbs", func(_ *app, s settings) string { return s.prefix }},
	{"collection", "jobs", "jo\u200bbs", func(_ *app, s settings) string { return s.collection }},
	{"timeout", "90", "9\t0", func(a *app, s settings) string { return fmt.Sprint(time.Duration(a.flags.timeout).Seconds()) }},
	{"tls-ca", "/etc/my ca.pem", "/etc/ca\n.pem", func(_ *app, s settings) string { return s.tls.ca }},
	{"tls-cert", "/etc/cert.pem", "/etc/cert\r.pem", func(_ *app, s settings) string { return s.tls.cert }},
	{"tls-key", "/etc/key.pem", "/etc/key\x1b.pem", func(_ *app, s settings) string { return s.tls.key }},
}

// TestSettingsFromOutside: white space and control characters at the ends of a setting are cut off with a word that names where it
// comes from; within it they are refused, and nothing of the value is said. From whatever it comes.
func TestSettingsFromOutside(t *testing.T) {
	type m = map[string]string
	known := map[string]bool{"password-file": true} // TestPasswordFiles
	for _, s := range settingsFromOutside {
		known[s.name] = true
		for _, from := range []string{"flag", "variable", "file"} {
			try := func(value string) (got, said, name string, err error) {
				flags, variables, lines := m{}, m{}, []string{}
				others := m{"db": "mysql://u@h/app"}
				if file := strings.TrimPrefix(s.name, "tls-"); file == "cert" || file == "key" {
					others["tls-cert"], others["tls-key"] = "x", "x"
				}
				delete(others, s.name)
				for other, value := range others {
					variables[names[other]] = value
				}
				switch name = "--" + s.name; from {
				case "flag":
					flags[s.name] = value
				case "variable":
					name = names[s.name]
					variables[name] = value
				case "file":
					name = s.name + " in "
					lines = append(lines, s.name+" = "+strings.ReplaceAll(value, "\n", "\v"))
				}
				a, found, said, err := resolveWith(t, flags, variables, writeFile(t, 0o600, lines...))
				if err == nil {
					got = s.get(a, found)
				}
				return got, said, name, err
			}
			if from == "flag" && s.name == "password" {
				continue // there is none
			}
			if got, said, name, err := try("\ufeff" + s.value + " \r\n\ufeff"); err != nil || got != s.value || !strings.Contains(said, "warning: "+name) || !strings.Contains(said, "a byte order mark at its end was cut off") || strings.Contains(said, "Zq9") || strings.Count(said, name) != 1 {
				t.Errorf("%s by %s: %q, %v; it says %q", s.name, from, got, err, said)
			}
			if got, said, _, err := try(s.value); err != nil || got != s.value || strings.Contains(said, "cut off") {
				t.Errorf("%s by %s, as it should be: %q, %v; it says %q", s.name, from, got, err, said)
			}
			got, said, name, err := try(s.bad)
			if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "in it: leave it out") || strings.Contains(err.Error()+said, "Zq9") || strings.Contains(err.Error()+said, "Xv7") {
				t.Errorf("%s by %s, %q: %q, %v; it says %q", s.name, from, s.bad, got, err, said)
			}
		}
	}
	for name := range names {
		if !known[name] {
			t.Errorf("%s is a setting that this test does not know", name)
		}
	}
}

// TestPasswordFiles: the first line of a file is the password, in whatever way an editor or kubectl has written it. A URL may have
// spaces at the ends of a password, encoded.
func TestPasswordFiles(t *testing.T) {
	for text, want := range map[string]string{
		"secret": "secret", "secret\n": "secret", "secret\r\n": "secret", "\ufeffsecret\n": "secret", "two words\nthe rest": "two words",
		" secret\t\n": "secret", "sec\x00ret": "", "\xff\xfes\x00e\x00": "", "sec\rret\n": "",
	} {
		path := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, by := range []string{"flag", "file"} {
			flags, lines := map[string]string{"password-file": path + "\n"}, []string{}
			if by == "file" {
				flags, lines = nil, []string{"password-file = " + path}
			}
			_, found, said, err := resolveWith(t, flags, map[string]string{"ROWLOCK_DB": "mysql://u@h/app"}, writeFile(t, 0o600, lines...))
			if (err != nil) != (want == "") || err == nil && found.address.password != want || strings.Contains(said, "secret") || err != nil && strings.Contains(err.Error(), "sec\r") {
				t.Errorf("%q by %s: %q, %v, want %q; it says %q", text, by, found.address.password, err, want, said)
			}
		}
	}
	if _, found, _, err := resolveWith(t, nil, map[string]string{"ROWLOCK_DB": "mongodb://u:%20secret%20@h/app"}, os.DevNull); err != nil || found.address.password != " secret " {
		t.Errorf("a URL: %q, %v", found.address.password, err)
	}
}

// TestEveryOptionHasTheWayIn: each option of each command gets its value without what is at the ends.
func TestEveryOptionHasTheWayIn(t *testing.T) {
	values := map[string]string{"string": "x", "time": "90", "int": "7", "int64": "7", "bool": "true", "stringSlice": "x,y", "stringArray": "x"}
	var walk func(clean, dirty *cobra.Command)
	seen := 0
	walk = func(clean, dirty *cobra.Command) {
		clean.LocalFlags().VisitAll(func(f *pflag.Flag) {
			value, ok := values[f.Value.Type()]
			if !ok {
				t.Errorf("--%s has the type %s, which this test does not know", f.Name, f.Value.Type())
			}
			if f.Name == "help" || slices.Contains([]string{"on-fail", "after"}, f.Name) {
				return
			}
			seen++
			other := dirty.LocalFlags().Lookup(f.Name)
			err := f.Value.Set(value)
			if errDirty := other.Value.Set("\ufeff " + strings.ReplaceAll(value, ",", " ,\t") + "\n"); err != nil || errDirty != nil || f.Value.String() != other.Value.String() {
				t.Errorf("%s --%s: %q, %v, and with white space %q, %v", clean.Name(), f.Name, f.Value, err, other.Value, errDirty)
			}
		})
		for i, c := range clean.Commands() {
			walk(c, dirty.Commands()[i])
		}
	}
	walk(New(Config{}), New(Config{}))
	if seen < 60 {
		t.Errorf("%d options were looked at", seen)
	}
}

// TestKeysFromOutside: a key that run takes has no white space at its ends and no control characters; one to look at is any bytes, with a word.
func TestKeysFromOutside(t *testing.T) {
	execute := func(args ...string) (string, error) {
		t.Setenv("ROWLOCK_DB", "mysql://u@127.0.0.1:1/app")
		root := New(Config{})
		var said bytes.Buffer
		root.SetErr(&said)
		root.SetOut(io.Discard)
		root.SetArgs(args)
		err := root.Execute()
		return said.String(), err
	}
	const no = "there-is-no-such-command"
	if said, err := execute("run", "report\n", "--and", "other\t", "--", no); err == nil || !strings.Contains(said, "warning: KEY: a newline at its end was cut off") || !strings.Contains(said, "KEY: a tab at its end") {
		t.Errorf("%q, %v", said, err)
	}
	for _, args := range [][]string{{"run", "re\tport", no}, {"run", "--and", "a\nb", "report", no}, {"run", "report", "--and", "a\nb", "--", no}, {"run", "--owner", "a\x1bb", "report", no}, {"run", "--run", "a\nb", "report", no}} {
		if _, err := execute(args...); ExitCode(err) != exitUsage || !strings.Contains(err.Error(), "in it: leave it out") {
			t.Errorf("%q: %d, %v", args, ExitCode(err), err)
		}
	}
	if _, err := execute("run", "report", "--and", "report\n", "--", no); ExitCode(err) != exitUsage || !strings.Contains(err.Error(), "named twice") {
		t.Errorf("one key twice: %v", err)
	}
	for _, command := range []string{"show", "wait", "free"} {
		if said, err := execute("--timeout", "1", command, "report\n"); err == nil || !strings.Contains(said, `the key "report\n" ends with a newline`) {
			t.Errorf("%s: %q, %v", command, said, err)
		}
	}
}

// TestErrorsShowNoPassword: whatever is wrong with an address, wherever it stands, nothing that is said has three characters of the password.
func TestErrorsShowNoPassword(t *testing.T) {
	forms := []string{
		"mysql://u:%s@h/d", "mysql://u:%s@h", "mysql://u:%s/d", "mysql://u:%s", "mysql://u:%s@h:x/d", "mysql://u:%s@h:3306/d?timeout=soon", "MySQL://u:%s@h/d/e",
		"mysql:/u:%s@h/d", "mysql//u:%s@h/d", "jdbc:mysql://u:%s@h/d", "\"mysql://u:%s@h/d\"", "postgres://u:%s@h/d", "u:%s@tcp(h:3306)", "u:%s@h:3306/d", "u:%s@h", "u:%s/d", "%s",
		"u:%s@tcp(h)/d?timeout=soon", "u:%s@tcp(h)/d?strict=%[1]s", "mysql://u:p@h/d?sslpassword=%s", "mysql://u:p@h/d%%zz%s", "mysql://u:%s%%0A@h/d", "u:%s\n@tcp(h:3306)/d",
		"mongodb://u:%s@h/d", "mongodb://u:%s@h", "mongodb://u:%s/d", "mongodb://u:%s", "mongodb://u:%s@h:x/d", "mongodb://u:%s@h1,h2:x/d", "mongodb://u:%s@h/d?w=%%zz", "mongodb://u:%s@h?w=1",
		"mongodb://u:%s@h/d?maxPoolSize=many", "mongodb://u:%s@h/d?authMechanism=none", "mongodb:/u:%s@h/d", "mongodb://h/d?tlsCertificateKeyFilePassword=%s%%zz", "mongodb://u:%s@h/d?directConnection=x",
		"mongodb://u:p@h/d?authMechanismProperties=AWS_SESSION_TOKEN%s", "mongodb://u:%s%%0A@h/d", "mongodb+srv://u:%s/d", "mongodb://:%s@h/d", "mongodb://%s@h:/d@",
	}
	shown := func(texts ...string) bool {
		return slices.ContainsFunc([]string{"Zq9", "q9x", "Xv7", "v7w", "%zz"}, func(part string) bool { return strings.Contains(strings.Join(texts, " "), part) })
	}
	for _, form := range forms {
		for _, between := range []string{"", "/", "?", "@", ":", "#", "%", "%zz", "/?", "?/", "@/", "&", "=", "(", " ", "\t", "://", "@tcp(", "/?timeout=", ","} {
			secret := "Zq9x" + between + "Xv7w"
			for _, db := range []string{fmt.Sprintf(form, secret), fmt.Sprintf(form, url.QueryEscape(secret))} {
				for _, by := range []string{"ROWLOCK_DB", "--db"} {
					flags, variables := map[string]string{}, map[string]string{}
					if variables[by] = db; by == "--db" {
						flags, variables = map[string]string{"db": db}, nil
					}
					a, found, said, err := resolveWith(t, flags, variables, os.DevNull)
					if err == nil && found.address.scheme == "mongodb" { // mongodb+srv asks a name server
						if err = clientOptions(found.address, false).Validate(); err != nil {
							err = message{a.clean(err.Error()), err}
						}
					}
					if err != nil && shown(err.Error(), said) {
						t.Errorf("%s=%q: %v; it says %q", by, db, err, said)
					}
					if err == nil && form != "%s" && strings.Contains(found.address.String()+said, "Zq9") { // what is behind an @ or / may be meant as host or database
						t.Errorf("%s=%q is called %s; it says %q", by, db, found.address, said)
					}
				}
			}
		}
	}
	for _, args := range [][]string{{"u:Zq9xXv7w@tcp(h)/d"}, {"mysql://u:Zq9xXv7w@h/d", "ls"}, {"run", "k", "--db=mysql://u:Zq9xXv7w@h/d", "true"}, {"--dbb=mysql://u:Zq9xXv7w@h/d", "ls"}, {"--db", "mysql://u:Zq9x\tXv7w@h/d", "ls"}} {
		root := New(Config{})
		var said bytes.Buffer
		root.SetErr(&said)
		root.SetOut(&said)
		root.SetArgs(args)
		if err := root.Execute(); err == nil || shown(err.Error(), said.String()) {
			t.Errorf("%q: %v; it says %q", args, err, &said)
		}
	}
}

// TestSettingsFileOfEditors: a byte order mark and the line ends of Windows are no part of a file; UTF-16 is refused by name.
func TestSettingsFileOfEditors(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	_, found, said, err := resolveWith(t, nil, nil, write("\ufeffdb = mysql://u@h/app\r\nprefix=jobs\r\n"))
	if err != nil || found.address.String() != "mysql://u@h/app" || found.prefix != "jobs" || said != "" {
		t.Errorf("%v, %+v, it says %q", err, found, said)
	}
	if _, _, _, err := resolveWith(t, nil, nil, write("\xff\xfed\x00b\x00")); ExitCode(err) != exitConfig || !strings.Contains(err.Error(), "is UTF-16") {
		t.Errorf("UTF-16: %v", err)
	}
	users := write("\ufeffann:$2y$05$" + strings.Repeat("a", 53) + "\r\n")
	if h, err := readHtpasswd(users); err != nil || h.hashes["ann"] == nil {
		t.Errorf("the file of users: %v, %+v", err, h)
	}
}

// TestSettingsOfAnotherUser: a file in the HOME of another user does not stop who names the database. A mistake in one's own does:
// its next line may name the strategy.
func TestSettingsOfAnotherUser(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	path := filepath.Join(home, ".config", "rowlock", "config")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("databsae = x\nstrategy = unique\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	variables := map[string]string{"ROWLOCK_DB": "mysql://u@h/app"}
	if folder, err := os.UserConfigDir(); err != nil || filepath.Join(folder, "rowlock", "config") != path {
		return // not where this system has it
	}
	if _, _, _, err := resolveWith(t, nil, variables, ""); ExitCode(err) != exitConfig {
		t.Errorf("one's own file: %v", err)
	}
	if os.Geteuid() != 0 {
		return // nobody else can give a file away
	}
	if err := os.Chown(path, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if _, found, said, err := resolveWith(t, nil, variables, ""); err != nil || found.address.name != "app" || !strings.Contains(said, path+" do not count: "+path+" line 1 is not one of") {
		t.Errorf("that of another user: %v, it says %q", err, said)
	}
	if _, _, _, err := resolveWith(t, nil, nil, ""); ExitCode(err) != exitConfig {
		t.Errorf("nothing else names the database: %v", err)
	}
}
