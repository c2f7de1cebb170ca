package rowlockcli

import (
	"bufio"
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
		set.StringVar(&f.strategy, "strategy", "", "MySQL: version, unique or for-update (ROWLOCK_STRATEGY); all programs must use the same (default version)")
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
	strategy   mysqllock.Strategy
	prefix     string
	collection string
}

// names are those of the lines of a file, and how the environment calls them.
var names = map[string]string{
	"db":            "ROWLOCK_DB",
	"password":      "ROWLOCK_PASSWORD",
	"password-file": "",
	"strategy":      "ROWLOCK_STRATEGY",
	"prefix":        "ROWLOCK_PREFIX",
	"collection":    "ROWLOCK_COLLECTION",
	"timeout":       "ROWLOCK_TIMEOUT",
}

// settings resolves flags, environment and file, in this order.
func (a *app) settings() (settings, error) {
	file, err := a.readConfig()
	if err != nil {
		return settings{}, err
	}
	get := func(flag, name, otherwise string) string {
		if flag != "" {
			return flag
		}
		if variable := names[name]; variable != "" && os.Getenv(variable) != "" {
			return os.Getenv(variable)
		}
		if file[name] != "" {
			return file[name]
		}
		return otherwise
	}
	s := settings{prefix: get(a.flags.prefix, "prefix", "rowlock"), collection: get(a.flags.collection, "collection", "locks")}
	if s.strategy, err = mysqllock.ParseStrategy(get(a.flags.strategy, "strategy", "version")); err != nil {
		return s, err
	}
	if text := get("", "timeout", ""); text != "" && !a.flags.timeoutFlag.Changed {
		if err := a.flags.timeout.Set(text); err != nil {
			return s, invalid("timeout (ROWLOCK_TIMEOUT) %s: %w", text, err)
		}
	}
	db := get(a.flags.db, "db", "")
	if db == "" {
		return s, &ExitError{Code: exitUsage, Err: errNoDatabase}
	}
	if s.address, err = parseAddress(db); err != nil {
		return s, err
	}
	a.secrets = append(a.secrets, s.address.secrets()...)
	if a.flags.db != "" && s.address.password != "" {
		a.warn("a password on the command line is visible to every user of this machine: use ROWLOCK_DB, ROWLOCK_PASSWORD or --password-file")
	}
	password := get("", "password", "")
	if path := get(a.flags.passwordFile, "password-file", ""); path != "" && (password == "" || a.flags.passwordFile != "") {
		text, err := os.ReadFile(path)
		if err != nil {
			return s, &ExitError{Code: exitConfig, Err: fmt.Errorf("the password's file cannot be read: %w", err)}
		}
		password, _, _ = strings.Cut(string(text), "\n")
		password = strings.TrimSuffix(password, "\r")
	}
	if password != "" {
		if s.address, err = s.address.withPassword(password); err != nil {
			return s, err
		}
		a.secrets = append(a.secrets, password)
		a.secrets = append(a.secrets, s.address.secrets()...)
	}
	return s, nil
}

// readConfig reads the file with settings: the one that is named, or the first that is there. Never
// one of the working folder: whoever can write there could redirect the locks.
func (a *app) readConfig() (map[string]string, error) {
	path := a.flags.config
	if path == "" {
		path = os.Getenv("ROWLOCK_CONFIG")
	}
	if path != "" {
		return readSettings(path)
	}
	var paths []string
	if folder, err := os.UserConfigDir(); err == nil {
		paths = append(paths, filepath.Join(folder, "rowlock", "config"))
	}
	for _, path := range append(paths, "/etc/rowlock/config") {
		found, err := readSettings(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return found, err
		}
	}
	return nil, nil
}

// readSettings reads lines "name = value"; empty ones and those that begin with # say nothing.
func readSettings(path string) (map[string]string, error) {
	fail := func(err error) error {
		return &ExitError{Code: exitConfig, Err: fmt.Errorf("the file of settings: %w", err)}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fail(err)
	}
	defer f.Close()
	found := make(map[string]string)
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if _, isOne := names[name]; !ok || !isOne {
			return nil, fail(fmt.Errorf("%s line %d is not one of: %s, each with = and its value", path, n, strings.Join(known(), ", ")))
		}
		found[name] = strings.TrimSpace(value)
	}
	if err := lines.Err(); err != nil {
		return nil, fail(err)
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
