package rowlockcli

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// password is the one that is given apart from the address; empty if none is, or if it does not count. named is where
// the address comes from. A password that the address has itself gives way to one of the same source or a nearer one only,
// and the password of a source goes to no other user or server than that source names.
func (a *app) password(file settingsFile, of address, named source) (string, error) {
	if path := a.flags.passwordFile; path != "" {
		return a.readPassword(path)
	}
	password, err := a.variable(names["password"])
	if err != nil {
		return "", err
	}
	if password != "" {
		db, err := a.variable(names["db"])
		if err != nil {
			return "", err
		}
		if named >= ofEnvironment || !of.hasPassword && isFor(db, of) {
			return password, nil
		}
		a.detail("the password of the environment (%s) does not count: it is for another address", names["password"])
	}
	inFile, path := file.values["password"], file.values["password-file"]
	switch {
	case inFile == "" && path == "":
		return "", nil
	case named != ofFile && (of.hasPassword || !isFor(file.values["db"], of)):
		a.detail("the password of %s does not count: it is for another address", file.path)
		return "", nil
	case inFile != "":
		return inFile, nil
	}
	return a.readPassword(path)
}

// isFor reports whether the password of a source that names the database db may go to an address that is named elsewhere.
func isFor(db string, of address) bool {
	if db == "" {
		return true
	}
	own, err := parseAddress(db)
	return err == nil && own.login() == of.login()
}

// readPassword reads the first line of a file.
func (a *app) readPassword(path string) (string, error) {
	fail := func(err error) (string, error) {
		return "", &ExitError{Code: exitConfig, Err: fmt.Errorf("the password's file cannot be read: %w", err)}
	}
	text, err := readText(path)
	if err != nil {
		return fail(err)
	}
	if info, err := os.Stat(path); err == nil && openToAll(info) {
		a.warnOpen(path, "the password")
	}
	password, _, _ := strings.Cut(text, "\n")
	return a.accept("the password in "+path, strings.TrimSuffix(password, "\r"))
}

// openToAll reports whether every user of this machine may read a file.
func openToAll(info os.FileInfo) bool {
	return runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode()&0o004 != 0
}

// warnIfOpen warns of a file of settings with a password that everybody may read.
func (a *app) warnIfOpen(file settingsFile) {
	if !file.open {
		return
	}
	inURL := false
	if of, err := parseAddress(file.values["db"]); err == nil {
		inURL = len(of.secrets()) > 0
	}
	if inURL || file.values["password"] != "" {
		a.warnOpen(file.path, "the password")
	}
}

func (a *app) warnOpen(path, what string) {
	a.warn(fmt.Sprintf("every user of this machine may read %s in %s: chmod o-r %s", what, path, path))
}
