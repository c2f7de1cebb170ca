package rowlockcli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	mysqllock "github.com/rowlock/rowlock/mysql"
)

// flags are those of every command.
type flags struct {
	db, config, passwordFile     string
	strategy, prefix, collection string
	tls                          tlsFiles
	timeout                      duration
	timeoutFlag                  *pflag.Flag
	verbose                      bool
}

func (a *app) addFlags(set *pflag.FlagSet) {
	f := &a.flags
	f.timeout = duration(5 * time.Second)
	if a.config.Open == nil {
		set.StringVar(&f.db, "db", "", "the `URL` of the database (ROWLOCK_DB)")
		set.StringVar(&f.config, "config", "", "the `file` with lines \"name = value\" (ROWLOCK_CONFIG)")
		set.StringVar(&f.passwordFile, "password-file", "", "the `file` whose first line is the password (ROWLOCK_PASSWORD has it itself)")
		set.StringVar(&f.tls.ca, "tls-ca", "", "MySQL: TLS, with a certificate that this `file` vouches for (ROWLOCK_TLS_CA)")
		set.StringVar(&f.tls.cert, "tls-cert", "", "MySQL: the `file` of this program's own certificate (ROWLOCK_TLS_CERT)")
		set.StringVar(&f.tls.key, "tls-key", "", "MySQL: the `file` of its key (ROWLOCK_TLS_KEY)")
		set.StringVar(&f.strategy, "strategy", "", "MySQL: the strategy's `name`: version, unique or for-update (ROWLOCK_STRATEGY); all programs must use the same (default version)")
		set.StringVar(&f.prefix, "prefix", "", "MySQL: the `word` with which the tables' names begin (ROWLOCK_PREFIX) (default rowlock)")
		set.StringVar(&f.collection, "collection", "", "MongoDB: the collection's `name` (ROWLOCK_COLLECTION) (default locks)")
	}
	set.Var(&f.timeout, "timeout", "how long the database may take to answer (ROWLOCK_TIMEOUT)")
	f.timeoutFlag = set.Lookup("timeout")
	set.BoolVarP(&f.verbose, "verbose", "v", false, "say on stderr what happens")
}

// settings say where the locks are.
type settings struct {
	address    address
	tls        tlsFiles
	strategy   mysqllock.Strategy
	prefix     string
	collection string
}

// names are those of the lines of a file, and how the environment calls them.
var names = map[string]string{
	"db":            "ROWLOCK_DB",
	"password":      "ROWLOCK_PASSWORD",
	"password-file": "",
	"tls-ca":        "ROWLOCK_TLS_CA",
	"tls-cert":      "ROWLOCK_TLS_CERT",
	"tls-key":       "ROWLOCK_TLS_KEY",
	"strategy":      "ROWLOCK_STRATEGY",
	"prefix":        "ROWLOCK_PREFIX",
	"collection":    "ROWLOCK_COLLECTION",
	"timeout":       "ROWLOCK_TIMEOUT",
}

// source is where a setting comes from. A smaller one counts before a larger one.
type source int

const (
	ofLine source = iota // the command line
	ofEnvironment
	ofFile
	ofNobody
)

// find is the value of a setting, and where it comes from. flag is that of the command line.
func (file settingsFile) find(flag, name string) (string, source) {
	if flag != "" {
		return flag, ofLine
	}
	if variable := names[name]; variable != "" && os.Getenv(variable) != "" {
		return os.Getenv(variable), ofEnvironment
	}
	if file.values[name] != "" {
		return file.values[name], ofFile
	}
	return "", ofNobody
}

// settings resolves flags, environment and file, in this order, once: it may say something.
func (a *app) settings() (settings, error) {
	if a.resolved == nil {
		s, err := a.resolve()
		if err != nil {
			return s, err
		}
		a.resolved = &s
	}
	return *a.resolved, nil
}

