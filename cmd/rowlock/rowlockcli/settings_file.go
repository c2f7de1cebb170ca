package rowlockcli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// settingsFile is what the file with settings says.
type settingsFile struct {
	path   string // empty: there is none
	open   bool   // every user of this machine may read it
	values map[string]string
}

// readConfig reads the file with settings: the one that is named, or the first that is there. Never
// one of the working folder: whoever can write there could redirect the locks.
//
// A file that nobody named and that cannot be read, or is another user's and not understood, matters only where nothing else
// names the database. A mistake in one's own file ends the program: its next line may name the strategy.
func (a *app) readConfig() (settingsFile, error) {
	named, err := a.variable("ROWLOCK_CONFIG")
	if err != nil {
		return settingsFile{}, err
	}
	fail := func(err error) (settingsFile, error) {
		return settingsFile{}, &ExitError{Code: exitConfig, Err: fmt.Errorf("the file of settings: %w", err)}
	}
	if path := cmp.Or(a.flags.config, named); path != "" {
		found, err := a.readSettings(path)
		if err != nil {
			return fail(err)
		}
		return found, nil
	}
	db, err := a.variable(names["db"])
	if err != nil {
		return settingsFile{}, err
	}
	var paths []string
	if folder, err := os.UserConfigDir(); err == nil {
		paths = append(paths, filepath.Join(folder, "rowlock", "config"))
	}
	for _, path := range append(paths, "/etc/rowlock/config") {
		found, err := a.readSettings(path)
		var io *fs.PathError
		switch {
		case err == nil:
			return found, nil
		case errors.Is(err, fs.ErrNotExist):
		case cmp.Or(a.flags.db, db) != "" && (errors.As(err, &io) || ofAnother(path)):
			a.warn(fmt.Sprintf("the settings of %s do not count: %v (name no file: ROWLOCK_CONFIG=%s)", path, err, os.DevNull))
			return settingsFile{}, nil
		default:
			return fail(err)
		}
	}
	return settingsFile{}, nil
}

// readSettings reads lines "name = value"; empty ones and those that begin with # say nothing.
func (a *app) readSettings(path string) (settingsFile, error) {
	found := settingsFile{path: path, values: make(map[string]string)}
	text, err := readText(path)
	if err != nil {
		return found, err
	}
	if info, err := os.Stat(path); err == nil {
		found.open = openToAll(info)
	}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line) // which is no part of a value, and needs no word
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if _, isOne := names[name]; !ok || !isOne {
			return found, fmt.Errorf("%s line %d is not one of: %s, each with = and its value", path, i+1, strings.Join(known(), ", "))
		}
		if found.values[name], err = a.accept(fmt.Sprintf("%s in %s", name, path), strings.TrimSpace(value)); err != nil {
			return found, err
		}
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
