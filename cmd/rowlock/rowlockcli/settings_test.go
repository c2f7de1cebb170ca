package rowlockcli

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// resolve resolves settings with these options, variables and lines of the file; found is the address with its password.
func resolve(t *testing.T, flags map[string]string, variables map[string]string, path string) (found settings, said string, err error) {
	t.Helper()
	_, found, said, err = resolveWith(t, flags, variables, path)
	return found, said, err
}

func resolveWith(t *testing.T, flags map[string]string, variables map[string]string, path string) (a *app, found settings, said string, err error) {
	t.Helper()
	var out bytes.Buffer
	a = &app{stderr: &out}
	cmd := &cobra.Command{}
	a.addFlags(cmd.PersistentFlags())
	a.guardFlags(cmd)
	for name, value := range flags {
		if err := cmd.PersistentFlags().Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	for _, variable := range names {
		if variable != "" {
			t.Setenv(variable, strings.ReplaceAll(variables[variable], "\x00", "\x01")) // which no variable has
		}
	}
	t.Setenv("ROWLOCK_CONFIG", path)
	a.sayNotes()
	if a.refused != nil {
		return a, found, out.String(), a.refused
	}
	found, err = a.settings()
	return a, found, out.String(), err
}

func writeFile(t *testing.T, mode os.FileMode, lines ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
	return path
}

// TestPasswordBelongsToItsAddress: which password goes to which server.
func TestPasswordBelongsToItsAddress(t *testing.T) {
	second := writeFile(t, 0o600, "second", "third")
	type m = map[string]string
	for _, c := range []struct {
		name             string
		flags, variables m
		file             []string
		want             string
	}{
		{"of the file's address", nil, nil, []string{"db = mysql://u@file/db", "password = infile"}, "mysql://u:infile@file/db"},
		{"of the file's address, in a file", nil, nil, []string{"db = mysql://u@file/db", "password-file = " + second}, "mysql://u:second@file/db"},
		{"of the file, and the line names another address with a password", m{"db": "mysql://u:own@line/db"}, nil, []string{"db = mysql://u@file/db", "password = infile"}, "mysql://u:own@line/db"},
		{"of the file, and the line names another address", m{"db": "mysql://u@line/db"}, nil, []string{"db = mysql://u@file/db", "password = infile"}, "mysql://u@line/db"},
		{"of the file, and the environment names another address with a password", nil, m{"ROWLOCK_DB": "mysql://u:own@env/db"}, []string{"db = mysql://u@file/db", "password = infile"}, "mysql://u:own@env/db"},
		{"of the file, and the environment names another address", nil, m{"ROWLOCK_DB": "mysql://u@env/db"}, []string{"db = mysql://u@file/db", "password-file = " + second}, "mysql://u@env/db"},
		{"of the file, and the line names another database there", m{"db": "u@tcp(file:3306)/other"}, nil, []string{"db = mysql://u@file/db", "password = infile"}, "u:infile@tcp(file:3306)/other"},
		{"of the file, and the line names another user there", m{"db": "mysql://v@file/db"}, nil, []string{"db = mysql://u@file/db", "password = infile"}, "mysql://v@file/db"},
		{"of a file without an address", nil, m{"ROWLOCK_DB": "mysql://u@env/db"}, []string{"password = infile"}, "mysql://u:infile@env/db"},
		{"of a file without an address, which has one", nil, m{"ROWLOCK_DB": "mysql://u:own@env/db"}, []string{"password = infile"}, "mysql://u:own@env/db"},
		{"of the environment, for the file's address", nil, m{"ROWLOCK_PASSWORD": "env"}, []string{"db = mysql://u:own@file/db", "password = infile"}, "mysql://u:env@file/db"},
		{"of the environment, both", nil, m{"ROWLOCK_DB": "mysql://u:own@env/db", "ROWLOCK_PASSWORD": "env"}, nil, "mysql://u:env@env/db"},
		{"of the environment, for the line's address", m{"db": "mysql://u@line/db"}, m{"ROWLOCK_PASSWORD": "env"}, nil, "mysql://u:env@line/db"},
		{"of the environment, and the line's address has one", m{"db": "mysql://u:own@line/db"}, m{"ROWLOCK_PASSWORD": "env"}, nil, "mysql://u:own@line/db"},
		{"of the environment, and the line names another server", m{"db": "mysql://u@line/db"}, m{"ROWLOCK_DB": "mysql://u@env/db", "ROWLOCK_PASSWORD": "env"}, nil, "mysql://u@line/db"},
		{"of the environment, and the line names another database there", m{"db": "mysql://u@env:3306/other"}, m{"ROWLOCK_DB": "mysql://u@env/db", "ROWLOCK_PASSWORD": "env"}, nil, "mysql://u:env@env:3306/other"},
		{"of the line", m{"db": "mysql://u:own@line/db", "password-file": second}, m{"ROWLOCK_PASSWORD": "env"}, nil, "mysql://u:second@line/db"},
		{"of the line, for the environment's address", m{"password-file": second}, m{"ROWLOCK_DB": "mysql://u:own@env/db", "ROWLOCK_PASSWORD": "env"}, nil, "mysql://u:second@env/db"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, _, err := resolve(t, c.flags, c.variables, writeFile(t, 0o600, c.file...))
			if err != nil {
				t.Fatal(err)
			}
			a := found.address
			if got := strings.Replace(a.String(), "***", a.password, 1); got != c.want || a.config.Passwd != a.password || a.config.User != a.user {
				t.Errorf("it is %s with the password %q, want %s", got, a.config.Passwd, c.want)
			}
		})
	}
}

