package rowlockcli

import (
	"cmp"
	"fmt"
	"os"
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

// value is that of a setting, with its name where it comes from, for messages.
type value struct {
	text, name string
	of         source
}

// find is the value of a setting. flag is that of the command line, where it has been accepted.
func (a *app) find(file settingsFile, flag, name string) (value, error) {
	if flag != "" {
		return value{flag, "--" + name, ofLine}, nil
	}
	if variable := names[name]; variable != "" {
		text, err := a.variable(variable)
		if text != "" || err != nil {
			return value{text, variable, ofEnvironment}, err
		}
	}
	if text := file.values[name]; text != "" {
		return value{text, name + " in " + file.path, ofFile}, nil
	}
	return value{of: ofNobody}, nil
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
	get := func(flag, name, otherwise string) value {
		v, failed := a.find(file, flag, name)
		err = cmp.Or(err, failed)
		v.text = cmp.Or(v.text, otherwise)
		return v
	}
	s := settings{prefix: get(a.flags.prefix, "prefix", "rowlock").text, collection: get(a.flags.collection, "collection", "locks").text}
	s.tls = tlsFiles{get(a.flags.tls.ca, "tls-ca", "").text, get(a.flags.tls.cert, "tls-cert", "").text, get(a.flags.tls.key, "tls-key", "").text}
	strategy, timeout, db := get(a.flags.strategy, "strategy", "version"), get("", "timeout", ""), get(a.flags.db, "db", "")
	if err != nil {
		return s, err
	}
	if s.strategy, err = mysqllock.ParseStrategy(strategy.text); err != nil {
		return s, err
	}
	if timeout.text != "" && !a.flags.timeoutFlag.Changed {
		if err := a.flags.timeout.Set(timeout.text); err != nil {
			return s, invalid("%s: %s: %w", timeout.name, timeout.text, err)
		}
	}
	if db.text == "" {
		if os.Getenv(envKey) != "" {
			return s, &ExitError{Code: exitUsage, Err: errPassDB}
		}
		return s, &ExitError{Code: exitUsage, Err: errNoDatabase}
	}
	if s.address, err = parseAddress(db.text); err != nil {
		return s, &ExitError{Code: ExitCode(err), Err: fmt.Errorf("%s: %w", db.name, err)}
	}
	a.secrets = append(a.secrets, s.address.secrets()...)
	if a.flags.db != "" && s.address.password != "" {
		a.warn("a password on the command line is visible to every user of this machine: use ROWLOCK_DB, ROWLOCK_PASSWORD or --password-file")
	}
	a.warnIfOpen(file)
	if info, err := os.Stat(s.tls.key); err == nil && openToAll(info) {
		a.warnOpen(s.tls.key, "the key of the certificate")
	}
	password, err := a.password(file, s.address, db.of)
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