func (a *app) resolve() (settings, error) {
	file, err := a.readConfig()
	if err != nil {
		return settings{}, err
	}
	get := func(flag, name, otherwise string) string {
		value, _ := file.find(flag, name)
		return cmp.Or(value, otherwise)
	}
	s := settings{prefix: get(a.flags.prefix, "prefix", "rowlock"), collection: get(a.flags.collection, "collection", "locks")}
	s.tls = tlsFiles{get(a.flags.tls.ca, "tls-ca", ""), get(a.flags.tls.cert, "tls-cert", ""), get(a.flags.tls.key, "tls-key", "")}
	if s.strategy, err = mysqllock.ParseStrategy(get(a.flags.strategy, "strategy", "version")); err != nil {
		return s, err
	}
	if text := get("", "timeout", ""); text != "" && !a.flags.timeoutFlag.Changed {
		if err := a.flags.timeout.Set(text); err != nil {
			return s, invalid("timeout (ROWLOCK_TIMEOUT) %s: %w", text, err)
		}
	}
	db, named := file.find(a.flags.db, "db")
	if db == "" {
		if os.Getenv(envKey) != "" {
			return s, &ExitError{Code: exitUsage, Err: errPassDB}
		}
		return s, &ExitError{Code: exitUsage, Err: errNoDatabase}
	}
	if s.address, err = parseAddress(db); err != nil {
		return s, err
	}
	a.secrets = append(a.secrets, s.address.secrets()...)
	if a.flags.db != "" && s.address.password != "" {
		a.warn("a password on the command line is visible to every user of this machine: use ROWLOCK_DB, ROWLOCK_PASSWORD or --password-file")
	}
	a.warnIfOpen(file)
	if info, err := os.Stat(s.tls.key); err == nil && openToAll(info) {
		a.warnOpen(s.tls.key, "the key of the certificate")
	}
	password, err := a.password(file, s.address, named)
	if err != nil {
		return s, err
	}
	if password != "" {
		a.secrets = append(a.secrets, password)
		if s.address, err = s.address.withPassword(password); err != nil {
			return s, err
		}
		a.secrets = append(a.secrets, s.address.secrets()...)
	}
	return s, s.tls.check(s.address)
}

// settingsFile is what the file with settings says.
type settingsFile struct {
	path   string // empty: there is none
	open   bool   // every user of this machine may read it
	values map[string]string
}

// readConfig reads the file with settings: the one that is named, or the first that is there. Never
// one of the working folder: whoever can write there could redirect the locks.
//
// A file that nobody named and that cannot be read matters only where nothing else names the database.
func (a *app) readConfig() (settingsFile, error) {
	if path := cmp.Or(a.flags.config, os.Getenv("ROWLOCK_CONFIG")); path != "" {
		return readSettings(path)
	}
	var paths []string
	if folder, err := os.UserConfigDir(); err == nil {
		paths = append(paths, filepath.Join(folder, "rowlock", "config"))
	}
	for _, path := range append(paths, "/etc/rowlock/config") {
		found, err := readSettings(path)
		var io *fs.PathError
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case errors.As(err, &io) && cmp.Or(a.flags.db, os.Getenv("ROWLOCK_DB")) != "":
			a.warn(fmt.Sprintf("the settings of %s do not count: %v (name no file: ROWLOCK_CONFIG=%s)", path, io, os.DevNull))
			return settingsFile{}, nil
		default:
			return found, err
		}
	}
	return settingsFile{}, nil
}

// readSettings reads lines "name = value"; empty ones and those that begin with # say nothing.
func readSettings(path string) (settingsFile, error) {
	found := settingsFile{path: path, values: make(map[string]string)}
	fail := func(err error) (settingsFile, error) {
		return settingsFile{}, &ExitError{Code: exitConfig, Err: fmt.Errorf("the file of settings: %w", err)}
	}
	f, err := os.Open(path)
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		found.open = openToAll(info)
	}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if _, isOne := names[name]; !ok || !isOne {
			return fail(fmt.Errorf("%s line %d is not one of: %s, each with = and its value", path, n, strings.Join(known(), ", ")))
		}
		found.values[name] = strings.TrimSpace(value)
	}
	if err := lines.Err(); err != nil {
		return fail(err)
	}
	return found, nil
}

func known() []string {
	var all []string
	for name := range names {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