// TestOpenPassword: a password that every user may read gets a word.
func TestOpenPassword(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // files have no such modes
	}
	const db, word = "db = mysql://u@h/db", "every user of this machine may read"
	for _, c := range []struct {
		mode  os.FileMode
		lines []string
		want  bool
	}{
		{0o644, []string{db, "password = secret"}, true},
		{0o644, []string{"db = mysql://u:secret@h/db"}, true},
		{0o644, []string{db}, false},
		{0o640, []string{db, "password = secret"}, false},
		{0o600, []string{db, "password-file = " + writeFile(t, 0o644, "secret")}, true},
		{0o644, []string{db, "password-file = " + writeFile(t, 0o600, "secret")}, false},
		{0o600, []string{db, "tls-cert = x", "tls-key = " + writeFile(t, 0o644, "secret")}, true},
		{0o600, []string{db, "tls-cert = x", "tls-key = " + writeFile(t, 0o600, "secret")}, false},
	} {
		_, said, err := resolve(t, nil, nil, writeFile(t, c.mode, c.lines...))
		if err != nil || strings.Contains(said, word) != c.want || strings.Contains(said, "secret") {
			t.Errorf("%o %q: %v, it says %q", c.mode, c.lines, err, said)
		}
	}
}

// TestSettingsThatCannotBeRead: a file that nobody named does not count where something else names the database.
func TestSettingsThatCannotBeRead(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("AppData", home)
	folder, err := os.UserConfigDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "rowlock", "config")
	if err := os.MkdirAll(path, 0o700); err != nil { // a folder: root could read a file of any mode
		t.Fatal(err)
	}
	for _, by := range []string{"db", "ROWLOCK_DB"} {
		flags, variables := map[string]string{by: "mysql://u@h/db"}, map[string]string(nil)
		if by == "ROWLOCK_DB" {
			flags, variables = variables, flags
		}
		found, said, err := resolve(t, flags, variables, "")
		if err != nil || found.address.String() != "mysql://u@h/db" || !strings.Contains(said, path+" do not count") {
			t.Errorf("%s: %v, %v, it says %q", by, found.address, err, said)
		}
	}
	if _, _, err := resolve(t, nil, nil, ""); ExitCode(err) != exitConfig {
		t.Errorf("nothing else names the database: %v, exit code %d", err, ExitCode(err))
	}
	if _, _, err := resolve(t, map[string]string{"db": "mysql://u@h/db"}, nil, path); ExitCode(err) != exitConfig {
		t.Errorf("the file was named: %v, exit code %d", err, ExitCode(err))
	}
}
