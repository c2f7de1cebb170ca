package rowlockcli

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// The variables of the command.
const (
	envKey   = "ROWLOCK_KEY"
	envToken = "ROWLOCK_TOKEN"
	envOwner = "ROWLOCK_OWNER"
	envTTL   = "ROWLOCK_TTL_MS"
	envRun   = "ROWLOCK_RUN"
	envSlot  = "ROWLOCK_SLOT"
	envKeys  = "ROWLOCK_KEYS"  // with --and: how many; then ROWLOCK_KEY_2, and so on
	envStack = "ROWLOCK_STACK" // the keys that enclosing calls of run hold
)

// environment is that of the command: ours, with what it may want to know of its lease, and without
// the address and password of the database.
func (r *run) environment() []string {
	own := []string{
		envOwner + "=" + r.owner(),
		envTTL + "=" + fmt.Sprint(time.Duration(r.f.ttl).Milliseconds()),
		envStack + "=" + strings.TrimSpace(os.Getenv(envStack)+" "+strings.Join(r.stackEntries(), " ")),
	}
	own = append(own, r.lease.environment(r.f.slots > 0)...)
	if r.runID != "" {
		own = append(own, envRun+"="+r.runID)
	}
	return append(without(r.inherited(), namesOf(own)), own...)
}

// inherited is our environment without what an enclosing run said of its keys, and without the address and
// password of the database.
func (r *run) inherited() []string {
	hidden := append([]string{envKey, envToken, envRun, envSlot, envKeys}, namesOfMoreKeys(os.Environ())...)
	if !r.f.passDB {
		hidden = append(hidden, "ROWLOCK_DB", "ROWLOCK_PASSWORD")
	}
	return without(os.Environ(), hidden)
}

// without leaves variables out. A program takes the first or the last of two with one name.
func without(environment, names []string) []string {
	return slices.DeleteFunc(environment, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(names, name)
	})
}

func namesOf(environment []string) (names []string) {
	for _, entry := range environment {
		name, _, _ := strings.Cut(entry, "=")
		names = append(names, name)
	}
	return names
}

// owner is who has the key, for people; "host:pid" where nothing was said, as the library does.
func (r *run) owner() string {
	if r.f.owner != "" {
		return r.f.owner
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return fmt.Sprintf("%.200s:%d", host, os.Getpid())
}

// stackEntries name the keys in their lock space.
func (r *run) stackEntries() []string {
	sum := sha256.Sum256([]byte(r.store.space))
	entries := make([]string, len(r.keys))
	for i, key := range r.keys {
		entries[i] = fmt.Sprintf("%x:%s", sum[:4], url.QueryEscape(key))
	}
	return entries
}

// checkStack refuses a key that an enclosing run holds: that one waits for this one.
func (r *run) checkStack() error {
	enclosing := strings.Fields(os.Getenv(envStack))
	for i, entry := range r.stackEntries() {
		if slices.Contains(enclosing, entry) {
			return invalid("%q is held by the rowlock run around this one, which waits for it to end: use another key, or leave one of them out", r.keys[i])
		}
	}
	return nil
}
